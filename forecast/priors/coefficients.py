"""What was fitted on measurements, as one small document: efficiency of training runs and bandwidth of links."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecast.priors.efficiency import NAMES, EfficiencyModel
from forecast.priors.hardware import ACCELERATORS
from forecast.priors.links import LinkFit, fit_from
from forecast.priors.runs import Floats, Runs
from telemetry.errors import IncompatibleModel

FORMAT = "gpucast-priors-1"


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """Everything that was fitted.

    Args:
        efficiency: how much of a device's peak a run reaches.
        links: how much of a link's bandwidth a collective reaches.
        source: sentence naming the measurements and their licence.
    """

    efficiency: EfficiencyModel
    links: LinkFit
    source: str


def to_document(fitted: Coefficients) -> dict[str, Any]:
    """The coefficients as plain JSON values; who ran which row is not kept."""
    model, links = fitted.efficiency, fitted.links
    columns = ("gpus", "batch", "samples_per_s", "flops", "trained")
    return {
        "format": FORMAT,
        "source": fitted.source,
        "parts": dict(zip(NAMES, [round(float(part), 5) for part in model.parts], strict=True)),
        "scale": {word: round(value, 4) for word, value in model.scale.items()},
        "runs": {
            "workload": list(model.runs.workload),
            "accelerator": list(model.runs.accelerator),
            **{name: [_short(value) for value in getattr(model.runs, name)] for name in columns},
        },
        "links": {
            "scale_up_ratio": links.scale_up_ratio,
            "network_ratio": links.network_ratio,
            "half_bytes": links.half_bytes,
            "latency_s": links.latency_s,
            "source": links.source,
        },
    }


def from_document(document: Mapping[str, Any]) -> Coefficients:
    """Read coefficients back.

    Raises:
        IncompatibleModel: another format, a missing field, unequal columns or numbers that are not finite.
    """
    if document.get("format") != FORMAT:
        raise IncompatibleModel(
            f"the prior's coefficients have format {document.get('format')!r}, not {FORMAT!r}",
            mend="Fit them again with scripts/fit_prior.py",
        )
    try:
        parts = np.array([float(document["parts"][name]) for name in NAMES])
        scale = {word: float(document["scale"][word]) for word in ("system", "workload")}
        runs = _runs(document["runs"])
        links = fit_from(document["links"])
        source = str(document["source"])
    except (KeyError, TypeError, ValueError) as bad:
        raise IncompatibleModel(f"the prior's coefficients cannot be read: {bad}") from bad
    if not np.isfinite(parts).all() or not all(math.isfinite(value) and value > 0 for value in scale.values()):
        raise IncompatibleModel("the prior's coefficients hold numbers that are not finite")
    return Coefficients(EfficiencyModel(runs, parts, scale), links, source)


def _runs(columns: Mapping[str, Any]) -> Runs:
    runs = Runs(
        tuple(str(name) for name in columns["workload"]),
        tuple(str(name) for name in columns["accelerator"]),
        *(_column(columns[name]) for name in ("gpus", "batch", "samples_per_s", "flops", "trained")),
    )
    lengths = {len(runs.workload), len(runs.accelerator), len(runs.gpus), len(runs.batch), len(runs.samples_per_s)}
    lengths |= {len(runs.flops), len(runs.trained)}
    if len(lengths) != 1 or not len(runs):
        raise ValueError("columns of the runs have unequal lengths")
    unknown = set(runs.accelerator) - set(ACCELERATORS)
    if unknown:
        raise ValueError(f"unknown accelerators {sorted(unknown)}")
    for name, values in (("gpus", runs.gpus), ("batch", runs.batch), ("samples_per_s", runs.samples_per_s)):
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{name} of the runs is not positive and finite")
    return runs


def _column(values: Any) -> Floats:
    return np.array([math.nan if value is None else float(value) for value in values], dtype=np.float64)


def _short(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None

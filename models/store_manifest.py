"""What a trained model says of itself: parameters, code, data, and how it did beside others."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from typing import Any

from telemetry.errors import IncompatibleModel

FORMAT = 1
MEND = "Train the model again with gpucast train"
CHALLENGER = "challenger"
"""The trained model among its figures."""
LATEST_S = 253_402_300_799.0
"""Unix seconds of the end of the year 9999, after which no calendar of ours goes."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its 95 % interval.

    Args:
        value: the figure.
        low: lower end.
        high: upper end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of a trained model.

    Args:
        name: of the model, such as ``jobs-1s``.
        version: digest of everything below that decides the outcome.
        recipe: which way of forecasting won, such as ``served+gbdt``.
        parameters: of the recipe and of the training.
        seed: of everything drawn.
        code: ``gpucast``, ``sha256`` of the code that trains, versions of libraries.
        data: ``sha256``, ``from_s``, ``until_s``, ``jobs``, ``series``, ``points``, ``step_s``, ``source``.
        figures: on windows after everything it learnt from: name of a rival -> name of a figure -> figure.
        judged: ``windows``, ``series``, ``blocks``, ``from_s``, ``until_s``, ``beside`` (the champion then).
        tried: every recipe with its loss against persistence's on earlier windows, losers too.
        created_s: Unix seconds, told by the caller.
        files: artefact -> (SHA-256, bytes).
    """

    name: str
    version: str
    recipe: str
    parameters: dict[str, Any]
    seed: int
    code: dict[str, str]
    data: dict[str, Any]
    figures: dict[str, dict[str, Figure]]
    judged: dict[str, Any]
    tried: dict[str, float]
    created_s: float
    files: dict[str, tuple[str, int]] = field(default_factory=dict)

    def with_files(self, files: dict[str, tuple[str, int]]) -> Manifest:
        """The same with its artefacts."""
        return replace(self, files=files)

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it; what is not finite becomes null."""
        figures = {
            rival: {name: [_known(one.value), _known(one.low), _known(one.high)] for name, one in sorted(some.items())}
            for rival, some in sorted(self.figures.items())
        }
        return {
            "format": FORMAT,
            "name": self.name,
            "version": self.version,
            "recipe": self.recipe,
            "parameters": self.parameters,
            "seed": self.seed,
            "code": self.code,
            "data": self.data,
            "figures": figures,
            "judged": self.judged,
            "tried": {name: _known(loss) for name, loss in self.tried.items()},
            "created_s": self.created_s,
            "files": {name: {"sha256": sha, "bytes": size} for name, (sha, size) in sorted(self.files.items())},
        }

    @classmethod
    def from_dict(cls, told: dict[str, Any], where: str) -> Manifest:
        """Read back what ``as_dict`` gave.

        Raises:
            IncompatibleModel: another format, or something is missing.
        """
        if told.get("format") != FORMAT:
            raise IncompatibleModel(
                f"{where} is of format {told.get('format')!r}, this gpucast reads {FORMAT}",
                mend="A newer gpucast wrote it; update this one, or train again",
            )
        try:
            made = cls(
                name=str(told["name"]),
                version=str(told["version"]),
                recipe=str(told["recipe"]),
                parameters=dict(told["parameters"]),
                seed=int(told["seed"]),
                code={str(k): str(v) for k, v in told["code"].items()},
                data=dict(told["data"]),
                figures={
                    str(rival): {str(name): Figure(*(_number(part) for part in one)) for name, one in some.items()}
                    for rival, some in told["figures"].items()
                },
                judged=dict(told["judged"]),
                tried={str(name): _number(loss) for name, loss in told["tried"].items()},
                created_s=unix_s(told["created_s"]),
                files={str(n): (str(f["sha256"]), int(f["bytes"])) for n, f in told["files"].items()},
            )
            made.figures[CHALLENGER]["skill"]  # what every table of versions shows
            return made
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise IncompatibleModel(f"{where} is no manifest of a trained model ({error!r})", mend=MEND) from error


def version_of(decides: dict[str, Any]) -> str:
    """The version of a model: a digest of what decides how it comes out."""
    text = json.dumps(decides, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unix_s(value: Any) -> float:
    """A time that a file tells.

    Raises:
        TypeError, ValueError, OverflowError: it is none.
    """
    time_s = float(value)
    if not 0.0 <= time_s <= LATEST_S:
        raise ValueError(f"{time_s} is no time")
    return time_s


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)

"""How much of a device's peak a training run reaches: a Gaussian process fitted on measured runs.

The logarithm of the reached share of the 16-bit peak is a sum of independent parts: the workload, the device, its generation,
its maker, their pairs, and smooth functions of the number of devices, of scale-up domains, of the batch of one device, and of
how hard gradients press on the links. A workload that was never seen keeps the parts that are shared, and its interval widens by those that are not. The
size of each part is found by maximum a posteriori on the runs given; nothing is chosen by looking at held-out rows.

Formulas: Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), chapters 2 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecast.priors.hardware import ACCELERATORS
from forecast.priors.runs import Floats, Rows, Runs, stack

PRIOR: dict[str, float] = {
    "workload": 0.3,
    "device": 0.1,
    "generation": 0.15,
    "maker": 0.1,
    "device_workload": 0.05,
    "generation_workload": 0.1,
    "scaling_workload": 0.3,
    "scaling_both": 0.1,
    "scaling": 0.2,
    "slope_gpus": 0.1,
    "slope_batch": 0.1,
    "slope_domains": 0.1,
    "slope_strain": 0.7,
    "slope_split": 0.2,
    "slope_split_workload": 0.1,
    "length_gpus": 2.0,
    "length_domains": 2.0,
    "length_work": 1.5,
    "length_strain": 1.0,
    "length_split": 2.0,
    "noise": 0.04,
    "noise_other": 0.06,
}
"""Part -> its standard deviation (or length, or slope a unit of logarithm) before any run is seen."""
NAMES = tuple(PRIOR)
START: Floats = np.log(np.array([PRIOR[name] for name in NAMES]))
UNKNOWN_LEVEL = 8.0
"""Standard deviation of the level of a workload without known FLOPs: its first run decides."""
Z80 = 1.2815515655446004


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """What the kernel looks at; matrices are (n, n)."""

    same: dict[str, NDArray[np.bool_]]
    apart: dict[str, Floats]
    outer: dict[str, Floats]
    known: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class EfficiencyModel:
    """A fit and the runs it rests on.

    Args:
        runs: the runs.
        parts: logarithms of the sizes in ``NAMES`` order.
        scale: ``system`` and ``workload`` -> factor on the standard deviation, so that 80 % intervals hold 80 % of
            what was left out (whole systems, whole workloads) of these very runs.
    """

    runs: Runs
    parts: Floats
    scale: dict[str, float]

    def predict(self, wanted: Runs) -> tuple[Floats, Floats]:
        """Median and standard deviation of the log of samples a second and device; both (n,)."""
        both = stack(self.runs, wanted)
        n = len(self.runs)
        covariance, noise = _covariance(both, self.parts)
        inner = covariance[:n, :n] + np.diag(noise[:n])
        cross = covariance[n:, :n]
        target = self.runs.efficiency_log
        solved = np.linalg.solve(inner, np.column_stack([target, cross.T]))
        median = cross @ solved[:, 0]
        variance = np.diag(covariance)[n:] - np.einsum("ij,ji->i", cross, solved[:, 1:]) + noise[n:]
        seen = np.array([name in set(self.runs.workload) for name in wanted.workload])
        scale = np.where(seen, self.scale["system"], self.scale["workload"])
        return median + wanted.ideal_log, scale * np.sqrt(np.maximum(variance, 1e-8))


def fit_efficiency(runs: Runs, systems: Sequence[str], rounds: int = 30) -> EfficiencyModel:
    """Fit on measured runs.

    Args:
        runs: with their throughput.
        systems: which runs belong together, such as the same machine under two names; only used for calibration.
        rounds: most steps of the search.
    """
    # Only fitting needs it; an estimate should not wait for its import.
    from scipy.optimize import minimize

    features = _features(runs)
    target = runs.efficiency_log

    def cost(parts: Floats) -> float:
        covariance, noise = _weighed(features, parts)
        try:
            lower = np.linalg.cholesky(covariance + np.diag(noise))
        except np.linalg.LinAlgError:
            return 1e9
        white = np.linalg.solve(lower, target)
        prior = float(np.sum((parts - START) ** 2))
        return 0.5 * float(white @ white) + float(np.log(np.diag(lower)).sum()) + 0.5 * prior

    found = minimize(cost, START, method="L-BFGS-B", options={"maxiter": rounds})
    parts = np.asarray(found.x, dtype=np.float64)
    return EfficiencyModel(runs, parts, _calibrate(runs, parts, systems))


def _calibrate(runs: Runs, parts: Floats, systems: Sequence[str]) -> dict[str, float]:
    """Factors on the standard deviation from leaving out systems and workloads."""
    covariance, noise = _covariance(runs, parts)
    inverse: Floats = np.asarray(np.linalg.inv(covariance + np.diag(noise)), dtype=np.float64)
    scores = {"system": _left_out(inverse, runs, np.asarray(systems)), "workload": np.empty(0)}
    known = runs.known_work
    workloads = np.where(known, np.array(runs.workload), "")
    scores["workload"] = _left_out(inverse, runs, workloads)[known]
    return {word: _factor(values) for word, values in scores.items()}


def _left_out(inverse: Floats, runs: Runs, block: NDArray[np.str_]) -> Floats:
    """|error| in standard deviations of each row when its whole block is left out; Rasmussen and Williams, 5.4.2."""
    weighed = inverse @ runs.efficiency_log
    scores = np.zeros(len(runs))
    for name in np.unique(block):
        rows = np.flatnonzero(block == name)
        spread = np.linalg.inv(inverse[np.ix_(rows, rows)])
        scores[rows] = np.abs(spread @ weighed[rows]) / np.sqrt(np.diag(spread))
    return scores


def _factor(scores: Floats) -> float:
    if len(scores) < 8:
        return 1.0
    # The split-conformal rank for 80 %.
    rank = min(len(scores) - 1, int(np.ceil(0.8 * (len(scores) + 1))) - 1)
    return float(np.clip(np.sort(scores)[rank] / Z80, 0.4, 3.0))


def _covariance(runs: Runs, parts: Floats) -> tuple[Floats, Floats]:
    return _weighed(_features(runs), parts)


def _features(runs: Runs) -> _Features:
    devices = [ACCELERATORS[name] for name in runs.accelerator]
    words = {
        "workload": np.array(runs.workload),
        "device": np.array(runs.accelerator),
        "generation": np.array([device.generation for device in devices]),
        "maker": np.array([device.vendor for device in devices]),
    }
    domains = np.ceil(runs.gpus / np.array([device.scale_up_gpus for device in devices]))
    each = np.log(runs.batch / runs.gpus)
    axes = {
        "gpus": np.log(runs.gpus),
        "domains": np.log(domains),
        "batch": each,
        "strain": runs.strain,
        "split": runs.split,
    }
    middle = {"gpus": np.log(16.0), "domains": 0.0, "batch": each.mean(), "strain": 0.0, "split": 0.0}
    return _Features(
        {name: values[:, None] == values[None, :] for name, values in words.items()},
        {name: (values[:, None] - values[None, :]) ** 2 for name, values in axes.items()},
        {name: np.outer(axes[name] - shift, axes[name] - shift) for name, shift in middle.items()},
        runs.known_work,
    )


def _weighed(features: _Features, parts: Floats) -> tuple[Floats, Floats]:
    size = dict(zip(NAMES, np.exp(parts), strict=True))
    power = {name: value * value for name, value in size.items()}
    same, apart, outer = features.same, features.apart, features.outer
    known = features.known
    both_known = np.outer(known, known)
    workload, device, generation = same["workload"], same["device"], same["generation"]
    spread = apart["gpus"] / power["length_gpus"] + apart["domains"] / power["length_domains"]
    near = np.exp(-0.5 * (spread + apart["batch"] / power["length_work"]))
    pressed = apart["strain"] / power["length_strain"] + apart["split"] / power["length_split"]
    near_any = np.exp(-0.5 * (spread + pressed))
    level = np.where(known, power["workload"], UNKNOWN_LEVEL**2)
    covariance = workload * (
        level[:, None]
        + power["device_workload"] * device
        + power["generation_workload"] * generation
        + (power["scaling_workload"] + power["scaling_both"] * generation) * near
        + power["slope_gpus"] * outer["gpus"]
        + power["slope_batch"] * outer["batch"]
        + power["slope_domains"] * outer["domains"]
        + power["slope_split_workload"] * outer["split"]
    )
    covariance = (
        covariance + power["device"] * device + power["generation"] * generation + power["maker"] * same["maker"]
    )
    covariance = covariance + both_known * (
        1.0
        + power["scaling"] * near_any
        + power["slope_strain"] * outer["strain"]
        + power["slope_split"] * outer["split"]
    )
    noise = np.where(known, power["noise"], power["noise_other"]) + 1e-6
    return np.asarray(covariance, dtype=np.float64), np.asarray(noise, dtype=np.float64)


def row_blocks(names: Sequence[str]) -> list[tuple[Rows, Rows]]:
    """For each distinct name the rows without it and the rows with it, in the order of first sight."""
    column = np.asarray(names)
    return [(np.flatnonzero(column != name), np.flatnonzero(column == name)) for name in dict.fromkeys(names)]

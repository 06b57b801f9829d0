"""Which phase a job is in: evidence per slot, turned into probabilities and smoothed by a sticky filter.

Transparent on purpose: every phase has one score between 0 and 1 made of named signs, and the sentence that goes
out with the answer quotes them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from features.frame import JobFrame
from forecast.predict.signals import Signals, signals
from forecast.predict.types import Absence, Period, PhaseName, PhaseNow, Why

FloatArray = NDArray[np.float64]

ORDER: tuple[PhaseName, ...] = tuple(PhaseName)
SHARPNESS = 8.0
"""How fast a score turns into certainty: a lead of 0.3 means odds of 11 to 1."""
QUIET = 0.15
"""A relative level below this is quiet."""
LONG_LULL_PERIODS = 0.3
"""A quiet stretch longer than the rhythm's own by this share of a period is a long one."""
NO_NETWORK_PERIODS = 1.25
"""Computing for longer than this without network, where every iteration has some, is evaluation."""
PCIE_OUT_ALONE = 0.7
"""How much bytes from device to host tell of a checkpoint before its lull is longer than the rhythm's own."""
DEFAULT_LULL_S = 5.0
"""What counts as a long lull where no period is known."""
STICKY_S = 1.0
"""Mean stay in a phase without evidence, seconds, at least one slot."""


def phase_probabilities(frame: JobFrame, period_s: float | None) -> tuple[FloatArray, Signals]:
    """Filtered probabilities (n_points, n_phases) in the order of ``PhaseName``, and the signs behind them.

    Slots without data repeat what the filter expects of them. Each row uses its own past only.
    """
    signs = signals(frame.totals)
    scores = _scores(frame, signs, period_s)
    evidence = np.exp(SHARPNESS * (scores - scores.max(axis=1, keepdims=True)))
    evidence[~signs.known] = 1.0
    return _filter(evidence, _stay(frame.totals.step_s, period_s)), signs


def _scores(frame: JobFrame, signs: Signals, period_s: float | None) -> FloatArray:
    """Score of every phase per slot, (n_points, n_phases)."""
    step_s = frame.totals.step_s
    compute, network = _calm(signs.compute), _calm(signs.network)
    engine, pcie_in, pcie_out = _calm(signs.engine), _calm(signs.pcie_in), _calm(signs.pcie_out)
    # Kernels that wait for the network keep SMs active, so the engine counts only where nothing tells more.
    working = np.maximum(compute, engine if "compute" not in signs.used else 0.0)
    quiet = np.maximum(compute, network) < QUIET
    long_lull = _run_s(quiet, step_s) > _lull_limit_s(quiet, step_s, period_s)
    no_network = _no_network(network, long_lull, step_s, period_s)
    started = np.maximum.accumulate(np.maximum(compute, network) >= 0.5)
    young = frame.job.first_seen_s >= frame.data_at_s - step_s * frame.totals.n_points - step_s
    starting = ~started if young else np.zeros_like(started)
    still = 1.0 - np.maximum(np.maximum(compute, network), 0.5 * engine)
    score = {
        PhaseName.INIT: np.where(starting, 0.9, 0.0),
        PhaseName.COMPUTE: working * np.where(no_network, 0.6, 1.0),
        PhaseName.COMMUNICATE: network * (1.0 - 0.8 * working),
        PhaseName.LOAD: pcie_in * (1.0 - working) * (1.0 - network) * np.where(pcie_in > pcie_out, 1.0, 0.5),
        PhaseName.CHECKPOINT: np.where(long_lull, still * (0.35 + 0.65 * pcie_out), PCIE_OUT_ALONE * still * pcie_out),
        PhaseName.EVALUATE: np.where(no_network, working, 0.0),
        PhaseName.IDLE: np.where(starting, 0.5, 0.6) * still * (1.0 - 0.5 * np.maximum(pcie_in, pcie_out)),
    }
    return np.stack([score[name] for name in ORDER], axis=1)


def _calm(level: FloatArray) -> FloatArray:
    """A sign with nothing in place of missing; slots without any data are handled apart."""
    return np.nan_to_num(level, nan=0.0)


def _run_s(flag: NDArray[np.bool_], step_s: float) -> FloatArray:
    """How long each flag has been true without a break, seconds, up to and including its slot."""
    index = np.arange(flag.shape[0])
    last_false = np.maximum.accumulate(np.where(flag, -1, index))
    return np.asarray((index - last_false) * step_s * flag, np.float64)


def _lull_limit_s(quiet: NDArray[np.bool_], step_s: float, period_s: float | None) -> float:
    """How long a lull must last to be more than the rhythm's own."""
    if period_s is None:
        return DEFAULT_LULL_S
    runs = _run_s(quiet, step_s)
    ends = np.flatnonzero(quiet[:-1] & ~quiet[1:])
    usual_s = float(np.median(runs[ends])) if ends.size else 0.0
    return min(usual_s, period_s) + LONG_LULL_PERIODS * period_s


def _no_network(
    network: FloatArray, long_lull: NDArray[np.bool_], step_s: float, period_s: float | None
) -> NDArray[np.bool_]:
    """Slots in which the network has been silent for longer than an iteration that normally uses it.

    A long lull is no evaluation, so the silence counts anew after it.
    """
    if period_s is None or not (network >= 0.5).any():
        return np.zeros(network.shape, np.bool_)
    used = network >= QUIET
    seen = np.maximum.accumulate(network >= 0.5)
    return seen & (_run_s(~used & ~long_lull, step_s) > NO_NETWORK_PERIODS * period_s)


def _stay(step_s: float, period_s: float | None) -> float:
    """Chance of staying in a phase over one slot."""
    mean_stay_s = STICKY_S if period_s is None else min(STICKY_S, 0.15 * period_s)
    return float(np.exp(-step_s / max(mean_stay_s, step_s)))


def _filter(evidence: FloatArray, stay: float) -> FloatArray:
    """Forward filter of a Markov chain that stays with chance ``stay`` and else moves anywhere."""
    n_points, n_phases = evidence.shape
    out = np.empty_like(evidence)
    belief = np.full(n_phases, 1.0 / n_phases)
    for t in range(n_points):
        belief = (stay * belief + (1.0 - stay) / n_phases) * evidence[t]
        belief /= belief.sum()
        out[t] = belief
    return out


def phase_now(frame: JobFrame, period: Period | Absence, age_s: float) -> PhaseNow | Absence:
    """The phase at the moment of asking: the filter's last belief, carried forward over the data's age."""
    period_s = period.period_s if isinstance(period, Period) else None
    probabilities, signs = phase_probabilities(frame, period_s)
    if not signs.used.keys() & {"compute", "engine"}:
        lacking = "; ".join(frame.missing.values())
        return Absence(
            Why.MISSING_FIELD,
            f"no activity of the engine, SMs or tensor pipe is collected for this job{': ' + lacking if lacking else ''}",
        )
    if not signs.known.any():
        return Absence(Why.NO_DATA, "no slot of the window holds an activity reading")
    belief = _carried(probabilities, frame.totals.step_s, period_s, age_s)
    best = int(np.argmax(belief))
    since_s = _since(probabilities, best, frame)
    chances = {name: float(p) for name, p in zip(ORDER, belief, strict=True)}
    return PhaseNow(ORDER[best], chances, since_s, _sentence(signs, ORDER[best], float(belief[best]), age_s))


def _carried(probabilities: FloatArray, step_s: float, period_s: float | None, age_s: float) -> FloatArray:
    """Belief after ``age_s`` without data: what the same place of earlier iterations held, else a slow forgetting."""
    last: FloatArray = probabilities[-1]
    if age_s < step_s:
        return last
    if period_s is None:
        usual = probabilities.mean(axis=0)
        keep = float(np.exp(-age_s / max(STICKY_S, step_s) / 4))
        return np.asarray(keep * last + (1.0 - keep) * usual, np.float64)
    first = int(np.ceil(age_s / period_s))
    lags_s = period_s * np.arange(first, first + 5) - age_s
    slots = probabilities.shape[0] - 1 - np.round(lags_s / step_s).astype(np.intp)
    slots = slots[(slots >= 0) & (slots < probabilities.shape[0])]
    return np.asarray(probabilities[slots].mean(axis=0), np.float64) if slots.size else last


def _since(probabilities: FloatArray, phase: int, frame: JobFrame) -> float:
    """When the current run of this phase began; the last sample's time when the run begins only now."""
    run = np.argmax(probabilities, axis=1) == phase
    if not run[-1]:
        return float(frame.data_at_s)
    broken = np.flatnonzero(~run)
    first = int(broken[-1]) + 1 if broken.size else 0
    return float(frame.data_at_s - (run.shape[0] - 1 - first) * frame.totals.step_s)


def _sentence(signs: Signals, phase: PhaseName, chance: float, age_s: float) -> str:
    """The evidence in words, with the numbers."""
    parts = []
    for label, metric in signs.used.items():
        row: FloatArray = getattr(signs, label)
        good = row[np.isfinite(row)]
        parts.append(f"{label} {good[-1]:.2f} of its own range ({metric})")
    return f"{phase} with {chance:.0%} from data {age_s:.1f} s old: " + ", ".join(parts)


def phase_timeline(frame: JobFrame, period: Period | Absence | None = None) -> list[tuple[float, float, PhaseName]]:
    """Past phases as (start_s, end_s, phase), oldest first, without gaps; empty when nothing tells the phase."""
    period_s = period.period_s if isinstance(period, Period) else None
    probabilities, signs = phase_probabilities(frame, period_s)
    if not signs.known.any():
        return []
    best = np.argmax(probabilities, axis=1)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(best)) + 1, [best.shape[0]]))
    step_s = frame.totals.step_s
    start_s = float(frame.data_at_s - step_s * best.shape[0])
    return [
        (start_s + step_s * int(a), start_s + step_s * int(b), ORDER[int(best[a])]) for a, b in pairwise(edges.tolist())
    ]

"""One worker, rank or card that falls behind its peers: how soon it is told, and how often one is that is well.

Real groups are the workers of recorded mini-batch jobs (ten workers each) and the cards of recorded H100 jobs; simulated
ones are sixteen ranks that differ a little for good, with noise that is quiet, loud, lingering or heavy-tailed. A
straggler is injected at a random moment of an otherwise untouched window: every reading of one member from there on
costs 20 % (or 50 %) more. For cards all four activity metrics shrink by as much at once, in turns of three seconds, so
that ten readings are 30 s. Where a real group has stragglers of its own, a true call counts as false there.

The rule's constants were set on simulated groups of other seeds, and on none of the recorded ones.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import H100_FILE, h100_recordings
from api.bench.failslow_rivals import fixed_threshold_alarms, slowest_share_alarms, three_sigma_alarms
from api.bench.intervals import count_interval, share_interval
from api.bench.result import Row
from forecast.predict.health.signs.slow_gpu import ACTIVITY, TURN_S, fallen_behind
from models.straggler import straggler_alarms

Floats = NDArray[np.float64]
Alarms = NDArray[np.bool_]
Progress = Callable[[str], None]
MINI_BATCH = "alibaba_minibatch_2020/job_{}_norm.csv.gz"
WITHIN = 10
BEFORE = 60
"""Readings of history before the injection: three minutes of cards, a minute of one-second steps."""
DAY_S = 86400.0
SEED = 2027
RULES: dict[str, Callable[[Floats], Alarms]] = {
    "fixed-threshold": fixed_threshold_alarms,
    "three-sigma": three_sigma_alarms,
    "slowest-share": slowest_share_alarms,
    "served": straggler_alarms,
}


@dataclass(frozen=True, slots=True)
class Group:
    """Members that do one work together.

    Args:
        name: the task.
        cost: metric -> (n_members, n_readings), larger is slower; one unnamed metric for step times.
        unit_s: seconds of one reading; NaN where the source scaled the times.
    """

    name: str
    cost: dict[str, Floats]
    unit_s: float


def score_peers(data: Path | None, say: Progress, notes: list[str], *, quick: bool) -> tuple[list[Row], list[Path]]:
    """Rows of all groups, and the files that were read."""
    groups, files = _recorded(data, notes) if data is not None else ([], [])
    groups += _simulated(SEED, steps=600 if quick else 20000)
    rows: list[Row] = []
    for group in groups:
        say(group.name)
        for model, rule in RULES.items():
            rows += _score(group, model, rule, 20 if quick else 200)
    return rows, files


def _recorded(data: Path, notes: list[str]) -> tuple[list[Group], list[Path]]:
    groups: list[Group] = []
    files: list[Path] = []
    for job in (1, 2, 3, 4):
        if (path := data / MINI_BATCH.format(job)).is_file():
            groups.append(Group(f"straggler-mini-batch-{job}", {"": _workers(path)}, float("nan")))
            files.append(path)
    if (path := data / H100_FILE).is_file():
        groups += _cards(data)
        files.append(path)
    if len(files) < 5:
        notes.append(f"{5 - len(files)} of 5 recorded groups are not in {data}")
    return groups, files


def _workers(path: Path) -> Floats:
    """(n_workers, n_iterations) batch times; an iteration that a worker lacks is left out."""
    times: dict[int, dict[int, float]] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            times.setdefault(int(row["time"]), {})[int(row["worker"])] = max(float(row["batch_time_norm"]), 1.0)
    workers = sorted(set().union(*times.values()))
    whole = [at for at in sorted(times) if len(times[at]) == len(workers)]
    return np.array([[times[at][worker] for at in whole] for worker in workers])


def _cards(data: Path) -> list[Group]:
    """Cost of a card is one over its activity, as means over turns; idle runs have nothing to fall behind in."""
    groups: list[Group] = []
    by_run: dict[str, dict[str, list[Floats]]] = {}
    for recording in h100_recordings(data, TURN_S, quick=False):
        run = recording.name.partition(".")[0].partition("-")[0]
        for row, metric in enumerate(recording.metric):
            if metric in ACTIVITY:
                by_run.setdefault(run, {}).setdefault(metric, []).append(recording.values[row])
    for run, metrics in by_run.items():
        if set(metrics) != set(ACTIVITY):
            continue
        n = min(row.size for rows in metrics.values() for row in rows)
        cost = {metric: 1.0 / np.maximum(np.array([row[:n] for row in rows]), 1e-6) for metric, rows in metrics.items()}
        if n > BEFORE + WITHIN:
            groups.append(Group(f"straggler-h100-{run}", cost, TURN_S))
    return groups


def _simulated(seed: int, *, steps: int) -> list[Group]:
    random = np.random.default_rng(seed)
    shape = (16, steps)
    lasting = 0.01 * random.normal(size=(16, 1))
    lingering = random.normal(size=shape)
    for at in range(1, steps):
        lingering[:, at] = 0.5 * lingering[:, at - 1] + np.sqrt(0.75) * lingering[:, at]
    kinds = {
        "noise-1": 0.01 * random.normal(size=shape),
        "noise-5": 0.05 * random.normal(size=shape),
        "lingering": 0.02 * lingering,
        "heavy-tails": 0.02 * random.standard_t(3, shape) / np.sqrt(3.0),
    }
    return [Group(f"straggler-simulated-{name}", {"": np.exp(logs + lasting)}, 1.0) for name, logs in kinds.items()]


def _alarms(cost: dict[str, Floats], model: str, rule: Callable[[Floats], Alarms]) -> Alarms:
    """Alarms of a group; over several metrics the served sign asks that they agree, a plain rule takes any."""
    if len(cost) == 1:
        return rule(next(iter(cost.values())))
    if model != "served":
        anyone: Alarms = np.any([rule(values) for values in cost.values()], axis=0)
        return anyone
    alarms = np.zeros(next(iter(cost.values())).shape, dtype=np.bool_)
    for member, those in fallen_behind({metric: 1.0 / values for metric, values in cost.items()}).items():
        # It is told when the second of the metrics says so.
        alarms[member, sorted(one.one.called_at for one in those)[1]] = True
    return alarms


def _score(group: Group, model: str, rule: Callable[[Floats], Alarms], draws: int) -> list[Row]:
    rows: list[Row] = []
    n = next(iter(group.cost.values())).shape[1]
    with np.errstate(invalid="ignore"):
        calm = int(_alarms(group.cost, model, rule).sum())
        for percent in (20, 50):
            hit, delay = _injected(group, model, rule, percent / 100, draws)
            name = f"{group.name}-{percent}pct"
            low, high = share_interval(int(hit.sum()), hit.size)
            rows.append(Row(name, model, "detected_10", float(hit.mean()), low, high, hit.size))
            if delay.size:
                low, high = (float(end) for end in np.percentile(delay, [2.5, 97.5]))
                rows.append(Row(name, model, "delay_readings", float(np.median(delay)), low, high, delay.size))
    low, high = count_interval(calm)
    scale = 1e4 / n
    rows.append(Row(group.name, model, "false_per_10k_readings", calm * scale, low * scale, high * scale, n))
    if np.isfinite(group.unit_s):
        days = n * group.unit_s / DAY_S
        rows.append(Row(group.name, model, "false_per_job_day", calm / days, low / days, high / days, n))
    return rows


def _injected(
    group: Group, model: str, rule: Callable[[Floats], Alarms], ratio: float, draws: int
) -> tuple[Alarms, Floats]:
    """Whether each injected straggler was told in time, and after how many of its readings."""
    random = np.random.default_rng(SEED + 1)
    n_members, n = next(iter(group.cost.values())).shape
    hit, delay = np.zeros(draws, dtype=np.bool_), []
    for draw in range(draws):
        member, at = int(random.integers(n_members)), int(random.integers(BEFORE, n - WITHIN))
        window = {metric: values[:, at - BEFORE : at + WITHIN].copy() for metric, values in group.cost.items()}
        for values in window.values():
            values[member, BEFORE:] *= 1.0 + ratio
        called = _alarms(window, model, rule)[member, BEFORE:]
        if called.any():
            hit[draw] = True
            delay.append(1.0 + float(np.argmax(called)))
    return hit, np.asarray(delay)

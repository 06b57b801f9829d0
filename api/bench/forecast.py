"""Accuracy of every model on recorded telemetry: rolling origins, persistence as the denominator, losers printed too.

A model sees nothing after the cutoff. Cutoffs lie in the second half of each recording; ``gbdt`` is trained on the
first halves. ``served`` is what the service serves: on job telemetry without any training; on pods and fabric ports
with that ``gbdt`` as one more candidate of the gate, as after ``gpucast train``. ``phase+conformal`` shows what
calibration adds to the phase model alone. ``TASK-unseen`` is about jobs never seen: ``gbdt`` is trained without the run it
forecasts; the other models learn nothing beforehand and say the same. ``ets`` is slow and sees a part of the series; its ratios are against
persistence on the same part, and its ``n`` says how many.

Ratios (``relWQL``, ``relMAE``) are geometric means over series of summed loss against persistence's; windows that never
move, and series on which persistence is perfect, are dropped and counted. Where a task mixes GPUs and network ports its
parts are listed too, as ``TASK/gpu`` and ``TASK/fabric``.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import LOADERS, Dataset, digest_of
from api.bench.result import BenchResult, Row
from api.bench.simulated import GENERATOR, simulated_datasets
from api.bench.unseen import LEARNS, left_out
from models.backtest import FIELDS, score_window
from models.base import Forecaster
from models.metrics import bootstrap_interval, geometric_mean
from models.port_means import asked_means, gated_means, true_means
from models.port_moments import PortMoments
from telemetry.errors import GpucastError

Floats = NDArray[np.float64]
Progress = Callable[[str], None]
ETS_SERIES = 24
"""ETS costs some 30 ms a series: it is asked about this many rows of each window only."""
ALSO_UNSEEN = "h100-100ms"
"""Data sets whose name ends so are also scored with each run left out of the training."""
LOSS, ERROR, TRUTH, IN80, IN95, COUNT, SCALED, SCALED_COUNT = range(len(FIELDS))


@dataclass(frozen=True, slots=True, eq=False)
class _Scores:
    """Sums per series and task of one model: (n_tasks, n_series, n_fields), CPU per series forecast, windows."""

    sums: Floats
    cpu_ms: float
    windows: int

    def part(self, series: NDArray[np.bool_]) -> _Scores:
        """The same for some series only."""
        return _Scores(self.sums[:, series], self.cpu_ms, self.windows)


def run(
    data: Path | None, progress: Progress | None = None, *, quick: bool = False, seed: int = 0, only: str = ""
) -> BenchResult:
    """Score every model on every task.

    Args:
        data: folder laid out as the recorded data; None for seeded simulated recordings.
        progress: told what is being done and what is left out.
        quick: a part of the series and one cutoff per recording.
        seed: of simulation and training.
        only: run data sets whose name starts with this.
    """
    say = progress or (lambda _: None)
    rows: list[Row] = []
    notes: list[str] = []
    for dataset in _datasets(data, quick, seed, only, say, notes):
        rows += _one_dataset(dataset, quick, seed, say, notes)
    return BenchResult("forecast", _digest(data, seed, only), tuple(rows), tuple(notes))


def _datasets(
    data: Path | None, quick: bool, seed: int, only: str, say: Progress, notes: list[str]
) -> Iterator[Dataset]:
    if data is None:
        yield from (d for d in simulated_datasets(seed, quick) if d.name.startswith(only))
        return
    for name, (load, files) in LOADERS.items():
        if not name.startswith(only):
            continue
        if not any((data / file).is_file() for file in files):
            notes.append(f"{name} left out: no {' or '.join(files)} in {data}")
            say(notes[-1])
            continue
        say(f"{name}: reading")
        yield load(data, quick)


def _digest(data: Path | None, seed: int, only: str) -> str:
    if data is None:
        return hashlib.sha256(f"simulated {GENERATOR} seed {seed}".encode()).hexdigest()
    files = dict.fromkeys(file for name, (_, files) in LOADERS.items() if name.startswith(only) for file in files)
    return digest_of([data / file for file in files if (data / file).is_file()])


def _models(dataset: Dataset, seed: int, say: Progress, notes: list[str]) -> dict[str, Forecaster]:
    from models.analog import Analog
    from models.calibrated import Calibrated
    from models.ets import Ets
    from models.gate import Served, fleet_candidates
    from models.gbdt import Gbdt
    from models.level import RecentLevel
    from models.moving_mean import MovingMean
    from models.persistence import Persistence
    from models.phase import PhaseForecaster
    from models.regime import Regime
    from models.seasonal_naive import SeasonalNaive

    gbdt = Gbdt((1, 6, 12, 30, 60) if dataset.leads else None, seed=seed, origins=24)
    trained: dict[str, Forecaster] = {}
    say(f"{dataset.name}: training gbdt on the first half")
    try:
        gbdt.fit(dataset.training(), dataset.horizon)
        trained["gbdt"] = gbdt
    except GpucastError as error:
        notes.append(f"{dataset.name}: gbdt left out, {error}")
        say(notes[-1])
    ports: dict[str, Forecaster] = {"port_moments": PortMoments()} if dataset.spans else {}
    fleet = (*fleet_candidates(), *ports.values(), *trained.values())
    served = Served(fleet) if dataset.trained_served else Served()
    phase = PhaseForecaster()
    return {
        "persistence": Persistence(),
        "moving_mean": MovingMean(),
        "seasonal_naive": SeasonalNaive(),
        "level": RecentLevel(8),
        "regime": Regime(64),
        "phase": phase,
        "phase+conformal": Calibrated(phase, origins=4),
        "analog": Analog(),
        **ports,
        **trained,
        "ets": Ets(),
        "served": served,
    }


def _one_dataset(dataset: Dataset, quick: bool, seed: int, say: Progress, notes: list[str]) -> list[Row]:
    windows = [
        (recording.name, recording.between(max(0, cut - dataset.context_points), cut), recording, cut)
        for recording in dataset.recordings
        for cut in dataset.cutoffs(recording)
    ]
    if not windows:
        notes.append(f"{dataset.name} left out: no recording is long enough for {dataset.horizon} steps")
        say(notes[-1])
        return []
    models = _models(dataset, seed, say, notes)
    base: _Scores | None = None
    rows: list[Row] = []
    blocks = np.unique([e for r in dataset.recordings for e in r.entity], return_inverse=True)[1].astype(np.intp)
    metric = [m for r in dataset.recordings for m in r.metric]
    fabric = np.array([m.startswith("port_") for m in metric])
    every: dict[str, _Scores] = {}
    for name, model in models.items():
        say(f"{dataset.name}: {name}")
        scores, dropped = _score(dataset, model, quick)
        every[name] = scores
        if dataset.spans and name != "ets":
            rows += _mean_rows(dataset, model, blocks)
        base = scores if base is None else base
        for k, task in enumerate(dataset.tasks()):
            rows += _rows(task, name, scores, base, k, blocks)
            if fabric.any() and not fabric.all():
                rows += _rows(f"{task}/gpu", name, scores.part(~fabric), base.part(~fabric), k, blocks[~fabric])
                rows += _rows(f"{task}/fabric", name, scores.part(fabric), base.part(fabric), k, blocks[fabric])
            if name == "persistence":
                kept = float(scores.windows)
                rows.append(Row(task, name, "windows", kept, float("nan"), float("nan"), int(kept)))
                rows.append(Row(task, name, "dropped", float(dropped), float("nan"), float("nan"), dropped))
    if dataset.name.endswith(ALSO_UNSEEN):
        rows += _unseen_rows(dataset, every, blocks, quick, seed, say)
    return rows


def _unseen_rows(
    dataset: Dataset, every: dict[str, _Scores], blocks: NDArray[np.intp], quick: bool, seed: int, say: Progress
) -> list[Row]:
    """The tasks again as ``TASK-unseen``: what learns is fitted on the other runs, and what does not says the same."""
    learnt = left_out(dataset, lambda part, model: _score(part, model, quick)[0].sums, seed, say)
    rows: list[Row] = []
    for name, scores in every.items():
        if name in LEARNS:
            if learnt is None:
                continue
            scores = _Scores(learnt, scores.cpu_ms, scores.windows)
        for k, task in enumerate(dataset.tasks()):
            rows += _rows(f"{task}-unseen", name, scores, every["persistence"], k, blocks)
    return rows


def _score(dataset: Dataset, model: Forecaster, quick: bool) -> tuple[_Scores, int]:
    """Sums of one model over all windows, and how many windows never moved."""
    total = sum(recording.values.shape[0] for recording in dataset.recordings)
    sums = np.zeros((len(dataset.tasks()), total, len(FIELDS)))
    cpu_s, asked, kept_windows, dropped, offset = 0.0, 0, 0, 0, 0
    for recording in dataset.recordings:
        for cut in dataset.cutoffs(recording):
            context = recording.between(max(0, cut - dataset.context_points), cut)
            truth = recording.values[:, cut : cut + dataset.horizon]
            chosen = np.arange(context.n_series)
            if model.name == "ets" and chosen.size > ETS_SERIES:
                chosen = np.unique(np.linspace(0, chosen.size - 1, 4 if quick else ETS_SERIES).astype(int))
            began = time.process_time()
            cube = model.predict(context.rows(chosen) if chosen.size < context.n_series else context, dataset.horizon)
            cpu_s += time.process_time() - began
            asked += chosen.size
            kept = moving(context.values[chosen], truth[chosen])
            dropped += int((~kept).sum())
            kept_windows += int(kept.sum())
            where = offset + chosen[kept]
            for k, lead in enumerate(dataset.leads or (0,)):
                steps = slice(lead - 1, lead) if lead else slice(None)
                sums[k, where] += score_window(
                    cube[kept][:, steps], truth[chosen][kept][:, steps], context.values[chosen][kept]
                )
        offset += recording.values.shape[0]
    return _Scores(sums, 1000.0 * cpu_s / max(asked, 1), kept_windows), dropped


def _mean_rows(dataset: Dataset, model: Forecaster, blocks: NDArray[np.intp]) -> list[Row]:
    """WAPE of the mean over the next points of each span; what is served passes the gate first."""
    spans = dataset.spans
    sums = np.zeros((sum(recording.values.shape[0] for recording in dataset.recordings), len(spans), 2))
    offset = 0
    for recording in dataset.recordings:
        n = recording.values.shape[0]
        for cut in dataset.cutoffs(recording):
            context = recording.between(max(0, cut - dataset.context_points), cut)
            said = (
                gated_means(PortMoments(), context, spans)
                if model.name == "served"
                else asked_means(model, context, spans)
            )
            truth = true_means(recording.values[:, cut:], spans)
            known = np.isfinite(truth)
            sums[offset : offset + n, :, 0] += np.where(known, np.abs(said - truth), 0.0)
            sums[offset : offset + n, :, 1] += np.where(known, truth, 0.0)
        offset += n
    rows = []
    for k, span in enumerate(spans):
        errors = sums[:, k]

        def wape(drawn: Floats) -> float:
            return float(drawn[:, 0].sum() / max(drawn[:, 1].sum(), 1e-300))

        ends = bootstrap_interval(errors, wape, blocks=blocks, draws=200)
        rows.append(Row(f"{dataset.name}-mean-{span}", model.name, "WAPE", wape(errors), *ends, len(errors)))
    return rows


def moving(past: Floats, truth: Floats) -> NDArray[np.bool_]:
    """(n,) whether context and truth together hold two different values and there is something of each to score."""
    whole = np.concatenate([past, truth], axis=1)
    known = np.isfinite(whole)
    top = np.where(known, whole, -np.inf).max(axis=1)
    bottom = np.where(known, whole, np.inf).min(axis=1)
    result: NDArray[np.bool_] = (top > bottom) & np.isfinite(past).any(axis=1) & np.isfinite(truth).any(axis=1)
    return result


def _rows(task: str, name: str, scores: _Scores, base: _Scores, k: int, blocks: NDArray[np.intp]) -> list[Row]:
    mine, naive = scores.sums[k], base.sums[k]
    used = (mine[:, COUNT] > 0) & (naive[:, LOSS] > 0)
    if name == "ets":
        # The base saw more windows' rows than ETS only where ETS was not asked at all, so sums match row by row.
        used &= mine[:, COUNT] == naive[:, COUNT]
    both = np.concatenate([mine, naive], axis=1)[used]
    width = len(FIELDS)
    statistics: dict[str, Callable[[Floats], float]] = {
        "relWQL": lambda r: geometric_mean(r[:, LOSS] / r[:, width + LOSS]),
        "relMAE": lambda r: geometric_mean(_ratio(r[:, ERROR], r[:, width + ERROR])),
        "MASE": lambda r: float(np.nanmean(_ratio(r[:, SCALED], r[:, SCALED_COUNT]))) if r.size else float("nan"),
        "WAPE": lambda r: float(r[:, ERROR].sum() / max(r[:, TRUTH].sum(), 1e-300)),
        "cov80": lambda r: float(r[:, IN80].sum() / max(r[:, COUNT].sum(), 1.0)),
        "cov95": lambda r: float(r[:, IN95].sum() / max(r[:, COUNT].sum(), 1.0)),
    }
    rows = []
    for metric, statistic in statistics.items():
        low, high = bootstrap_interval(both, statistic, blocks=blocks[used], draws=200)
        value = statistic(both) if both.size else float("nan")
        rows.append(Row(task, name, metric, value, low, high, int(used.sum())))
    rows.append(Row(task, name, "cpu_ms", scores.cpu_ms, float("nan"), float("nan"), scores.windows))
    return rows


def _ratio(over: Floats, under: Floats) -> Floats:
    result: Floats = np.where(under > 0, over / np.where(under > 0, under, 1.0), np.nan)
    return result


__all__ = ["moving", "run"]

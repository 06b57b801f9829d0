"""Which phase a job is in: confusion with the truth, per class and over classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import H100_COLUMNS, H100_FILE, mean_on_grid
from api.bench.result import Row
from features.frame import Context, JobFrame
from forecast.predict.phases import phase_now, phase_timeline
from forecast.predict.rhythm import job_rhythm
from forecast.predict.room_models import default_models
from forecast.predict.settings import PredictSettings
from forecast.predict.stamped import foldable
from forecast.predict.types import Absence, Period, PhaseName
from models.metrics import bootstrap_interval
from models.phase_occurrences import Floats
from telemetry.ids import JobId
from telemetry.jobs import JobView

STEP_S = 0.5
WINDOW_S = 300.0
EVERY_S = 2.5
REGIMES = ("starting", "working", "idle")
LABELS = {"init": 0, "loading": 0, "warmup": 1, "steady": 1, "cooldown": 2}
"""Label of the recording -> regime. The recording names stages of a run, not what an iteration does."""
IDLE_RUNS = {"b1"}
"""Runs in which a loaded model does nothing after its start: their warm-up and steady stage are idle."""
WORKING = (PhaseName.COMPUTE, PhaseName.COMMUNICATE, PhaseName.EVALUATE, PhaseName.CHECKPOINT)
LATELY_S = 10.0
"""A job that worked so lately, or within two periods, is between two parts of an iteration."""


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """Answers beside the truth; classes are places in a list of names.

    Args:
        block: (n,) job or run.
        truth: (n,) class.
        answer: model -> (n,) class, -1 where none was given.
    """

    block: NDArray[np.intp]
    truth: NDArray[np.intp]
    answer: dict[str, NDArray[np.intp]]


def labelled(data: Path) -> tuple[Said, list[str]]:
    """The labelled runs, asked every few seconds with what was known then; and sentences about the mapping."""
    truth: list[int] = []
    block: list[int] = []
    answers: dict[str, list[int]] = {"phase": [], "regime": []}
    for number, (name, frame_until, label, points) in enumerate(_runs(data / H100_FILE)):
        usual = name.partition(".")[0] in IDLE_RUNS
        for column in range(int(EVERY_S / STEP_S), points, int(EVERY_S / STEP_S)):
            if label[column - 1] < 0:
                continue
            real = int(label[column - 1])
            truth.append(2 if usual and real == 1 else real)
            block.append(number)
            now, lately = _regimes(frame_until(column))
            answers["phase"].append(now)
            answers["regime"].append(lately)
    told = np.array(truth, np.intp)
    given = {model: np.array(answer, np.intp) for model, answer in answers.items()}
    given["always-working"] = np.ones_like(told)
    before = np.append(told[:1], told[:-1])
    given["as-truth-before"] = before
    return Said(np.array(block, np.intp), told, given), []


def _regimes(frame: JobFrame) -> tuple[int, int]:
    """The regime that the present phase means, and the one that the last moments mean."""
    period = foldable(job_rhythm(frame, default_models(), PredictSettings().min_points).period, frame.totals.step_s)
    now = phase_now(frame, period, 0.0)
    if isinstance(now, Absence):
        return -1, -1
    line = phase_timeline(frame, period)
    worked = any(phase in WORKING for _, _, phase in line)
    alone = _regime_of(now.phase, worked)
    span_s = max(LATELY_S, 2 * period.period_s) if isinstance(period, Period) else LATELY_S
    recent = [phase for _, end_s, phase in line if end_s > frame.data_at_s - span_s]
    return alone, 1 if any(phase in WORKING for phase in recent) else alone


def _regime_of(phase: PhaseName, worked: bool) -> int:
    if phase is PhaseName.INIT or (phase is PhaseName.LOAD and not worked):
        return 0
    return 2 if phase is PhaseName.IDLE else 1


def _runs(file: Path) -> list[tuple[str, Any, NDArray[np.intp], int]]:
    """(run and node, what was known after so many slots, label of each slot, slots)."""
    import duckdb

    names = ", ".join(H100_COLUMNS)
    with duckdb.connect() as connection:
        table = connection.execute(
            f"select run, node, timestamp, gpu, phase, {names} from '{file}' order by run, node, timestamp"
        ).fetchnumpy()
    run = np.char.add(np.char.add(table["run"].astype(str), "."), table["node"].astype(str))
    found = []
    for name in np.unique(run):
        mine = run == name
        at_s = table["timestamp"][mine].astype(np.float64)
        at_s = at_s - at_s.min()
        points = int(at_s.max() / STEP_S)
        totals = _totals(table, mine, at_s, points)
        stage = np.array([LABELS[word] for word in table["phase"][mine].astype(str)], np.float64)
        label = mean_on_grid(at_s, stage, STEP_S, points)
        whole = np.where(np.isfinite(label), np.round(np.nan_to_num(label)), -1).astype(np.intp)
        found.append((str(name), _until(totals), whole, points))
    return found


def _totals(table: dict[str, Any], mine: NDArray[np.bool_], at_s: Floats, points: int) -> Context:
    gpus = table["gpu"][mine]
    rows, metric, high = [], [], []
    for column, (ours, scale, most) in H100_COLUMNS.items():
        value = np.ma.filled(table[column][mine].astype(np.float64), np.nan) * scale
        each = np.stack([mean_on_grid(at_s[gpus == g], value[gpus == g], STEP_S, points) for g in np.unique(gpus)])
        known = np.isfinite(each).all(axis=0)
        mean = np.where(known, np.where(np.isfinite(each), each, 0.0).mean(axis=0), np.nan)
        rows.append(mean if ours.endswith(("_ratio", "celsius")) else mean * each.shape[0])
        metric.append(ours)
        high.append(most if ours.endswith("_ratio") else np.inf)
    n = len(rows)
    return Context(np.stack(rows), STEP_S, tuple(metric), np.zeros(n, np.int32), np.zeros(n), np.array(high))


def _until(totals: Context) -> Any:
    def known(column: int) -> JobFrame:
        first = max(0, column - int(WINDOW_S / STEP_S))
        part = Context(totals.values[:, first:column], STEP_S, totals.metric, totals.group, totals.low, totals.high)
        now_s = column * STEP_S
        return JobFrame(JobView(JobId("slurm", "1"), ("node-0",), (), 0.0, now_s), now_s, now_s, part, (), part)

    return known


def f1_rows(task: str, said: Said, names: tuple[str, ...]) -> list[Row]:
    """Macro F1, F1 of each class and the confusion of the first model, each with what was never answered as an error."""
    out: list[Row] = []
    present = [k for k in range(len(names)) if (said.truth == k).any()]
    for model, answer in said.answer.items():
        both = np.stack([said.truth, answer], axis=1).astype(np.float64)
        low, high = bootstrap_interval(both, lambda r: float(np.mean(_f1(r, present))), blocks=said.block, draws=400)
        n = int(said.truth.size)
        each = _f1(both, present)
        out.append(Row(task, model, "macro_f1", float(np.mean(each)), low, high, n))
        right = float((said.truth == answer).mean())
        out.append(Row(task, model, "accuracy", right, float("nan"), float("nan"), n))
        for place, k in enumerate(present):
            count = int((said.truth == k).sum())
            out.append(Row(task, model, f"f1_{names[k]}", float(each[place]), float("nan"), float("nan"), count))
    first = next(iter(said.answer))
    for k in present:
        mine = said.truth == k
        for j in (*range(len(names)), -1):
            share = float((said.answer[first][mine] == j).mean())
            if share > 0:
                word = names[j] if j >= 0 else "unknown"
                metric = f"confusion_{names[k]}_as_{word}"
                out.append(Row(task, first, metric, share, float("nan"), float("nan"), int(mine.sum())))
    return out


def _f1(both: Floats, present: list[int]) -> Floats:
    truth, answer = both[:, 0], both[:, 1]
    out = []
    for k in present:
        hit = float(((truth == k) & (answer == k)).sum())
        named = float((truth == k).sum() + (answer == k).sum())
        out.append(2 * hit / named if named else 1.0)
    return np.array(out)

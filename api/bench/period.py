"""How well the iteration period is told: on simulated jobs of many shapes, recorded runs, and where there is none to tell.

Tasks named ``sim-STEP`` and ``recorded`` hold at least 4 samples a period and 4 periods: ``within2`` is the share of windows
answered within 2 % of the truth (no answer counts as a miss), ``multiples`` the share answered with about a multiple or a
fraction of it. In ``none-...`` nothing repeats, or it repeats with less than two samples a period: ``false`` is the share
answered at all. Between two and four samples a right answer and none are both right: ``wrong`` is the share of others.
``tracking`` restarts jobs at another pace: ``turns`` until the new one is told, ``never``, ``flaps`` away from it later.

``served`` is what the service would say, ``detector`` the estimator on the whole window; the losers are its
autocorrelation without comb, vote and verdict, the first peak of the autocorrelation, and the highest peak of the spectrum.
Tasks that end in ``-tuned`` are runs that were looked at while the estimator was made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import digest_of
from api.bench.period_recorded import FILES, recorded
from api.bench.period_rivals import ESTIMATORS
from api.bench.period_tracking import follow
from api.bench.period_windows import GENERATOR, Window, aliased, between, chance, simulated
from api.bench.result import BenchResult, Row
from models.metrics import bootstrap_interval

Floats = NDArray[np.float64]
Progress = Callable[[str], None]
HELD_OUT_SEED = 0
"""Never looked at while the estimator was made; that was seeds of 100 and more."""
JOBS, QUICK_JOBS = 700, 70
TRACKED, QUICK_TRACKED = 40, 6
NEAR_RATIO = 0.02
MULTIPLE_RATIO = 0.05
"""An answer this near to a multiple or a fraction is that multiple, mistaken for the period."""
TOTALS = {"sim-": "sim", "none-recorded": "none-recorded", "none-": "none"}
"""Tasks that start so are also added up under one name."""


def run(
    data: Path | None, progress: Progress | None = None, *, quick: bool = False, seed: int = HELD_OUT_SEED
) -> BenchResult:
    """Score every estimator on every task.

    Args:
        data: folder laid out as the recorded data; None for simulated jobs alone.
        progress: told what is being done.
        quick: a tenth of the jobs.
        seed: of the simulated jobs.
    """
    say = progress or (lambda _: None)
    notes: list[str] = []
    windows = list(_windows(data, quick, seed, say, notes))
    rows: list[Row] = []
    for name, estimator in ESTIMATORS.items():
        say(f"{name}: {len(windows)} windows")
        answer_s = np.array([estimator(window.context) for window in windows])
        for task, index in _tasks(windows).items():
            rows += _rows(task, name, [windows[k] for k in index], answer_s[index])
    for name in ("served", "detector"):
        say(f"{name}: jobs whose pace changes")
        rows += _tracking(name, QUICK_TRACKED if quick else TRACKED, seed)
    return BenchResult("period", _digest(data, seed), tuple(rows), tuple(notes))


def _windows(data: Path | None, quick: bool, seed: int, say: Progress, notes: list[str]) -> Iterator[Window]:
    jobs = QUICK_JOBS if quick else JOBS
    say(f"simulating {jobs} jobs of each kind")
    yield from simulated(seed, jobs)
    yield from between(seed, jobs // 4)
    yield from aliased(seed, jobs)
    yield from chance(seed, jobs)
    if data is None:
        return
    if not all((data / file).is_file() for file in FILES):
        notes.append(f"recorded runs left out: {' or '.join(FILES)} is not in {data}")
        return
    say("reading recorded runs")
    yield from recorded(data, quick, notes)


def _digest(data: Path | None, seed: int) -> str:
    whole = hashlib.sha256(f"simulated {GENERATOR} seed {seed}".encode())
    if data is not None:
        whole.update(digest_of([data / file for file in FILES if (data / file).is_file()]).encode())
    return whole.hexdigest()


def _tasks(windows: list[Window]) -> dict[str, list[int]]:
    """Task -> places of its windows, the totals last."""
    tasks: dict[str, list[int]] = {}
    for place, window in enumerate(windows):
        tasks.setdefault(window.task, []).append(place)
    for task in list(tasks):
        total = next((name for start, name in TOTALS.items() if task.startswith(start)), None)
        if total is not None and "2-to-4" not in task and total != task:
            tasks.setdefault(total, []).extend(tasks[task])
    return tasks


def _rows(task: str, name: str, windows: list[Window], answer_s: Floats) -> list[Row]:
    true_s = np.array([window.true_s for window in windows])
    blocks = np.unique([window.block for window in windows], return_inverse=True)[1].astype(np.intp)
    ratio = answer_s / true_s
    answered = np.isfinite(answer_s)
    near = np.abs(ratio - 1.0) <= NEAR_RATIO
    if task.startswith("none"):
        shares = {"false": answered}
    elif "2-to-4" in task:
        shares = {"wrong": answered & ~near, "within2": near}
    else:
        shares = {"within2": near, "multiples": multiples(ratio), "answered": answered}
    rows = [_share(task, name, metric, share, blocks) for metric, share in shares.items()]
    if "within2" in shares and answered.any():
        error = float(np.median(np.abs(ratio[answered] - 1.0)))
        rows.append(Row(task, name, "median_error", error, float("nan"), float("nan"), int(answered.sum())))
    return rows


def multiples(ratio: Floats) -> NDArray[np.bool_]:
    """(n,) which answers, as multiples of the truth, are about 2, 3, ... or 1/2, 1/3, ... of it."""
    above = np.where(np.isfinite(ratio) & (ratio > 0), np.maximum(ratio, 1.0 / np.where(ratio > 0, ratio, 1.0)), 1.0)
    nearest = np.round(above)
    return np.asarray((nearest >= 2) & (np.abs(above / nearest - 1.0) <= MULTIPLE_RATIO))


def _share(task: str, name: str, metric: str, share: NDArray[np.bool_], blocks: NDArray[np.intp]) -> Row:
    rows = share.astype(np.float64)[:, None]
    low, high = bootstrap_interval(rows, lambda r: float(r.mean()), blocks=blocks, draws=400)
    return Row(task, name, metric, float(share.mean()), low, high, int(share.size))


def _tracking(name: str, jobs: int, seed: int) -> list[Row]:
    found = [follow(ESTIMATORS[name], seed, number) for number in range(jobs)]
    turns = np.array([one.turns for one in found])
    never = np.isnan(turns)
    blocks = np.arange(jobs, dtype=np.intp)
    rows = [_share("tracking", name, "never", never, blocks)]
    columns: dict[str, tuple[Floats, Callable[[Floats], float]]] = {
        "turns_median": (turns[~never], lambda r: float(np.median(r))),
        "turns_p90": (turns[~never], lambda r: float(np.quantile(r, 0.9))),
        "flaps": (np.array([one.flaps for one in found])[~never], lambda r: float(r.mean())),
        "wrong": (np.array([one.wrong for one in found]), lambda r: float(r.mean())),
    }
    for metric, (values, statistic) in columns.items():
        if not values.size:
            continue
        low, high = bootstrap_interval(values[:, None], statistic, draws=400)
        rows.append(Row("tracking", name, metric, statistic(values), low, high, int(values.size)))
    return rows

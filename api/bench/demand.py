"""GPUs in use ahead, ten minutes to a day, against persistence: virtual clusters, a whole cluster, nodes.

Every forecast is made from the past of its moment only, at each ten minutes, and ``served`` is what the service's model
would have said. Scored is the last part of each series (from day 20 of May for Earth, day 44 of 74 for the Philly
nodes); the first part was used to choose the model's settings. ``relMAE`` is the summed absolute error over that of
persistence (for virtual clusters the mean over those that move); 1 is persistence. Its 95 % interval draws whole days,
or whole virtual clusters.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import digest_of
from api.bench.result import BenchResult, Row
from models.demand import DemandSeries, DemandWalk, walk_demand
from models.demand_moves import CANDIDATES
from models.metrics import HIGH80, HIGH95, LOW80, LOW95, bootstrap_interval
from telemetry.errors import SchemaError

Floats = NDArray[np.float64]
Progress = Callable[[str], None]
STEP_S = 600.0
LEADS: dict[str, int] = {"10min": 1, "1h": 6, "3h": 18, "6h": 36, "12h": 72, "24h": 144}
"""Name -> steps of ten minutes."""
VC_FILE = "helios_2020/earth_vc_minute.parquet"
NODE_FILE = "helios_2020/philly_nodes_minute.parquet"
QUICK_LEADS = ("1h", "6h")


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Series that are scored together.

    Args:
        name: of the task.
        series: one, or one per virtual cluster.
        first_day: day from which on forecasts are scored.
    """

    name: str
    series: tuple[DemandSeries, ...]
    first_day: int


def run(data: Path | None, progress: Progress | None = None, *, quick: bool = False, seed: int = 0) -> BenchResult:
    """Score persistence, each candidate and what is served.

    Args:
        data: folder laid out as the recorded data; None for seeded simulated demand.
        progress: told what is being done and what is left out.
        quick: two leads only.
        seed: of the simulated demand.
    """
    say = progress or (lambda _: None)
    notes: list[str] = []
    rows: list[Row] = []
    for task in _tasks(data, seed, say, notes):
        for lead_name, lead in LEADS.items():
            if quick and lead_name not in QUICK_LEADS:
                continue
            say(f"{task.name}: {lead_name}")
            began = time.process_time()
            walks = [walk_demand(series, lead) for series in task.series]
            cpu_ms = 1000.0 * (time.process_time() - began) / len(walks)
            rows += _score(f"{task.name}-{lead_name}", task, walks, lead, cpu_ms)
    if data is None:
        return BenchResult("demand", hashlib.sha256(f"demand {seed}".encode()).hexdigest(), tuple(rows), tuple(notes))
    files = [data / file for file in (VC_FILE, NODE_FILE) if (data / file).is_file()]
    return BenchResult("demand", digest_of(files), tuple(rows), tuple(notes))


def _tasks(data: Path | None, seed: int, say: Progress, notes: list[str]) -> list[_Task]:
    if data is None:
        return [_Task("simulated-total", (simulated_demand(seed),), 20)]
    tasks = []
    if (data / VC_FILE).is_file():
        clusters = read_clusters(data / VC_FILE)
        used, waiting, total = (
            np.sum([getattr(one, part) for one in clusters], axis=0) for part in ("used", "waiting", "total")
        )
        whole = DemandSeries(clusters[0].at_s, STEP_S, used, waiting, total)
        tasks += [_Task("helios-vcs", clusters, 20), _Task("earth-total", (whole,), 20)]
    if (data / NODE_FILE).is_file():
        tasks.append(_Task("philly-nodes", (read_nodes(data / NODE_FILE),), 44))
    for file in (VC_FILE, NODE_FILE):
        if not (data / file).is_file():
            notes.append(f"no {file} in {data}: its tasks are left out")
            say(notes[-1])
    return tasks


def read_clusters(path: Path) -> tuple[DemandSeries, ...]:
    """Every virtual cluster of the Helios file, a point each ten minutes."""
    table = _query(
        "select vc, epoch(time) as s, running_gpu_num as used, pending_gpu_num as waiting, "
        "running_gpu_num + idle_gpu_num as total from read_parquet(?) where minute(time) % 10 = 0 order by vc, time",
        path,
    )
    names = np.asarray(table["vc"]).astype(str)
    return tuple(_on_grid({k: v[names == name] for k, v in table.items()}) for name in np.unique(names))


def read_nodes(path: Path) -> DemandSeries:
    """Active nodes of Philly, a point each ten minutes, NaN in its hole."""
    return _on_grid(
        _query(
            "select epoch(time) as s, active as used, 0 as waiting, total from read_parquet(?) "
            "where minute(time) % 10 = 0 order by time",
            path,
        )
    )


def _query(query: str, path: Path) -> dict[str, NDArray[np.generic]]:
    import duckdb

    try:
        return {k: np.ma.filled(v) for k, v in duckdb.execute(query, [str(path)]).fetchnumpy().items()}
    except duckdb.Error as error:
        raise SchemaError(f"{path} does not hold demand per minute: {error}") from error


def _on_grid(table: dict[str, NDArray[np.generic]]) -> DemandSeries:
    at_s = table["s"].astype(np.float64)
    place = np.round((at_s - at_s[0]) / STEP_S).astype(np.intp)
    columns = {}
    for name in ("used", "waiting", "total"):
        columns[name] = np.full(int(place[-1]) + 1, np.nan)
        columns[name][place] = table[name].astype(np.float64)
    return DemandSeries(float(at_s[0]), STEP_S, columns["used"], columns["waiting"], columns["total"])


def simulated_demand(seed: int, days: int = 40) -> DemandSeries:
    """Seeded demand of 512 GPUs: jobs arrive more by day, last a few hours, wait when nothing is free."""
    random = np.random.default_rng(seed)
    n = days * 144
    held = np.zeros(n)
    hour = (np.arange(n) / 6.0) % 24
    arrivals = random.poisson(0.9 + 0.7 * np.sin(2 * np.pi * (hour - 8) / 24))
    for start, count in enumerate(arrivals):
        for _ in range(int(count)):
            steps = max(1, int(random.lognormal(np.log(18), 1.0)))
            held[start : start + steps] += 2.0 ** random.integers(0, 5)
    used = np.minimum(held, 512.0)
    return DemandSeries(0.0, STEP_S, used, held - used, np.full(n, 512.0))


def _score(label: str, task: _Task, walks: list[DemandWalk], lead: int, cpu_ms: float) -> list[Row]:
    per_day = task.series[0].per_day
    truth = np.stack([np.append(one.used[lead:], np.full(lead, np.nan)) for one in task.series])
    now = np.stack([one.used for one in task.series])
    scored = np.isfinite(truth) & np.isfinite(now)
    scored[:, : task.first_day * per_day] = False
    day = np.arange(truth.shape[1]) // per_day
    base = _by_day(np.abs(truth - now), scored, day)
    moves = {"persistence": np.zeros_like(now)}
    moves |= {name: np.stack([walk.candidates[:, k] for walk in walks]) for k, name in enumerate(CANDIDATES)}
    moves["served"] = np.stack([walk.moves for walk in walks])
    rows = []
    for name, move in moves.items():
        loss = _by_day(np.abs(truth - now - move), scored, day)
        rows += _ratio_rows(label, name, loss, base, int(scored.sum()))
        mae = float(loss.sum() / max(int(scored.sum()), 1))
        rows.append(Row(label, name, "MAE_count", mae, float("nan"), float("nan"), int(scored.sum())))
    quantiles = np.stack([walk.quantiles for walk in walks])
    for metric, low, high in (("cov80", LOW80, HIGH80), ("cov95", LOW95, HIGH95)):
        hit = (truth >= quantiles[..., low]) & (truth <= quantiles[..., high])
        held = np.stack(
            [_by_day(hit.astype(np.float64), scored, day).sum(0), _by_day(scored * 1.0, scored, day).sum(0)]
        )
        held = held.T[held[1] > 0]
        ends = bootstrap_interval(held, lambda r: float(r[:, 0].sum() / r[:, 1].sum()), draws=200)
        value = float(held[:, 0].sum() / max(held[:, 1].sum(), 1.0))
        rows.append(Row(label, "served", metric, value, *ends, int(scored.sum())))
    rows.append(Row(label, "served", "cpu_ms", cpu_ms, float("nan"), float("nan"), len(walks)))
    return rows


def _by_day(values: Floats, scored: NDArray[np.bool_], day: NDArray[np.intp]) -> Floats:
    """(n_series, n_days) sums over the scored points of each day."""
    return np.stack([np.bincount(day, np.where(keep, row, 0.0)) for row, keep in zip(values, scored, strict=True)])


def _ratio_rows(label: str, name: str, loss: Floats, base: Floats, n: int) -> list[Row]:
    """relMAE with its interval, and the worst series where there are several."""
    if loss.shape[0] == 1:
        both = np.stack([loss[0], base[0]], axis=1)[base[0] > 0]
        value = float(both[:, 0].sum() / both[:, 1].sum()) if both.size else float("nan")
        ends = bootstrap_interval(both, lambda r: float(r[:, 0].sum() / r[:, 1].sum()), draws=400)
        return [Row(label, name, "relMAE", value, *ends, n)]
    moved = base.sum(axis=1) > 0
    ratio = loss.sum(axis=1)[moved] / base.sum(axis=1)[moved]
    ends = bootstrap_interval(ratio[:, None], lambda r: float(r.mean()), draws=400)
    worst = Row(label, name, "worst_relMAE", float(ratio.max()), float("nan"), float("nan"), int(moved.sum()))
    return [Row(label, name, "relMAE", float(ratio.mean()), *ends, n), worst]

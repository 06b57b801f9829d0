"""What the benchmark of phases reads: evaluations of published runs, saves of a logged run, labelled telemetry."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.phase_occurrences import Floats, Occurrences

MLPERF_FILE = "mlperf_training_v51/events_run0.parquet"
PROGRESS_FILE = "zjlab_roce_2024/llama2_7b_32gpu_progress.csv"
LONG_STEP_RATIO = 1.3
"""A step of the logged run this much longer than its neighbours' median held something else than training."""
NEIGHBOURS = 25


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """Occurrences of a phase in one run.

    Args:
        name: which run.
        part: what its figures are added up under.
        events: what happened.
        tuned: it was looked at while the model was made.
    """

    name: str
    part: str
    events: Occurrences
    tuned: bool


def evaluations(file: Path) -> list[Sequence]:
    """Evaluations of every published run with at least two, by start; their step is the number of samples trained on."""
    table = _query(
        "select benchmark || ' ' || submitter || ' ' || system as name, benchmark, time_ms, key, pos"
        f" from '{file}' where key in ('eval_start', 'eval_stop') order by name, time_ms, key desc"
    )
    names, benchmark = table["name"].astype(str), table["benchmark"].astype(str)
    at_s = table["time_ms"].astype(np.float64) / 1000.0
    starts = table["key"].astype(str) == "eval_start"
    pos = np.ma.filled(np.ma.asarray(table["pos"], dtype=np.float64), np.nan)
    found: list[Sequence] = []
    for name in np.unique(names):
        mine = names == name
        begun, ended = at_s[mine & starts], at_s[mine & ~starts]
        if begun.size != ended.size or begun.size < 2 or (ended < begun).any() or (begun[1:] < ended[:-1]).any():
            continue
        part = str(benchmark[mine][0])
        found.append(Sequence(str(name), part, Occurrences(begun, ended, pos[mine & starts]), half_of(str(name))))
    return found


def half_of(name: str) -> bool:
    """True for the half of the names that was looked at while the model was made."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def long_steps(file: Path) -> tuple[Sequence, Floats, Floats]:
    """The steps of the logged run that took long, as occurrences of a save; and the ends and lengths of all steps."""
    table = _query(f"select epoch_ms(time_utc_unverified::timestamp) as ms, iter from '{file}' order by iter")
    at_s, step = table["ms"].astype(np.float64) / 1000.0, table["iter"].astype(np.float64)
    took_s = np.append(np.nan, np.diff(at_s))
    padded = np.concatenate([np.full(NEIGHBOURS, np.nan), took_s])
    usual_s = np.array([np.nanmedian(padded[k : k + NEIGHBOURS]) if k > 2 else np.nan for k in range(took_s.size)])
    long = np.flatnonzero(took_s > LONG_STEP_RATIO * usual_s)
    start_s = at_s[long] - (took_s[long] - usual_s[long])
    events = Occurrences(start_s, at_s[long], step[long] - 1.0)
    return Sequence("llama2-7b", "logged-run", events, False), at_s, took_s


def _query(sql: str) -> dict[str, Any]:
    import duckdb

    with duckdb.connect() as connection:
        return dict(connection.execute(sql).fetchnumpy())

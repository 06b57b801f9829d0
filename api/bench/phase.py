"""Which phase a job is in and when the next one comes: labelled runs, published runs' evaluations, a logged run's saves,
simulated jobs.

Tasks: ``now-h100`` and ``now-sim`` score the present phase. ``evaluation-...`` foresees each evaluation of a published
training run at the end of the one before, from past boundaries alone. ``save-logged-run`` foresees the saves of a logged
run. ``checkpoint-telemetry`` and ``checkpoint-steps`` foresee checkpoints of simulated jobs at any moment, from sampled
telemetry and from the job's own reports. Half of the published runs (tasks that end in ``-tuned``) and simulated seeds of
100 and more were looked at while the model was made. Rivals answer the same questions; what is silent is counted under
``answered``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from api.bench.datasets import H100_FILE, digest_of
from api.bench.phase_ahead import Statement, after_each, rows
from api.bench.phase_data import MLPERF_FILE, PROGRESS_FILE, evaluations, long_steps
from api.bench.phase_jobs import GENERATOR
from api.bench.phase_now import REGIMES, f1_rows, labelled
from api.bench.phase_walk import walk
from api.bench.result import BenchResult, Row
from forecast.predict.types import PhaseName

Progress = Callable[[str], None]
HELD_OUT_SEED = 1
"""Seed 0 was looked at once, before occurrences of one slot were left out; seeds of 100 and more while it was made."""
JOBS, QUICK_JOBS = 60, 2
FILES = (H100_FILE, MLPERF_FILE, PROGRESS_FILE)
NOTES = (
    "now-h100: the recording's labels are stages of a run, ours are parts of an iteration, so both are mapped: init and"
    " loading are starting, warmup and steady working (idle in b1, which loads a model and does nothing), cooldown idle;"
    " of ours init, and load before any work, are starting, idle is idle, all others working. A gap inside an iteration is"
    " idle by telemetry and working by the label: model regime calls a job working that worked within 10 s or two"
    " periods. as-truth-before knows the label 2.5 s ago, which no telemetry tells.",
    "start_error_mean_ratio: error as a share of the interval that came, at most 1. persistence: as the last interval.",
)


def run(
    data: Path | None, progress: Progress | None = None, *, quick: bool = False, seed: int = HELD_OUT_SEED
) -> BenchResult:
    """Score every task.

    Args:
        data: folder laid out as the recorded data; None for simulated jobs alone.
        progress: told what is being done.
        quick: two simulated jobs, recorded telemetry left out.
        seed: of the simulated jobs.
    """
    say = progress or (lambda _: None)
    found: list[Row] = []
    notes = list(NOTES)
    if data is not None:
        found += _recorded(data, quick, say, notes)
    jobs = QUICK_JOBS if quick else JOBS
    say(f"watching {jobs} simulated jobs")
    said, statements = walk(seed, jobs, say)
    found += f1_rows("now-sim", said, tuple(str(name) for name in PhaseName))
    found += rows(statements)
    return BenchResult("phase", _digest(data, seed), tuple(found), tuple(notes))


def _recorded(data: Path, quick: bool, say: Progress, notes: list[str]) -> list[Row]:
    found: list[Row] = []
    missing = [file for file in FILES if not (data / file).is_file()]
    notes += [f"{file} is not in {data}: its tasks are left out" for file in missing]
    if H100_FILE not in missing and not quick:
        say("labelled runs")
        said, more = labelled(data)
        notes += more
        found += f1_rows("now-h100", said, REGIMES)
    statements: list[Statement] = []
    if MLPERF_FILE not in missing:
        say("evaluations of published runs")
        for one in evaluations(data / MLPERF_FILE):
            end = "-tuned" if one.tuned else ""
            statements += after_each(one.name, (f"evaluation-{one.part}{end}", f"evaluation{end}"), one.events)
    if PROGRESS_FILE not in missing:
        one, _, _ = long_steps(data / PROGRESS_FILE)
        statements += after_each(one.name, ("save-logged-run",), one.events)
        notes.append(_saves_note(one.events.step, one.events.end_s - one.events.start_s))
    return [*found, *rows(statements)]


def _saves_note(step: np.ndarray[tuple[int], np.dtype[np.float64]], length_s: object) -> str:
    told = ", ".join(f"{number:.0f}" for number in step)
    lasted = ", ".join(f"{float(one):.1f}" for one in np.asarray(length_s))
    return f"save-logged-run: long steps after steps {told}, longer by {lasted} s; with 3 needed, one can be foreseen"


def _digest(data: Path | None, seed: int) -> str:
    whole = hashlib.sha256(f"phases {GENERATOR} seed {seed}".encode())
    if data is not None:
        whole.update(digest_of([data / file for file in FILES if (data / file).is_file()]).encode())
    return whole.hexdigest()

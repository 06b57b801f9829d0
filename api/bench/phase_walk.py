"""Simulated jobs watched as the service watches them: round after round, with what is remembered between rounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from api.bench.phase_ahead import Statement, rivals
from api.bench.phase_jobs import WINDOW, WINDOWS, Told, simulated
from api.bench.phase_now import Said
from features.frame import JobFrame
from forecast.predict.phases import phase_now, phase_timeline
from forecast.predict.phases_ahead import next_phases
from forecast.predict.phases_past import NONE, PhasePast, grown, reported, under_way
from forecast.predict.rhythm import job_rhythm
from forecast.predict.room_models import default_models
from forecast.predict.settings import PredictSettings
from forecast.predict.stamped import foldable
from forecast.predict.types import Absence, NextPhase, PhaseName, PhaseNow
from models.phase_occurrences import Occurrences
from models.phase_replay import LEAST

EVERY = 150
"""Slots between two rounds that are scored, give or take half of them."""
ORDER = list(PhaseName)
RARE_TASK = {PhaseName.CHECKPOINT: "checkpoint", PhaseName.EVALUATE: "evaluate"}


def walk(seed: int, jobs: int, say: Callable[[str], None]) -> tuple[Said, list[Statement]]:
    """Answers about the present and statements about the next checkpoint and evaluation of each job."""
    block: list[int] = []
    truth: list[int] = []
    answer: list[int] = []
    before: list[int] = []
    statements: list[Statement] = []
    for number in range(jobs):
        job = simulated(seed, number)
        random = np.random.default_rng([seed, 8, number])
        past: PhasePast = {}
        column = WINDOW // 2
        while column < WINDOW * WINDOWS:
            frame = job.frame(column, stamped=False)
            past, now = _round(job, frame, past, f"{seed}-{number}", statements)
            block.append(number)
            truth.append(int(job.truth[column - 1]))
            before.append(int(job.truth[column - 2]))
            answer.append(now)
            column += int(random.integers(EVERY // 2, EVERY * 3 // 2))
        if number % 10 == 9:
            say(f"{number + 1} of {jobs} jobs")
    told = np.array(truth, np.intp)
    usual = np.full(told.shape, np.bincount(told).argmax(), np.intp)
    given = {"served": np.array(answer, np.intp), "always-usual": usual, "as-truth-before": np.array(before, np.intp)}
    return Said(np.array(block, np.intp), told, given), statements


def _round(
    job: Told, frame: JobFrame, past: PhasePast, name: str, statements: list[Statement]
) -> tuple[PhasePast, int]:
    """One round: what is remembered after it, and the phase it names."""
    period = foldable(job_rhythm(frame, default_models(), PredictSettings().min_points).period, frame.totals.step_s)
    phase = phase_now(frame, period, 0.0)
    past = grown(past, phase_timeline(frame, period), frame.totals.step_s)
    now_s = frame.data_at_s
    for rare, answer in next_phases(frame, phase, past, now_s).items():
        seen = past.get(rare, NONE)
        if isinstance(phase, PhaseNow) and phase.phase is rare:
            # The rivals know of the one that runs now as well.
            seen = under_way(seen, phase.since_s, now_s)
        _note(job, rare, answer, seen, now_s, f"{RARE_TASK[rare]}-telemetry", name, statements)
    stamped = job.frame(round(now_s / job.step_s), stamped=True)
    saves = reported(stamped, now_s)
    if saves is not None:
        answer = next_phases(stamped, phase, {}, now_s)[PhaseName.CHECKPOINT]
        _note(job, PhaseName.CHECKPOINT, answer, saves, now_s, "checkpoint-steps", name, statements)
    return past, -1 if isinstance(phase, Absence) else ORDER.index(phase.phase)


def _note(
    job: Told,
    phase: PhaseName,
    answer: NextPhase | Absence,
    past: Occurrences,
    now_s: float,
    task: str,
    name: str,
    statements: list[Statement],
) -> None:
    """Put a statement beside the next true start; asked only where that many truly lie behind, and one ahead."""
    start_s, end_s = job.start_s[phase], job.end_s[phase]
    ahead = np.flatnonzero(start_s > now_s)
    if (end_s <= now_s).sum() < LEAST or not ahead.size or ahead[0] == 0:
        return
    k = int(ahead[0])
    if end_s[k] > job.step_s * WINDOW * WINDOWS:
        return
    start, length = np.full(3, np.nan), np.full(3, np.nan)
    if isinstance(answer, NextPhase):
        start = np.array([answer.start_low_s, answer.start_s, answer.start_high_s])
        length = np.array([answer.length_low_s, answer.length_s, answer.length_high_s])
    rival_start, rival_length = rivals(past) if past.size >= LEAST else (np.full(3, np.nan), np.full(3, np.nan))
    by = "by-clock" if job.by_clock else "by-steps"
    statements.append(
        Statement(
            name,
            (task, f"{task}-{by}"),
            start,
            length,
            np.maximum(rival_start, now_s),
            rival_length,
            float(start_s[k]),
            float(end_s[k] - start_s[k]),
            float(start_s[k] - start_s[k - 1]),
        )
    )

"""The next checkpoint and evaluation of a job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from features.frame import CheckpointStamps, Context, JobFrame, StepStamps
from forecast.predict.phases_ahead import next_phases
from forecast.predict.phases_past import grown
from forecast.predict.types import Absence, NextPhase, PhaseName, PhaseNow, Why
from telemetry.ids import JobId
from telemetry.jobs import JobView

COMPUTE = PhaseNow(PhaseName.COMPUTE, {PhaseName.COMPUTE: 1.0}, 0.0, "")


def _frame(now_s: float) -> JobFrame:
    empty = Context(np.empty((0, 0)), 1.0, (), np.empty(0, np.int32), np.empty(0), np.empty(0))
    return JobFrame(JobView(JobId("slurm", "1"), ("node-0",), (), 0.0, now_s), now_s, now_s, empty, (), empty)


def _stamped(saves: int) -> JobFrame:
    """Steps of 2 s with a save of 10 s after every 20 of them; asked in the middle."""
    at_s, start_s, now_s = [], [], 0.0
    for number in range(1, 20 * saves + 11):
        now_s += 2.0
        at_s.append(now_s)
        if number % 20 == 0:
            start_s.append(now_s)
            now_s += 10.0
    begin_s = np.array(start_s)
    saved = CheckpointStamps(begin_s, begin_s + 10.0, 20.0 * np.arange(1, saves + 1))
    steps = StepStamps(np.array(at_s), np.arange(1.0, len(at_s) + 1))
    return replace(_frame(now_s), steps=steps, checkpoints=saved)


def test_reported_checkpoints_tell_the_next_one() -> None:
    """Ten steps before the next save it is said to come in 20 s and to last 10 s."""
    frame = _stamped(8)
    found = next_phases(frame, COMPUTE, {}, frame.data_at_s)[PhaseName.CHECKPOINT]
    assert isinstance(found, NextPhase)
    assert found.source == "steps"
    assert found.start_s - frame.data_at_s == pytest.approx(20.0, abs=1.0)
    assert found.start_low_s <= frame.data_at_s + 20.0 <= found.start_high_s
    assert found.length_s == pytest.approx(10.0, abs=0.5)
    assert 0.5 < found.probability <= 1.0
    assert "8 checkpoints reported by the job" in found.evidence


def test_two_checkpoints_are_too_few_and_the_reason_says_how_many_are_needed() -> None:
    """An absence with both numbers."""
    frame = _stamped(2)
    found = next_phases(frame, COMPUTE, {}, frame.data_at_s)[PhaseName.CHECKPOINT]
    assert isinstance(found, Absence)
    assert (found.why, found.points_present, found.points_needed) == (Why.INSUFFICIENT_HISTORY, 2, 3)


def test_a_checkpoint_that_is_being_written_is_not_foreseen_again() -> None:
    """While one is written the next is a whole interval away."""
    frame = _stamped(8)
    assert frame.checkpoints is not None
    saved = frame.checkpoints
    now_s = float(saved.start_s[-1]) + 4.0
    open_one = replace(saved, end_s=np.append(saved.end_s[:-1], np.nan))
    steps = frame.steps
    assert steps is not None
    early = steps.at_s <= now_s
    cut = StepStamps(steps.at_s[early], steps.step[early])
    asked = replace(frame, data_at_s=now_s, steps=cut, checkpoints=open_one)
    found = next_phases(asked, COMPUTE, {}, now_s)[PhaseName.CHECKPOINT]
    assert isinstance(found, NextPhase)
    assert found.start_s - now_s == pytest.approx(6.0 + 40.0, abs=2.0)


def test_without_reports_and_without_a_phase_the_reason_is_that_of_the_phase() -> None:
    """No step signals and no activity: nothing to read them off."""
    unseen = Absence(Why.MISSING_FIELD, "no activity is collected")
    found = next_phases(_frame(100.0), unseen, {}, 100.0)
    for name in (PhaseName.CHECKPOINT, PhaseName.EVALUATE):
        answer = found[name]
        assert isinstance(answer, Absence)
        assert answer.why is Why.MISSING_FIELD
        assert "no activity is collected" in answer.reason


def _timeline(first: int, last: int) -> list[tuple[float, float, PhaseName]]:
    """Turn k: 80 s of compute, 5 s idle and 15 s checkpoint, from 100 k on."""
    out = []
    for k in range(first, last):
        at_s = 100.0 * k
        out += [
            (at_s, at_s + 80.0, PhaseName.COMPUTE),
            (at_s + 80.0, at_s + 85.0, PhaseName.IDLE),
            (at_s + 85.0, at_s + 100.0, PhaseName.CHECKPOINT),
        ]
    return [*out, (100.0 * last, 100.0 * last + 50.0, PhaseName.COMPUTE)]


def test_what_is_remembered_grows_by_each_occurrence_once() -> None:
    """Windows that overlap add each checkpoint once, with the stillness before it."""
    past = grown({}, _timeline(0, 3), 1.0)
    past = grown(past, _timeline(1, 5), 1.0)
    past = grown(past, _timeline(1, 5), 1.0)
    np.testing.assert_allclose(past[PhaseName.CHECKPOINT].start_s, 100.0 * np.arange(5) + 80.0)
    np.testing.assert_allclose(past[PhaseName.CHECKPOINT].end_s, 100.0 * np.arange(1, 6))


def test_checkpoints_rarer_than_the_window_are_told_from_memory() -> None:
    """Each window holds one checkpoint; after a few of them the next is foreseen."""
    remembered = grown({}, _timeline(0, 1), 1.0)
    for k in range(1, 6):
        remembered = grown(remembered, [(100.0 * k - 20.0, 100.0 * k, PhaseName.COMPUTE), *_timeline(k, k + 1)], 1.0)
    frame = _frame(650.0)
    found = next_phases(frame, COMPUTE, remembered, 650.0)[PhaseName.CHECKPOINT]
    assert isinstance(found, NextPhase)
    assert found.source == "telemetry"
    assert found.start_s == pytest.approx(680.0, abs=2.0)
    assert found.length_s == pytest.approx(20.0, abs=2.0)


def test_an_evaluation_is_the_silence_less_what_an_iteration_has() -> None:
    """Compute of 6 s and network of 4 s; an evaluation of 20 s before the next compute is 20 s long, not 26."""
    line: list[tuple[float, float, PhaseName]] = []
    at_s = 0.0
    for turn in range(12):
        if turn % 4 == 3:
            line.append((at_s, at_s + 8.0, PhaseName.COMPUTE))
            line.append((at_s + 8.0, at_s + 26.0, PhaseName.EVALUATE))
            at_s += 26.0
        else:
            line.append((at_s, at_s + 6.0, PhaseName.COMPUTE))
            at_s += 6.0
        line.append((at_s, at_s + 4.0, PhaseName.COMMUNICATE))
        at_s += 4.0
    line.append((at_s, at_s + 6.0, PhaseName.COMPUTE))
    found = grown({}, line, 1.0)[PhaseName.EVALUATE]
    np.testing.assert_allclose(found.end_s - found.start_s, 20.0)
    np.testing.assert_allclose(found.start_s, [30.0, 90.0, 150.0])

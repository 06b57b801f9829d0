"""Phases are read from evidence, and say which."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from forecast.predict.phases import phase_now, phase_timeline
from forecast.predict.types import Absence, Period, PhaseName, Why

PERIOD = Period(4.0, 3.99, 4.01, 0.9, 4, 4)
STEP_S = 0.5
COMM = (0.05, 0.35, 30e9, 0.0, 0.0)
WORK = (0.75, 0.9, 0.0, 0.0, 0.0)
LOAD = (0.02, 0.05, 0.0, 8e9, 0.0)
QUIET = (0.0, 0.0, 0.0, 0.0, 0.0)
SAVE = (0.0, 0.0, 0.0, 0.0, 8e9)


def scripted(frames, script, **kwargs):
    """A job whose totals follow (kind, slots) pairs: tensor, SM, fabric, PCIe in, PCIe out."""
    table = np.array([kind for kind, slots in script for _ in range(slots)], np.float64).T
    metrics = (frames.TENSOR, frames.SM, frames.FABRIC, frames.PCIE_IN, frames.PCIE_OUT)
    base = frames.make_job(span_s=table.shape[1] * STEP_S, step_s=STEP_S, **kwargs)
    return replace(base, totals=frames.context(table, STEP_S, metrics))


ITERATION = [(LOAD, 1), (WORK, 4), (COMM, 3)]


def share(frame, start_slot, slots, phase, period=PERIOD):
    """Share of some slots that the timeline gives to a phase."""
    start_s = frame.data_at_s - STEP_S * frame.totals.n_points + STEP_S * start_slot
    middles = start_s + STEP_S * (np.arange(slots) + 0.5)
    found = [next(name for a, b, name in phase_timeline(frame, period) if a <= at < b) for at in middles]
    return found.count(phase) / slots


def test_iterations_are_told_apart(frames):
    """Compute and communicate follow the pipes, most of the time."""
    frame = scripted(frames, ITERATION * 12)
    for k in range(4, 11):
        assert share(frame, 8 * k + 1, 4, PhaseName.COMPUTE) >= 0.75
        assert share(frame, 8 * k + 5, 3, PhaseName.COMMUNICATE) >= 0.66


def test_long_lull_with_writes_is_a_checkpoint(frames):
    """Longer than the rhythm's own lull, with bytes going to the host."""
    frame = scripted(frames, [*ITERATION * 10, (SAVE, 10), *ITERATION * 2])
    assert share(frame, 80 + 3, 6, PhaseName.CHECKPOINT) == 1.0


def test_long_reading_with_idle_pipes_is_loading(frames):
    """Bytes from the host while nothing computes."""
    frame = scripted(frames, [*ITERATION * 10, (LOAD, 10), *ITERATION * 2])
    assert share(frame, 80 + 2, 7, PhaseName.LOAD) >= 0.8


def test_computing_without_network_for_longer_than_an_iteration_is_evaluation(frames):
    """Where every iteration uses the fabric, work without it is not training."""
    frame = scripted(frames, [*ITERATION * 10, (WORK, 24)])
    assert share(frame, 80 + 14, 10, PhaseName.EVALUATE) >= 0.9
    assert share(frame, 80 + 1, 6, PhaseName.COMPUTE) >= 0.8


def test_nothing_at_all_is_idle(frames):
    """A job that stopped working is idle, not checkpointing."""
    frame = scripted(frames, [*ITERATION * 6, (QUIET, 40)])
    now = phase_now(frame, PERIOD, 0.0)
    assert now.phase is PhaseName.IDLE
    assert now.since_s == pytest.approx(frame.data_at_s - 20.0, abs=6.0)


def test_new_job_before_its_first_work_starts_up(frames):
    """Quiet before any work, in a job first seen inside the window."""
    frame = scripted(frames, [(QUIET, 20), *ITERATION * 6], first_seen_s=frames.START_S)
    assert share(frame, 0, 18, PhaseName.INIT) >= 0.9
    old = scripted(frames, [(QUIET, 20), *ITERATION * 6], first_seen_s=frames.START_S - 3600.0)
    assert share(old, 0, 18, PhaseName.INIT) == 0.0


def test_probabilities_sum_to_one_and_evidence_names_its_metrics(frames):
    """Every phase has a chance, and the sentence says what it rests on."""
    now = phase_now(frames.make_job(), PERIOD, 0.1)
    assert set(now.probabilities) == set(PhaseName)
    assert sum(now.probabilities.values()) == pytest.approx(1.0)
    assert frames.TENSOR in now.evidence
    assert frames.FABRIC in now.evidence
    assert now.since_s <= frames.make_job().data_at_s


def test_age_is_carried_forward_along_the_rhythm(frames):
    """With data two seconds old, the phase is the one due two seconds later."""
    frame = scripted(frames, ITERATION * 15 + [(LOAD, 1), (WORK, 4)])
    assert phase_now(frame, PERIOD, 0.0).phase is PhaseName.COMPUTE
    assert phase_now(frame, PERIOD, 1.0).phase is PhaseName.COMMUNICATE


def test_timeline_is_whole_and_in_order(frames):
    """Phases touch each other from the window's start to its end."""
    frame = frames.make_job()
    line = phase_timeline(frame, PERIOD)
    assert line[0][0] == pytest.approx(frame.data_at_s - frame.totals.n_points * STEP_S)
    assert line[-1][1] == pytest.approx(frame.data_at_s)
    assert all(a[1] == b[0] and a[2] is not b[2] for a, b in pairwise(line))
    assert all(type(start) is float and type(end) is float for start, end, _ in line)


def test_past_phases_do_not_depend_on_what_came_later(frames):
    """The filter looks back only: cutting the frame leaves the earlier phases as they were, but for the scale."""
    frame = scripted(frames, ITERATION * 12)
    cut = replace(
        frame,
        data_at_s=frame.data_at_s - 16 * STEP_S,
        totals=replace(frame.totals, values=frame.totals.values[:, :-16]),
    )
    early = [p for p in phase_timeline(frame, PERIOD) if p[1] <= cut.data_at_s - 4.0]
    assert early == phase_timeline(cut, PERIOD)[: len(early)]


def test_job_without_activity_fields_says_which_are_missing(frames):
    """Without engine, SM or tensor readings there is no phase."""
    frame = frames.make_job(missing={frames.TENSOR: "profiling is off on this host"})
    only_fabric = replace(frame, totals=frame.totals.rows(np.array([2])))
    now = phase_now(only_fabric, PERIOD, 0.0)
    assert isinstance(now, Absence)
    assert now.why is Why.MISSING_FIELD
    assert "profiling is off" in now.reason
    assert phase_timeline(only_fabric, PERIOD) == []

"""A job's pace from its own stamps, through checkpoints, restarts, gaps and disorder."""

from __future__ import annotations

import numpy as np
import pytest

from features.store.base import Series
from features.transforms.steps import (
    collective_stamps,
    newest_stretch,
    period_from_series,
    period_from_steps,
    step_stamps,
)
from telemetry.ids import JobId, SeriesKey

AT = 1_767_225_600.0


def stamps(durations_s, first_step: int = 1, at_s: float = AT):
    """Ends of steps, and their numbers."""
    ends = at_s + np.cumsum(durations_s)
    return ends, np.arange(first_step, first_step + ends.size, dtype=np.float64)


def jittered(n: int, period_s: float = 2.0, sigma_s: float = 0.02, seed: int = 1):
    return np.random.default_rng(seed).normal(period_s, sigma_s, n)


def test_an_even_pace_is_told_exactly():
    period_s, low_s, high_s, n = period_from_steps(*stamps(np.full(50, 0.25)))
    assert period_s == pytest.approx(0.25)
    assert low_s < 0.25 < high_s < 0.2501
    assert n == 49


def test_the_interval_holds_the_truth_nine_times_of_ten():
    """Over many jobs; from a normal spread, as the formula supposes."""
    held = 0
    for seed in range(400):
        _, low_s, high_s, _ = period_from_steps(*stamps(jittered(65, seed=seed)))
        held += low_s <= 2.0 <= high_s
    assert 0.84 <= held / 400 <= 0.96


def test_checkpoints_and_slow_steps_move_it_little():
    """Every tenth step takes three times as long."""
    durations_s = jittered(60)
    durations_s[::10] *= 3.0
    period_s, _, _, _ = period_from_steps(*stamps(durations_s))
    assert period_s == pytest.approx(2.0, rel=0.01)


def test_reports_of_every_fifth_step_give_the_pace_of_one():
    at_s, step = stamps(jittered(100))
    period_s, low_s, high_s, n = period_from_steps(at_s[::5], step[::5])
    assert period_s == pytest.approx(2.0, rel=0.01)
    assert (n, low_s < 2.0 < high_s) == (19, True)


def test_after_a_restart_only_the_new_run_counts():
    """The number falls back to the checkpoint; the pace has changed meanwhile."""
    a_s, a = stamps(np.full(40, 2.0))
    b_s, b = stamps(np.full(10, 3.0), first_step=21, at_s=a_s[-1] + 5.0)
    _at_s, step = newest_stretch(np.concatenate([a_s, b_s]), np.concatenate([a, b]))
    assert step.tolist() == list(range(21, 31))
    assert period_from_steps(np.concatenate([a_s, b_s]), np.concatenate([a, b]))[0] == pytest.approx(3.0)


def test_a_long_pause_parts_two_stretches():
    """The job was stopped and went on where it was."""
    a_s, a = stamps(np.full(40, 2.0))
    b_s, b = stamps(np.full(10, 1.0), first_step=41, at_s=a_s[-1] + 600.0)
    assert period_from_steps(np.concatenate([a_s, b_s]), np.concatenate([a, b]))[0] == pytest.approx(1.0)


def test_reports_that_are_missing_are_no_pause():
    """The hook drops reports when its queue is full; the numbers tell how many steps went by."""
    at_s, step = stamps(np.full(60, 2.0))
    keep = np.r_[0:10, 45:60]
    assert period_from_steps(at_s[keep], step[keep])[0] == pytest.approx(2.0)


def test_order_repeats_and_missing_values_do_not_matter():
    at_s, step = stamps(jittered(50))
    straight = period_from_steps(at_s, step)
    dice = np.random.default_rng(3)
    order = dice.permutation(100)
    twice_s, twice = np.tile(at_s, 2)[order], np.tile(step, 2)[order]
    odd_s, odd = np.append(twice_s, [np.nan, AT]), np.append(twice, [5.0, np.nan])
    assert period_from_steps(odd_s, odd) == straight


def test_only_the_newest_steps_count():
    """A pace that changed long ago is over."""
    at_s, step = stamps(np.concatenate([np.full(200, 2.0), np.full(70, 2.5)]))
    assert period_from_steps(at_s, step)[0] == pytest.approx(2.5)


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_too_few_stamps_give_none(n: int):
    assert period_from_steps(*stamps(np.full(n, 1.0))) is None


def test_a_number_that_only_falls_gives_none():
    assert period_from_steps(AT + np.arange(9.0), np.arange(9.0)[::-1]) is None


def test_a_series_is_read_the_same_way():
    at_s, step = stamps(jittered(30))
    series = Series(SeriesKey("job_step_total", "slurm:1"), at_s, step, np.zeros(30, np.uint8))
    assert period_from_series(series) == period_from_steps(at_s, step)


class Reader:
    """What job frames ask of a store, from memory."""

    def __init__(self, *series: Series):
        self.series = {one.key: one for one in series}

    def read(self, keys, as_of_s, window_s):
        return [self.series.get(key, Series.empty(key)) for key in keys]


def held(metric: str, entity: str, at_s, value) -> Series:
    at_s = np.asarray(at_s, float)
    return Series(SeriesKey(metric, entity), at_s, np.asarray(value, float), np.zeros(at_s.size, np.uint8))


def test_a_frame_carries_the_newest_stretch_of_its_own_job():
    job = JobId("slurm", "8123")
    reader = Reader(held("job_step_total", str(job), AT + np.arange(6.0), [7, 8, 9, 3, 4, 5]))
    stamps = step_stamps(reader, job, AT + 9, 60.0)
    assert stamps is not None
    assert stamps.step.tolist() == [3, 4, 5]
    assert step_stamps(reader, JobId("slurm", "8124"), AT + 9, 60.0) is None


def test_collectives_are_merged_in_time():
    first = held("nccl_message_bytes", "dp:0x1:AllReduce", AT + np.array([0.0, 2.0, 4.0]), [1e6, np.nan, 3e6])
    second = held("nccl_message_bytes", "dp:0x1:AllGather", AT + np.array([1.0, 3.0]), [5e6, 6e6])
    other = held("nccl_exec_time_s", "dp:0x1:AllReduce", AT + np.array([0.5]), [0.1])
    stamps = collective_stamps(Reader(first, second, other), [first.key, second.key, other.key], AT + 9, 60.0)
    assert stamps is not None
    assert (stamps.at_s - AT).tolist() == [0.0, 1.0, 3.0, 4.0]
    assert stamps.size_bytes.tolist() == [1e6, 5e6, 6e6, 3e6]


def test_times_at_which_records_were_written_are_no_stamps():
    """Not verbose, the library's records come in heaps, which the reader sets a microsecond apart."""
    at_s = AT + np.repeat(np.arange(5.0), 20) + np.tile(np.arange(20) * 1e-6, 5)
    heaps = held("nccl_message_bytes", "dp:0x1:AllReduce", at_s, np.full(100, 1e6))
    assert collective_stamps(Reader(heaps), [heaps.key], AT + 9, 60.0) is None

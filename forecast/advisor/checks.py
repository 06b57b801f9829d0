"""The checks that every rule must pass; authors of a rule run the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np

from forecast.advisor.types import Advice, Forecasts, Limits, Rule
from forecast.predict.types import (
    Absence,
    Cause,
    DutyCycle,
    JobForecast,
    LinkForecast,
    Period,
    Skill,
    Why,
)
from telemetry.ids import GpuId, JobId, LinkId
from telemetry.jobs import JobView
from telemetry.topology import ClusterSnapshot, Topology

Check = Callable[[], None]
NOW_S = 1_767_225_600.0
NOTHING = Absence(Why.NO_DATA, "not part of this check")


def yield_checks(rule: Rule) -> Iterator[tuple[str, Check]]:
    """Every check as (name, callable); a broken law raises AssertionError with a sentence."""
    for check in (
        check_empty_in_empty_out,
        check_deterministic,
        check_input_untouched,
        check_reason_on_every_advice,
        check_budget_kept,
        check_untrusted_moves_nothing,
        check_absences_are_no_crash,
    ):
        yield check.__name__.removeprefix("check_"), partial(check, rule)


def sample_collision(*, second_period_s: float = 4.0, lag_s: float = 0.0) -> tuple[ClusterSnapshot, Forecasts]:
    """Two jobs that burst on one link; together when ``lag_s`` is 0."""
    first = _job("1", 4.0, 0.0, gpus=2)
    second = _job("2", second_period_s, lag_s, gpus=1)
    link = LinkForecast(
        link=LinkId("leaf1", "u1", "leaf"),
        made_at_s=NOW_S,
        data_at_s=NOW_S,
        age_s=0.5,
        capacity_bytes_per_s=50e9,
        use_ratio=0.2,
        threshold_ratio=0.9,
        horizon_s=10.0,
        probability=0.97,
        onset_s=NOW_S + 2.0,
        overload_s=2.0,
        causes=(Cause(first.job, 0.5), Cause(second.job, 0.5)),
        path=NOTHING,
        skill=Skill(0.7, 0.8, 0.95, 200),
        reason="made for a check",
        model="jobs",
        mean_use_ratio=0.3,
        above_ratio=0.25,
    )
    views = tuple(_view(job) for job in (first, second))
    snapshot = ClusterSnapshot(NOW_S, views, Topology())
    return snapshot, Forecasts({job.job: job for job in (first, second)}, {link.link: link})


def _job(name: str, period_s: float, lag_s: float, gpus: int) -> JobForecast:
    bins = 16
    mean = np.where(np.arange(bins) < bins // 4, 24e9, 0.2e9)
    circle = DutyCycle(
        "job_fabric_tx_bytes_per_s", period_s, NOW_S - 10 * period_s + lag_s, mean, 0.95 * mean, 1.05 * mean
    )
    return JobForecast(
        job=JobId("slurm", name),
        made_at_s=NOW_S,
        data_at_s=NOW_S,
        age_s=0.5,
        step_s=0.25,
        nodes=(f"n{name}",),
        gpu_count=gpus,
        shared=False,
        period=Period(period_s, period_s - 0.004, period_s + 0.004, 0.9, 4, 4),
        phase=NOTHING,
        next_lull=NOTHING,
        metrics={},
        duty={circle.metric: circle},
    )


def _view(job: JobForecast) -> JobView:
    gpus = tuple(GpuId(job.nodes[0], f"GPU-{n}") for n in range(job.gpu_count))
    return JobView(job.job, job.nodes, gpus, NOW_S - 600.0, NOW_S)


def check_empty_in_empty_out(rule: Rule) -> None:
    """No jobs and no links give no advice."""
    assert rule(ClusterSnapshot(NOW_S, (), Topology()), Forecasts(), Limits()) == [], "advice came out of nothing"


def check_deterministic(rule: Rule) -> None:
    """The same input gives the same advice."""
    snapshot, forecasts = sample_collision()
    assert rule(snapshot, forecasts, Limits()) == rule(snapshot, forecasts, Limits()), "two runs differ"


def check_input_untouched(rule: Rule) -> None:
    """What a rule is given stays what it was."""
    snapshot, forecasts = sample_collision()
    before = deepcopy([job.duty for job in forecasts.jobs.values()])
    keys = list(forecasts.jobs), list(forecasts.links)
    rule(snapshot, forecasts, Limits())
    assert keys == (list(forecasts.jobs), list(forecasts.links)), "the rule changed the forecasts"
    for old, job in zip(before, forecasts.jobs.values(), strict=True):
        for metric, circle in old.items():
            assert np.array_equal(circle.mean, job.duty[metric].mean), "the rule changed a duty cycle"


def check_reason_on_every_advice(rule: Rule) -> None:
    """Every advice has a reason, an id, finite numbers, an ordered effect, and ends after it was made."""
    for situation in (sample_collision(), sample_collision(lag_s=2.0), sample_collision(second_period_s=5.3)):
        for advice in rule(*situation, Limits()):
            _check_advice(advice)


def _check_advice(advice: Advice) -> None:
    assert advice.reason.strip(), f"advice {advice.id} has no reason"
    assert advice.id, "an advice has no id"
    assert advice.expires_at_s > advice.made_at_s, "an advice expires before it is made"
    assert all(np.isfinite(value) for value in advice.numbers.values()), f"a number of {advice.id} is not finite"
    if advice.action:
        assert advice.predicted is not None, "an action predicts no effect"
    if advice.predicted is not None:
        effect = advice.predicted
        assert effect.low <= effect.median <= effect.high, "the predicted interval is not in order"
        assert effect.window_s > 0.0, "the effect is measured over no time"


def check_budget_kept(rule: Rule) -> None:
    """No shift is longer than the limits allow, and no job gets two actions."""
    snapshot, forecasts = sample_collision()
    for share in (0.0, 0.25, 1.0):
        acted = [a for a in rule(snapshot, forecasts, Limits(max_shift_periods=share)) if a.action]
        assert len({a.job for a in acted}) == len(acted), "a job gets two actions"
        for advice in acted:
            offset_s = advice.action.get("offset_s", 0.0)
            assert not isinstance(offset_s, str), "an offset is a number of seconds"
            assert offset_s <= share * 4.0 + 1e-6, f"an offset of {offset_s} s is above {share} periods"


def check_untrusted_moves_nothing(rule: Rule) -> None:
    """Low skill, low probability or old data move nothing."""
    snapshot, forecasts = sample_collision()
    key, link = next(iter(forecasts.links.items()))
    unskilled = replace(link, skill=Skill(0.0, None, None, 200))
    for worse in (unskilled, replace(link, skill=None), replace(link, probability=0.1), replace(link, age_s=900.0)):
        advice = rule(snapshot, Forecasts(forecasts.jobs, {key: worse}), Limits())
        assert not [a for a in advice if a.action], (
            f"an untrusted forecast moved a job: {worse.skill}, {worse.probability}"
        )


def check_absences_are_no_crash(rule: Rule) -> None:
    """A rule lives with absences in every place."""
    snapshot, forecasts = sample_collision()
    bare = {key: replace(job, period=NOTHING, duty={}) for key, job in forecasts.jobs.items()}
    for advice in rule(snapshot, Forecasts(bare, forecasts.links), Limits()):
        assert not advice.action, "a job without a period was moved"
    stale = {key: replace(link, probability=NOTHING, skill=None) for key, link in forecasts.links.items()}
    rule(snapshot, Forecasts({}, stale), Limits())
    rule(snapshot, Forecasts(forecasts.jobs, {}), Limits())
    rule(snapshot, Forecasts({}, forecasts.links), Limits())

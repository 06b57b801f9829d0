"""Whether a link's foreseen congestion is two jobs that could be turned apart, and if not, why not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from forecast.advisor.superposition import (
    Member,
    Superposition,
    closeness,
    mean_overload,
    offsets,
    overload_scenarios,
    reachable_threshold,
)
from forecast.advisor.types import Forecasts, Limits
from forecast.predict.types import Absence, Cause, LinkForecast
from telemetry.topology import ClusterSnapshot

FABRIC = "job_fabric_tx_bytes_per_s"
SAME_PERIOD = 0.03
"""Periods within 3 % of a small-integer ratio keep their places for as long as an effect is measured."""
RATIOS = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))
"""(turns of the first, turns of the second) that fit on one circle."""
TURNS_MEASURED = 6
"""An effect is measured over this many turns of the common circle ..."""
LEAST_WINDOW_S, MOST_WINDOW_S = 20.0, 120.0
"""... but not over less, nor over more."""
MIN_EXPLAINED = 0.3
"""Two circles that explain less than this share of the measured overload are not its cause."""
MIN_FILLED = 0.7
"""Circles that add up to less than this share of a full link are not read as a blurred full link."""
MIN_CUT = 0.5
"""An offset must cut the overload by this share to be worth a pause."""
ROOM_WEIGHT = 0.02
"""How much the room between bursts counts beside overload when offsets are compared."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a link is left alone.

    Args:
        code: one word, stable over repeats.
        sentence: with the numbers.
        numbers: those numbers.
    """

    code: str
    sentence: str
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class ShiftPlan:
    """An offset that turns two jobs apart.

    Args:
        pair: who is moved against whom.
        offset_s: how long the moved job pauses once.
        baseline: share of samples above the threshold lately.
        modelled: share of time above by the circles as they are now.
        low: 10 % quantile of the share with the offset.
        median: 50 %.
        high: 90 %.
        circle_s: length of the common circle.
    """

    pair: Superposition
    offset_s: float
    baseline: float
    modelled: float
    low: float
    median: float
    high: float
    circle_s: float


def congested(link: LinkForecast, limits: Limits) -> bool:
    """Whether the forecast is high enough to think about."""
    return isinstance(link.probability, float) and link.probability >= limits.min_probability


def untrusted(link: LinkForecast, limits: Limits) -> Obstacle | None:
    """Why this forecast must move nothing, or None when it may."""
    if link.age_s > limits.max_age_s:
        return Obstacle(
            "stale",
            f"the data of {link.link} is {link.age_s:.0f} s old, above {limits.max_age_s:.0f} s",
            {"age_s": link.age_s},
        )
    if link.skill is None:
        return Obstacle("unscored", f"the forecast of {link.link} could not be scored yet")
    if link.skill.skill < limits.min_skill:
        return Obstacle(
            "low_skill",
            f"the forecast of {link.link} has skill {link.skill.skill:.2f} over {link.skill.scored} pairs, below {limits.min_skill:.2f}",
            {"skill": link.skill.skill},
        )
    return None


def plan_shift(
    link: LinkForecast, snapshot: ClusterSnapshot, forecasts: Forecasts, limits: Limits
) -> ShiftPlan | Obstacle:
    """The best offset for the two largest causes of a congested link, or what stands in the way."""
    obstacle = untrusted(link, limits)
    if obstacle is not None:
        return obstacle
    members = _members(link, forecasts, limits)
    if isinstance(members, Obstacle):
        return members
    ratio = common_turns(members[0].period.period_s, members[1].period.period_s)
    if ratio is None:
        first, second = (m.period.period_s for m in members)
        return Obstacle(
            "incompatible_periods",
            f"{members[0].job.job} repeats every {first:.3g} s and {members[1].job.job} every {second:.3g} s: no offset keeps them apart",
            {"first_period_s": first, "second_period_s": second},
        )
    circle_s = ratio[0] * members[0].period.period_s
    plans = [_best(link, moved, other, circle_s, limits) for moved, other in (members, members[::-1])]
    good = [plan for plan in plans if isinstance(plan, ShiftPlan)]
    if not good:
        return next(plan for plan in plans if isinstance(plan, Obstacle))
    return min(good, key=lambda plan: _cost(plan, snapshot))


def common_turns(first_s: float, second_s: float) -> tuple[int, int] | None:
    """Turns of each on their common circle, None when their periods do not fit a small one."""
    for a, b in RATIOS:
        if abs(a * first_s - b * second_s) <= SAME_PERIOD * min(a * first_s, b * second_s):
            return a, b
    return None


def _members(link: LinkForecast, forecasts: Forecasts, limits: Limits) -> tuple[Member, Member] | Obstacle:
    """The two largest causes as circles on this link."""
    if len(link.causes) < 2:
        names = ", ".join(str(cause.job) for cause in link.causes) or "no known job"
        return Obstacle("one_cause", f"{link.link} is filled by {names}; there is no second job to turn against")
    first, second = (_member(link, cause, forecasts, limits) for cause in link.causes[:2])
    if isinstance(first, Obstacle):
        return first
    if isinstance(second, Obstacle):
        return second
    return first, second


def _member(link: LinkForecast, cause: Cause, forecasts: Forecasts, limits: Limits) -> Member | Obstacle:
    job = forecasts.jobs.get(cause.job)
    if job is None:
        return Obstacle(
            "job_unknown", f"there is no forecast of {cause.job}, which fills {cause.share_ratio:.0%} of {link.link}"
        )
    if job.age_s > limits.max_age_s:
        return Obstacle("stale", f"the data of {cause.job} is {job.age_s:.0f} s old", {"age_s": job.age_s})
    if isinstance(job.period, Absence):
        return Obstacle("no_period", f"{cause.job} has no known period: {job.period.reason}")
    circle = job.duty.get(FABRIC)
    if circle is None or float(circle.mean.mean()) <= 0.0 or link.mean_use_ratio is None:
        return Obstacle("no_fabric", f"the use of the fabric by {cause.job} around its iteration is unknown")
    weight = cause.share_ratio * link.mean_use_ratio / float(circle.mean.mean())
    return Member(job, job.period, circle, weight)


def _best(link: LinkForecast, moved: Member, other: Member, circle_s: float, limits: Limits) -> ShiftPlan | Obstacle:
    """The best offset of one of the two jobs."""
    shares = sum(cause.share_ratio for cause in link.causes[:2])
    pair = Superposition(
        moved=moved,
        other=other,
        background_ratio=max(0.0, 1.0 - shares) * float(link.mean_use_ratio or 0.0),
        threshold_ratio=limits.threshold_ratio,
        start_s=max(link.data_at_s, moved.job.data_at_s),
        window_s=float(np.clip(TURNS_MEASURED * circle_s, LEAST_WINDOW_S, MOST_WINDOW_S)),
    )
    baseline = link.above_ratio or 0.0
    passed = reachable_threshold(pair) if baseline > 0.0 else limits.threshold_ratio
    if passed >= MIN_FILLED * limits.threshold_ratio:
        pair = replace(pair, threshold_ratio=passed)
    modelled = float(mean_overload(pair, np.zeros(1))[0])
    if modelled < MIN_EXPLAINED * baseline or modelled <= 0.0:
        return Obstacle(
            "unexplained",
            f"{moved.job.job} and {other.job.job} together explain {modelled:.1%} of time above {limits.threshold_ratio:.2f} on {link.link}, measured {baseline:.1%}",
            {"modelled": modelled, "baseline": baseline},
        )
    tried = offsets(moved.period.period_s, limits.max_shift_periods)
    if tried.size == 0:
        return Obstacle(
            "no_room", f"no shift of {moved.job.job} is allowed: the limit is {limits.max_shift_periods:g} periods"
        )
    cost = mean_overload(pair, tried) + ROOM_WEIGHT * closeness(pair, tried)
    offset_s = float(tried[int(np.argmin(cost))])
    low, median, high = (float(q) for q in np.quantile(overload_scenarios(pair, offset_s), (0.1, 0.5, 0.9)))
    if median > (1.0 - MIN_CUT) * max(modelled, baseline):
        return Obstacle(
            "no_gain",
            f"the best offset of {moved.job.job}, {offset_s:.2f} s, would still leave {median:.1%} of time above, against {baseline:.1%} lately",
            {"offset_s": offset_s, "median": median, "baseline": baseline},
        )
    return ShiftPlan(pair, offset_s, baseline, modelled, low, median, high, circle_s)


def _cost(plan: ShiftPlan, snapshot: ClusterSnapshot) -> tuple[float, float, str]:
    """What moving this job costs: GPU seconds of the pause, then the later start, then the name."""
    moved = plan.pair.moved.job
    seen = {view.job: view.first_seen_s for view in snapshot.jobs}
    gpu_seconds = round(moved.gpu_count * plan.offset_s, 1)
    return gpu_seconds, -seen.get(moved.job, 0.0), str(moved.job)

"""Shift: pause one of two jobs once, so that their bursts on a link no longer meet."""

from __future__ import annotations

from forecast.advisor.collisions import ShiftPlan, congested, plan_shift
from forecast.advisor.identity import advice_id
from forecast.advisor.types import Advice, Effect, Forecasts, Limits
from forecast.predict.types import LinkForecast
from telemetry.topology import ClusterSnapshot

KIND = "shift"
METRIC = "link_overload_ratio"


def shift(snapshot: ClusterSnapshot, forecasts: Forecasts, limits: Limits) -> list[Advice]:
    """One advice per congested link on which an offset parts the two largest causes."""
    out = []
    for _, link in sorted(forecasts.links.items(), key=lambda item: str(item[0])):
        if congested(link, limits):
            plan = plan_shift(link, snapshot, forecasts, limits)
            if isinstance(plan, ShiftPlan):
                out.append(_advice(link, plan, snapshot, limits))
    return out


def _advice(link: LinkForecast, plan: ShiftPlan, snapshot: ClusterSnapshot, limits: Limits) -> Advice:
    moved = plan.pair.moved
    period_s = moved.period.period_s
    numbers = _numbers(link, plan)
    # The eighth of a period: an offset that moves less than that over repeats is the same advice.
    eighths = round(8 * plan.offset_s / period_s)
    return Advice(
        id=advice_id(KIND, moved.job.job, link.link, f"{eighths}/8"),
        kind=KIND,
        job=moved.job.job,
        link=link.link,
        action={"offset_s": round(plan.offset_s, 3), "against": str(plan.pair.other.job.job)},
        reason=_reason(link, plan),
        numbers=numbers,
        predicted=Effect(METRIC, plan.baseline, plan.low, plan.median, plan.high, plan.pair.window_s),
        made_at_s=snapshot.at_s,
        expires_at_s=snapshot.at_s + min(limits.valid_s, _keeps_s(plan)),
        inverse={"offset_s": round(period_s - plan.offset_s, 3), "against": str(plan.pair.other.job.job)},
    )


def _drift_s_per_turn(plan: ShiftPlan) -> float:
    """How far the two jobs move against each other in one turn of their common circle."""
    moved, other = plan.pair.moved.period.period_s, plan.pair.other.period.period_s
    turns = max(1, round(plan.circle_s / moved)), max(1, round(plan.circle_s / other))
    return abs(turns[0] * moved - turns[1] * other)


def _keeps_s(plan: ShiftPlan) -> float:
    """How long the offset stays right to an eighth of a period, should the periods really differ as found."""
    drift = _drift_s_per_turn(plan)
    periods = plan.pair.moved.period, plan.pair.other.period
    unsure = sum(period.high_s - period.low_s for period in periods)
    if drift <= unsure:
        return float("inf")
    return plan.pair.moved.period.period_s / 8 / drift * plan.circle_s


def _numbers(link: LinkForecast, plan: ShiftPlan) -> dict[str, float]:
    moved, other = plan.pair.moved, plan.pair.other
    probability = link.probability if isinstance(link.probability, float) else 0.0
    return {
        "probability": probability,
        "skill": link.skill.skill if link.skill else 0.0,
        "age_s": link.age_s,
        "share_moved": link.causes[0 if link.causes[0].job == moved.job.job else 1].share_ratio,
        "share_other": link.causes[1 if link.causes[0].job == moved.job.job else 0].share_ratio,
        "period_moved_s": moved.period.period_s,
        "period_other_s": other.period.period_s,
        "circle_s": plan.circle_s,
        "offset_s": plan.offset_s,
        "cost_gpu_s": moved.job.gpu_count * plan.offset_s,
        "overload_modelled": plan.modelled,
        "threshold_modelled": plan.pair.threshold_ratio,
        "drift_s_per_turn": _drift_s_per_turn(plan),
    }


def _reason(link: LinkForecast, plan: ShiftPlan) -> str:
    moved, other, n = plan.pair.moved, plan.pair.other, _numbers(link, plan)
    shared = "; it shares GPUs, so its figures are estimates" if moved.job.shared or other.job.shared else ""
    return (
        f"{link.link} will pass {link.threshold_ratio:.2f} of capacity with a chance of {n['probability']:.0%} (skill {n['skill']:.2f}); "
        f"{moved.job.job} ({n['share_moved']:.0%}, every {moved.period.period_s:.3g} s) and {other.job.job} ({n['share_other']:.0%}, every "
        f"{other.period.period_s:.3g} s) burst together there. Pausing {moved.job.job} once for {plan.offset_s:.2f} s, which costs "
        f"{n['cost_gpu_s']:.0f} GPU seconds, turns them apart: time above falls from {plan.baseline:.1%} to {plan.median:.1%} "
        f"({plan.low:.1%} to {plan.high:.1%}){shared}"
    )

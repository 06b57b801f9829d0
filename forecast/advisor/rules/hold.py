"""Hold: change nothing, and say why."""

from __future__ import annotations

from forecast.advisor.collisions import Obstacle, congested, plan_shift
from forecast.advisor.identity import advice_id
from forecast.advisor.types import Advice, Forecasts, Limits
from forecast.predict.types import Absence, LinkForecast, Why
from telemetry.ids import LinkId
from telemetry.topology import ClusterSnapshot

KIND = "hold"


def hold(snapshot: ClusterSnapshot, forecasts: Forecasts, limits: Limits) -> list[Advice]:
    """One hold per congested link that nothing can be done about, or one about the whole cluster.

    Nothing foreseen at all gives nothing.
    """
    if not forecasts.jobs and not forecasts.links:
        return []
    links = [forecasts.links[key] for key in sorted(forecasts.links, key=str)]
    hot = [link for link in links if congested(link, limits)]
    if not hot:
        return [_hold(None, _calm(links, limits), snapshot, limits)]
    out = []
    for link in hot:
        obstacle = plan_shift(link, snapshot, forecasts, limits)
        if isinstance(obstacle, Obstacle):
            out.append(_hold(link, obstacle, snapshot, limits))
    return out


def _calm(links: list[LinkForecast], limits: Limits) -> Obstacle:
    """Why the whole cluster is left alone."""
    if not links:
        return Obstacle(
            "no_links", "no port counters are collected, so no congestion can be foreseen and nothing is moved"
        )
    absent = [link.probability for link in links if isinstance(link.probability, Absence)]
    for why in (Why.STALE, Why.PARTIAL, Why.MODEL_ERROR):
        found = [absence for absence in absent if absence.why is why]
        if found:
            numbers = {"links": float(len(links)), "without": float(len(found))}
            return Obstacle(
                why.value, f"{len(found)} of {len(links)} links have no forecast: {found[0].reason}", numbers
            )
    if len(absent) == len(links):
        return Obstacle(absent[0].why.value, f"none of {len(links)} links has a forecast: {absent[0].reason}")
    chances = [(link.probability, str(link.link)) for link in links if isinstance(link.probability, float)]
    top, name = max(chances)
    return Obstacle(
        "calm",
        f"no link is likely to pass {limits.threshold_ratio:.2f} of capacity: the highest chance is {top:.0%} on {name}, below {limits.min_probability:.0%}",
        {"probability": top, "links": float(len(links)), "without": float(len(absent))},
    )


def _hold(link: LinkForecast | None, obstacle: Obstacle, snapshot: ClusterSnapshot, limits: Limits) -> Advice:
    about: LinkId | None = link.link if link else None
    return Advice(
        id=advice_id(KIND, None, about, obstacle.code),
        kind=KIND,
        job=None,
        link=about,
        action={},
        reason=f"hold: {obstacle.sentence}",
        numbers=obstacle.numbers,
        predicted=None,
        made_at_s=snapshot.at_s,
        expires_at_s=snapshot.at_s + limits.valid_s,
    )

"""From forecasts to advice: propose, reconcile, constrain. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forecast.advisor.grade import effect_window_s
from forecast.advisor.registry import BUILTIN
from forecast.advisor.types import Advice, Forecasts, Limits, Rule
from telemetry.topology import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Applied:
    """An advice that was carried out and is still showing its effect.

    Args:
        advice: which.
        at_s: when, Unix seconds.
    """

    advice: Advice
    at_s: float

    @property
    def settled_at_s(self) -> float:
        """When its effect has been measured: the way to the end of the iteration, the pause, the predicted window."""
        return effect_window_s(self.advice, self.at_s)[1]


@dataclass(frozen=True, slots=True)
class AdviceRound:
    """One round of advising.

    Args:
        advice: what may be said, actions first.
        dropped: proposals left out, each with the reason.
        errors: rule -> what it failed with; its proposals are missing from this round.
    """

    advice: tuple[Advice, ...] = ()
    dropped: tuple[tuple[Advice, str], ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)


def advise(
    snapshot: ClusterSnapshot,
    forecasts: Forecasts,
    limits: Limits,
    *,
    rules: Mapping[str, Rule] | None = None,
    standing: Sequence[Advice] = (),
    applied: Sequence[Applied] = (),
) -> list[Advice]:
    """What to do, or a reasoned nothing; see ``advise_round`` for what was left out."""
    return list(advise_round(snapshot, forecasts, limits, rules=rules, standing=standing, applied=applied).advice)


def advise_round(
    snapshot: ClusterSnapshot,
    forecasts: Forecasts,
    limits: Limits,
    *,
    rules: Mapping[str, Rule] | None = None,
    standing: Sequence[Advice] = (),
    applied: Sequence[Applied] = (),
) -> AdviceRound:
    """One round of advising.

    Args:
        snapshot: the cluster now; its ``at_s`` is the time of the round.
        forecasts: everything foreseen.
        limits: what must be respected.
        rules: by name; the built-in ones by default.
        standing: open advice of earlier rounds: a proposal for the same link gives way to it until it expires.
        applied: advice carried out: its job and link are left alone until the effect is measured.
    """
    proposals, errors = propose(snapshot, forecasts, limits, BUILTIN if rules is None else rules)
    kept, doubled = reconcile(proposals, standing, snapshot.at_s)
    allowed, refused = constrain(kept, limits, snapshot, applied, forecasts)
    return AdviceRound(tuple(allowed), (*doubled, *refused), errors)


def propose(
    snapshot: ClusterSnapshot, forecasts: Forecasts, limits: Limits, rules: Mapping[str, Rule]
) -> tuple[list[Advice], dict[str, str]]:
    """What every rule says; a rule that fails is named and the others go on."""
    proposals: list[Advice] = []
    errors: dict[str, str] = {}
    for name, rule in rules.items():
        try:
            proposed = list(rule(snapshot, forecasts, limits))
            strange = next((one for one in proposed if not isinstance(one, Advice)), None)
            if strange is not None:
                raise TypeError(f"it proposes {type(strange).__name__}, not Advice")
            proposals.extend(proposed)
        except Exception as error:  # a third party's rule may fail in any way
            errors[name] = f"rule {name} failed: {type(error).__name__}: {error}"
    return proposals, errors


def reconcile(
    proposals: Sequence[Advice], standing: Sequence[Advice], now_s: float
) -> tuple[list[Advice], list[tuple[Advice, str]]]:
    """At most one advice per job and per link: standing ones first, then the larger predicted gain."""
    kept: list[Advice] = []
    dropped: list[tuple[Advice, str]] = []
    jobs: dict[str, str] = {}
    links: dict[str, str] = {}
    alive = [old for old in standing if old.expires_at_s > now_s and old.kind != "hold"]
    still = {old.id for old in alive}
    for advice in sorted(proposals, key=lambda a: (a.id not in still, -_gain(a), a.id)):
        owner = next((old for old in alive if _same_place(old, advice) and old.id != advice.id), None)
        clash = next((jobs[job] for job in sorted(_touched(advice)) if job in jobs), None)
        clash = clash or (links.get(str(advice.link)) if advice.link else None)
        if owner is not None:
            dropped.append((advice, f"advice {owner.id} about the same link or job is still open"))
        elif any(advice.id == other.id for other in kept):
            dropped.append((advice, "proposed twice"))
        elif clash is not None:
            dropped.append((advice, f"advice {clash} already acts on that job or link in this round"))
        else:
            kept.append(advice)
            jobs.update(dict.fromkeys(_touched(advice), advice.id))
            if advice.link:
                links[str(advice.link)] = advice.id
    return kept, dropped


def _same_place(old: Advice, advice: Advice) -> bool:
    """Whether two pieces of advice touch the same link or job."""
    same_link = old.link is not None and str(old.link) == str(advice.link)
    return same_link or bool(_touched(old) & _touched(advice))


def _touched(advice: Advice) -> set[str]:
    """The jobs whose places an advice rests on: the one it moves and the one it is moved against."""
    jobs = {str(advice.job)} if advice.job is not None else set()
    against = advice.action.get("against")
    return jobs | {against} if isinstance(against, str) else jobs


def _gain(advice: Advice) -> float:
    """Predicted fall of the metric; 0 for a hold."""
    return advice.predicted.baseline - advice.predicted.median if advice.predicted else 0.0


def constrain(
    advice: Sequence[Advice],
    limits: Limits,
    snapshot: ClusterSnapshot,
    applied: Sequence[Applied],
    forecasts: Forecasts,
) -> tuple[list[Advice], list[tuple[Advice, str]]]:
    """Only what the limits allow, whichever rule it comes from."""
    kept: list[Advice] = []
    dropped: list[tuple[Advice, str]] = []
    for one in advice:
        refusal = _refusal(one, limits, snapshot, applied, _fillers(one, forecasts))
        if refusal is None:
            kept.append(one)
        else:
            dropped.append((one, refusal))
    return kept, dropped


def _fillers(advice: Advice, forecasts: Forecasts) -> set[str]:
    """The two jobs that fill the link an advice is about: both ends of one cable have the same ones."""
    link = forecasts.links.get(advice.link) if advice.link is not None else None
    return {str(cause.job) for cause in link.causes[:2]} if link is not None else set()


def _refusal(
    advice: Advice, limits: Limits, snapshot: ClusterSnapshot, applied: Sequence[Applied], fillers: set[str]
) -> str | None:
    """Why an advice may not go out, or None."""
    if not advice.reason:
        return "it gives no reason"
    if advice.expires_at_s <= snapshot.at_s:
        return "it has expired"
    unsettled = [a for a in applied if a.settled_at_s > snapshot.at_s]
    busy = next((a for a in unsettled if _same_place(a.advice, advice) or _touched(a.advice) & fillers), None)
    if busy is not None:
        return f"the effect of {busy.advice.id} is still being measured"
    if not advice.action:
        return None
    numbers = advice.numbers
    if numbers.get("probability", 1.0) < limits.min_probability:
        return f"its probability {numbers['probability']:.2f} is below {limits.min_probability:.2f}"
    if numbers.get("skill", 1.0) < limits.min_skill:
        return f"its skill {numbers['skill']:.2f} is below {limits.min_skill:.2f}"
    if numbers.get("age_s", 0.0) > limits.max_age_s:
        return f"its data is {numbers['age_s']:.0f} s old"
    offset_s, period_s = advice.action.get("offset_s"), numbers.get("period_moved_s")
    if isinstance(offset_s, float) and period_s is not None and offset_s > limits.max_shift_periods * period_s:
        return f"its offset of {offset_s:.2f} s is above {limits.max_shift_periods:g} periods"
    return None

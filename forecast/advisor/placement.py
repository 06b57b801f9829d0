"""Which topology domain a gang of pods goes to: the nearest that holds all of them, with the least room left over. Pure.

A domain that is full or too small never decides anything, wherever it is in the order; a limit that cannot be kept
places nothing at all; what is placed already pulls the rest to it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from forecast.advisor.domains import Domain
from telemetry.errors import AdviceError

MAX_DEPTH = 20
"""Most tiers below the whole; topologies have up to 16."""


@dataclass(frozen=True, slots=True)
class Request:
    """A gang: all of its pods are placed, or none.

    Args:
        pods: how many in all, those placed already among them.
        per_pod: what each needs, in ``unit``.
        unit: of ``free`` and ``per_pod``, for sentences.
        required: level that one domain of which must hold all; empty for no limit.
        preferred: level at which the search starts to prefer; at or below ``required``. The nearest domain that holds all
            is taken in any case, so this only has to be valid.
        placed: smallest domain -> pods that run there already; ``free`` is without them.
    """

    pods: int
    per_pod: float = 1.0
    unit: str = "pods"
    required: str = ""
    preferred: str = ""
    placed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the pods go.

    Args:
        pods: smallest domain -> pods in all, those placed already among them.
        ancestor: the lowest domain that holds all of them.
        level: its level.
        free: every smallest domain that has something left -> how much, in the request's unit; those used are listed too.
        reason: a sentence with the numbers.
    """

    pods: Mapping[str, int]
    ancestor: str
    level: str
    free: Mapping[str, float]
    reason: str


@dataclass(frozen=True, slots=True)
class NoPlacement:
    """Nothing is placed, and why.

    Args:
        reason: a sentence with the numbers.
        needed: what one domain must have free, in the request's unit.
        largest: the most that one has.
    """

    reason: str
    needed: float
    largest: float


def place(root: Domain, request: Request) -> Placement | NoPlacement:
    """The nearest domain that holds the whole gang; among equally near ones that with the least room, then by name.

    Raises:
        AdviceError: the request or the tree contradicts itself.
    """
    tiers = _tiers(root)
    _check(tiers, request)
    room = _Room(root, request)
    levels = list(tiers)
    allowed = levels[: levels.index(request.required) + 1] if request.required else levels
    for level in allowed:
        fitting = [domain for domain in tiers[level] if room.pods(domain) >= request.pods and room.holds_placed(domain)]
        if fitting:
            best = min(fitting, key=lambda domain: (room.pods(domain), room.free(domain), domain.name))
            return _placed(root, best, request, room)
    return _refused(allowed[-1], tiers[allowed[-1]], request, room)


class _Room:
    """How many pods each domain can hold, those placed already among them."""

    def __init__(self, root: Domain, request: Request) -> None:
        self._pods: dict[str, int] = {}
        self._free: dict[str, float] = {}
        self._here: dict[str, int] = {}
        self._all_placed = sum(request.placed.values())
        self._fill(root, request)

    def _fill(self, domain: Domain, request: Request) -> None:
        for child in domain.children:
            self._fill(child, request)
        if domain.children:
            names = [child.name for child in domain.children]
            self._pods[domain.name] = sum(self._pods[name] for name in names)
            self._free[domain.name] = sum(self._free[name] for name in names)
            self._here[domain.name] = sum(self._here[name] for name in names)
            return
        # Unknown room holds nothing: a guess here would break the gang's promise.
        free = domain.free if math.isfinite(domain.free) and domain.free > 0.0 else 0.0
        here = request.placed.get(domain.name, 0)
        self._here[domain.name] = here
        self._free[domain.name] = free
        self._pods[domain.name] = here + math.floor(free / request.per_pod + 1e-9)

    def pods(self, domain: Domain) -> int:
        """How many pods it holds in all."""
        return self._pods[domain.name]

    def free(self, domain: Domain) -> float:
        """What is free in it."""
        return self._free[domain.name]

    def here(self, domain: Domain) -> int:
        """Pods of the gang that run in it already."""
        return self._here[domain.name]

    def holds_placed(self, domain: Domain) -> bool:
        """Whether everything that is placed already is inside."""
        return self.here(domain) == self._all_placed


def _tiers(root: Domain) -> dict[str, list[Domain]]:
    """Level -> its domains, the nearest level first: a level is above those that any of its domains holds."""
    heights: dict[str, int] = {}
    domains: dict[str, list[Domain]] = {}
    seen: set[str] = set()

    def climb(domain: Domain, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise AdviceError(f"the topology is deeper than {MAX_DEPTH} tiers at {domain.name}")
        if domain.name in seen:
            raise AdviceError(f"the topology has two domains called {domain.name}")
        seen.add(domain.name)
        height = 1 + max([climb(child, depth + 1) for child in domain.children], default=-1)
        heights[domain.level] = max(height, heights.get(domain.level, 0))
        domains.setdefault(domain.level, []).append(domain)
        return height

    climb(root, 0)
    return {level: domains[level] for level in sorted(domains, key=lambda level: heights[level])}


def _check(tiers: Mapping[str, list[Domain]], request: Request) -> None:
    if request.pods < 1 or not request.per_pod > 0.0:
        raise AdviceError(f"a request for {request.pods} pods of {request.per_pod:g} {request.unit} asks for nothing")
    if sum(request.placed.values()) > request.pods:
        raise AdviceError(
            f"{sum(request.placed.values())} pods are placed already, more than the {request.pods} asked for"
        )
    smallest = {domain.name for tier in tiers.values() for domain in tier if not domain.children}
    lost = sorted(set(request.placed) - smallest)
    if lost:
        raise AdviceError(f"a pod is placed on {lost[0]}, which the topology does not know")
    levels = list(tiers)
    for level in (request.required, request.preferred):
        if level and level not in levels:
            raise AdviceError(f"there is no level {level!r}", mend=f"Known: {', '.join(levels)}")
    if request.required and request.preferred and levels.index(request.preferred) > levels.index(request.required):
        raise AdviceError(
            f"the preferred level {request.preferred!r} is wider than the required level {request.required!r}",
            mend="Prefer the same level or a nearer one",
        )


def _placed(root: Domain, best: Domain, request: Request, room: _Room) -> Placement:
    pods = {name: count for name, count in request.placed.items() if count}
    _share(best, request.pods - sum(pods.values()), pods, room)
    taken = {name: count - request.placed.get(name, 0) for name, count in pods.items()}
    free = {
        leaf.name: room.free(leaf) - taken.get(leaf.name, 0) * request.per_pod
        for leaf in root.leaves()
        if room.free(leaf) > 0.0 or leaf.name in pods
    }
    where = ", ".join(f"{count} on {name}" for name, count in sorted(pods.items()))
    reason = f"{_gang(request)} fit into the {best.level} {best.name}: {where}"
    return Placement(dict(sorted(pods.items())), best.name, best.level, free, reason)


def _share(domain: Domain, count: int, pods: dict[str, int], room: _Room) -> None:
    """Put ``count`` more pods into as few children as hold them: beside those placed, then the tightest that holds all."""
    if count <= 0:
        return
    if not domain.children:
        pods[domain.name] = pods.get(domain.name, 0) + count
        return
    spare = {child.name: room.pods(child) - room.here(child) for child in domain.children}
    able = [child for child in domain.children if spare[child.name] > 0]
    for group in ([c for c in able if room.here(c)], [c for c in able if not room.here(c)]):
        # Tightest last name first, so that the widest of the first name is at the end.
        order = sorted(sorted(group, key=lambda c: c.name, reverse=True), key=lambda c: spare[c.name])
        while count and order:
            child = _next(order, count, spare)
            take = min(count, spare[child.name])
            _share(child, take, pods, room)
            count -= take


def _next(order: list[Domain], count: int, spare: Mapping[str, int]) -> Domain:
    """The tightest that holds ``count``, else the widest; taken out of ``order``, which is sorted by room."""
    if spare[order[-1].name] < count:
        return order.pop()
    first = bisect_left(order, count, key=lambda domain: spare[domain.name])
    same = bisect_right(order, spare[order[first].name], key=lambda domain: spare[domain.name])
    return order.pop(same - 1)


def _refused(level: str, domains: list[Domain], request: Request, room: _Room) -> NoPlacement:
    needed = request.pods * request.per_pod
    inside = [domain for domain in domains if room.holds_placed(domain)]
    best = max(inside or domains, key=lambda domain: (room.pods(domain), room.free(domain)))
    largest = room.free(best) + room.here(best) * request.per_pod
    reason = f"{_gang(request)} need one {level} domain with {needed:g} {_free_unit(request)}, largest has {largest:g}"
    if largest >= needed:
        reason += f", in pieces that hold {room.pods(best)} pods"
    if request.placed and not inside:
        reason = f"the pods placed already are not inside one {level} domain, so no {level} domain can hold all"
    return NoPlacement(reason, needed, largest)


def _gang(request: Request) -> str:
    if request.unit == "pods" and request.per_pod == 1.0:
        return f"{request.pods} pods"
    return f"{request.pods} pods x {request.per_pod:g} {request.unit}"


def _free_unit(request: Request) -> str:
    return "free pods" if request.unit == "pods" else request.unit

"""Laws of placing a gang, on any tree."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.advisor.domains import Domain
from forecast.advisor.placement import NoPlacement, Placement, Request, place

frees = st.integers(0, 5)
racks = st.lists(st.lists(frees, min_size=1, max_size=4), min_size=1, max_size=4)
blocks = st.lists(racks, min_size=1, max_size=3)


def _tree(shape: list[list[list[int]]]) -> Domain:
    numbers = count()

    def host(free: int) -> Domain:
        return Domain(f"h{next(numbers)}", "host", free=float(free))

    def inner(level: str, children: list[Domain]) -> Domain:
        return Domain(f"{level}{next(numbers)}", level, tuple(children))

    return inner(
        "cluster",
        [inner("block", [inner("rack", [host(free) for free in rack]) for rack in block]) for block in shape],
    )


def _all(domain: Domain) -> list[Domain]:
    return [domain, *(below for child in domain.children for below in _all(child))]


@settings(deadline=None, max_examples=300)
@given(blocks, st.integers(1, 30), st.sampled_from(["", "host", "rack", "block", "cluster"]))
def test_a_gang_is_placed_whole_and_as_near_as_it_fits(shape: list[list[list[int]]], pods: int, level: str) -> None:
    """All pods or none; never more than is free; no nearer level and no tighter domain of that level would hold all."""
    tree = _tree(shape)
    free = {leaf.name: leaf.free for leaf in tree.leaves()}
    answer = place(tree, Request(pods, required=level))
    levels = ["host", "rack", "block", "cluster"]
    allowed = levels[: levels.index(level) + 1] if level else levels
    room = {domain.name: sum(leaf.free for leaf in domain.leaves()) for domain in _all(tree)}
    holding = [domain for domain in _all(tree) if domain.level in allowed and room[domain.name] >= pods]
    if isinstance(answer, NoPlacement):
        assert not holding
        assert answer.largest == max(room[d.name] for d in _all(tree) if d.level == allowed[-1])
        return
    assert isinstance(answer, Placement)
    assert sum(answer.pods.values()) == pods
    assert all(0 < taken <= free[host] for host, taken in answer.pods.items())
    assert all(answer.free[host] == free[host] - taken for host, taken in answer.pods.items())
    nearest = min(holding, key=lambda domain: (levels.index(domain.level), room[domain.name]))
    assert (answer.level, room[answer.ancestor]) == (nearest.level, room[nearest.name])


@settings(deadline=None, max_examples=200)
@given(blocks, st.integers(1, 10), st.data())
def test_what_is_placed_stays(shape: list[list[list[int]]], pods: int, data: st.DataObject) -> None:
    """Pods that run already are in the answer, and the ancestor is above them."""
    tree = _tree(shape)
    host = data.draw(st.sampled_from([leaf.name for leaf in tree.leaves()]))
    answer = place(tree, Request(pods, placed={host: 1}))
    if isinstance(answer, Placement):
        (ancestor,) = [domain for domain in _all(tree) if domain.name == answer.ancestor]
        assert answer.pods[host] >= 1
        assert set(answer.pods) <= {leaf.name for leaf in ancestor.leaves()}
        assert sum(answer.pods.values()) == pods

"""Choosing a topology domain for a gang."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from forecast.advisor.domains import Domain, domains_of
from forecast.advisor.placement import NoPlacement, Placement, Request, place
from telemetry.errors import AdviceError
from telemetry.topology import Topology


def _racks(**free: float) -> Domain:
    return Domain("cluster", "cluster", tuple(Domain(name, "rack", free=pods) for name, pods in free.items()))


def _hypernodes(problem: dict[str, Any], free: dict[str, float]) -> Domain:
    """The tree of a problem with nodes and hypernodes."""
    told = problem["hypernodes"]
    inner = {child for node in told.values() for child in node.get("children", ())}

    def built(name: str) -> Domain:
        body = told[name]
        inside = [built(child) for child in body.get("children", ())]
        inside += [Domain(node, "node", free=free[node]) for node in body.get("nodes", ())]
        return Domain(name, f"tier-{body['tier']}", tuple(inside))

    (root,) = [name for name in told if name not in inner]
    return built(root)


@pytest.fixture(scope="module")
def problems(shared_dir: Path) -> dict[str, Any]:
    return json.loads((shared_dir / "cases/16-placement-domain-choice/problems.json").read_text())


@pytest.mark.shared
def test_the_smallest_domain_that_holds_all_is_taken(problems: dict[str, Any]) -> None:
    """Neither a domain that is too small nor a larger one is chosen."""
    problem = problems["p1_least_free"]
    racks = _racks(**{name: body["free_pods"] for name, body in problem["domains"].items()})
    answer = place(racks, Request(problem["request"]["pods"], required=problem["request"]["level"]))
    assert isinstance(answer, Placement)
    assert (answer.pods, answer.ancestor, answer.level) == ({"rack-2": 2}, "rack-2", "rack")
    assert answer.free["rack-2"] == 0.0


@pytest.mark.shared
def test_a_full_domain_that_comes_first_decides_nothing(problems: dict[str, Any]) -> None:
    """Without a limit the gang spreads over what has room, and a full rack is left out."""
    problem = problems["p2_zero_capacity_first"]
    racks = _racks(**{name: body["free_pods"] for name, body in problem["domains"].items()})
    answer = place(racks, Request(problem["request"]["pods"]))
    assert isinstance(answer, Placement)
    assert answer.pods == {"rack-2": 1, "rack-3": 2}
    assert (answer.ancestor, answer.level) == ("cluster", "cluster")
    assert sum(answer.free.values()) == 0.0


@pytest.mark.shared
def test_what_runs_already_pulls_the_rest_to_it(problems: dict[str, Any]) -> None:
    """A soft limit takes the nearest common ancestor, not domain after domain."""
    problem = problems["p3_soft_tree"]
    placed = dict.fromkeys(problem["request"]["already_placed"].values(), 1)
    free = {node: problem["pods_per_node"] - placed.get(node, 0) for node in problem["nodes"]}
    answer = place(_hypernodes(problem, free), Request(problem["request"]["pods"], placed=placed))
    assert isinstance(answer, Placement)
    assert answer.pods == {"n1": 1, "n2": 1, "n3": 1, "n4": 1}
    assert (answer.ancestor, answer.level) == ("s3", "tier-2")
    assert {name for name, left in answer.free.items() if left} == {"n5", "n6"}


@pytest.mark.shared
def test_a_limit_that_cannot_be_kept_places_nothing(problems: dict[str, Any]) -> None:
    """The reason has the figures."""
    problem = problems["p4_hard_impossible"]
    free = dict.fromkeys(problem["nodes"], problem["cpus_per_node"])
    asked = problem["request"]
    level = f"tier-{asked['highest_tier_allowed']}"
    request = Request(asked["pods"], asked["cpus_per_pod"], "CPUs", required=level)
    answer = place(_hypernodes(problem, free), request)
    assert isinstance(answer, NoPlacement)
    assert answer.reason == "2 pods x 2 CPUs need one tier-1 domain with 4 CPUs, largest has 2"
    assert (answer.needed, answer.largest) == (4, 2)


@pytest.mark.shared
def test_required_and_preferred_may_be_one_level(problems: dict[str, Any]) -> None:
    """The only rack that holds all is found, though its block comes last."""
    problem = problems["p5_required_eq_preferred"]
    blocks = tuple(
        Domain(block, "block", tuple(Domain(rack, "rack", free=body["free_pods"]) for rack, body in racks.items()))
        for block, racks in problem["domains"].items()
    )
    asked = problem["request"]
    request = Request(asked["pods"], required=asked["level"], preferred=asked["preferred_level"])
    answer = place(Domain("cluster", "cluster", blocks), request)
    assert isinstance(answer, Placement)
    assert (answer.pods, answer.ancestor, answer.level) == ({"rack-3": 4}, "rack-3", "rack")
    assert answer.free["rack-3"] == 0.0
    assert answer.free["rack-1"] == 3.0


def test_room_in_pieces_too_small_for_a_pod_is_no_room() -> None:
    """Two hosts with one free CPU each hold no pod of two CPUs, and the reason says why."""
    hosts = tuple(Domain(name, "host", free=1.0) for name in "ab")
    answer = place(Domain("rack", "rack", hosts), Request(1, 2.0, "CPUs"))
    assert isinstance(answer, NoPlacement)
    assert "in pieces that hold 0 pods" in answer.reason


def test_unknown_room_holds_nothing() -> None:
    """A host whose free room is unknown is never filled."""
    answer = place(_racks(a=math.nan, b=2.0), Request(2))
    assert isinstance(answer, Placement)
    assert answer.pods == {"b": 2}


def test_pods_that_run_in_two_racks_cannot_be_in_one() -> None:
    """A required level that is broken already is refused with that reason."""
    answer = place(_racks(a=4.0, b=4.0), Request(3, required="rack", placed={"a": 1, "b": 1}))
    assert isinstance(answer, NoPlacement)
    assert "placed already" in answer.reason


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (Request(0), "asks for nothing"),
        (Request(1, required="row"), "no level 'row'"),
        (Request(1, placed={"z": 1}), "placed on z"),
        (Request(1, placed={"a": 2}), "more than the 1"),
        (Request(1, required="rack", preferred="cluster"), "wider than"),
    ],
)
def test_a_request_that_contradicts_itself_is_named(request_: Request, word: str) -> None:
    """Nothing is placed by a wrong question."""
    with pytest.raises(AdviceError, match=word):
        place(_racks(a=1.0), request_)


def test_two_domains_of_one_name_are_refused() -> None:
    """Answers name domains, so names must be unique."""
    with pytest.raises(AdviceError, match="two domains called a"):
        place(Domain("x", "x", (Domain("a", "rack"), Domain("a", "rack"))), Request(1))


def test_a_topology_becomes_a_tree() -> None:
    """Hosts stand under their leaf; one without a known leaf stands under the whole."""
    paths = {"h1": ("l1", "s1"), "h2": ("l1", "s1"), "h3": ("l2", "s1"), "h4": ()}
    tree = domains_of(Topology(paths=paths), dict.fromkeys(paths, 1.0))
    answer = place(tree, Request(2))
    assert isinstance(answer, Placement)
    assert (answer.pods, answer.ancestor, answer.level) == ({"h1": 1, "h2": 1}, "l1", "leaf")
    wider = place(tree, Request(3))
    assert isinstance(wider, Placement)
    assert (wider.ancestor, wider.level) == ("s1", "tier 1")
    assert isinstance(place(tree, Request(4)), Placement)

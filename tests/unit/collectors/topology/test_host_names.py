"""Short and full names of hosts are one, where nothing else could be meant."""

from __future__ import annotations

from collectors.topology.host_names import as_named
from telemetry.ids import LinkId
from telemetry.machine import Machine
from telemetry.topology import Link, Topology

TOLD = Topology(
    leaf_of={"n1": "leaf", "n2": "leaf"},
    links=(Link(LinkId("n1:mlx5_0", "1", "nic"), "n1"),),
    paths={"n1": ("leaf", "spine")},
    domain_of={"rack": {"n1": "r1"}},
    machines={"n1": Machine("n1")},
    said_by={"switches above n1": ("a",)},
)


def test_everything_about_a_host_gets_the_name_that_telemetry_has() -> None:
    """Also its NICs and what was said of it."""
    found = as_named(TOLD, ["n1.site.example", "n7"])
    full = "n1.site.example"
    assert found.leaf_of == {full: "leaf", "n2": "leaf"}
    assert [(str(link.id), link.a) for link in found.links] == [(f"{full}:mlx5_0:1", full)]
    assert found.paths == {full: ("leaf", "spine")}
    assert found.domain_of == {"rack": {full: "r1"}}
    assert found.machines[full].host == full
    assert found.said_by == {f"switches above {full}": ("a",)}


def test_full_names_in_the_file_and_short_ones_in_telemetry() -> None:
    """The other way round too."""
    told = Topology(leaf_of={"n1.site.example": "leaf"})
    assert as_named(told, ["n1"]).leaf_of == {"n1": "leaf"}


def test_two_hosts_of_one_short_name_are_left_alone() -> None:
    """On either side; nothing tells them apart."""
    assert as_named(TOLD, ["n1.east", "n1.west"]) is TOLD
    told = Topology(leaf_of={"n1.east": "leaf", "n1.west": "leaf"})
    assert as_named(told, ["n1"]) is told

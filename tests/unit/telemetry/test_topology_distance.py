"""Distances between hosts and devices, and what a host's inside tells."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from telemetry.distance import Distance, Reach
from telemetry.ids import LinkId
from telemetry.machine import Device, Machine, MigSlice, pair
from telemetry.topology import Link, Topology


def _machine(host: str, ways: dict[tuple[str, str], Distance], gpus: int = 4, product: str = "") -> Machine:
    devices = [Device(f"GPU{i}", "gpu", uuid=f"GPU-{i}") for i in range(gpus)]
    devices += [Device(f"mlx5_{i}", "nic") for i in range(2)]
    return Machine(host, tuple(devices), {pair(*names): way for names, way in ways.items()}, product=product)


@pytest.fixture
def topology() -> Topology:
    """Two leaves under one spine, a third elsewhere, a host whose leaf is unknown, and one NVLink domain."""
    paths: dict[str, tuple[str | None, ...]] = {
        "a": ("leaf1", "spine1"),
        "b": ("leaf1", "spine1"),
        "c": ("leaf2", "spine1"),
        "d": ("leaf9", "spine9"),
        "e": (None, "spine1"),
        "f": ("leaf7",),
    }
    inside = _machine("a", {("GPU0", "GPU1"): Distance(Reach.NVLINK, 12), ("GPU0", "mlx5_0"): Distance(Reach.PIX)})
    return Topology(
        leaf_of={host: path[0] for host, path in paths.items() if path[0]},
        paths=paths,
        domain_of={"nvlink": {"a": "nvl", "d": "nvl"}, "block": {"b": "b1", "c": "b1"}},
        machines={"a": inside},
    )


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("a", "a", "SELF"),
        ("a:GPU0", "a:GPU1", "NV12"),
        ("a:GPU-0", "a:GPU1", "NV12"),
        ("a:GPU0", "a:mlx5_0", "PIX"),
        ("a:GPU0", "d:GPU3", "NVLINK_DOMAIN (nvl)"),
        ("b", "c", "SAME_BLOCK (b1)"),
        ("a", "b", "SAME_LEAF (leaf1)"),
        ("a:GPU0", "c", "SAME_SPINE (spine1)"),
        ("b", "d", "FAR"),
    ],
)
def test_the_nearest_thing_in_common_is_the_distance(topology: Topology, a: str, b: str, expected: str) -> None:
    """Both ways round."""
    assert expected == str(topology.distance(a, b)) == str(topology.distance(b, a))


@pytest.mark.parametrize(
    ("a", "b"),
    [("a:GPU0", "a:GPU2"), ("a:GPU0", "a:GPU9"), ("b:GPU0", "b:GPU1"), ("b", "e"), ("b", "nosuch"), ("a:GPU0", "a")],
)
def test_unknown_is_none_and_never_far(topology: Topology, a: str, b: str) -> None:
    """A pair that no source tells of has no distance."""
    assert topology.distance(a, b) is None


def test_hosts_that_no_source_tells_of_together_are_not_far() -> None:
    """Two vocabularies may name one switch twice."""
    paths = {"a": ("x",), "b": ("y",)}
    apart = Topology(paths=paths, said_by={"switches above a": ("slurm",), "switches above b": ("aws",)})
    together = Topology(paths=paths, said_by=dict.fromkeys(("switches above a", "switches above b"), ("slurm",)))
    assert apart.distance("a", "b") is None
    assert together.distance("a", "b") == Distance(Reach.FAR)


def _cabled() -> Topology:
    """Two hosts with two rails each, and leaves that share their spines."""
    links = [
        Link(LinkId(f"{host}:mlx5_{rail}", "1", "nic"), host, f"leaf{rail}") for host in ("a", "b") for rail in (0, 1)
    ]
    links += [
        Link(LinkId(f"leaf{rail}", spine, "leaf"), f"leaf{rail}", spine) for rail in (0, 1) for spine in ("s1", "s2")
    ]
    links += [Link(LinkId("leaf9", "1", "leaf"), "leaf9", "c"), Link(LinkId("leaf8", "1", "leaf"), "leaf8", "s1")]
    return Topology({"a": "leaf0", "b": "leaf0", "c": "leaf9", "d": "leaf8"}, tuple(links))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("a:mlx5_0", "b:mlx5_0", "SAME_LEAF (leaf0)"),
        ("a:mlx5_0", "b:mlx5_1", "SAME_SPINE (s1, s2)"),
        ("a", "d", "SAME_SPINE (s1)"),
        ("a", "c", "FAR"),
        ("a", "b", "SAME_LEAF (leaf0)"),
    ],
)
def test_cables_tell_what_switches_share(a: str, b: str, expected: str) -> None:
    """A NIC stands under its own rail's switch, whatever leaf its host is booked under."""
    assert expected == str(_cabled().distance(a, b)) == str(_cabled().distance(b, a))


def test_a_topology_that_was_asked_is_still_the_same() -> None:
    """Also over a process boundary."""
    asked = _cabled()
    asked.distance("a:mlx5_0", "b:mlx5_1")
    assert asked == _cabled() == pickle.loads(pickle.dumps(asked))
    assert replace(asked, links=()).rails() == {}


def test_near_comes_before_far() -> None:
    """NV# > PIX > PXB > PHB > NODE > SYS, then leaf, spine, far."""
    words = [
        "SELF",
        "NVLINK",
        "NVLINK_DOMAIN",
        "PIX",
        "PXB",
        "PHB",
        "NODE",
        "SYS",
        "SAME_BLOCK",
        "SAME_LEAF",
        "SAME_SPINE",
        "FAR",
    ]
    assert words == [reach.name for reach in sorted(Reach)]


def test_nvlink_sets_cross_hosts_and_leave_lonely_gpus_out(topology: Topology) -> None:
    """A host in a rack-scale domain gives all of its GPUs, or itself where they are not named."""
    assert topology.nvlink_sets() == (frozenset({"a:GPU0", "a:GPU1", "a:GPU2", "a:GPU3", "d"}),)
    alone = Topology(machines={"a": topology.machines["a"]})
    assert alone.nvlink_sets() == (frozenset({"a:GPU0", "a:GPU1"}),)


def test_nvlink_speed_needs_links_and_generation() -> None:
    """NV# alone says nothing of the bandwidth."""
    ways = {("GPU0", "GPU1"): Distance(Reach.NVLINK, 18), ("GPU1", "GPU2"): Distance(Reach.SYS)}
    assert _machine("h", ways, product="NVIDIA H100 80GB HBM3").nvlink_bytes_per_s("GPU0", "GPU1") == 450e9
    assert _machine("h", ways, product="NVIDIA-GB200").nvlink_bytes_per_s("GPU0", "GPU1") == 900e9
    assert _machine("h", ways).nvlink_bytes_per_s("GPU0", "GPU1") is None
    assert _machine("h", ways, product="NVIDIA-GB200").nvlink_bytes_per_s("GPU1", "GPU2") is None


def test_the_nearest_gpus_are_found_also_in_a_large_host() -> None:
    """Two islands of sixteen: the answer never mixes them."""
    ways = {
        (f"GPU{a}", f"GPU{b}"): Distance(Reach.NVLINK, 4) if a % 2 == b % 2 else Distance(Reach.SYS)
        for a in range(32)
        for b in range(a)
    }
    chosen = _machine("h", ways, 32).nearest_gpus(16)
    assert len(chosen) == 16
    assert {int(name[3:]) % 2 for name in chosen} in ({0}, {1})
    assert _machine("h", ways, 32).nearest_gpus(2, among=("GPU1", "GPU2", "GPU4")) == ("GPU2", "GPU4")


def test_too_few_gpus_or_an_unknown_way_give_no_set() -> None:
    """Nothing is chosen on a guess."""
    assert _machine("h", {}).nearest_gpus(2) == ()
    assert _machine("h", {}).nearest_gpus(9) == ()
    assert _machine("h", {}).nearest_gpus(0) == ()


def test_a_slice_is_read_from_its_profile() -> None:
    """Also with a compute instance in front or an engine behind; no profile, no number."""
    assert MigSlice("GPU0", "3g.20gb").compute_slices == 3
    assert MigSlice("GPU0", "1c.3g.20gb").compute_slices == 3
    assert MigSlice("GPU0", "1g.10gb+me").memory_bytes == 10 * 2.0**30
    assert MigSlice("GPU0", "odd").compute_slices is None
    assert MigSlice("GPU0", "odd").memory_bytes is None

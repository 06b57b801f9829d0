"""Slurm's tree and blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.topology.read import SourceText, read_source
from collectors.topology.reading import Reading
from telemetry.errors import BadReply


def _read(text: str) -> Reading:
    return read_source(SourceText(text.encode(), "t"))


def test_a_tree_names_the_switches_above_each_host() -> None:
    """Case of the keys, quotes, comments and a backslash at the end of a line do not matter."""
    reading = _read(
        'switchname=core SWITCHES="l[1-2]" # top\nSwitchName=l1 \\\n Nodes=g[1-2]\nSwitchName=l2 Nodes=g3\n'
    )
    assert reading.topology.paths == {"g1": ("l1", "core"), "g2": ("l1", "core"), "g3": ("l2", "core")}
    assert reading.topology.leaf_of == {"g1": "l1", "g2": "l1", "g3": "l2"}
    assert reading.findings == ()


def test_scontrol_lists_hosts_at_every_level_and_only_leaves_count() -> None:
    """A spine's host list is the sum of its leaves'."""
    reading = _read(
        "SwitchName=l1 Level=0 LinkSpeed=4 Nodes=g[1-2]\nSwitchName=s1 Level=1 LinkSpeed=8 Nodes=g[1-2] Switches=l1\n"
    )
    assert reading.topology.paths == {"g1": ("l1", "s1"), "g2": ("l1", "s1")}
    assert reading.findings == ()


def test_a_host_under_two_leaves_is_a_conflict() -> None:
    """The first line is used, and both are shown."""
    (conflict,) = _read("SwitchName=l1 Nodes=g1\nSwitchName=l2 Nodes=g1\n").topology.conflicts
    assert (conflict.subject, conflict.what, conflict.kept) == ("g1", "leaf switch", "l1")
    assert [value for _, value in conflict.says] == ["l1", "l2"]


def test_a_real_name_in_a_comment_is_an_alias() -> None:
    """Topograph writes it; a comment about no switch is none."""
    text = "# l1=leaf-1-1\n# zz=leaf-9\n# BlockSizes=3\nSwitchName=l1 Nodes=g1\n"
    assert _read(text).topology.aliases == {"leaf-1-1": "l1"}


def test_a_ring_of_switches_without_hosts_does_not_hang() -> None:
    """No host stands under it, so it harms nothing."""
    reading = _read("SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=l Nodes=g1\n")
    assert reading.topology.paths == {"g1": ("l",)}


def test_a_ring_above_a_host_is_refused() -> None:
    """No path is made up."""
    with pytest.raises(BadReply, match="above each other"):
        _read("SwitchName=a Switches=b,l\nSwitchName=b Switches=a\nSwitchName=l Nodes=g1\n")


def test_what_is_broken_is_named_and_the_rest_is_read() -> None:
    """Host lists, switches told twice, children without a line, roots without a link."""
    reading = _read("SwitchName=l1 Nodes=g[1\nSwitchName=l2 Nodes=g2\nSwitchName=l2 Nodes=g9\nSwitchName=l3 Nodes=g3\n")
    assert sorted(reading.topology.leaf_of) == ["g2", "g3"]
    details = " ".join(finding.detail for finding in reading.findings)
    assert "open bracket" in details
    assert "'l2' is told twice" in details
    assert "does not say what connects 2 switches" in reading.topology.unknowns[0]


def test_blocks_and_their_sizes() -> None:
    """A block below the base size and a size that is no power of two times the base are said."""
    reading = _read("BlockName=b1 Nodes=g[1-4]\nBlockName=b2 Nodes=g[5-6]\nBlockSizes=4,12\n")
    assert reading.topology.domains("block") == {
        "b1": frozenset({"g1", "g2", "g3", "g4"}),
        "b2": frozenset({"g5", "g6"}),
    }
    details = [finding.detail for finding in reading.findings]
    assert any("b2 has 2 hosts" in detail for detail in details)
    assert any("12 is no power of two" in detail for detail in details)


def test_a_host_in_two_blocks_is_a_conflict() -> None:
    """As with leaves."""
    (conflict,) = _read("BlockName=b1 Nodes=g1\nBlockName=b2 Nodes=g1\n").topology.conflicts
    assert (conflict.subject, conflict.what, conflict.kept) == ("g1", "block", "b1")


def test_yaml_takes_the_default_of_each_kind() -> None:
    """Other trees, empty rings and topologies of two kinds are said."""
    reading = _read(
        "- topology: one\n  tree: {switches: [{switch: l9, nodes: g1}]}\n"
        "- topology: two\n  cluster_default: true\n  tree:\n    switches:\n"
        "    - switch: 'no'\n      nodes: '001,g[2-3]'\n"
        "- topology: r\n  ring: {rings: []}\n- topology: f\n  flat: true\n- topology: odd\n  flat: true\n  tree: {}\n"
    )
    assert reading.topology.leaf_of == {"001": "no", "g2": "no", "g3": "no"}
    assert any("also has the tree one" in sentence for sentence in reading.topology.unknowns)
    assert any("names no ring" in finding.detail for finding in reading.findings)
    assert any("exactly one kind" in finding.detail for finding in reading.findings)


@pytest.mark.parametrize(
    "text",
    [
        "- topology: f\n  flat: true\n",
        "- topology: t\n  tree: [\n",
        "- topology: t\n  tree: " + "[" * 5000,
        "- topology: t\n  tree: !!python/object/apply:os.system [x]\n",
    ],
)
def test_yaml_without_a_topology_is_refused(text: str) -> None:
    """Never executed, never a crash."""
    with pytest.raises(BadReply):
        _read(text)


@pytest.mark.shared
def test_the_samples(shared_dir: Path) -> None:
    """Tree, blocks, YAML, and what scontrol printed on a cluster."""

    def read(path: str) -> Reading:
        return read_source(SourceText((shared_dir / path).read_bytes(), path))

    for name in ("slurm_topology_tree.conf", "slurm_topology.yaml"):
        tree = read(f"formats/samples/{name}").topology
        assert tree.paths["gpu008"] == ("leaf2", "core")
        assert len(tree.leaf_of) == 7
        assert "gpu007" not in tree.hosts
    assert read("formats/samples/slurm_topology.yaml").topology.domains("block")["b1"] == {
        f"gpu00{i}" for i in (1, 2, 3, 4)
    }
    blocks = read("formats/samples/slurm_topology_block.conf").topology
    assert {18} == {len(hosts) for hosts in blocks.domains("block").values()}
    assert blocks.aliases == {"nvl-rack-1": "block1"}
    live = read("recipes/slurm-samples/topology.txt").topology
    assert live.paths["gpu005"] == ("leaf2", "spine1")
    assert str(live.distance("gpu001", "gpu005")) == "SAME_SPINE (spine1)"
    assert str(live.distance("gpu001", "gpu004")) == "SAME_LEAF (leaf1)"

"""Slurm's rings and tori, Volcano's HyperNodes."""

from __future__ import annotations

import json

import pytest

from collectors.inspect import inspect_source
from collectors.topology.draw import drawn
from collectors.topology.read import SourceText, finished, read_source
from telemetry.errors import BadReply
from telemetry.topology import RING, TORUS

CONF = "# r1=ring-of-row-1\nRingName=r1 Nodes=n[1-3]\nRingName=r2 Nodes=n[3-5]\nRingName=r3\n"
YAML = """
- topology: one
  ring:
    rings:
      - {ring: r1, nodes: "n[1-2]"}
- topology: two
  torus3d:
    toruses:
      - {name: t1, dims: {x: 2, y: 2, z: 2}, nodes: "n[1-8]"}
      - {name: t2, x: 2, y: 2, z: 2, nodes: "m[1-7]"}
      - name: t3
        dims: {x: 4, y: 1, z: 1}
        regions:
          - {nodes: "k[1-2]", anchor: {x: 0, y: 0, z: 0}, dims: {x: 2, y: 1, z: 1}}
          - {nodes: "k[3-4]", anchor: {x: 2, y: 0, z: 0}, dims: {x: 2, y: 1, z: 1}}
"""
HYPERNODES = """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s0}
spec:
  tier: 1
  members:
    - {type: Node, selector: {exactMatch: {name: n0}}}
    - {type: Node, selector: {exactMatch: {name: n1}}}
    - {type: Node, selector: {regexMatch: {pattern: "(a+)+$"}}}
---
kind: HyperNode
metadata: {name: s1}
spec:
  tier: 1
  members:
    - {type: Node, selector: {exactMatch: {name: n2}}}
    - {type: Node, selector: {labelMatch: {matchLabels: {rack: a}}}}
---
kind: HyperNode
metadata: {name: top}
spec:
  tier: 2
  members:
    - {type: HyperNode, selector: {exactMatch: {name: s0}}}
    - {type: HyperNode, selector: {exactMatch: {name: s1}}}
"""


def _read(text: str):
    return read_source(SourceText(text.encode(), "t"))


def test_rings_of_a_conf_file_are_domains():
    """A host of two rings is a conflict, a ring without hosts a finding; the real name of a comment is known."""
    reading = _read(CONF)
    assert reading.topology.domain_of[RING] == {"n1": "r1", "n2": "r1", "n3": "r1", "n4": "r2", "n5": "r2"}
    assert [(one.subject, one.kept) for one in reading.topology.conflicts] == [("n3", "r1")]
    assert reading.topology.aliases == {"ring-of-row-1": "r1"}
    assert len(reading.findings) == 1
    assert "ring" in "\n".join(drawn(finished(reading.topology)))


def test_rings_and_tori_of_a_yaml_file():
    """Regions add up; dimensions that do not fit the hosts are told."""
    reading = _read(YAML)
    assert set(reading.topology.domain_of[RING].values()) == {"r1"}
    tori = reading.topology.domains(TORUS)
    assert {name: len(hosts) for name, hosts in tori.items()} == {"t1": 8, "t2": 7, "t3": 4}
    assert ["t2" in finding.detail and "ask for 8" in finding.detail for finding in reading.findings] == [True]
    assert any("neighbours" in note for note in reading.topology.unknowns)


@pytest.mark.parametrize("body", ["[]", "true", "{rings: 1}", "{rings: [1, {nodes: n1}]}", "{rings: []}"])
def test_a_ring_without_a_name_is_refused_in_a_sentence(body):
    with pytest.raises(BadReply, match="names no ring"):
        _read(f"- topology: t\n  ring: {body}\n")


def test_hypernodes_make_a_tree():
    """Members by pattern or label are named as unknown; the pattern is not run."""
    topology = _read(HYPERNODES).topology
    assert topology.paths == {"n0": ("s0", "top"), "n1": ("s0", "top"), "n2": ("s1", "top")}
    told = "\n".join(topology.unknowns)
    assert "1 member by a pattern" in told
    assert "1 member by labels" in told


def test_hypernodes_as_the_api_lists_them():
    items = [
        {"metadata": {"name": "s0"}, "spec": {"members": [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]}}
    ]
    text = json.dumps({"kind": "HyperNodeList", "apiVersion": "topology.volcano.sh/v1alpha1", "items": items})
    assert _read(text).topology.leaf_of == {"n": "s0"}
    assert inspect_source(text.encode(), "t").format == "Volcano HyperNodes"


def test_hypernodes_above_each_other_are_refused():
    text = "\n---\n".join(
        f"kind: HyperNode\nmetadata: {{name: {a}}}\nspec: {{members: [{{type: HyperNode, selector: {{exactMatch: {{name: {b}}}}}}},"
        f" {{type: Node, selector: {{exactMatch: {{name: n{a}}}}}}}]}}"
        for a, b in (("x", "y"), ("y", "x"))
    )
    with pytest.raises(BadReply, match="above each other"):
        _read(text)


@pytest.mark.parametrize(
    "spec", ["{}", "{members: 1}", "{members: [1, {}, {selector: 1}, {selector: {exactMatch: 1}}]}"]
)
def test_a_hypernode_of_another_shape_gives_findings(spec):
    """Nothing but findings."""
    reading = _read(f"kind: HyperNode\nmetadata: {{name: s}}\nspec: {spec}\n")
    assert reading.topology.leaf_of == {}

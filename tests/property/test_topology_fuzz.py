"""Topology readers take any bytes: a sentence or a topology, never another exception, never long."""

from __future__ import annotations

import string
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.hostlists import expand_hosts, fold_hosts
from collectors.inspect import inspect_source
from collectors.topology.document import as_document
from collectors.topology.draw import drawn
from collectors.topology.keeper import with_last_good
from collectors.topology.merge import merge
from collectors.topology.read import SourceText, finished, read_source
from telemetry.errors import BadReply, SchemaError
from telemetry.topology import Topology

SEEDS = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNV4\tPIX\t0-3,8\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tPHB\t0-3\t1\t\t2\nNIC0\tPIX\tPHB\t X \n\nNIC Legend:\n\n  NIC0: mlx5_7\n",
    "# l1=leaf-1\nSwitchName=core Switches=l[1-2]\nSwitchName=l1 Nodes=g[001-004]\nSwitchName=l2 Nodes=g[005,008]\n",
    "BlockName=b1 Nodes=g[1-4]\nBlockName=b2 Nodes=g[5-8]\nBlockSizes=4,8\n",
    "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n      - switch: core\n        children: l[1-2]\n"
    "      - switch: l1\n        nodes: g[1-2]\n- topology: b\n  block: {block_sizes: [2], blocks: [{block: b, nodes: g1}]}\n",
    '{"instances": [{"id": "i1", "network_layers": ["l", "s"], "labels": {"accelerator.topograph.run/domain": "n"}}]}',
    '{"items": [{"metadata": {"name": "n1", "labels": {"nvidia.com/gpu.clique": "ab-1.7", "nvidia.com/gpu.count": "8",'
    '"fabric.topograph.run/tier-0": "l", "topology.k8s.aws/network-node-layer-3": "x"}}}]}',
    '<system version="1"><cpu host_hash="0x1" numaid="0" affinity="0000ffff"><pci busid="b"><pci busid="g" '
    'link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90"><nvlink target="s" count="18" tclass="0x068000"/>'
    '</gpu></pci><pci busid="n"><nic><net name="mlx5_0" speed="400000" port="1"/></nic></pci></pci></cpu></system>',
    "GPU 0: NVIDIA A100 (UUID: GPU-11111111-2222)\n  MIG 3g.20gb     Device  0: (UUID: MIG-aaaaaaaa-2222)\n",
    "| GPU instances: |\n| Placement |\n|   0  MIG 3g.20gb          9        2          4:4     |\n",
    "kind: Topology\nspec:\n  levels:\n  - nodeLabel: a/b\n  - nodeLabel: kubernetes.io/hostname\n",
)
HOSTILE = (
    "SwitchName=s Nodes=" + "[" * 50_000,
    "SwitchName=s Nodes=" + "a[1-9]," * 50_000,
    "SwitchName=s Nodes=n" + "[0-99]" * 40,
    "\n".join(f"SwitchName=s{i} Switches=s{i + 1}" for i in range(20_000)) + "\nSwitchName=s20000 Nodes=a",
    "\n".join("SwitchName=s Nodes=n[1-150000]" for _ in range(500)),
    "SwitchName=" + "a=" * 50_000,
    "\\\n" * 100_000 + "SwitchName=a Nodes=b",
    "# a=b\n" * 100_000 + "SwitchName=a Nodes=b",
    "\tGPU0" + "\tGPU1" * 50_000,
    "\t" + "\t".join(f"GPU{i}" for i in range(9_999)),
    "\tGPU0\n" + "GPU0\tX\n" * 50_000,
    " " * 200_000 + "GPU0",
    "  GPU0" + " X" * 100_000,
    "<system>" + "<cpu>" * 100_000,
    "<system>" + '<gpu dev="0"/>' * 50_000,
    '<system a="' + "b" * 200_000 + '"/>',
    "- topology: t\n  tree: " + "[" * 100_000,
    "- topology: t\n  tree: " + "{a: " * 100_000,
    "- topology: &a [" + "*a," * 20_000 + "]",
    "topology:\n" + "- " * 100_000,
    '{"instances": ' + "[" * 900,
    '{"items": [' + "{}," * 100_000 + '{"metadata": {}}]}',
    "GPU 0: " + "x" * 200_000,
    "GPU instances: Placement\n" + "|" + " " * 200_000 + "|",
    "GPU instances: Placement\n" + "|   0  MIG a" + " 1" * 100_000,
    "kind: Topology\n" + "kind: Topology\n" * 10_000,
)


def _tried(data: bytes) -> None:
    """Read, finish, draw and write; the only way out is a sentence."""
    try:
        reading = read_source(SourceText(data, "t", "h"))
    except BadReply:
        return
    topology = finished(merge([reading.topology]))
    assert drawn(topology)
    assert orjson.dumps(as_document(topology))
    for host in topology.hosts[:3]:
        topology.distance(host, topology.hosts[-1])


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    """Read and inspected."""
    _tried(data)
    inspect_source(data, "t")


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(SEEDS), st.data())
def test_sources_that_are_cut_changed_or_doubled(seed: str, data: st.DataObject) -> None:
    """A true source with a piece taken out, repeated or replaced."""
    start = data.draw(st.integers(0, len(seed)))
    end = data.draw(st.integers(start, min(len(seed), start + 40)))
    piece = data.draw(
        st.one_of(
            st.text(max_size=12),
            st.sampled_from(["", "\n", "\t", "[", "]", "{", "&a ", "*a", "=", seed[start:end] * 2]),
        )
    )
    _tried((seed[:start] + piece + seed[end:]).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_sources_end_in_a_sentence_or_a_topology(text: str) -> None:
    """Depth, repeats and lists without end are bounded; the half is cut in the middle of something."""
    _tried(text.encode())
    _tried(text[: len(text) // 2].encode())


names = st.text(string.ascii_lowercase + string.digits + "-_.", min_size=1, max_size=12)


@settings(deadline=None, max_examples=200)
@given(st.sets(names, max_size=30))
def test_folding_and_expanding_give_the_names_back(hosts: set[str]) -> None:
    """Whatever the names, but for the words that mean none."""
    hosts -= {"none", "n/a"}
    assert sorted(expand_hosts(fold_hosts(hosts))) == sorted(hosts)


@settings(deadline=None, max_examples=200)
@given(st.text("n[]0123456789-, ", max_size=40))
def test_any_expression_gives_names_or_a_sentence(text: str) -> None:
    """Nothing else."""
    try:
        hosts = expand_hosts(text)
    except SchemaError:
        return
    assert len(hosts) <= 200_000


switches = st.one_of(st.none(), st.sampled_from("abc"))
topologies = st.dictionaries(
    st.sampled_from(["h1", "h2", "h3", "h4"]), st.lists(switches, max_size=3).map(tuple), max_size=4
).map(lambda paths: Topology({h: p[0] for h, p in paths.items() if p and p[0]}, paths=paths))


@settings(deadline=None, max_examples=200)
@given(st.lists(topologies, max_size=4))
def test_merging_keeps_the_first_word_and_loses_none(parts: list[Topology]) -> None:
    """The first known leaf of each host is used; another one is listed; distances are symmetric; twice is once."""
    parts = [Topology(part.leaf_of, source=f"s{i}", paths=part.paths) for i, part in enumerate(parts)]
    whole = merge(parts)
    for host in ("h1", "h2", "h3", "h4"):
        told = [part.path(host) for part in parts if part.path(host)]
        leaves = [path[0] for path in told if path[0]]
        assert (whole.leaf_of.get(host) is None) == (not leaves)
        assert not leaves or whole.leaf_of[host] == leaves[0]
        assert whole.distance(host, "h1") == whole.distance("h1", host)
    assert merge([whole, whole]).paths == whole.paths


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(SEEDS), max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_a_source_that_fails_changes_nothing_that_was_good(seeds: list[str], fail: list[bool]) -> None:
    """With every source kept, broken ones give the same topology as whole ones."""
    fresh = [SourceText(seed.encode(), f"s{i}", f"h{i}") for i, seed in enumerate(seeds)]
    good, _, kept = with_last_good(fresh, {}, 1.0)
    broken = [SourceText(b"?", text.source, text.host) if bad else text for text, bad in zip(fresh, fail, strict=False)]
    again, states, _ = with_last_good(broken, kept, 2.0)
    assert again == good
    assert [bool(state.error) for state in states] == fail[: len(states)]


@pytest.mark.shared
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_recorded_sources_cut_anywhere(shared_dir: Path, data: st.DataObject) -> None:
    """Every sample, cut at any byte."""
    folder = shared_dir / "formats/samples"
    path = data.draw(st.sampled_from([*sorted(folder.glob("*topo*")), folder / "node_labels.json"]))
    content = path.read_bytes()
    _tried(content[: data.draw(st.integers(0, len(content)))])

"""Node labels of clouds, Topograph and GPU feature discovery; Topograph's graph; levels that a site names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from collectors.topology.keeper import with_last_good
from collectors.topology.node_labels import read_nodes
from collectors.topology.read import SourceText, read_source
from telemetry.errors import BadReply
from telemetry.topology import Topology

CLIQUE = "6f4a4bf1-07a0-4000-8000-0000000000aa"


def _nodes(**labels: dict[str, str]) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": name, "labels": told}} for name, told in labels.items()]}


def _read(**labels: dict[str, str]) -> Topology:
    return read_nodes(_nodes(**labels), "t").topology


@pytest.mark.parametrize(
    ("labels", "path"),
    [
        ({"fabric.topograph.run/tier-0": "l", "fabric.topograph.run/tier-1": "s"}, ("l", "s")),
        (
            {f"network.topology.nvidia.com/{tier}": tier for tier in ("leaf", "spine", "core")},
            ("leaf", "spine", "core"),
        ),
        ({f"topology.k8s.aws/network-node-layer-{n}": f"nn{n}" for n in (1, 2, 3)}, ("nn3", "nn2", "nn1")),
        ({"cloud.google.com/gce-topology-subblock": "sb", "cloud.google.com/gce-topology-block": "b"}, ("sb", "b")),
        ({"oci.oraclecloud.com/host.rack_id": "r", "oci.oraclecloud.com/host.network_block_id": "n"}, ("r", "n")),
        ({"topology.kubernetes.io/zone": "z"}, ()),
        ({"fabric.topograph.run/tier-0": " "}, ()),
        ({}, ()),
    ],
)
def test_labels_name_the_switches_above_a_host(labels: dict[str, str], path: tuple[str, ...]) -> None:
    """Nearest first; a zone is no switch, an empty label is no domain."""
    topology = _read(h=labels)
    assert topology.path("h") == path
    assert topology.hosts == ("h",)


def test_two_hosts_without_a_label_share_nothing() -> None:
    """Missing and empty mean unknown."""
    topology = _read(a={"nvidia.com/gpu.clique": ""}, b={}, c={"topology.k8s.aws/network-node-layer-3": ""})
    assert topology.distance("a", "b") is None
    assert topology.domain_of == {}


def test_a_host_that_lacks_the_nearest_label_is_not_moved_down() -> None:
    """What others call tier 1 is not its leaf."""
    low, high = "fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"
    topology = _read(a={low: "l", high: "s"}, b={high: "s"})
    assert topology.path("b") == (None, "s")
    assert "b" not in topology.leaf_of
    assert topology.distance("a", "b") is None
    assert any("b has no fabric.topograph.run/tier-0" in sentence for sentence in topology.unknowns)


def test_the_whole_clique_is_the_nvlink_domain() -> None:
    """The number alone repeats over racks; the UUID is the rack."""
    other = CLIQUE.replace("aa", "bb")
    topology = _read(
        a={"nvidia.com/gpu.clique": f"{CLIQUE}.32766"},
        b={"nvidia.com/gpu.clique": f"{CLIQUE}.32766"},
        c={"nvidia.com/gpu.clique": f"{CLIQUE}.1"},
        d={"nvidia.com/gpu.clique": f"{other}.32766"},
    )
    assert str(topology.distance("a:GPU0", "b:GPU0")) == f"NVLINK_DOMAIN ({CLIQUE}.32766)"
    assert topology.distance("a", "c") is None
    assert topology.distance("a", "d") is None
    assert topology.domains("rack") == {CLIQUE: frozenset("abc"), other: frozenset("d")}


def test_a_clique_of_another_form_is_unknown() -> None:
    """And is said."""
    reading = read_nodes(_nodes(a={"nvidia.com/gpu.clique": "7"}), "t")
    assert reading.topology.domain_of == {}
    assert "ClusterUUID.CliqueID" in reading.findings[0].detail


def test_two_generations_that_agree_are_no_conflict_and_that_differ_are_one() -> None:
    """Of the leaf, and of the accelerator domain."""
    old, low = "network.topology.nvidia.com/leaf", "fabric.topograph.run/tier-0"
    accelerator, domain = "network.topology.nvidia.com/accelerator", "accelerator.topograph.run/domain"
    same = _read(a={old: "l1", low: "l1", accelerator: "n", domain: "n"})
    assert same.conflicts == ()
    differ = _read(a={old: "l2", low: "l1", accelerator: "m", domain: "n"}, b={old: "l1", low: "l1"})
    assert [(c.subject, c.what, c.kept) for c in differ.conflicts] == [
        ("a", "leaf switch", "l1"),
        ("a", "nvlink domain", "n"),
    ]


def test_gpu_labels() -> None:
    """Count, model and memory of whole GPUs; time slicing leaves the count alone."""
    gpu = {
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": "81559",
    }
    shared = {**gpu, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "4"}
    machines = _read(a=gpu, b=shared).machines
    for host, replicas in (("a", None), ("b", 4)):
        machine = machines[host]
        assert (machine.gpu_count, machine.product, machine.replicas) == (8, "NVIDIA-H100-80GB-HBM3", replicas)
        assert machine.memory_bytes == 81559 * 2.0**20


def test_mig_labels_count_slices() -> None:
    """Under the single strategy count and memory are a slice's, under the mixed one each profile has its own count."""
    single = {
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "nvidia.com/gpu.count": "56",
        "nvidia.com/gpu.memory": "9728",
    }
    mixed = {"nvidia.com/gpu.count": "2", "nvidia.com/mig-3g.40gb.count": "4", "nvidia.com/mig.strategy": "mixed"}
    machines = _read(a=single, b=mixed).machines
    assert (machines["a"].gpu_count, machines["a"].memory_bytes) == (None, None)
    assert [(piece.profile, piece.count) for piece in machines["a"].mig] == [("1g.10gb", 56)]
    assert machines["b"].gpu_count is None
    assert [(piece.profile, piece.count) for piece in machines["b"].mig] == [("3g.40gb", 4)]


@pytest.mark.parametrize("count", ["x", "-1", "9" * 40, "", "８"])
def test_a_count_that_is_no_number_is_unknown(count: str) -> None:
    """Never 0."""
    machine = _read(a={"nvidia.com/gpu.count": count, "nvidia.com/gpu.product": "X"}).machines["a"]
    assert machine.gpu_count is None


def test_levels_of_a_site_come_from_a_kueue_topology() -> None:
    """Highest first there, nearest first here; the host's own level is none."""
    kueue = (
        b"apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata: {name: fabric}\nspec:\n  levels:\n"
        b"  - nodeLabel: site/block\n  - nodeLabel: site/rack\n  - nodeLabel: kubernetes.io/hostname\n"
    )
    nodes = orjson.dumps(_nodes(a={"site/block": "b", "site/rack": "r"}, z={}))
    for order in (1, -1):
        sources = [SourceText(kueue, "k"), SourceText(nodes, "n")][::order]
        topology, states, _ = with_last_good(sources, {}, 0.0)
        assert topology.path("a") == ("r", "b")
        assert [state.error for state in states] == ["", ""]


def test_the_graph_of_topograph() -> None:
    """Layers nearest first; accelerator labels as on nodes; instances without a name are said."""
    graph = {
        "instances": [
            {"id": "i1", "network_layers": ["l", "s"], "labels": {"accelerator.topograph.run/domain": "n"}},
            {"id": "i2", "network_layers": [], "labels": None},
            {"network_layers": ["l"]},
            {"id": "i1", "network_layers": ["other"]},
            7,
        ]
    }
    reading = read_source(SourceText(orjson.dumps(graph), "g"))
    assert reading.topology.path("i1") == ("l", "s")
    assert reading.topology.hosts == ("i1", "i2")
    assert reading.topology.domains("nvlink") == {"n": frozenset({"i1"})}
    assert len(reading.findings) == 3


@pytest.mark.parametrize("document", [{"items": [{"metadata": {}}]}, {"instances": []}, {"kind": "Pod"}, [1], {"a": 1}])
def test_other_json_is_refused(document: Any) -> None:
    """By a sentence."""
    with pytest.raises(BadReply):
        read_source(SourceText(orjson.dumps(document), "t"))


@pytest.mark.shared
def test_the_samples(shared_dir: Path) -> None:
    """Three nodes of three kinds, and one instance of Topograph's."""
    folder = shared_dir / "formats/samples"
    topology = read_source(SourceText((folder / "node_labels.json").read_bytes(), "n")).topology
    assert topology.path("gb-a1") == ("leaf-1", "spine-1")
    assert topology.path("aws-1") == ("nn-low1", "nn-mid1", "nn-top")
    assert topology.path("mig-1") == ()
    assert topology.machines["gb-a1"].gpu_count == 4
    assert topology.machines["mig-1"].gpu_count is None
    assert topology.distance("gb-a1", "aws-1") is None
    graph = read_source(SourceText((folder / "topograph_graph.json").read_bytes(), "g")).topology
    assert graph.path("i-0001") == ("leaf-1", "spine-1", "core-1")
    levels = read_source(SourceText((folder / "kueue_topology.yaml").read_bytes(), "k")).levels
    assert levels == ("example.com/rack", "example.com/block")

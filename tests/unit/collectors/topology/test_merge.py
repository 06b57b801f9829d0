"""Several sources made into one, with what they do not agree on; the last good of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.topology.keeper import packed, unpacked, with_last_good
from collectors.topology.merge import merge
from collectors.topology.read import SourceText, finished
from telemetry.distance import Distance, Reach
from telemetry.errors import BadReply, SourceUnreachable
from telemetry.ids import LinkId
from telemetry.machine import Device, Machine, MigSlice
from telemetry.topology import Link, Topology

MATRIX = b"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-3\nGPU1\tNV4\t X \t0-3\n"


def _part(source: str, **paths: tuple[str | None, ...]) -> Topology:
    return Topology({h: p[0] for h, p in paths.items() if p and p[0]}, source=source, paths=paths)


def test_one_source_alone_is_not_changed() -> None:
    """Besides who said it."""
    part = _part("a", h1=("l1", "s1"), h2=("l2",))
    whole = merge([part])
    assert (whole.leaf_of, whole.paths, whole.source) == (part.leaf_of, part.paths, "a")
    assert whole.said_by == {"switches above h1": ("a",), "switches above h2": ("a",)}
    assert whole.conflicts == ()


def test_a_host_under_two_leaves_is_a_conflict_and_the_first_source_is_used() -> None:
    """Nothing above the switch that differs is taken over."""
    whole = merge([_part("slurm", h1=("l1",), h2=("l2",)), _part("labels", h1=("l2", "s1"), h2=("l2", "s1"))])
    (conflict,) = whole.conflicts
    assert (conflict.subject, conflict.what, conflict.kept) == ("h1", "leaf switch", "l1")
    assert conflict.says == (("slurm", "l1"), ("labels", "l2"))
    assert whole.paths == {"h1": ("l1",), "h2": ("l2", "s1")}
    assert whole.said_by["switches above h1"] == ("slurm", "labels")


def test_many_hosts_in_one_conflict_are_one_line() -> None:
    """Folded into a host list."""
    first = _part("a", **{f"n{i}": ("l1",) for i in range(9)}, x=("l2",))
    second = _part("b", **{f"n{i}": ("l2",) for i in range(9)}, x=("l2",))
    assert [conflict.subject for conflict in merge([first, second]).conflicts] == ["n[0-8]"]


def test_a_conflict_names_the_source_that_said_the_other_thing() -> None:
    """Not every source that was read before."""
    parts = [_part("a", h1=("l1",)), _part("b", h2=("l2",)), _part("c", h2=("l1",))]
    assert merge(parts).conflicts[0].says == (("b", "l2"), ("c", "l1"))


def test_what_one_leaves_open_the_other_fills_in() -> None:
    """Upper tiers, tiers that are not told, other hosts."""
    whole = merge([_part("a", h1=("l1",), h2=(None, "s1")), _part("b", h1=("l1", "s1"), h2=("l2",), h3=("l3",))])
    assert whole.paths == {"h1": ("l1", "s1"), "h2": ("l2", "s1"), "h3": ("l3",)}
    assert whole.leaf_of == {"h1": "l1", "h2": "l2", "h3": "l3"}
    assert whole.conflicts == ()


def test_other_names_for_the_same_groups_are_aliases() -> None:
    """Two vocabularies that put the same hosts together; a host that breaks the pattern is the conflict."""
    slurm = _part("slurm", **{f"n{i}": ("l1" if i < 4 else "l2",) for i in range(8)})
    labels = _part("labels", **{f"n{i}": ("aa" if i < 3 else "bb", "top") for i in range(8)})
    whole = merge([slurm, labels])
    assert whole.aliases == {"aa": "l1", "bb": "l2"}
    assert [(c.subject, c.kept, c.says[1][1]) for c in whole.conflicts] == [("n3", "l1", "l2")]
    assert whole.paths["n0"] == ("l1", "top")


def test_a_single_host_is_no_proof_of_another_name() -> None:
    """Then it is a conflict."""
    assert len(merge([_part("a", h=("l1",)), _part("b", h=("x9",))]).conflicts) == 1


def test_a_name_told_in_a_comment_is_used_either_way_round() -> None:
    """Slurm's file says what its switch is really called."""
    slurm = Topology({"h": "sw"}, source="slurm", paths={"h": ("sw",)}, aliases={"leaf-1": "sw"})
    real = _part("labels", h=("leaf-1", "s"))
    assert merge([slurm, real]).paths == {"h": ("sw", "s")}
    assert merge([real, slurm]).paths == {"h": ("leaf-1", "s")}
    assert merge([slurm, real]).conflicts == merge([real, slurm]).conflicts == ()


def test_domains_conflict_like_switches() -> None:
    """By kind."""
    one = Topology(source="a", domain_of={"nvlink": {"h1": "n1", "h2": "n2"}})
    two = Topology(source="b", domain_of={"nvlink": {"h1": "n2", "h2": "n2"}, "zone": {"h1": "z"}})
    whole = merge([one, two])
    assert [(c.subject, c.what, c.kept) for c in whole.conflicts] == [("h1", "nvlink domain", "n1")]
    assert whole.domain_of == {"nvlink": {"h1": "n1", "h2": "n2"}, "zone": {"h1": "z"}}


def test_links_are_filled_in_and_compared() -> None:
    """Far end and capacity."""
    port = LinkId("h:mlx5_0", "1", "nic")
    told = merge(
        [Topology(links=(Link(port, "h", "l1"),), source="a"), Topology(links=(Link(port, "h", "", 5e10),), source="b")]
    )
    assert told.links == (Link(port, "h", "l1", 5e10),)
    other = Topology(links=(Link(port, "h", "l2", 1e10),), source="c")
    assert [c.what for c in merge([told, other]).conflicts] == ["far end", "capacity in bytes per second"]


def test_a_host_with_a_nic_under_each_of_two_leaves_is_no_conflict() -> None:
    """The cables say that both are right."""
    cables = tuple(Link(LinkId(f"h:mlx5_{i}", "1", "nic"), "h", f"l{i}") for i in (1, 2))
    wiring = Topology({"h": "l1", "g": "l2"}, cables, source="cables")
    assert merge([wiring, _part("slurm", h=("l2",), g=("l2",))]).conflicts == ()
    assert len(merge([wiring, _part("slurm", h=("l3",), g=("l2",))]).conflicts) == 1


def _inside(source: str, way: Distance, **more: object) -> Topology:
    devices = (Device("GPU0", "gpu", numa=(0,)), Device("mlx5_0", "nic"))
    machine = Machine("h", devices, {("GPU0", "mlx5_0"): way}, source=source, **more)  # type: ignore[arg-type]
    return Topology(source=source, machines={"h": machine})


def test_the_inside_of_a_host_is_merged_field_by_field() -> None:
    """Devices, distances, models; PHB and NODE are one way in NCCL's words."""
    smi = _inside("smi", Distance(Reach.NODE))
    nccl = _inside("nccl", Distance(Reach.PHB), product="H100")
    whole = merge([smi, nccl])
    assert whole.machines["h"].product == "H100"
    assert str(whole.machines["h"].distance("GPU0", "mlx5_0")) == "NODE"
    assert whole.conflicts == ()
    (conflict,) = merge([smi, _inside("odd", Distance(Reach.PIX))]).conflicts
    assert (conflict.subject, conflict.what, conflict.kept) == ("h:GPU0-mlx5_0", "distance", "NODE")


def test_labels_that_count_other_gpus_than_the_matrix_are_a_conflict() -> None:
    """Also where only named devices tell the count."""
    labels = Topology(source="labels", machines={"h": Machine("h", gpu_count=8, source="labels")})
    (conflict,) = finished(merge([_inside("smi", Distance(Reach.PIX)), labels])).conflicts
    assert (conflict.subject, conflict.what) == ("h", "number of GPUs")


def test_the_layout_that_tells_more_is_used_and_other_slices_are_a_conflict() -> None:
    """Counts of labels, places of nvidia-smi."""

    def part(source: str, *slices: MigSlice) -> Topology:
        return Topology(source=source, machines={"h": Machine("h", mig=slices, source=source)})

    counted = part("labels", MigSlice("", "1g.10gb", 2))
    placed = part("smi", *(MigSlice("GPU0", "1g.10gb", instance=str(i), start=i, size=1) for i in range(2)))
    whole = merge([counted, placed])
    assert [piece.start for piece in whole.machines["h"].mig] == [0, 1]
    assert whole.conflicts == ()
    assert [c.what for c in merge([counted, part("smi", MigSlice("GPU0", "7g.80gb"))]).conflicts] == ["MIG layout"]


def test_unknowns_are_sentences() -> None:
    """On leaves and insides."""
    whole = finished(merge([_part("a", h1=("l1",), h2=())]))
    assert any("leaf switch of 1 host, such as h2" in sentence for sentence in whole.unknowns)
    assert any("inside of 2 hosts" in sentence for sentence in whole.unknowns)


def test_a_source_that_fails_is_read_as_it_was_and_its_age_is_told() -> None:
    """The last good topology stays; what is kept survives a restart."""
    good = SourceText(MATRIX, "m.txt", "h")
    topology, (state,), kept = with_last_good([good], {}, 100.0)
    assert topology.machines["h"].nvlink_domains == (frozenset({"GPU0", "GPU1"}),)
    assert (state.age_s, state.error) == (0.0, "")
    kept = unpacked(packed(kept), "k")
    bad = SourceText(b"Failed to run topology matrix\n", "m.txt", "h")
    down = (SourceText(b"", "m.txt", "h"), SourceUnreachable("m.txt", "no answer"))
    for item, word in ((bad, "topology is unknown"), (down, "no answer")):
        again, (state,), still = with_last_good([item], kept, 160.0)
        assert again.machines == topology.machines
        assert state.age_s == 60.0
        assert word in state.error
        assert still == kept


def test_a_source_that_never_was_good_leaves_its_part_unknown() -> None:
    """The others are used."""
    bad, tree = SourceText(b"Failed to run topology matrix", "m", "h"), SourceText(b"SwitchName=l Nodes=h", "t")
    topology, states, kept = with_last_good([bad, tree], {}, 0.0)
    assert topology.leaf_of == {"h": "l"}
    assert topology.machines == {}
    assert [state.age_s for state in states] == [None, 0.0]
    assert list(kept) == ["t="]
    assert with_last_good([bad], {}, 0.0)[0].hosts == ()


def test_other_files_are_no_memory(tmp_path: Path) -> None:
    """A sentence names the file."""
    for data in (
        b"",
        b"{}",
        b"[1]",
        b'{"gpucast-topology": 2, "sources": []}',
        b'{"gpucast-topology": 1, "sources": [1]}',
    ):
        with pytest.raises(BadReply, match="kept"):
            unpacked(data, str(tmp_path))

"""The matrix of nvidia-smi topo -m."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from collectors.topology.nvidia_smi_topo import ranges, read_matrix
from collectors.topology.reading import Reading
from telemetry.distance import Reach
from telemetry.errors import BadReply
from telemetry.machine import Machine

SMALL = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV4\tPIX\t0-3,8-11\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tPHB\t0-3,8-11\t\t\tN/A\n"
    "NIC0\tPIX\tPHB\t X \n\nNIC Legend:\n\n  NIC0: mlx5_7\n"
)


def _inside(reading: Reading) -> Machine:
    (machine,) = reading.topology.machines.values()
    return machine


@pytest.fixture(scope="module")
def case(shared_dir: Path) -> Path:
    return shared_dir / "cases/15-topo-matrix-nics"


def _case(case: Path, name: str) -> Machine:
    return _inside(read_matrix((case / name).read_text(), name, "h"))


@pytest.mark.shared
def test_eight_gpus_over_switches_are_one_nvlink_domain(case: Path) -> None:
    """28 pairs NV18, NICs by their real names, PIX only where the matrix says so, N/A unknown."""
    machine = _case(case, "hgx8.txt")
    names = [gpu.name for gpu in machine.gpus]
    assert len(names) == 8
    assert [nic.name for nic in machine.nics] == ["mlx5_0", "mlx5_3", "mlx5_6", "mlx5_9", "mlx5_bond_0"]
    ways = [str(machine.distance(a, b)) for a, b in combinations(names, 2)]
    assert ways == ["NV18"] * 28
    assert machine.nvlink_domains == (frozenset(names),)
    close = {
        (gpu, nic.name)
        for gpu in names
        for nic in machine.nics
        if (way := machine.distance(gpu, nic.name)) is not None and way.reach is Reach.PIX
    }
    assert close == {("GPU0", "mlx5_0"), ("GPU2", "mlx5_3"), ("GPU4", "mlx5_6"), ("GPU6", "mlx5_9")}
    assert [gpu.numa_node for gpu in machine.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {None} == {gpu.gpu_numa for gpu in machine.gpus}
    assert {112} == {gpu.cpu_count for gpu in machine.gpus}
    assert str(machine.distance("GPU1", "mlx5_0")) == "NODE"
    assert str(machine.distance("GPU0", "mlx5_6")) == "SYS"


@pytest.mark.shared
def test_a_bridged_pair_is_the_only_nvlink_domain(case: Path) -> None:
    """Best NIC per GPU, best pair for two."""
    machine = _case(case, "pcie4.txt")
    assert machine.nvlink_domains == (frozenset({"GPU0", "GPU1"}),)
    assert str(machine.distance("GPU0", "GPU1")) == "NV12"
    assert str(machine.distance("GPU2", "GPU3")) == "PXB"
    assert str(machine.distance("GPU1", "GPU2")) == "SYS"
    best = {gpu.name: [(nic.name, str(way)) for nic, way in machine.best_nics(gpu.name)] for gpu in machine.gpus}
    assert best == {
        "GPU0": [("mlx5_0", "PIX")],
        "GPU1": [("mlx5_0", "PXB")],
        "GPU2": [("mlx5_1", "PXB")],
        "GPU3": [("mlx5_1", "PIX")],
    }
    assert machine.nearest_gpus(2) == ("GPU0", "GPU1")


@pytest.mark.shared
def test_a_cut_matrix_is_refused_whole(case: Path) -> None:
    """No partial topology."""
    with pytest.raises(BadReply) as caught:
        _case(case, "truncated.txt")
    assert caught.value.message == "truncated.txt: matrix cut: header names 6 devices, 2 rows found"


@pytest.mark.shared
def test_a_failed_command_leaves_the_topology_unknown(case: Path) -> None:
    """It is not a host without NICs."""
    with pytest.raises(BadReply, match="topology is unknown"):
        _case(case, "failed.txt")


@pytest.mark.shared
def test_a_rack_scale_tray(shared_dir: Path) -> None:
    """Memory has NUMA nodes of its own; NICs are far because of the CPU."""
    machine = _inside(read_matrix((shared_dir / "formats/samples/topo_gb200_tray.txt").read_text(), "t", "h"))
    assert [gpu.gpu_numa for gpu in machine.gpus] == [2, 10, 18, 26]
    assert [nic.name for nic, _ in machine.best_nics("GPU3")] == ["mlx5_4", "mlx5_5"]


def test_a_missing_numa_cell_is_unknown_not_zero() -> None:
    """Though the row has an empty cell too many."""
    machine = _inside(read_matrix(SMALL, "t", "h"))
    assert [gpu.numa_node for gpu in machine.gpus] == [0, None]
    assert [gpu.gpu_numa for gpu in machine.gpus] == [None, None]
    assert [gpu.cpu_count for gpu in machine.gpus] == [8, 8]


def test_a_matrix_with_spaces_for_tabs_reads_the_same() -> None:
    """As it comes out of a terminal or a ticket."""
    spaced = "\n".join("".join(cell.ljust(15) for cell in line.split("\t")) for line in SMALL.splitlines())
    spaced = spaced.replace("\x1b[4m", "").replace("\x1b[0m", "")
    machine = _inside(read_matrix(spaced, "t", "h"))
    assert dict(_inside(read_matrix(SMALL, "t", "h")).between) == dict(machine.between)


def test_older_drivers_name_nics_in_the_matrix_and_lack_a_column() -> None:
    """No legend is needed then."""
    text = (
        SMALL.replace("NIC0", "mlx5_0").replace("\tGPU NUMA ID", "").replace("\t\tN/A", "").partition("\nNIC Legend")[0]
    )
    reading = read_matrix(text, "t", "h")
    assert [nic.name for nic in _inside(reading).nics] == ["mlx5_0"]
    assert reading.findings == ()


def test_a_legend_that_is_cut_is_said() -> None:
    """The NIC keeps its number as a name."""
    reading = read_matrix(SMALL.partition("\nNIC Legend")[0], "t", "h")
    assert [nic.name for nic in _inside(reading).nics] == ["NIC0"]
    assert "legend does not name NIC0" in reading.findings[0].detail


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("GPU1\tNV4\t X \tPHB\t0-3,8-11\t\t\tN/A\n", "GPU1\tNV4\n", "row of GPU1 has 1 of 3 cells"),
        ("NIC0\tPIX\tPHB\t X ", "NIC0\tPIX\tPHB\tPIX", "no X where it meets itself"),
        ("NIC0\tPIX\tPHB\t X \n", "NIC0\tPIX\tPHB\t X \nNIC0\tPIX\tPHB\t X \n", "two rows for NIC0"),
        ("\tGPU1\tNIC0", "\tGPU0\tNIC0", "twice in its header"),
    ],
)
def test_a_matrix_that_is_no_square_is_refused(old: str, new: str, word: str) -> None:
    """The sentence says where."""
    assert old in SMALL
    with pytest.raises(BadReply, match=word):
        read_matrix(SMALL.replace(old, new), "t", "h")


def test_halves_that_differ_are_a_conflict_and_leave_the_pair_unknown() -> None:
    """Neither half is believed."""
    reading = read_matrix(SMALL.replace("NIC0\tPIX", "NIC0\tSYS"), "t", "h")
    assert _inside(reading).distance("GPU0", "mlx5_7") is None
    assert [conflict.subject for conflict in reading.topology.conflicts] == ["h:GPU0-mlx5_7"]


def test_a_word_that_nobody_knows_is_unknown() -> None:
    """It is neither near nor far."""
    reading = read_matrix(SMALL.replace("NV4", "WARP"), "t", "h")
    assert _inside(reading).distance("GPU0", "GPU1") is None
    assert "WARP" in reading.findings[0].detail


def test_cpu_ranges() -> None:
    """Commas, single numbers; what is no range is unknown."""
    assert ranges("0-55,112-167") == ((0, 55), (112, 167))
    assert ranges("7") == ((7, 7),)
    assert ranges("N/A") == ranges("") == ranges("5-2") == ()

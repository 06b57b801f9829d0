"""NCCL's topology XML and MIG layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.topology.mig_layout import read_instances, read_list
from collectors.topology.read import SourceText, read_source
from collectors.topology.reading import Reading
from telemetry.errors import BadReply
from telemetry.machine import Machine


def _gpu(dev: int, bus: str, links: str = "") -> str:
    speed = 'link_speed="32.0 GT/s PCIe" link_width="16"'
    return f'<pci busid="{bus}" class="0x030200" {speed}><gpu dev="{dev}" sm="90" rank="{dev}">{links}</gpu></pci>'


def _nic(name: str, bus: str) -> str:
    return f'<pci busid="{bus}" class="0x020700"><nic><net name="{name}" speed="400000" port="1"/></nic></pci>'


def _bridge(bus: str, inside: str) -> str:
    return f'<pci busid="{bus}" class="0x060400">{inside}</pci>'


def _cpu(numa: int, inside: str) -> str:
    return f'<cpu host_hash="0x1" numaid="{numa}" affinity="00000001,0000ffff">{inside}</cpu>'


SWITCH = '<nvlink target="0000:06:00.0" count="9" tclass="0x068000"/><nvlink target="0000:07:00.0" count="9" tclass="0x068000"/>'
TWO_SOCKETS = (
    '<system version="1">'
    + _cpu(0, _bridge("b0", _gpu(0, "g0", SWITCH) + _nic("mlx5_0", "n0") + _bridge("b1", _nic("mlx5_1", "n1"))))
    + _cpu(1, _gpu(1, "g1", SWITCH) + _bridge("b2", _nic("mlx5_2", "n2")))
    + "</system>"
)
LIST = (
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
    "  MIG 3g.20gb     Device  0: (UUID: MIG-aaaaaaaa-2222-3333-4444-555555555555)\n"
    "  MIG 1g.5gb+me   Device  1: (UUID: MIG-bbbbbbbb-2222-3333-4444-555555555555)\n"
    "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-99999999-2222-3333-4444-555555555555)\n"
)
INSTANCES = (
    "+-------------------------------------------------------+\n"
    "| GPU instances:                                        |\n"
    "| GPU   Name             Profile  Instance   Placement  |\n"
    "|                          ID       ID       Start:Size |\n"
    "|=======================================================|\n"
    "|   0  MIG 3g.20gb          9        2          4:4     |\n"
    "+-------------------------------------------------------+\n"
    "|   0  MIG 1g.5gb+me       20        7          0:1     |\n"
    "+-------------------------------------------------------+\n"
)


def _machine(reading: Reading) -> Machine:
    (machine,) = reading.topology.machines.values()
    return machine


def _xml(text: str) -> Machine:
    return _machine(read_source(SourceText(text.encode(), "t", "h")))


@pytest.mark.parametrize(
    ("a", "b", "way"),
    [
        ("GPU0", "mlx5_0", "PIX"),
        ("GPU0", "mlx5_1", "PXB"),
        ("GPU0", "mlx5_2", "SYS"),
        ("GPU1", "mlx5_2", "PHB"),
        ("GPU0", "GPU1", "NV18"),
    ],
)
def test_ways_follow_the_tree(a: str, b: str, way: str) -> None:
    """One bridge, several, a host bridge, another socket; bundles of NVLinks to several switches add up."""
    assert str(_xml(TWO_SOCKETS).distance(a, b)) == way


def test_a_socket_without_a_number_is_unknown() -> None:
    """It may be any."""
    machine = _xml(TWO_SOCKETS.replace('numaid="1"', 'numaid="-1"'))
    assert machine.distance("GPU0", "mlx5_2") is None
    assert str(machine.distance("GPU0", "mlx5_0")) == "PIX"


def test_links_straight_to_a_peer() -> None:
    """The peer's PCI address names it; its GPU may come later in the file."""
    text = f'<system version="1">{_cpu(0, _gpu(0, "g0", PEER) + _gpu(1, "g1"))}</system>'
    assert str(_xml(text).distance("GPU1", "GPU0")) == "NV4"


PEER = '<nvlink target="g1" count="4" tclass="0x030200"/>'


def test_speeds_have_units() -> None:
    """Megabits to bytes; PCIe after its coding; CPUs from the mask."""
    machine = _xml(TWO_SOCKETS)
    nic, gpu = machine.device("mlx5_0"), machine.device("GPU0")
    assert nic is not None
    assert gpu is not None
    assert nic.capacity_bytes_per_s == 50e9
    assert gpu.pcie_bytes_per_s == pytest.approx(63.0e9, rel=1e-3)
    assert gpu.cpus == ((0, 15), (32, 32))
    assert machine.nvlink_bytes_per_s("GPU0", "GPU1") == 450e9


def test_a_nic_is_a_link_with_its_capacity() -> None:
    """Its far end stays unknown."""
    first = read_source(SourceText(TWO_SOCKETS.encode(), "t", "h")).topology.links[0]
    assert (str(first.id), first.a, first.b, first.capacity_bytes_per_s) == ("h:mlx5_0:1", "h", "", 50e9)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('<!DOCTYPE x [<!ENTITY a "aaaa">]><system>&a;</system>', "document type"),
        ("<?xml version='1.0'?>\n<!doctype x><system/>", "document type"),
        ("<system>&boom;</system>", "is no XML"),
        ("<system>" + "<cpu>" * 100, "nests more than 64"),
        ("<system><cpu>", "is no XML"),
        ("<system/>", "names no GPU"),
        ("<?xml version='1.0'?><html/>", "is XML of 'html'"),
    ],
)
def test_hostile_and_other_xml_is_refused(text: str, word: str) -> None:
    """Nothing is expanded."""
    with pytest.raises(BadReply, match=word):
        read_source(SourceText(text.encode(), "t"))


def test_uuids_and_slices_of_a_list() -> None:
    """Each MIG device under its card."""
    machine = _machine(read_list(LIST, "t", "h"))
    assert [gpu.uuid[:12] for gpu in machine.gpus] == ["GPU-11111111", "GPU-99999999"]
    assert machine.product == "NVIDIA A100-SXM4-40GB"
    assert [(piece.gpu, piece.profile) for piece in machine.mig] == [("GPU0", "3g.20gb"), ("GPU0", "1g.5gb+me")]


def test_places_of_instances() -> None:
    """And two instances on one slice of memory are said."""
    machine = _machine(read_instances(INSTANCES, "t", "h"))
    assert [(p.profile, p.instance, p.start, p.size) for p in machine.mig] == [
        ("3g.20gb", "2", 4, 4),
        ("1g.5gb+me", "7", 0, 1),
    ]
    (finding,) = read_instances(INSTANCES.replace("0:1 ", "5:1 "), "t", "h").findings
    assert "lie on one memory slice" in finding.detail


def test_lists_without_gpus_are_refused() -> None:
    """No GPUs told is not no GPUs."""
    with pytest.raises(BadReply, match="names no GPU"):
        read_list("No devices found.\n", "t", "h")
    with pytest.raises(BadReply, match="lists no GPU instance"):
        read_instances("| GPU instances: |\n| Placement |\n", "t", "h")


@pytest.mark.shared
def test_the_sample(shared_dir: Path) -> None:
    """One GPU beside one NIC behind one bridge."""
    machine = _machine(read_source(SourceText((shared_dir / "formats/samples/nccl_topo.xml").read_bytes(), "x", "h")))
    assert str(machine.distance("GPU0", "mlx5_0")) == "PIX"
    assert machine.nics[0].capacity_bytes_per_s == 50e9
    assert machine.gpus[0].cpu_count == 48
    assert machine.nvlink_domains == ()

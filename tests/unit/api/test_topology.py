"""The wiring that is used: measured cables first, the settings' sources behind them, nothing silently."""

from __future__ import annotations

from api.topology import Wiring
from collectors.wiring import Wiring as Cable
from collectors.wiring import build_topology
from telemetry.ids import LinkId
from telemetry.topology import Link, Topology

PORTS = {"leaf-a:1": 5e10, "leaf-a:2": 5e10}
CABLES = [
    Cable(LinkId("leaf-a", "1", "leaf"), "leaf-a", "n1.site", "mlx5_0"),
    Cable(LinkId("leaf-a", "2", "leaf"), "leaf-a", "n2.site", "mlx5_0"),
]
NICS = [LinkId("n1.site:mlx5_0", "1", "nic"), LinkId("n3.site:mlx5_0", "1", "nic")]
MEASURED = build_topology(CABLES, PORTS, NICS, source="telemetry")
TOLD = Topology(
    leaf_of={"n1": "s0", "n2": "s0", "n3": "s1"},
    links=(Link(LinkId("n1:mlx5_0", "1", "nic"), "n1", "", 2.5e10),),
    source="topology.conf",
    paths={"n1": ("s0", "core"), "n2": ("s0", "core"), "n3": ("s1", "core")},
)


def test_files_fill_what_the_cables_leave_open() -> None:
    """Spines, hosts without a fabric exporter, speeds; under the names that telemetry measures by."""
    wiring = Wiring()
    whole = wiring.merged([MEASURED], TOLD, ["n3.site"])
    assert whole.leaf_of == {"n1.site": "leaf-a", "n2.site": "leaf-a", "n3.site": "s1"}
    assert whole.path("n1.site") == ("leaf-a", "core")
    assert whole.aliases == {"s0": "leaf-a"}
    assert whole.conflicts == ()
    assert wiring.lent == {"n1.site:mlx5_0:1": 2.5e10}


def test_what_both_tell_differently_is_a_conflict_and_the_measured_cable_is_used() -> None:
    """The cable is seen port by port; a file may be old."""
    told = Topology(leaf_of={"n1": "leaf-b", "n2": "leaf-a"}, paths={"n1": ("leaf-b",), "n2": ("leaf-a",)}, source="f")
    whole = Wiring().merged([MEASURED], told, ())
    assert whole.leaf_of["n1.site"] == "leaf-a"
    (conflict,) = [one for one in whole.conflicts if one.what == "leaf switch"]
    assert (conflict.says, conflict.kept) == ((("telemetry", "leaf-a"), ("f", "leaf-b")), "leaf-a")


def test_speeds_that_differ_are_a_conflict_and_nothing_is_lent() -> None:
    """The port's own word holds."""
    told = Topology(links=(Link(LinkId("leaf-a", "1", "leaf"), "leaf-a", "n1.site", 1e9),), source="f")
    wiring = Wiring()
    whole = wiring.merged([MEASURED], told, ())
    assert whole.link(LinkId("leaf-a", "1")).capacity_bytes_per_s == 5e10
    assert [conflict.what for conflict in whole.conflicts] == ["capacity in bytes per second"]
    assert "leaf-a:1" not in wiring.lent


def test_nothing_is_merged_again_while_nothing_changes() -> None:
    """A round of forecasts comes every two seconds; a large cluster's wiring hardly ever changes."""
    wiring = Wiring()
    first = wiring.merged([MEASURED], TOLD, ["n3.site"])
    assert wiring.merged([build_topology(CABLES, PORTS, NICS, source="telemetry")], TOLD, ["n3.site"]) is first
    assert wiring.merged([MEASURED], TOLD, ["n3.site", "n9"]) is not first

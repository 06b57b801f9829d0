"""Topology from a fabric exporter's pages."""

from __future__ import annotations

from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.wiring import topology_from_pages
from telemetry.ids import LinkId

LEAF = """
infiniband_switch_port_rate_bytes_per_second{guid="0x1",port="1",switch="leaf1"} 5e+10
infiniband_switch_port_rate_bytes_per_second{guid="0x1",port="9",switch="leaf1"} 1e+11
infiniband_switch_uplink_info{guid="0x1",port="1",switch="leaf1",uplink="node-01 mlx5_0",uplink_port="1",uplink_type="CA"} 1
infiniband_switch_uplink_info{guid="0x1",port="2",switch="leaf1",uplink="node-02 HCA-1",uplink_port="1",uplink_type="CA"} 1
infiniband_switch_uplink_info{guid="0x1",port="9",switch="leaf1",uplink="spine1",uplink_port="1",uplink_type="SW"} 1
infiniband_switch_uplink_info{guid="0x2",port="1",switch="spine1",uplink="leaf1",uplink_port="9",uplink_type="SW"} 1
"""
NODE = """
node_infiniband_rate_bytes_per_second{device="mlx5_0",port="1"} 5e+10
"""


def test_hosts_stand_under_the_switch_that_names_them():
    pages = [(PageParser().parse(LEAF.encode()), Place()), (PageParser().parse(NODE.encode()), Place("node-01"))]
    topology = topology_from_pages(pages, source="test")
    assert topology.leaf_of == {"node-01": "leaf1", "node-02": "leaf1"}
    (uplink,) = topology.uplinks("leaf1")
    assert (str(uplink.id), uplink.b, uplink.capacity_bytes_per_s) == ("leaf1:9", "spine1", 1e11)
    nic = topology.link(LinkId("node-01:mlx5_0", "1"))
    assert nic is not None
    assert (nic.a, nic.b, nic.capacity_bytes_per_s, nic.id.tier) == ("node-01", "leaf1", 5e10, "nic")
    spine = topology.link(LinkId("spine1", "1"))
    assert spine is not None
    assert (spine.id.tier, spine.b, spine.capacity_bytes_per_s) == ("spine", "leaf1", None)


def test_pages_without_wiring_give_an_empty_topology():
    assert topology_from_pages([(PageParser().parse(b"x 1\n"), Place())]).links == ()

"""A leaf-spine fabric with max-min fair sharing between rings.

A ring all-reduce moves in lock-step: each edge carries the same bytes, so a job is one flow whose rate is that
of its slowest edge. Links are directed; a port sees one link as sent and another as received.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.errors import ConfigError
from telemetry.ids import LinkId
from telemetry.topology import Link, Topology

FloatArray = NDArray[np.float64]

_SATURATED = 1e-9
"""Share of its capacity that a full link may have left, for rounding."""


@dataclass(frozen=True, slots=True)
class FabricSpec:
    """How hosts and switches are wired.

    Args:
        nodes: host names; the first ``nodes_per_leaf`` stand under the first leaf, and so on.
        nodes_per_leaf: hosts under one leaf switch.
        spines: spine switches; each leaf has one uplink to each.
        nics_per_node: host ports; traffic is spread evenly over them.
        nic_bytes_per_s: capacity of one host port, one direction.
        uplink_bytes_per_s: capacity of one uplink, one direction.
    """

    nodes: tuple[str, ...]
    nodes_per_leaf: int = 4
    spines: int = 2
    nics_per_node: int = 2
    nic_bytes_per_s: float = 25e9
    uplink_bytes_per_s: float = 50e9


@dataclass(frozen=True, slots=True)
class Port:
    """A port that an exporter reports.

    Args:
        id: device, port name and tier.
        peer: what stands at the other end: a host's NIC as ``host mlx5_0``, or a switch.
        peer_port: port name there.
        peer_is_switch: True between switches.
        tx_link: index of the directed link it sends on.
        rx_link: index of the directed link it receives from.
        share_ratio: its part of that link's bytes (a host's ports split them).
        capacity_bytes_per_s: of one direction.
    """

    id: LinkId
    peer: str
    peer_port: str
    peer_is_switch: bool
    tx_link: int
    rx_link: int
    share_ratio: float
    capacity_bytes_per_s: float


class Fabric:
    """The wiring, as arrays over directed links.

    Raises:
        ConfigError: no nodes, or a count or capacity that is not positive.
    """

    def __init__(self, spec: FabricSpec) -> None:
        numbers = (spec.nodes_per_leaf, spec.spines, spec.nics_per_node, spec.nic_bytes_per_s, spec.uplink_bytes_per_s)
        if not spec.nodes or min(numbers) <= 0:
            raise ConfigError("the simulated fabric needs nodes, and counts and capacities above 0")
        if len(set(spec.nodes)) != len(spec.nodes):
            raise ConfigError("a simulated node is listed twice")
        self.spec = spec
        self.n_nodes = len(spec.nodes)
        self.n_leaves = -(-self.n_nodes // spec.nodes_per_leaf)
        self.leaves = tuple(f"leaf{i + 1}" for i in range(self.n_leaves))
        self.spines = tuple(f"spine{i + 1}" for i in range(spec.spines))
        self.node_index = {name: i for i, name in enumerate(spec.nodes)}
        n_up = self.n_leaves * spec.spines
        host = np.full(2 * self.n_nodes, spec.nics_per_node * spec.nic_bytes_per_s)
        self.capacity: FloatArray = np.concatenate([host, np.full(2 * n_up, spec.uplink_bytes_per_s)])
        self.ports = tuple([*self._host_ports(), *self._leaf_ports(), *self._spine_ports()])
        self.topology = self._topology()

    def leaf_of(self, node: str) -> int:
        """Index of the leaf above a host."""
        return self.node_index[node] // self.spec.nodes_per_leaf

    def host_tx(self, node: int) -> int:
        """Directed link from a host to its leaf."""
        return node

    def host_rx(self, node: int) -> int:
        """Directed link from a leaf to a host."""
        return self.n_nodes + node

    def up(self, leaf: int, spine: int) -> int:
        """Directed link from a leaf to a spine."""
        return 2 * self.n_nodes + leaf * self.spec.spines + spine

    def down(self, leaf: int, spine: int) -> int:
        """Directed link from a spine to a leaf."""
        return self.up(leaf, spine) + self.n_leaves * self.spec.spines

    def ring_use(self, nodes: Sequence[str], spine: int) -> FloatArray:
        """How many edges of the ring over ``nodes`` use each directed link, (n_links,).

        Raises:
            ConfigError: a host or spine that does not exist.
        """
        unknown = [node for node in nodes if node not in self.node_index]
        if unknown or not 0 <= spine < self.spec.spines:
            raise ConfigError(f"a simulated job names what the fabric lacks: {unknown or f'spine {spine}'}")
        use = np.zeros(self.capacity.shape[0])
        if len(nodes) < 2:
            return use
        for source, target in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
            use[self.host_tx(self.node_index[source])] += 1
            use[self.host_rx(self.node_index[target])] += 1
            if (leaf := self.leaf_of(source)) != (other := self.leaf_of(target)):
                use[self.up(leaf, spine)] += 1
                use[self.down(other, spine)] += 1
        return use

    def _host_ports(self) -> list[Port]:
        spec = self.spec
        return [
            Port(
                LinkId(f"{node}:mlx5_{nic}", "1", "nic"),
                self.leaves[self.leaf_of(node)],
                str((i % spec.nodes_per_leaf) * spec.nics_per_node + nic + 1),
                True,
                self.host_tx(i),
                self.host_rx(i),
                1.0 / spec.nics_per_node,
                spec.nic_bytes_per_s,
            )
            for i, node in enumerate(spec.nodes)
            for nic in range(spec.nics_per_node)
        ]

    def _leaf_ports(self) -> list[Port]:
        spec, ports = self.spec, []
        first_up = spec.nodes_per_leaf * spec.nics_per_node + 1
        for port in self._host_ports():
            node, _, nic = port.id.device.partition(":")
            id_ = LinkId(port.peer, port.peer_port, "leaf")
            share, capacity = port.share_ratio, port.capacity_bytes_per_s
            ports.append(Port(id_, f"{node} {nic}", "1", False, port.rx_link, port.tx_link, share, capacity))
        for leaf, name in enumerate(self.leaves):
            for spine, above in enumerate(self.spines):
                id_ = LinkId(name, str(first_up + spine), "leaf")
                up, down = self.up(leaf, spine), self.down(leaf, spine)
                ports.append(Port(id_, above, str(leaf + 1), True, up, down, 1.0, spec.uplink_bytes_per_s))
        return ports

    def _spine_ports(self) -> list[Port]:
        first_up = self.spec.nodes_per_leaf * self.spec.nics_per_node + 1
        return [
            Port(
                LinkId(above, str(leaf + 1), "spine"),
                name,
                str(first_up + spine),
                True,
                self.down(leaf, spine),
                self.up(leaf, spine),
                1.0,
                self.spec.uplink_bytes_per_s,
            )
            for spine, above in enumerate(self.spines)
            for leaf, name in enumerate(self.leaves)
        ]

    def _topology(self) -> Topology:
        links = tuple(
            Link(port.id, port.id.node or port.id.device, port.peer.partition(" ")[0], port.capacity_bytes_per_s)
            for port in self.ports
        )
        return Topology(
            {node: self.leaves[self.leaf_of(node)] for node in self.spec.nodes}, links, "the simulated fabric"
        )


def max_min_rates(use: FloatArray, capacity: FloatArray, top: FloatArray) -> FloatArray:
    """Max-min fair rates of flows by progressive filling, (n_flows,).

    All rates rise together; a flow stops when it reaches its own top rate or when a link that it uses is full.
    (Bertsekas and Gallager, Data Networks, section 6.5.2.)

    Args:
        use: (n_links, n_flows) how many times a flow's rate each link carries.
        capacity: (n_links,) bytes per second.
        top: (n_flows,) what the flow would send alone; 0 for one that sends nothing.
    """
    rates = np.zeros(top.shape[0])
    free = top > 0.0
    while free.any():
        growth = use[:, free].sum(axis=1)
        left = capacity - use @ rates
        used = growth > 0.0
        step = float((top[free] - rates[free]).min())
        if used.any():
            step = min(step, float((left[used] / growth[used]).min()))
        rates[free] += max(step, 0.0)
        full = (capacity - use @ rates) <= _SATURATED * capacity
        stopped = free & ((rates >= top * (1.0 - _SATURATED)) | (use[full] > 0.0).any(axis=0))
        if not stopped.any():
            break
        free &= ~stopped
    return rates

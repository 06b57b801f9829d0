"""Laws of max-min fairness and of the wiring."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.simulator.fabric import Fabric, FabricSpec, max_min_rates
from telemetry.errors import ConfigError

NODES = tuple(f"n{i}" for i in range(8))


def fabric() -> Fabric:
    return Fabric(FabricSpec(NODES, nodes_per_leaf=2, spines=2, nics_per_node=2, nic_bytes_per_s=10.0))


@st.composite
def sharings(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_links, n_flows = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    use = rng.integers(0, 3, (n_links, n_flows)).astype(float)
    top = np.where(rng.random(n_flows) < 0.2, 0.0, rng.uniform(0.1, 20.0, n_flows))
    return use, rng.uniform(1.0, 20.0, n_links), top


@settings(max_examples=200, deadline=None)
@given(sharings())
def test_no_link_carries_more_than_it_can_and_no_flow_more_than_it_wants(case) -> None:
    """Feasible: capacity and top rates are kept, and nothing is negative."""
    use, capacity, top = case
    rates = max_min_rates(use, capacity, top)
    assert (rates >= 0.0).all()
    assert (use @ rates <= capacity * (1 + 1e-9)).all()
    assert (rates <= top * (1 + 1e-9)).all()


@settings(max_examples=200, deadline=None)
@given(sharings())
def test_a_flow_below_its_top_rate_has_a_full_link_on_which_nobody_is_faster(case) -> None:
    """The bottleneck condition, which makes the rates max-min fair and unique."""
    use, capacity, top = case
    rates = max_min_rates(use, capacity, top)
    full = use @ rates >= capacity * (1 - 1e-6)
    for flow in np.flatnonzero(rates < top * (1 - 1e-6)):
        links = np.flatnonzero(full & (use[:, flow] > 0))
        assert any(rates[flow] >= rates[use[link] > 0].max() * (1 - 1e-6) for link in links)


def test_rates_do_not_depend_on_the_order_of_flows() -> None:
    """Fair sharing knows no names."""
    use = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    capacity, top = np.array([10.0, 4.0]), np.array([9.0, 9.0, 1.0])
    rates = max_min_rates(use, capacity, top)
    assert rates == pytest.approx([7.0, 3.0, 1.0])
    turned = max_min_rates(use[:, ::-1], capacity, top[::-1])
    assert turned == pytest.approx(rates[::-1])


def test_a_ring_uses_an_uplink_once_for_each_edge_that_leaves_the_leaf() -> None:
    """Two leaves, four hosts: one edge up and one down at each leaf, one edge at each host and way."""
    wires = fabric()
    use = wires.ring_use(("n0", "n1", "n2", "n3"), 1)
    assert [use[wires.host_tx(i)] for i in range(4)] == [1, 1, 1, 1]
    assert [use[wires.host_rx(i)] for i in range(4)] == [1, 1, 1, 1]
    assert (use[wires.up(0, 1)], use[wires.down(0, 1)], use[wires.up(1, 1)], use[wires.down(1, 1)]) == (1, 1, 1, 1)
    assert use.sum() == 12


def test_a_ring_inside_one_leaf_or_one_host_leaves_the_uplinks_alone() -> None:
    """Traffic takes the shortest way."""
    wires = fabric()
    assert wires.ring_use(("n0", "n1"), 0)[2 * wires.n_nodes :].sum() == 0
    assert wires.ring_use(("n0",), 0).sum() == 0


def test_both_ends_of_a_cable_agree() -> None:
    """What one port sends on, the port at its other end receives from, at the same capacity."""
    wires = fabric()
    ends = {(port.id.device, port.id.port): port for port in wires.ports}
    for port in wires.ports:
        far = ends[(port.peer.replace(" ", ":"), port.peer_port)]
        assert (port.tx_link, port.rx_link) == (far.rx_link, far.tx_link)
        assert port.capacity_bytes_per_s == far.capacity_bytes_per_s


def test_the_topology_knows_leaves_and_uplinks() -> None:
    """Each host has a leaf; each leaf has one uplink to each spine."""
    wires = fabric()
    assert wires.topology.leaf_of == {f"n{i}": f"leaf{i // 2 + 1}" for i in range(8)}
    assert [link.b for link in wires.topology.uplinks("leaf1")] == ["spine1", "spine2"]


@pytest.mark.parametrize(
    "spec",
    [FabricSpec(()), FabricSpec(("a",), spines=0), FabricSpec(("a",), nic_bytes_per_s=0.0), FabricSpec(("a", "a"))],
)
def test_a_fabric_that_cannot_be_is_refused(spec: FabricSpec) -> None:
    """Empty, zero and doubled parts are named."""
    with pytest.raises(ConfigError):
        Fabric(spec)


def test_a_ring_over_unknown_hosts_is_refused() -> None:
    """The sentence names the host."""
    with pytest.raises(ConfigError, match="n99"):
        fabric().ring_use(("n0", "n99"), 0)
    with pytest.raises(ConfigError, match="spine 7"):
        fabric().ring_use(("n0", "n1"), 7)

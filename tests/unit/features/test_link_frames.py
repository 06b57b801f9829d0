"""Link frames: rates of ports against their capacity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from features.ring import Ring
from features.transforms.links import link_frame, read_capacities
from telemetry.catalogue import BY_FIELD
from telemetry.ids import SeriesKey
from telemetry.samples import Reason, SampleBatch

START_S = 1_767_225_600.0
LINK = "node-1:mlx5_0:1"
TX, SPEED = SeriesKey("port_tx_bytes_total", LINK), SeriesKey("port_capacity_bytes_per_s", LINK)


def _ring(rows) -> Ring:
    ring = Ring(3600.0)
    ring.append(SampleBatch.of(rows, received_s=START_S))
    return ring


def test_rates_stand_beside_their_capacity():
    """Each link has one row of bytes per second each way; a direction without counters is missing."""
    rows = [(TX, START_S + 5 * i, 1e10 * i) for i in range(12)] + [(SPEED, START_S, 5e10)]
    frame = link_frame(_ring(rows), now_s=START_S + 60, window_s=600)
    assert (frame.links, frame.capacity_bytes_per_s.tolist()) == ((LINK,), [5e10])
    assert (frame.tx.step_s, frame.tx.metric, frame.rx.metric) == (
        5.0,
        ("port_tx_bytes_per_s",),
        ("port_rx_bytes_per_s",),
    )
    np.testing.assert_allclose(frame.tx.values[0, 1:], 2e9)
    assert np.isnan(frame.rx.values).all()
    assert frame.data_at_s == START_S + 55


def test_unknown_capacity_stays_unknown():
    """Without a speed the capacity is NaN and the row has no upper bound; the caller may know better."""
    ring = _ring([(TX, START_S + i, 1e9 * i) for i in range(5)])
    frame = link_frame(ring, now_s=START_S + 9, window_s=60)
    assert np.isnan(frame.capacity_bytes_per_s).all()
    assert np.isinf(frame.tx.high).all()
    told = link_frame(ring, [LINK], {LINK: 4e9}, now_s=START_S + 9, window_s=60)
    assert told.capacity_bytes_per_s.tolist() == told.tx.high.tolist() == [4e9]


def test_no_link_carries_more_than_its_capacity():
    """A reading that came late shows more than the wire carries; the row keeps its bound."""
    rows = [(TX, START_S + i, v) for i, v in enumerate([0.0, 1e9, 1e9, 3e9])] + [(SPEED, START_S, 1e9)]
    frame = link_frame(_ring(rows), now_s=START_S + 9, window_s=60)
    assert np.nanmax(frame.tx.values) == 1e9


def test_no_links_and_no_data():
    """An empty world gives an empty frame."""
    frame = link_frame(Ring(60.0), now_s=START_S, window_s=60)
    assert (frame.links, frame.tx.values.shape, frame.data_at_s) == ((), (0, 0), 0.0)
    asked = link_frame(Ring(60.0), [LINK], now_s=START_S, window_s=60)
    assert asked.tx.values.shape == (1, 0)


@pytest.mark.shared
def test_field_case_of_infiniband_ports(shared_dir: Path):
    """Two ports carry 60 % and 50 % of their speed, the one that is down is missing, and words count four bytes once."""
    folder = shared_dir / "cases/10-ib-bytes-factor-four"
    ring = Ring(3600.0)
    for name, at_s in (("node_exporter_t0.prom", START_S), ("node_exporter_t15.prom", START_S + 15)):
        rows: dict[SeriesKey, float] = {}
        for family in text_string_to_metric_families((folder / name).read_text()):
            for sample in family.samples:
                if sample.name in BY_FIELD:
                    entity = f"node-1:{sample.labels['device']}:{sample.labels['port']}"
                    rows[SeriesKey(BY_FIELD[sample.name][0].name, entity)] = sample.value
        keys = tuple(rows)
        down = {key.entity for key, value in rows.items() if key.metric == "port_state_id" and value != 4}
        unread = np.array([key.entity in down and key.metric.endswith("_total") for key in keys])
        value = np.where(unread, np.nan, np.array(list(rows.values())))
        reason = np.where(unread, Reason.NOT_MEASURED, 0).astype(np.uint8)
        n = len(keys)
        ring.append(SampleBatch(keys, np.arange(n, dtype=np.int32), np.full(n, at_s), value, reason, received_s=at_s))
    frame = link_frame(ring, now_s=START_S + 15, window_s=60)
    newest = dict(zip(frame.links, frame.tx.values[:, -1], strict=True))
    assert newest["node-1:mlx5_0:1"] == pytest.approx(30e9)
    assert newest["node-1:mlx5_1:1"] == pytest.approx(6.25e9)
    assert np.isnan(newest["node-1:mlx5_2:1"])
    speed = read_capacities(ring, ["node-1:mlx5_0:1", "node-1:mlx5_1:1"], START_S + 15)
    use = np.array([newest["node-1:mlx5_0:1"], newest["node-1:mlx5_1:1"]]) / speed
    np.testing.assert_allclose(use, [0.6, 0.5])
    assert np.nansum(list(newest.values())) / speed.sum() == pytest.approx(0.58)
    ticks = SeriesKey("port_tx_wait_ticks_total", "node-1:mlx5_0:1")
    (waited,) = ring.read([ticks], START_S + 15, 60)
    assert waited.value[-1] - waited.value[0] == 1_234_567
    assert sum(key.metric == "port_tx_bytes_total" for key in ring.keys()) == 3  # noqa: SIM118

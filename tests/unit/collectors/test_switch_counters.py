"""Recorded switch counters: exact sums where the record has them, and gaps where it has not."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.inspect import inspect_source
from collectors.switch_counters import NATIVE_FILE, is_switch_csv, read_switch_record, switch_csv_batch
from collectors.switch_wiring import capacity_of, link_of_port, port_topology
from features.ring import Ring
from features.transforms.links import link_frame
from telemetry.errors import ConfigError, SchemaError
from telemetry.ids import LinkId
from telemetry.samples import Problem, Reason, SampleBatch, validate_batch

HEAD = "SaveTime,SaveTimeUTC,DeviceName,PortName,InPkts,InOctets,OutPkts,OutOctets,InRatio,OutRatio\n"
PORT = "leaf-1.GPU.S1,TwoHundredGigE1/0/1:2"


def line(at_ms: int, rx: object, tx: object) -> str:
    return f"x,{at_ms},{PORT},1,{rx},1,{tx},0,0\n"


def values(batch: SampleBatch, metric: str) -> dict[str, list[float]]:
    validate_batch(batch)
    found: dict[str, list[float]] = {}
    for series, _, value in sorted(zip(batch.series.tolist(), batch.at_s.tolist(), batch.value.tolist(), strict=True)):
        if batch.keys[series].metric == metric:
            found.setdefault(batch.keys[series].entity, []).append(value)
    return found


def test_a_controllers_export_becomes_counters():
    """Counts since the sample before add up; the first is since a sample that is not here."""
    text = HEAD + line(1_000_000, 700, 70) + line(1_000_500, 10, 1) + line(1_001_000, -5, 2) + line(1_001_500, 20, 3)
    batch = switch_csv_batch(text.encode(), "x.csv")
    assert values(batch, "port_rx_bytes_total") == {"leaf-1:TwoHundredGigE1/0/1_2": [0, 10, 10, 30]}
    assert values(batch, "port_tx_bytes_total") == {"leaf-1:TwoHundredGigE1/0/1_2": [0, 1, 3, 6]}
    assert values(batch, "port_capacity_bytes_per_s") == {"leaf-1:TwoHundredGigE1/0/1_2": [25e9]}
    assert LinkId.parse(batch.keys[0].entity).node == ""


def test_lines_that_cannot_be_read_are_counted_by_name():
    bad = line(1_000_500, "many", 1) + "x,1\n" + f"x,nan,{PORT},1,1,1,1,0,0\n" + "x,-5,,,,,,,,\n"
    batch = switch_csv_batch((HEAD + line(1_000_000, 1, 1) + bad + line(1_001_000, 5, 5)).encode(), "x.csv")
    (finding,) = batch.findings
    assert (finding.problem, finding.count) == (Problem.MALFORMED_LINE, 4)
    assert finding.detail.startswith("line 3:")
    assert values(batch, "port_rx_bytes_total")["leaf-1:TwoHundredGigE1/0/1_2"] == [0, 5]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda b: b.decode("latin-1")))
def test_any_text_after_the_head_gives_a_lawful_batch(text):
    validate_batch(switch_csv_batch((HEAD + text).encode("utf-8", "replace"), "x"))
    assert is_switch_csv(HEAD.encode())
    assert not is_switch_csv(text.encode("utf-8", "replace"))


def test_inspect_shows_an_export():
    found = inspect_source((HEAD + line(1_000_000, 1, 1) + line(1_000_500, 10, 1)).encode(), "x.csv")
    assert found.format == "switch counters (CSV)"
    assert {row.metric for row in found.rows} >= {"port_rx_bytes_total", "port_tx_bytes_total"}


def by_port(batch: SampleBatch, metric: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Port -> times and values."""
    chosen = {i: key.entity for i, key in enumerate(batch.keys) if key.metric == metric}
    return {port: (batch.at_s[batch.series == i], batch.value[batch.series == i]) for i, port in chosen.items()}


def write(path: Path, sql: str) -> Path:
    with duckdb.connect() as connection:
        connection.execute(f"copy ({sql}) to '{path}' (format parquet)")
    return path


def test_bins_become_rates_and_holes_stay_missing(tmp_path):
    """What was counted inside a hole is unknown: neither 0 nor smeared over its neighbours."""
    rows = ", ".join(
        f"('leaf-1', 'TwoHundredGigE1/0/1', {1000 + 5 * i}, {x}, {x}, {gap})"
        for i, (x, gap) in enumerate([(50, "false"), (100, "false"), ("null", "true"), (500, "false"), (50, "false")])
    )
    file = write(
        tmp_path / "bins.parquet", f"select * from (values {rows}) t(leaf, port, ts, in_bytes, out_bytes, gap)"
    )
    batch = read_switch_record(file).batch
    (rx,) = values(batch, "port_rx_bytes_per_s").values()
    assert np.array_equal(rx, [10, 20, np.nan, 100, 10], equal_nan=True)
    assert set(batch.reason[np.isnan(batch.value)].tolist()) == {Reason.NOT_OBSERVED}
    ring = Ring(1e4)
    ring.append(batch)
    frame = link_frame(ring, now_s=1025.0, window_s=100.0)
    assert frame.links == ("leaf-1:TwoHundredGigE1/0/1",)
    assert np.array_equal(frame.rx.values[0], [10, 20, np.nan, 100, 10], equal_nan=True)
    assert frame.capacity_bytes_per_s.tolist() == [25e9]


def test_a_folder_a_span_and_some_switches(tmp_path):
    rows = ", ".join(f"('leaf-{n}', 'p', {1000 * t}, 10, 20)" for n in (1, 2) for t in range(100, 110))
    write(tmp_path / NATIVE_FILE, f"select * from (values {rows}) t(leaf, port, ts_ms, in_bytes, out_bytes)")
    batch = read_switch_record(tmp_path, switches=["leaf-2"], start_s=102.0, end_s=104.0).batch
    assert values(batch, "port_tx_bytes_total") == {"leaf-2:p": [0, 20, 40]}
    none = read_switch_record(tmp_path, switches=["leaf-9"]).batch
    assert [f.problem for f in none.findings] == [Problem.EMPTY]


def test_what_is_no_record_is_told_by_name(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        read_switch_record(tmp_path / "nope.parquet")
    with pytest.raises(ConfigError, match="holds no recording"):
        read_switch_record(tmp_path)
    with pytest.raises(SchemaError, match="no recording of switch ports"):
        read_switch_record(write(tmp_path / "other.parquet", "select 1 as a"))
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(SchemaError, match="cannot be read as Parquet"):
        read_switch_record(tmp_path / "torn.parquet")


@pytest.mark.parametrize(
    ("port", "speed"),
    [("FourHundredGigE1/0/31", 50e9), ("HundredGigE1/0/1", 12.5e9), ("TenGigE2", 1.25e9), ("Eth1/1", None), ("", None)],
)
def test_a_ports_speed_is_in_its_name(port, speed):
    assert capacity_of(port) == speed


def test_servers_and_uplinks():
    """A server's port leads to it; a faster port without one is an uplink whose other end is unknown."""
    rows = [
        {"switchname": "leaf-1.x", "accessport": "TwoHundredGigE1/0/1:1", "sysname": "gpu-1", "nicname": "ens1"},
        {"switchname": "leaf-1.x", "accessport": "TwoHundredGigE1/0/1:2", "sysname": "gpu-2", "nicname": "ens1"},
        {"switchname": "", "accessport": None, "sysname": "ghost", "nicname": ""},
    ]
    ports = [
        str(link_of_port("leaf-1", port))
        for port in ("TwoHundredGigE1/0/1:1", "TwoHundredGigE1/0/9:1", "FourHundredGigE1/0/31")
    ]
    topology = port_topology(rows, ports)
    assert topology.leaf_of == {"gpu-1": "leaf-1", "gpu-2": "leaf-1"}
    assert [link.id.port for link in topology.uplinks("leaf-1")] == ["FourHundredGigE1/0/31"]
    assert topology.uplinks("leaf-1")[0].capacity_bytes_per_s == 50e9
    assert {link.b for link in topology.links} == {"gpu-1", "gpu-2", ""}


@pytest.mark.shared
def test_the_recorded_fabric(shared_dir: Path):
    """A leaf of the recorded cluster: its servers, its uplinks, and sums that both of its files agree on."""
    folder = shared_dir / "data/zjlab_roce_2024"
    leaf = "NH-DC-NM129-B03-ROCE-Leaf-1"
    span = {"switches": [leaf], "start_s": 1716481000.0, "end_s": 1716481100.0}
    bins = read_switch_record(folder, **span)
    native = read_switch_record(folder / NATIVE_FILE, **span)
    validate_batch(bins.batch)
    validate_batch(native.batch)
    assert len(native.topology.leaf_of) == 253
    assert len([link for link in native.topology.links if link.a == leaf and link.b]) == 60
    assert len(native.topology.uplinks(leaf)) > 0
    rates, totals = by_port(bins.batch, "port_tx_bytes_per_s"), by_port(native.batch, "port_tx_bytes_total")
    assert set(rates) == set(totals)
    whole = [port for port, (_, rate) in rates.items() if np.isfinite(rate).all() and totals[port][1][-1] > 1e9]
    assert len(whole) > 10
    for port in whole:
        edge_s, rate = rates[port]
        inside = edge_s <= totals[port][0][-1]
        grown = np.interp(edge_s[inside], *totals[port])
        assert 5 * np.sum(rate[inside][1:]) == pytest.approx(grown[-1] - grown[0], rel=1e-3)
    head = switch_csv_batch((folder / "Leaf-1_1_2.head.csv").read_bytes(), "head")
    assert head.findings == ()
    (total,) = values(head, "port_rx_bytes_total").values()
    assert total[2] == 472834900436.0

"""Recorded counters of switch ports, for replay and back-tests: bytes in and out of each port over time.

Three layouts are read: bins of fixed length (columns ``leaf, port, ts, in_bytes, out_bytes, gap``; Parquet), samples at
their own times with what was counted since the sample before (``leaf, port, ts_ms, in_bytes, out_bytes``; Parquet), and
the same as a switch controller exports it (CSV with ``SaveTimeUTC, DeviceName, PortName, InOctets, OutOctets``).

"In" is what a port received, so it is ``rx``; "out" is ``tx``. Samples at their own times become byte counters, for
their sums are exact even across a hole. Bins become rates: what was counted inside a hole is unknown, and a counter
could not say so. Port names may hold a colon; ours have ``_`` in its place.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.inspection import Inspection, count_text, rows_of
from collectors.switch_wiring import capacity_of, link_of_port, port_topology
from telemetry.errors import ConfigError, SchemaError
from telemetry.ids import SeriesKey
from telemetry.samples import CodeArray, Finding, FloatArray, Problem, Reason, SampleBatch
from telemetry.topology import Topology

BINS_FILE = "ports_5s.parquet"
NATIVE_FILE = "ports_native_leaf1_leaf4.parquet"
WIRING_FILE = "topology_server_ports.csv"
BIN_S = 5.0
CAPACITY_EVERY_S = 1800.0
"""Port speeds are repeated so that any window of an hour holds one."""
MOST_ROWS = 20_000_000
"""A larger span is refused; ask for fewer switches or a shorter time."""
_CSV_COLUMNS = ("SaveTimeUTC", "DeviceName", "PortName", "InOctets", "OutOctets")


@dataclass(frozen=True, slots=True, eq=False)
class SwitchRecord:
    """What was recorded.

    Args:
        batch: samples of every port, in time order within a port.
        topology: switches, the hosts behind their ports where a wiring file says so, and uplinks.
    """

    batch: SampleBatch
    topology: Topology


@dataclass(frozen=True, slots=True, eq=False)
class _Ports:
    """Rows sorted by port and time, one port after the other."""

    switch: tuple[str, ...]
    port: tuple[str, ...]
    first: NDArray[np.intp]
    at_s: FloatArray
    rx: FloatArray
    tx: FloatArray
    hole: NDArray[np.bool_]


def read_switch_record(
    path: Path, *, switches: Collection[str] = (), start_s: float = -np.inf, end_s: float = np.inf
) -> SwitchRecord:
    """A recording with the wiring beside it.

    Args:
        path: a Parquet or CSV file, or a folder that holds one of the known names.
        switches: names to read, without their domain; all when empty.
        start_s: first instant, Unix seconds.
        end_s: last instant.

    Raises:
        ConfigError: no such file, or more rows than ``MOST_ROWS`` in it.
        SchemaError: none of the known layouts.
    """
    file = _file_of(path)
    if file.suffix == ".csv":
        batch = switch_csv_batch(file.read_bytes(), str(file))
        batch = _within(batch, start_s, end_s)
    else:
        batch = _read_parquet(file, switches, start_s, end_s)
    wiring = file.parent / WIRING_FILE
    rows = list(_csv_rows(wiring.read_bytes())) if wiring.is_file() else []
    ports = sorted({key.entity for key in batch.keys})
    return SwitchRecord(batch, port_topology(rows, ports, source=str(file)))


def is_switch_csv(data: bytes) -> bool:
    """Whether text looks like a switch controller's export."""
    head = data[:2000].decode("utf-8", "replace").lstrip("\ufeff").split("\n", 1)[0]
    return set(_CSV_COLUMNS) <= {name.strip() for name in head.split(",")}


def read_switch_csv(data: bytes, source: str) -> Inspection | None:
    """What an export would give; None when the text is none."""
    if not is_switch_csv(data):
        return None
    batch = switch_csv_batch(data, source)
    summary = f"counters of switch ports: {count_text(batch)}"
    return Inspection(source, "switch counters (CSV)", summary, rows_of(batch, True), batch.findings)


def switch_csv_batch(data: bytes, source: str) -> SampleBatch:
    """Samples of a switch controller's CSV export; lines that cannot be read are counted, never raised for."""
    rows: list[tuple[str, str, float, float, float]] = []
    bad, example = 0, ""
    for number, row in enumerate(_csv_rows(data), 2):
        try:
            at_s = float(row["SaveTimeUTC"]) / 1000
            counted = (float(row["InOctets"]), float(row["OutOctets"]))
            names = (row["DeviceName"].partition(".")[0], row["PortName"])
            if not all(names) or not np.isfinite([at_s, *counted]).all() or not 0 < at_s < 1e11:
                raise ValueError("a name, time or number that cannot be")
        except (KeyError, TypeError, ValueError, AttributeError) as odd:
            bad, example = bad + 1, example or f"line {number}: {odd}"
            continue
        rows.append((*names, at_s, *counted))
    findings = (Finding(Problem.MALFORMED_LINE, source, example, bad),) if bad else ()
    if not rows:
        return SampleBatch.empty(source=source, findings=findings)
    return _counters(_ports_of(zip(*rows, strict=True)), source, findings)


def _csv_rows(data: bytes) -> Iterator[dict[str, str]]:
    """Rows by the names of the first line; a row that is no CSV is an empty one."""
    rows = csv.DictReader(data.decode("utf-8", "replace").lstrip("\ufeff").splitlines())
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error:
            yield {}


def _file_of(path: Path) -> Path:
    if path.is_dir():
        found = [path / name for name in (BINS_FILE, NATIVE_FILE) if (path / name).is_file()]
        found += sorted(path.glob("*.csv"))[:1] if not found else []
        if not found:
            raise ConfigError(f"{path} holds no recording of switch counters", mend=f"Give a file such as {BINS_FILE}")
        return found[0]
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    return path


def _read_parquet(file: Path, switches: Collection[str], start_s: float, end_s: float) -> SampleBatch:
    import duckdb

    with duckdb.connect() as connection:
        try:
            columns = {row[0] for row in connection.execute("describe from read_parquet(?)", [str(file)]).fetchall()}
            binned = "ts" in columns
            if not {"leaf", "port", "in_bytes", "out_bytes"} <= columns or not ({"ts", "ts_ms"} & columns):
                raise SchemaError(f"{file} is no recording of switch ports: it has the columns {', '.join(columns)}")
            at_s = "ts::double" if binned else "ts_ms / 1000.0"
            hole = "coalesce(gap, false)" if "gap" in columns else "false"
            where = f"from read_parquet(?) where {at_s} between ? and ? and (? or list_contains(?, leaf))"
            low, high = max(start_s, -1e15), min(end_s, 1e15)
            given = [str(file), low, high, not switches, list(switches)]
            counted = connection.execute(f"select count(*) {where}", given).fetchone()
            if counted is None or counted[0] > MOST_ROWS:
                raise ConfigError(f"{file} has {counted} rows there", mend="Ask for fewer switches or a shorter time")
            query = f"select leaf, port, {at_s} as at_s, in_bytes, out_bytes, {hole} as hole {where} order by leaf, port, at_s"
            table = connection.execute(query, given).fetchnumpy()
        except duckdb.Error as odd:
            raise SchemaError(f"{file} cannot be read as Parquet: {str(odd).splitlines()[0]}") from odd
    if not table["at_s"].size:
        finding = Finding(Problem.EMPTY, str(file), "no port of these switches has a row in that time")
        return SampleBatch.empty(source=str(file), findings=(finding,))
    ports = _ports_of([table[name] for name in ("leaf", "port", "at_s", "in_bytes", "out_bytes", "hole")])
    return _rates(ports, str(file)) if binned else _counters(ports, str(file))


def _ports_of(columns: Iterable[Any]) -> _Ports:
    """Columns switch, port, time, in, out and perhaps hole, sorted by port and time."""
    names, ports, *numbers = (np.ma.filled(np.ma.asarray(column), _blank(column)) for column in columns)
    at_s, rx, tx = (number.astype(np.float64) for number in numbers[:3])
    hole = numbers[3].astype(np.bool_) if len(numbers) > 3 else np.zeros(at_s.shape, np.bool_)
    pairs = np.char.add(np.char.add(names.astype(str), "\n"), ports.astype(str))
    unique, index = np.unique(pairs, return_inverse=True)
    order = np.lexsort((at_s, index))
    # Of two rows of a port at one instant the first is kept.
    fresh = np.append(True, (np.diff(index[order]) != 0) | (np.diff(at_s[order]) > 0))
    order = order[fresh]
    first = np.flatnonzero(np.append(True, np.diff(index[order]) != 0))
    split = [name.partition("\n") for name in unique.tolist()]
    return _Ports(
        tuple(name for name, _, _ in split),
        tuple(port for _, _, port in split),
        first,
        at_s[order],
        rx[order],
        tx[order],
        hole[order],
    )


def _blank(column: Any) -> Any:
    kind = np.asarray(column).dtype.kind
    return np.nan if kind == "f" else False if kind == "b" else 0 if kind in "iu" else ""


def _counters(ports: _Ports, source: str, findings: tuple[Finding, ...] = ()) -> SampleBatch:
    """Byte counters that start at 0 with a port's first sample; a count below 0 is a dip and counts as nothing."""
    values = {}
    for metric, counted in (("port_rx_bytes_total", ports.rx), ("port_tx_bytes_total", ports.tx)):
        grown = np.maximum(np.nan_to_num(counted, nan=0.0), 0.0)
        grown[ports.first] = 0.0  # counted since a sample that is not here
        total = np.cumsum(grown)
        values[metric] = total - np.repeat(total[ports.first], _lengths(ports))
    return _pack(ports, values, ports.at_s, source, findings)


def _rates(ports: _Ports, source: str) -> SampleBatch:
    """Bytes per second of each bin, stamped with its end; missing where the counter had a hole."""
    values = {
        "port_rx_bytes_per_s": np.where(ports.hole, np.nan, ports.rx / BIN_S),
        "port_tx_bytes_per_s": np.where(ports.hole, np.nan, ports.tx / BIN_S),
    }
    return _pack(ports, values, ports.at_s + BIN_S, source)


def _lengths(ports: _Ports) -> NDArray[np.intp]:
    return np.diff(np.append(ports.first, ports.at_s.size))


def _pack(
    ports: _Ports,
    values: Mapping[str, FloatArray],
    at_s: FloatArray,
    source: str,
    findings: tuple[Finding, ...] = (),
) -> SampleBatch:
    """One batch of every metric and port, and the ports' speeds."""
    links = [str(link_of_port(switch, port)) for switch, port in zip(ports.switch, ports.port, strict=True)]
    keys = [SeriesKey(metric, link) for metric in values for link in links]
    n = len(links)
    owner = np.repeat(np.arange(n, dtype=np.int32), _lengths(ports))
    series = [owner + np.int32(place * n) for place in range(len(values))]
    times, numbers = [at_s] * len(values), list(values.values())
    for place, port in enumerate(ports.port):
        speed = capacity_of(port)
        if speed is not None:
            mine = at_s[ports.first[place] : ports.first[place] + _lengths(ports)[place]]
            marks = np.arange(mine[0], mine[-1] + CAPACITY_EVERY_S, CAPACITY_EVERY_S)
            marks = np.minimum(marks[marks <= mine[-1]], mine[-1])
            series.append(np.full(marks.size, len(keys), np.int32))
            keys.append(SeriesKey("port_capacity_bytes_per_s", links[place]))
            times.append(marks)
            numbers.append(np.full(marks.size, speed))
    value = np.concatenate(numbers)
    return SampleBatch(
        keys=tuple(keys),
        series=np.concatenate(series),
        at_s=np.concatenate(times),
        value=value,
        reason=_reasons(value),
        findings=findings,
        source=source,
    )


def _reasons(value: FloatArray) -> CodeArray:
    return np.where(np.isnan(value), np.uint8(Reason.NOT_OBSERVED), np.uint8(Reason.OK)).astype(np.uint8)


def _within(batch: SampleBatch, start_s: float, end_s: float) -> SampleBatch:
    inside = (batch.at_s >= start_s) & (batch.at_s <= end_s)
    return SampleBatch(
        batch.keys,
        batch.series[inside],
        batch.at_s[inside],
        batch.value[inside],
        batch.reason[inside],
        findings=batch.findings,
        source=batch.source,
    )

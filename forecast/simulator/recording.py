"""Recorded 10 Hz GPU telemetry, read from a folder laid out as ``h100_dcgm_10hz``.

``telemetry.parquet`` has a row per (run, node, timestamp, gpu); ``infiniband.parquet``, where present, a row per
(run, node, timestamp) with bytes per second of each port.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from telemetry.catalogue import MIB
from telemetry.errors import ConfigError

FloatArray = NDArray[np.float64]

TELEMETRY_FILE = "telemetry.parquet"
FABRIC_FILE = "infiniband.parquet"

COLUMNS: dict[str, tuple[str, float]] = {
    "gpu_temperature_celsius": ("temp_c", 1.0),
    "gpu_power_watts": ("power_w", 1.0),
    "gpu_energy_joules_total": ("energy_mj", 1e-3),
    "gpu_util_ratio": ("gpu_util_pct", 0.01),
    "gpu_mem_copy_util_ratio": ("mem_util_pct", 0.01),
    "gpu_memory_used_bytes": ("mem_used_mib", MIB),
    "gpu_sm_active_ratio": ("sm_active", 1.0),
    "gpu_tensor_active_ratio": ("tensor_active", 1.0),
    "gpu_dram_active_ratio": ("dram_active", 1.0),
    "gpu_fp16_active_ratio": ("fp16_active", 1.0),
    "gpu_pcie_tx_bytes_per_s": ("pcie_tx_bytes_s", 1.0),
    "gpu_pcie_rx_bytes_per_s": ("pcie_rx_bytes_s", 1.0),
    "gpu_nvlink_tx_bytes_per_s": ("nvlink_tx_bytes_s", 1.0),
    "gpu_nvlink_rx_bytes_per_s": ("nvlink_rx_bytes_s", 1.0),
}
"""Catalogue metric -> column of the record and what it is multiplied with to get the catalogue's unit."""
_PORTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class NodeRecord:
    """What one host did.

    Args:
        node: index in the record.
        gpu_model: as recorded.
        gpus: (n_gpus,) card indices.
        at_s: (n_times,) recorded Unix seconds, rising.
        value: (n_times, n_metrics, n_gpus) in the record's own numbers, metrics as in ``COLUMNS``; NaN where the
            record has none.
        phase: (n_times,) what the record calls this moment.
        port_at_s: (n_port_times,) empty without a fabric record.
        port_tx_bytes: (n_port_times, n_ports) bytes sent since the record began.
        port_rx_bytes: (n_port_times, n_ports) bytes received.
    """

    node: int
    gpu_model: str
    gpus: NDArray[np.int64]
    at_s: FloatArray
    value: FloatArray
    phase: NDArray[np.str_]
    port_at_s: FloatArray
    port_tx_bytes: FloatArray
    port_rx_bytes: FloatArray


def read_run(folder: Path, run: str) -> tuple[NodeRecord, ...]:
    """Every host of a run, by index.

    Raises:
        ConfigError: no such folder, file or run, or a file that is no such record.
    """
    if not folder.is_dir():
        raise ConfigError(f"no folder {folder}", mend="Give the folder that holds telemetry.parquet")
    path = folder / TELEMETRY_FILE
    if not path.is_file():
        raise ConfigError(f"{folder} has no {TELEMETRY_FILE}", mend="Give a folder laid out as h100_dcgm_10hz")
    names = ", ".join(column for column, _ in COLUMNS.values())
    table = _query(
        path,
        f"select node, gpu, gpu_model, timestamp, phase, {names} from read_parquet($path) where run = $run "
        "order by node, timestamp, gpu",
        run,
    )
    if table["node"].size == 0:
        runs = _query(path, "select distinct run from read_parquet($path) where run <> $run order by run", run)["run"]
        raise ConfigError(f"{path} has no run {run!r}", mend=f"Runs there: {', '.join(str(name) for name in runs)}")
    nodes = np.unique(table["node"])
    return tuple(_node_record(table, int(node), folder / FABRIC_FILE, run) for node in nodes)


def _query(path: Path, text: str, run: str) -> dict[str, NDArray[np.generic]]:
    """Columns by name; masked cells become NaN or None."""
    try:
        with duckdb.connect() as connection:
            found: dict[str, NDArray[np.generic]] = connection.execute(
                text, {"path": str(path), "run": run}
            ).fetchnumpy()
    except duckdb.Error as error:
        first = str(error).partition("\n")[0]
        raise ConfigError(f"{path} cannot be read as a record: {first}") from error
    return found


def _numbers(column: NDArray[np.generic]) -> FloatArray:
    if isinstance(column, np.ma.MaskedArray):
        return np.ma.filled(column.astype(np.float64), np.nan)
    return np.asarray(column, dtype=np.float64)


def _node_record(table: dict[str, NDArray[np.generic]], node: int, fabric: Path, run: str) -> NodeRecord:
    mine = table["node"] == node
    stamps = _numbers(table["timestamp"])[mine]
    cards = np.asarray(table["gpu"][mine], dtype=np.int64)
    at_s, row = np.unique(stamps, return_inverse=True)
    gpus, column = np.unique(cards, return_inverse=True)
    value = np.full((at_s.size, len(COLUMNS), gpus.size), np.nan)
    for index, (name, _) in enumerate(COLUMNS.values()):
        value[row, index, column] = _numbers(table[name])[mine]
    phase = np.full(at_s.size, "", dtype="U16")
    phase[row] = [str(word or "") for word in table["phase"][mine]]
    port_at_s, tx, rx = _read_ports(fabric, run, node)
    model = str(table["gpu_model"][mine][0])
    return NodeRecord(node, model, gpus, at_s, value, phase, port_at_s, tx, rx)


def _read_ports(path: Path, run: str, node: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Times and byte counters of the host's ports; empty where the record has none."""
    empty = np.empty(0)
    none = (empty, np.empty((0, _PORTS)), np.empty((0, _PORTS)))
    if not path.is_file():
        return none
    table = _query(
        path, f"select * from read_parquet($path) where run = $run and node = {node} order by timestamp", run
    )
    at_s = _numbers(table["timestamp"])
    if at_s.size == 0:
        return none
    span_s = np.diff(at_s, prepend=at_s[:1])
    totals = []
    for way in ("tx", "rx"):
        rate = np.stack([_numbers(table[f"ib{port}_{way}_bytes_s"]) for port in range(_PORTS)], axis=1)
        # A rate holds for the time since the reading before it; a missing one adds nothing.
        totals.append(np.cumsum(np.nan_to_num(rate) * span_s[:, None], axis=0))
    return at_s, totals[0], totals[1]

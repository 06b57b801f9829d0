"""What the forecasting benchmark reads: recordings on a regular grid, cut into windows with a known cutoff.

A folder is laid out as the recorded data; a subfolder that is absent leaves its tasks out. Without a folder, seeded
simulated recordings take the same path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.frame import Context

Floats = NDArray[np.float64]

H100_FILE = "h100_dcgm_10hz/telemetry.parquet"
FABRIC_FILE = "h100_dcgm_10hz/infiniband.parquet"
POD_FILES = {
    "gpu_util_ratio": "alibaba_genai_2026/gpu_duty_cycle.parquet",
    "gpu_memory_used_bytes": "alibaba_genai_2026/gpu_mem_used_bytes.parquet",
}
ROCE_FILE = "zjlab_roce_2024/ports_5s.parquet"
# Column of the recording -> our metric, factor to its unit, greatest legal value.
H100_COLUMNS: dict[str, tuple[str, float, float]] = {
    "power_w": ("gpu_power_watts", 1.0, 5000.0),
    "temp_c": ("gpu_temperature_celsius", 1.0, 150.0),
    "gpu_util_pct": ("gpu_util_ratio", 0.01, 1.0),
    "mem_util_pct": ("gpu_mem_copy_util_ratio", 0.01, 1.0),
    "sm_active": ("gpu_sm_active_ratio", 1.0, 1.0),
    "tensor_active": ("gpu_tensor_active_ratio", 1.0, 1.0),
    "dram_active": ("gpu_dram_active_ratio", 1.0, 1.0),
    "pcie_tx_bytes_s": ("gpu_pcie_tx_bytes_per_s", 1.0, 4e12),
    "pcie_rx_bytes_s": ("gpu_pcie_rx_bytes_per_s", 1.0, 4e12),
    "nvlink_tx_bytes_s": ("gpu_nvlink_tx_bytes_per_s", 1.0, 4e12),
    "nvlink_rx_bytes_s": ("gpu_nvlink_rx_bytes_per_s", 1.0, 4e12),
}
POD_STEP_S = 57.0
ROCE_STEP_S = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Series observed together on one grid.

    Args:
        name: run and node, or the name of the fleet.
        values: (n, t), NaN where nothing was observed.
        step_s: grid spacing.
        metric: (n,) catalogue names.
        entity: (n,) GPU, pod or port; series of one entity are drawn together in the bootstrap.
        group: (n,) number of the job, pod or switch.
        high: (n,) greatest legal value.
    """

    name: str
    values: Floats
    step_s: float
    metric: tuple[str, ...]
    entity: tuple[str, ...]
    group: NDArray[np.int32]
    high: Floats

    def between(self, start: int, stop: int) -> Context:
        """The context of columns ``start`` to ``stop``."""
        low = np.zeros(self.values.shape[0])
        return Context(self.values[:, start:stop], self.step_s, self.metric, self.group, low, self.high)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Recordings and how to cut them.

    Args:
        name: start of the task's name.
        recordings: what was observed.
        context_points: most points that a model sees.
        horizon: steps ahead.
        leads: score only these leads, each as a task of its own; all leads as one task when empty.
        origins: cutoffs per recording in its second half.
        trained_served: the served model may use a model trained on the first half.
        spans: also score the mean over the next points of each span, as tasks named ``NAME-mean-SPAN``.
    """

    name: str
    recordings: tuple[Recording, ...]
    context_points: int
    horizon: int
    leads: tuple[int, ...] = ()
    origins: int = 3
    trained_served: bool = False
    spans: tuple[int, ...] = ()

    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return tuple(f"{self.name}-{lead}" for lead in self.leads or (self.horizon,))

    def cutoffs(self, recording: Recording) -> list[int]:
        """Columns at which forecasts are made: second half only, each with its whole horizon observed."""
        points = recording.values.shape[1]
        first, last = points // 2, points - self.horizon
        if first < 16 or last < first:
            return []
        return sorted({int(c) for c in np.linspace(first, last, self.origins)})

    def training(self) -> list[Context]:
        """The first half of every recording."""
        return [recording.between(0, recording.values.shape[1] // 2) for recording in self.recordings]


Loader = Callable[[Path, bool], Dataset]


def h100_100ms(folder: Path, quick: bool) -> Dataset:
    """10 Hz DCGM and InfiniBand telemetry of training nodes, 512 points of context, 48 steps ahead."""
    runs = h100_recordings(folder, 0.1, quick)
    return Dataset("h100-100ms", runs, 512, 48, origins=1 if quick else 5)


def h100_1s(folder: Path, quick: bool) -> Dataset:
    """The same telemetry as 1 s means, 30 steps ahead."""
    runs = h100_recordings(folder, 1.0, quick)
    return Dataset("h100-1s", runs, 512, 30, origins=1 if quick else 5)


def pods_57s(folder: Path, quick: bool) -> Dataset:
    """Duty cycle and memory of serving pods, one point in 57 s, 30 steps ahead."""
    rows: list[tuple[str, str, Floats]] = []
    files = {metric: folder / file for metric, file in POD_FILES.items() if (folder / file).is_file()}
    columns = {
        metric: _query(f"select pod, ts, value from '{file}' order by pod, ts") for metric, file in files.items()
    }
    start = min(float(c["ts"].min()) for c in columns.values())
    points = 1 + max(round((float(c["ts"].max()) - start) / POD_STEP_S) for c in columns.values())
    for metric, column in columns.items():
        scale = 0.01 if metric == "gpu_util_ratio" else 1.0
        for pod in np.unique(column["pod"])[:: 8 if quick else 1]:
            mine = column["pod"] == pod
            grid = np.full(points, np.nan)
            place = np.round((column["ts"][mine] - start) / POD_STEP_S).astype(int)
            grid[place] = np.ma.filled(column["value"][mine].astype(np.float64), np.nan) * scale
            rows.append((metric, str(pod), grid))
    pods = {pod: k for k, pod in enumerate(dict.fromkeys(row[1] for row in rows))}
    fleet = Recording(
        "pods",
        np.stack([row[2] for row in rows]),
        POD_STEP_S,
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        np.array([pods[row[1]] for row in rows], np.int32),
        np.array([1.0 if row[0] == "gpu_util_ratio" else np.inf for row in rows]),
    )
    return Dataset("pods-57s", (fleet,), 512, 30, origins=1 if quick else 3, trained_served=True)


def roce_5s(folder: Path, quick: bool) -> Dataset:
    """Bytes in and out of every switch port per 5 s, scored at exactly 1, 6, 12 and 60 steps ahead, and as means over the
    next 6, 12 and 60; gaps are missing.
    """
    every = 25 if quick else 1
    found = _query(
        f"select leaf, port, ts, (in_bytes + out_bytes) / {ROCE_STEP_S} as rate, gap from '{folder / ROCE_FILE}'"
        " order by leaf, port, ts"
    )
    names = np.char.add(np.char.add(found["leaf"].astype(str), " "), found["port"].astype(str))
    ports, index = np.unique(names, return_inverse=True)
    column = np.round((found["ts"] - found["ts"].min()) / ROCE_STEP_S).astype(int)
    values = np.full((ports.size, int(column.max()) + 1), np.nan)
    rate = np.ma.filled(found["rate"].astype(np.float64), np.nan)
    values[index, column] = np.where(np.ma.filled(found["gap"], True), np.nan, rate)
    kept = np.arange(ports.size)[::every]
    leaf = np.unique([str(port).partition(" ")[0] for port in ports], return_inverse=True)[1].astype(np.int32)
    fabric = Recording(
        "roce",
        values[kept],
        ROCE_STEP_S,
        ("port_tx_bytes_per_s",) * kept.size,
        tuple(str(ports[k]) for k in kept),
        leaf[kept],
        np.full(kept.size, np.inf),
    )
    return Dataset(
        "roce-5s", (fabric,), 512, 60, (1, 6, 12, 60), 1 if quick else 5, trained_served=True, spans=(6, 12, 60)
    )


LOADERS: dict[str, tuple[Loader, tuple[str, ...]]] = {
    "h100-100ms": (h100_100ms, (H100_FILE, FABRIC_FILE)),
    "h100-1s": (h100_1s, (H100_FILE, FABRIC_FILE)),
    "pods-57s": (pods_57s, tuple(POD_FILES.values())),
    "roce-5s": (roce_5s, (ROCE_FILE,)),
}
"""Data set -> how to read it, and which files it rests on."""


def h100_recordings(folder: Path, step_s: float, quick: bool) -> tuple[Recording, ...]:
    """One recording per run, node and file: the GPUs of a node, or its network ports.

    The steady part where the phases name one, the whole run otherwise.
    """
    found: list[Recording] = []
    for file, part, read in ((H100_FILE, "", _one_node), (FABRIC_FILE, " fabric", _one_fabric)):
        if not (folder / file).is_file():
            continue
        table = _table(folder / file)
        names = np.char.add(np.char.add(table["run"].astype(str), "."), table["node"].astype(str))
        for name in np.unique(names)[:: 4 if quick else 1]:
            rows = names == name
            steady = rows & (table["phase"].astype(str) == "steady")
            found.append(read(f"{name}{part}", table, steady if steady.any() else rows, step_s, quick))
    return tuple(found)


def _table(file: Path) -> dict[str, Any]:
    return _query(f"select * from '{file}' order by run, node, timestamp")


def _query(sql: str) -> dict[str, Any]:
    import duckdb

    relation = duckdb.sql(sql)
    found: dict[str, Any] = {} if relation is None else relation.fetchnumpy()
    return found


def _one_node(name: str, table: dict[str, Any], rows: NDArray[np.bool_], step_s: float, quick: bool) -> Recording:
    at_s = table["timestamp"][rows].astype(np.float64)
    gpu = np.asarray(table["gpu"][rows])
    start, points = at_s.min(), int((at_s.max() - at_s.min()) / step_s)
    values, metric, entity, high = [], [], [], []
    for number in np.unique(gpu)[:: 4 if quick else 1]:
        mine = gpu == number
        for column, (ours, scale, most) in H100_COLUMNS.items():
            seen = np.ma.filled(table[column][rows][mine].astype(np.float64), np.nan) * scale
            values.append(on_grid(at_s[mine] - start, seen, step_s, points))
            metric.append(ours)
            entity.append(f"{name}.{number}")
            high.append(most)
    group = np.zeros(len(values), np.int32)
    return Recording(name, np.stack(values), step_s, tuple(metric), tuple(entity), group, np.array(high))


def _one_fabric(name: str, table: dict[str, Any], rows: NDArray[np.bool_], step_s: float, quick: bool) -> Recording:
    at_s = table["timestamp"][rows].astype(np.float64)
    start, points = at_s.min(), int((at_s.max() - at_s.min()) / step_s)
    values, metric, entity = [], [], []
    for port in range(0, 8, 4 if quick else 1):
        for way in ("tx", "rx"):
            seen = np.ma.filled(table[f"ib{port}_{way}_bytes_s"][rows].astype(np.float64), np.nan)
            values.append(on_grid(at_s - start, seen, step_s, points))
            metric.append(f"port_{way}_bytes_per_s")
            entity.append(f"{name}.{port}")
    n = len(values)
    return Recording(
        name, np.stack(values), step_s, tuple(metric), tuple(entity), np.zeros(n, np.int32), np.full(n, np.inf)
    )


def on_grid(at_s: Floats, value: Floats, step_s: float, points: int) -> Floats:
    """The samples on a grid: the nearest ones on a grid as fine as the sampling, means on a coarser one."""
    place = nearest_on_grid if step_s <= 0.1 else mean_on_grid
    return place(at_s, value, step_s, points)


def nearest_on_grid(at_s: Floats, value: Floats, step_s: float, points: int) -> Floats:
    """(points,) the sample nearest to each slot; NaN where none lies within one and a half steps."""
    slot = np.arange(points) * step_s
    after = np.clip(np.searchsorted(at_s, slot), 1, at_s.size - 1)
    index = np.where(slot - at_s[after - 1] <= at_s[after] - slot, after - 1, after)
    result: Floats = np.where(np.abs(at_s[index] - slot) <= 1.5 * step_s, value[index], np.nan)
    return result


def mean_on_grid(at_s: Floats, value: Floats, step_s: float, points: int) -> Floats:
    """(points,) mean of the samples in each slot; NaN where there is none."""
    slot = (at_s / step_s).astype(int)
    good = np.isfinite(value) & (slot < points)
    count = np.bincount(slot[good], minlength=points)
    total = np.bincount(slot[good], value[good], minlength=points)
    result: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return result


def digest_of(files: list[Path]) -> str:
    """SHA-256 over the files' contents, in the order given."""
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()

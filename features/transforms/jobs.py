"""Job frames: one job's recent past, everything on one grid.

The same code runs on the ring of the running service and on the store of a back-test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from features.frame import Context, JobFrame
from features.store.base import Reader, Series
from features.transforms.checkpoints import checkpoint_stamps
from features.transforms.counters import rates_on_grid
from features.transforms.device_memory import USED, usable_memory
from features.transforms.frozen import frozen_fields, frozen_notes, without_frozen
from features.transforms.grid import drop_stale_runs, to_grid
from features.transforms.hosts import host_rows
from features.transforms.job_views import OVER_AFTER_S, host_shares, job_views
from features.transforms.links import (
    RX_COUNTER,
    TX_COUNTER,
    link_frame,
    newest_s,
    oldest_s,
    point_count,
    read_capacities,
    typical_step_s,
)
from features.transforms.refresh import refresh_step_s
from features.transforms.steps import collective_stamps, step_stamps
from telemetry.catalogue import BY_NAME, Level
from telemetry.ids import GpuId, LinkId, SeriesKey
from telemetry.jobs import JobView
from telemetry.samples import Reason

__all__ = ["FRAME_METRICS", "host_shares", "job_frame", "job_views", "link_frame"]

FRAME_METRICS: tuple[str, ...] = (
    "gpu_gr_engine_active_ratio",
    "gpu_sm_active_ratio",
    "gpu_tensor_active_ratio",
    "gpu_dram_active_ratio",
    "gpu_util_ratio",
    "gpu_mem_copy_util_ratio",
    "gpu_sm_occupancy_ratio",
    "gpu_fp64_active_ratio",
    "gpu_fp32_active_ratio",
    "gpu_fp16_active_ratio",
    "gpu_pcie_tx_bytes_per_s",
    "gpu_pcie_rx_bytes_per_s",
    "gpu_nvlink_tx_bytes_per_s",
    "gpu_nvlink_rx_bytes_per_s",
    "gpu_nvlink_bytes_per_s",
    "gpu_memory_used_bytes",
    "gpu_memory_used_ratio",
    "gpu_power_watts",
)
"""What is worth forecasting: how hard the job works, what it moves, holds and draws. Clocks, heat, codes and flags
follow from these or from the machine room."""
FABRIC_TX = "job_fabric_tx_bytes_per_s"
FABRIC_RX = "job_fabric_rx_bytes_per_s"
MIN_PRESENT_RATIO = 0.8
"""A job's total exists where at least this share of its devices was read; a sum is then mean x devices."""


def job_frame(
    reader: Reader,
    job: JobView,
    *,
    now_s: float,
    window_s: float,
    step_s: float | None = None,
    max_points: int = 1024,
    port_keys: Sequence[SeriesKey] = (),
    shares: Mapping[str, float] | None = None,
    lookback_s: float = 0.0,
    collective_keys: Sequence[SeriesKey] = (),
) -> JobFrame:
    """One job's recent past up to ``now_s``; the last column stands at its newest sample.

    Nothing later than ``now_s`` and nothing from before the job had its GPUs is used.

    Args:
        reader: ring or store.
        job: who, where.
        now_s: nothing later is used.
        window_s: how far back.
        step_s: grid spacing; how often the job's fastest metric really changes when None.
        max_points: most columns.
        port_keys: byte counters of the NIC ports of the job's hosts; looked up in the reader when empty.
        shares: host -> the job's share of its NIC traffic; by GPU count when None, 1 on hosts of its own.
        lookback_s: how long the source repeats a last value (300 for Prometheus), 0 for scraped pages.
        collective_keys: series of the job's own communicators, where something tells which these are.

    Returns:
        A frame; without any sample it has no rows and no columns, ``data_at_s`` 0, and ``missing`` says why.
    """
    first_s = max(now_s - window_s, job.first_seen_s)
    over = job.first_seen_s < job.last_seen_s < now_s - OVER_AFTER_S
    as_of_s = job.last_seen_s if over else now_s
    span_s = max(0.0, as_of_s - first_s)
    keys, missing = list(_device_keys(job.gpus)), _not_per_device(job.gpus)
    devices = reader.read(keys, as_of_s, span_s)
    stopped = frozen_fields(devices)
    devices = without_frozen(devices, stopped) if stopped else devices
    ports = list(port_keys) or _port_keys(reader, job.nodes)
    traffic = reader.read(ports, as_of_s, span_s)
    basis = devices if any(one.at_s.shape[0] for one in devices) else traffic
    end_s = newest_s(basis)
    step_s = step_s or refresh_step_s(devices) or typical_step_s(basis)
    n_points = 0
    if np.isfinite(end_s) and step_s > 0:
        n_points = point_count(oldest_s(basis), end_s, step_s, max_points)
    step_s = step_s if step_s > 0 else 1.0
    values, reason = to_grid(devices, step_s, end_s, n_points)
    if lookback_s > 0:
        values, reason = drop_stale_runs(values, reason, step_s, lookback_s)
    keep = _rows_with_values(keys, values, devices, missing, span_s)
    keys, values = [keys[i] for i in keep], values[keep]
    totals, names = _totals(keys, values, len(job.gpus), missing)
    highs = [_high(name) for name in names]
    if shares is None:
        shares = host_shares(reader.allocations(as_of_s, window_s)).get(job.job, {}) if job.shared else {}
    for name, counter in ((FABRIC_TX, TX_COUNTER), (FABRIC_RX, RX_COUNTER)):
        mine = [i for i, key in enumerate(ports) if key.metric == counter]
        total = _fabric([traffic[i] for i in mine], shares, step_s, end_s, n_points)
        if total is None:
            missing[name] = _no_fabric(job, len(mine))
            continue
        totals.append(total)
        names.append(name)
        capacity = read_capacities(reader, [ports[i].entity for i in mine], as_of_s)
        part = np.array([shares.get(_node(ports[i]), 1.0) for i in mine])
        highs.append(float(np.nan_to_num((capacity * part).sum(), nan=np.inf)))
    for name, row in host_rows(
        reader,
        job.nodes,
        shares,
        as_of_s=as_of_s,
        span_s=span_s,
        step_s=step_s,
        end_s=end_s,
        n_points=n_points,
    ).items():
        totals.append(row)
        names.append(name)
        highs.append(_high(name))
    rows = np.array(totals) if totals else np.empty((0, n_points))
    rows = np.minimum(rows, np.array(highs)[:, None]) if totals else rows
    group = np.zeros(len(keys), np.int32)
    device_high = np.array([_high(key.metric) for key in keys])
    metric = tuple(key.metric for key in keys)
    return JobFrame(
        job,
        end_s if np.isfinite(end_s) else 0.0,
        max((one.received_s for one in basis), default=0.0),
        Context(values, step_s, metric, group, np.zeros(len(keys)), device_high),
        tuple(keys),
        Context(rows, step_s, tuple(names), np.zeros(len(names), np.int32), np.zeros(len(names)), np.array(highs)),
        missing,
        frozen_notes(stopped),
        step_stamps(reader, job.job, as_of_s, span_s),
        collective_stamps(reader, collective_keys, as_of_s, span_s),
        checkpoint_stamps(reader, job.job, as_of_s, max(0.0, as_of_s - job.first_seen_s)),
        usable_memory(reader, [key.entity for key in keys if key.metric == USED], as_of_s, span_s),
    )


@lru_cache(maxsize=4096)
def _device_keys(gpus: tuple[GpuId, ...]) -> tuple[SeriesKey, ...]:
    """Series that the devices may have, metric by metric; figures of a card only for whole cards."""
    whole = [str(gpu) for gpu in gpus if not gpu.mig]
    every = [str(gpu) for gpu in gpus]
    return tuple(
        SeriesKey(metric, entity)
        for metric in FRAME_METRICS
        for entity in (whole if BY_NAME[metric].level is Level.GPU else every)
    )


def _not_per_device(gpus: Sequence[GpuId]) -> dict[str, str]:
    """What cannot be known of a job that has no whole card."""
    if not gpus or any(not gpu.mig for gpu in gpus):
        return {}
    return {
        metric: f"{metric} is measured per card, and this job has only MIG slices of cards"
        for metric in FRAME_METRICS
        if BY_NAME[metric].level is Level.GPU
    }


def _port_keys(reader: Reader, nodes: Sequence[str]) -> list[SeriesKey]:
    """Byte counters of the NIC ports of some hosts, sorted."""
    hosts = set(nodes)
    return sorted(key for key in reader.keys((TX_COUNTER, RX_COUNTER)) if _node(key) in hosts)


def _node(key: SeriesKey) -> str:
    return LinkId.parse(key.entity).node


def _high(metric: str) -> float:
    """Greatest physical value of a row: 1 for ratios, unknown for the rest."""
    return 1.0 if metric.endswith("_ratio") else float("inf")


def _rows_with_values(
    keys: Sequence[SeriesKey],
    values: NDArray[np.float64],
    series: Sequence[Series],
    missing: dict[str, str],
    span_s: float,
) -> list[int]:
    """Rows with at least one value; says in ``missing`` why a metric has none."""
    has_value = (~np.isnan(values)).any(axis=1)
    keep = np.flatnonzero(has_value).tolist()
    present = {keys[i].metric for i in keep}
    codes: dict[str, list[NDArray[np.uint8]]] = {}
    for key, one in zip(keys, series, strict=True):
        if one.reason.shape[0] and key.metric not in present:
            codes.setdefault(key.metric, []).append(one.reason)
    for metric in FRAME_METRICS:
        if metric not in present and metric not in missing:
            seen = np.concatenate(codes[metric]) if metric in codes else np.empty(0, np.uint8)
            missing[metric] = _why_missing(metric, seen, span_s)
    return keep


_WHY = {
    Reason.BLANK: "the exporter printed its 'no value' number each time",
    Reason.OUT_OF_RANGE: "every value was outside its legal range",
    Reason.NOT_FINITE: "every value was NaN or infinite",
    Reason.NOT_MEASURED: "the device cannot measure it",
    Reason.FIRST_READING: "only a first reading has come so far",
    Reason.FROZEN: "they repeat an old number: another profiler holds the GPU's profiling counters, or they stopped",
}


def _why_missing(metric: str, codes: NDArray[np.uint8], span_s: float) -> str:
    if codes.shape[0] == 0:
        return f"no sample of {metric} came for this job's devices in the last {span_s:.0f} s"
    usual = int(np.bincount(codes).argmax())
    why = _WHY.get(Reason(usual), "no value was observed on the grid")
    return f"{codes.shape[0]} samples of {metric} came in the last {span_s:.0f} s, but {why}"


def _totals(
    keys: Sequence[SeriesKey], values: NDArray[np.float64], n_devices: int, missing: dict[str, str]
) -> tuple[list[NDArray[np.float64]], list[str]]:
    """The job's own row of each metric: mean of ratios, sum of the rest, NaN where too few devices were read."""
    totals: list[NDArray[np.float64]] = []
    names: list[str] = []
    by_metric: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        by_metric.setdefault(key.metric, []).append(row)
    for metric, rows in by_metric.items():
        if len(rows) < MIN_PRESENT_RATIO * n_devices:
            missing[metric] = f"only {len(rows)} of the job's {n_devices} devices report {metric}"
            continue
        block = values[rows]
        good = ~np.isnan(block)
        count = good.sum(axis=0)
        total = np.where(good, block, 0.0).sum(axis=0)
        enough = count >= max(1.0, MIN_PRESENT_RATIO * n_devices)
        mean = np.where(enough, total / np.maximum(count, 1), np.nan)
        totals.append(mean if metric.endswith("_ratio") else mean * n_devices)
        names.append(metric)
    return totals, names


def _fabric(
    traffic: Sequence[Series], shares: Mapping[str, float], step_s: float, end_s: float, n_points: int
) -> NDArray[np.float64] | None:
    """The job's share of what its hosts' ports carried; None when no port gives a rate.

    A port that never gives one (down) is left out; where a live port misses a slot, the slot is missing.
    """
    if not traffic or n_points == 0:
        return None
    rates, _ = rates_on_grid(traffic, step_s, end_s, n_points)
    live = (~np.isnan(rates)).any(axis=1)
    if not live.any():
        return None
    part = np.array([shares.get(_node(one.key), 1.0) for one in traffic])
    total: NDArray[np.float64] = (rates[live] * part[live, None]).sum(axis=0)
    return total


def _no_fabric(job: JobView, n_ports: int) -> str:
    if n_ports == 0:
        return f"no NIC counters are known for the job's hosts ({', '.join(job.nodes[:3]) or 'none'})"
    return f"none of the {n_ports} NIC ports of the job's hosts has two usable counter readings yet"

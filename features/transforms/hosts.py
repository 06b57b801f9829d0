"""What a job's hosts read, write and compute beside the GPUs: the marks of data loading and of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from features.store.base import Reader, Series
from features.transforms.counters import rates_on_grid
from telemetry.ids import SeriesKey

READ_ROW = "job_disk_read_bytes_per_s"
WRITE_ROW = "job_disk_write_bytes_per_s"
CPU_ROW = "job_cpu_busy_ratio"
STORAGE: dict[str, tuple[str, ...]] = {
    READ_ROW: ("host_disk_read_bytes_total", "host_share_read_bytes_total"),
    WRITE_ROW: ("host_disk_write_bytes_total", "host_share_write_bytes_total"),
}
"""Job's row -> counters of disks and network shares that add up to it."""
CPU_TIMES = ("node_cpu_busy_seconds_total", "node_cpu_idle_seconds_total", "node_cpu_iowait_seconds_total")


def host_rows(
    reader: Reader,
    nodes: Sequence[str],
    shares: Mapping[str, float],
    *,
    as_of_s: float,
    span_s: float,
    step_s: float,
    end_s: float,
    n_points: int,
) -> dict[str, NDArray[np.float64]]:
    """Row name -> (n_points,) of what the job's hosts did; rows that no host tells are left out.

    Disks and shares are added over hosts, processors are a mean over hosts. On a host that the job shares, what is read
    and written counts by the job's share of its GPUs: an estimate.

    Args:
        reader: ring or store.
        nodes: the job's hosts.
        shares: host -> the job's share of it, 1 where absent.
        as_of_s: nothing later is used.
        span_s: how far back.
        step_s: grid spacing.
        end_s: time of the last point.
        n_points: how many points.
    """
    if n_points == 0:
        return {}
    known = reader.keys((*STORAGE[READ_ROW], *STORAGE[WRITE_ROW], *CPU_TIMES))
    hosts = set(nodes)
    keys = [key for key in known if key.entity.partition(":")[0] in hosts]
    if not keys:
        return {}
    series = reader.read(keys, as_of_s, span_s)
    rates, _ = rates_on_grid(series, step_s, end_s, n_points)
    rows = {row: _sum(keys, rates, counters, shares) for row, counters in STORAGE.items()}
    rows[CPU_ROW] = _busy(series, rates)
    return {name: row for name, row in rows.items() if row is not None}


def _sum(
    keys: Sequence[SeriesKey], rates: NDArray[np.float64], counters: Sequence[str], shares: Mapping[str, float]
) -> NDArray[np.float64] | None:
    """Sum over devices that give a rate at all; where one of them misses a slot, the slot is missing."""
    mine = [i for i, key in enumerate(keys) if key.metric in counters and bool((~np.isnan(rates[i])).any())]
    if not mine:
        return None
    part = np.array([shares.get(keys[i].entity.partition(":")[0], 1.0) for i in mine])
    total: NDArray[np.float64] = (rates[mine] * part[:, None]).sum(axis=0)
    return total


def _busy(series: Sequence[Series], rates: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Mean over hosts of work's share in all processor time; a host without its idle time has none."""
    by_host: dict[str, dict[str, NDArray[np.float64]]] = {}
    for one, rate in zip(series, rates, strict=True):
        if one.key.metric in CPU_TIMES:
            by_host.setdefault(one.key.entity, {})[one.key.metric] = rate
    shares = []
    for times in by_host.values():
        busy, idle = times.get(CPU_TIMES[0]), times.get(CPU_TIMES[1])
        if busy is None or idle is None:
            continue
        every = busy + idle + times.get(CPU_TIMES[2], np.zeros_like(busy))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares.append(np.where(every > 0, busy / every, np.nan))
    if not shares or bool(np.isnan(shares).all()):
        return None
    good = ~np.isnan(shares)
    count = good.sum(axis=0)
    total = np.where(good, shares, 0.0).sum(axis=0)
    mean: NDArray[np.float64] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return np.minimum(mean, 1.0)

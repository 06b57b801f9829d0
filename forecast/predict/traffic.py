"""What the jobs send, on the links' grid: from NIC counters where given, else from their duty cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from features.frame import JobFrame, LinkFrame
from forecast.predict.attribution import JobRows
from forecast.predict.duty import at_times
from forecast.predict.ensembles import bridged
from forecast.predict.types import JobForecast
from telemetry.ids import JobId, LinkId

FloatArray = NDArray[np.float64]
JobFabric = Mapping[str, FloatArray]
"""Leaf switch of the sending hosts (``""`` when unknown) -> (n_points,) bytes per second on the links' grid."""

FABRIC = "job_fabric_tx_bytes_per_s"
MIN_PRESENT_RATIO = 0.8
"""A job's bytes are known where at least this share of its ports was read."""


def job_rows(frame: LinkFrame, jobs: Sequence[JobForecast], job_fabric: Mapping[JobId, JobFabric]) -> JobRows:
    """One row per job and leaf; jobs without rows or duty cycle are left out."""
    at_s = grid_s(frame)
    names: list[JobId] = []
    leaves: list[str] = []
    nodes: list[tuple[str, ...]] = []
    values: list[FloatArray] = []
    for job in jobs:
        for leaf, row in _rows_of(job, job_fabric, at_s).items():
            if row.shape == at_s.shape and np.isfinite(row).any():
                names.append(job.job)
                leaves.append(leaf)
                nodes.append(job.nodes)
                values.append(row)
    table = np.stack(values) if values else np.zeros((0, at_s.shape[0]))
    return JobRows(tuple(names), tuple(leaves), tuple(nodes), bridged(table))


def _rows_of(job: JobForecast, job_fabric: Mapping[JobId, JobFabric], at_s: FloatArray) -> JobFabric:
    if job.job in job_fabric:
        return dict(sorted(job_fabric[job.job].items()))
    cycle = job.duty.get(FABRIC)
    return {} if cycle is None else {"": at_times(cycle, cycle.mean, at_s)}


def grid_s(frame: LinkFrame) -> FloatArray:
    """Times of a link frame's columns, Unix seconds."""
    n = frame.tx.n_points
    return frame.data_at_s - frame.tx.step_s * np.arange(n - 1, -1, -1, dtype=np.float64)


def fabric_on_grid(job: JobFrame, frame: LinkFrame) -> JobFabric:
    """What a job sent, on the links' grid; empty where nothing tells.

    From the ports of its own hosts where the frame has them all: they are read as often as the links are, so the
    job's bursts stand at their right moments. Else the job's own fabric row, the latest reading at or before each
    instant, NaN before its first reading and where its reading is missing or older than two of its steps.
    """
    ports = _own_ports(job, frame)
    if ports is not None:
        return {"": ports}
    if FABRIC not in job.totals.metric:
        return {}
    row = job.totals.values[job.totals.metric.index(FABRIC)]
    step_s, n = job.totals.step_s, job.totals.n_points
    back = (job.data_at_s - grid_s(frame)) / step_s
    place = n - 1 - np.ceil(back - 1e-6).astype(np.intp)
    known = (place >= 0) & (back >= -2.0)
    return {"": np.where(known, row[np.clip(place, 0, n - 1)], np.nan)}


def _own_ports(job: JobFrame, frame: LinkFrame) -> FloatArray | None:
    """Bytes per second sent by the ports of a job's hosts, (n_points,); None where a host has no port in the frame or
    has other jobs too. NaN before the job had its hosts and where too few ports were read.
    """
    nodes = set(job.job.nodes)
    nodes_of = [LinkId.parse(text).node for text in frame.links]
    mine = [row for row, node in enumerate(nodes_of) if node in nodes]
    if job.job.shared or not nodes or {nodes_of[row] for row in mine} != nodes:
        return None
    sent = frame.tx.values[mine]
    present = np.isfinite(sent).sum(axis=0)
    total = np.where(np.isfinite(sent), sent, 0.0).sum(axis=0) * len(mine) / np.maximum(present, 1)
    known = (present >= MIN_PRESENT_RATIO * len(mine)) & (grid_s(frame) >= job.job.first_seen_s)
    return np.where(known, total, np.nan) if known.any() else None

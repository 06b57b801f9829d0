"""Synthetic frames: jobs that compute and burst in turn, and a link that carries two of them."""

from __future__ import annotations

import numpy as np
import pytest

from features.frame import Context, JobFrame, LinkFrame
from forecast.predict.worker import PredictRequest
from telemetry.ids import GpuId, JobId, LinkId, SeriesKey
from telemetry.jobs import JobView
from telemetry.topology import Link, Topology

START_S = 1_767_225_600.0
CAPACITY = 50e9
TENSOR = "gpu_tensor_active_ratio"
SM = "gpu_sm_active_ratio"
PCIE_IN = "gpu_pcie_rx_bytes_per_s"
PCIE_OUT = "gpu_pcie_tx_bytes_per_s"
FABRIC = "job_fabric_tx_bytes_per_s"


def context(values, step_s, metrics, *, high=None, group=None):
    values = np.atleast_2d(np.asarray(values, np.float64))
    n = values.shape[0]
    return Context(
        values,
        step_s,
        tuple(metrics),
        np.zeros(n, np.int32) if group is None else np.asarray(group, np.int32),
        np.zeros(n),
        np.full(n, np.inf) if high is None else np.asarray(high, np.float64),
    )


def burst(at_s, period_s, lag_s, width_s, step_s):
    """Share of each slot that lies inside the burst."""
    inside = [np.mod(at_s - START_S - step_s * f - lag_s, period_s) < width_s for f in np.linspace(0.0, 0.95, 20)]
    return np.mean(inside, axis=0)


def make_job(
    name="1",
    *,
    period_s=4.0,
    lag_s=0.0,
    width_s=1.2,
    rate=30e9,
    span_s=120.0,
    step_s=0.5,
    nodes=("n1", "n2"),
    gpus_per_node=2,
    noise=0.02,
    seed=1,
    missing=None,
    first_seen_s=START_S - 1000.0,
    received_s=None,
):
    at_s = START_S + step_s * np.arange(round(span_s / step_s))
    random = np.random.default_rng(seed)
    comm = burst(at_s, period_s, lag_s, width_s, step_s)
    gpus = tuple(GpuId(node, f"GPU-{node}-{i}") for node in nodes for i in range(gpus_per_node))
    rows, metrics, keys = [], [], []
    for gpu in gpus:
        tensor = 0.05 + 0.7 * (1 - comm) + noise * random.normal(size=at_s.size)
        sm = 0.1 + 0.8 * (1 - comm) + 0.3 * comm + noise * random.normal(size=at_s.size)
        for metric, row in ((TENSOR, tensor), (SM, sm)):
            rows.append(np.clip(row, 0.0, 1.0))
            metrics.append(metric)
            keys.append(SeriesKey(metric, str(gpu)))
    fabric = rate * comm * (1 + noise * random.normal(size=at_s.size)) + 1e8
    totals = [np.mean(rows[0::2], axis=0), np.mean(rows[1::2], axis=0), np.maximum(fabric, 0.0)]
    data_at_s = float(at_s[-1])
    return JobFrame(
        job=JobView(JobId("slurm", name), tuple(nodes), gpus, first_seen_s, data_at_s),
        data_at_s=data_at_s,
        received_s=data_at_s + 0.1 if received_s is None else received_s,
        devices=context(rows, step_s, metrics, high=np.ones(len(rows))),
        device_keys=tuple(keys),
        totals=context(totals, step_s, (TENSOR, SM, FABRIC), high=[1.0, 1.0, np.inf]),
        missing=missing or {},
    )


def flat_job(level=0.0, *, n=120, step_s=0.5, name="flat", metrics=(TENSOR, SM)):
    """A job whose every row is constant."""
    rows = np.full((len(metrics), n), level)
    data_at_s = START_S + step_s * (n - 1)
    gpu = GpuId("n9", "GPU-9")
    view = JobView(JobId("slurm", name), ("n9",), (gpu,), START_S - 100.0, data_at_s)
    frame = context(rows, step_s, metrics, high=np.ones(len(metrics)))
    keys = tuple(SeriesKey(metric, str(gpu)) for metric in metrics)
    return JobFrame(view, data_at_s, data_at_s + 0.1, frame, keys, frame, {})


def make_links(tx, step_s, capacity, names, *, rx=None):
    tx = np.atleast_2d(np.asarray(tx, np.float64))
    n = tx.shape[0]
    group = np.arange(n)
    data_at_s = START_S + step_s * (tx.shape[1] - 1)
    return LinkFrame(
        data_at_s,
        data_at_s + 0.1,
        context(tx, step_s, ("port_tx_bytes_per_s",) * n, group=group),
        context(0.3 * tx if rx is None else rx, step_s, ("port_rx_bytes_per_s",) * n, group=group),
        tuple(names),
        np.asarray(capacity, np.float64),
    )


def topology():
    up = LinkId("leaf1", "u1", "leaf")
    return Topology(
        {"n1": "leaf1", "n2": "leaf2", "n3": "leaf1", "n4": "leaf2", "n5": "leaf1", "n6": "leaf1"},
        (Link(up, "leaf1", "spine1", CAPACITY),),
        "made for tests",
    )


def fabric_of(frame):
    return frame.totals.values[frame.totals.metric.index(FABRIC)]


def two_jobs(*, second_period_s=4.0, lag_s=0.4, step_s=0.5, span_s=120.0, **kwargs):
    """Two jobs on the uplink of leaf1, beside a link of unknown capacity and a silent one."""
    first = make_job("1", step_s=step_s, span_s=span_s, nodes=("n1", "n2"), seed=1, **kwargs)
    second = make_job(
        "2",
        period_s=second_period_s,
        lag_s=lag_s,
        step_s=step_s,
        span_s=span_s,
        nodes=("n3", "n4"),
        gpus_per_node=1,
        rate=28e9,
        seed=2,
        **kwargs,
    )
    up = np.minimum(fabric_of(first) + fabric_of(second), CAPACITY)
    links = make_links(
        [up, 0.2 * up, np.zeros_like(up)], step_s, [CAPACITY, np.nan, CAPACITY], ("leaf1:u1", "leaf1:u2", "leaf2:u9")
    )
    return PredictRequest(first.data_at_s + 0.2, (first, second), links, topology())


@pytest.fixture(scope="session")
def frames():
    """The builders of this folder, as one thing."""
    import types

    return types.SimpleNamespace(
        context=context,
        burst=burst,
        make_job=make_job,
        flat_job=flat_job,
        make_links=make_links,
        topology=topology,
        two_jobs=two_jobs,
        START_S=START_S,
        CAPACITY=CAPACITY,
        TENSOR=TENSOR,
        SM=SM,
        PCIE_IN=PCIE_IN,
        PCIE_OUT=PCIE_OUT,
        FABRIC=FABRIC,
    )

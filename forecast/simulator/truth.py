"""What is really going on in the simulated cluster, as JSON: for demonstrations, tests and grading only."""

from __future__ import annotations

from typing import Any

from forecast.simulator.cluster import SimCluster
from forecast.simulator.exporters import gpu_ids
from forecast.simulator.workload import SimJob

_STARTS = 32
"""Iteration starts told per job."""


def cluster_truth(cluster: SimCluster, started_s: float, now_s: float) -> dict[str, Any]:
    """The truth now. Times are Unix seconds of the clock that the cluster follows.

    Args:
        cluster: already advanced.
        started_s: clock time at simulated time 0.
        now_s: clock time.
    """
    topology = cluster.fabric.topology
    used = cluster.link_rates()
    return {
        "seed": cluster.seed,
        "started_s": started_s,
        "now_s": now_s,
        "sim_s": cluster.now_s,
        "overload_ratio": cluster.spec.overload_ratio,
        "jobs": [_job_truth(cluster, job, started_s) for job in cluster.jobs],
        "leaf_of": dict(topology.leaf_of),
        "links": [
            {
                "id": str(port.id),
                "device": port.id.device,
                "port": port.id.port,
                "tier": port.id.tier,
                "a": link.a,
                "b": link.b,
                "capacity_bytes_per_s": port.capacity_bytes_per_s,
                "tx_use_ratio": float(used[port.tx_link]) * port.share_ratio / port.capacity_bytes_per_s,
                "rx_use_ratio": float(used[port.rx_link]) * port.share_ratio / port.capacity_bytes_per_s,
            }
            for port, link in zip(cluster.fabric.ports, topology.links, strict=True)
        ],
        "overloads": [
            {
                "link": str(over.port.id),
                "start_s": started_s + over.start_s,
                "end_s": None if over.end_s is None else started_s + over.end_s,
            }
            for over in cluster.overloads()
        ],
    }


def _job_truth(cluster: SimCluster, job: SimJob, started_s: float) -> dict[str, Any]:
    spec = job.spec
    return {
        "id": str(spec.id),
        "name": spec.name,
        "namespace": spec.namespace,
        "nodes": list(spec.nodes),
        "gpus": [str(gpu) for node in spec.nodes for gpu in gpu_ids(cluster, node)],
        "phase": job.phase.value,
        "phase_since_s": started_s + job.since_s,
        "iteration": job.iteration,
        "period_s": spec.period_s,
        "measured_period_s": job.measured_period_s,
        "communicate_s": spec.communicate_s,
        "iteration_starts_s": [started_s + start for start in list(job.starts)[-_STARTS:]],
        "pending_offset_s": job.pending_offset_s,
        "applied_offset_s": job.applied_offset_s,
    }

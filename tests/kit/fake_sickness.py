"""Made-up findings of what is slow and sick."""

from __future__ import annotations

from forecast.predict.health.types import HealthFinding, HealthReport, HealthScore, Severity, Thing, Unjudged
from telemetry.ids import JobId


def made_up_sickness(now_s: float) -> HealthReport:
    """A card off the bus, a straggling rank, a hot card, and a sign that nobody can look for."""
    job = JobId("slurm", "81234")
    lost = HealthFinding(
        "xid",
        Thing.GPU,
        "gpu-09:GPU-3",
        Severity.CRITICAL,
        1.0,
        now_s - 40,
        "XID 79 (off the bus: the GPU fell off the bus) once, last 40 s ago",
        "Take the host out, restart it with power off in between, check seating and power; else return the card.",
        ("gpu_xid_last_code",),
        detail="79",
        node="gpu-09",
        jobs=(job,),
        numbers={"code": 79.0, "events": 1.0},
        lasts=True,
    )
    behind = HealthFinding(
        "straggler",
        Thing.RANK,
        f"{job}@3",
        Severity.WARNING,
        0.5,
        now_s - 600,
        "steps of rank 3 take 20 % longer than the median 1.02 s of 16 ranks; it fell behind",
        "Exchange its host at the next checkpoint.",
        ("rank_step_duration_s",),
        jobs=(job,),
        numbers={"ratio": 1.2, "peers": 15.0},
    )
    hot = HealthFinding(
        "throttled",
        Thing.GPU,
        "gpu-10:GPU-1",
        Severity.INFO,
        0.35,
        now_s - 90,
        "its die is at 86 °C, at or above 85 °C for 5 readings: near where clocks are cut",
        "Look at the host's fans.",
        ("gpu_temperature_celsius",),
        detail="hot die",
        node="gpu-10",
    )
    scores = (
        HealthScore(Thing.GPU, lost.entity, 0.0, (lost.evidence,)),
        HealthScore(Thing.NODE, "gpu-09", 0.0, (lost.evidence,)),
        HealthScore(Thing.JOB, str(job), 0.0, (lost.evidence, behind.evidence)),
        HealthScore(Thing.GPU, hot.entity, 0.965, (hot.evidence,)),
    )
    unjudged = Unjudged(
        "slow_collective",
        "",
        ("nccl_busbw_bytes_per_s",),
        "slow_collective of anything that is collected is unknown: it needs nccl_busbw_bytes_per_s",
    )
    return HealthReport(now_s, (lost, behind, hot), scores, {"gpu": 32, "node": 4, "job": 6}, (unjudged,))

"""NVLink and PCIe of a card: retries, bad checksums and recoveries, which cost time before they cost the job."""

from __future__ import annotations

import numpy as np

from forecast.predict.health.moves import Move, move_of, node_of_gpu
from forecast.predict.health.types import Evidence, HealthFinding, Severity, Sign, Thing

KIND = "bus_errors"
_LIMITS: tuple[tuple[str, str, float], ...] = (
    ("gpu_nvlink_recovery_total", "NVLink recoveries", 1.0),
    ("gpu_nvlink_replay_total", "NVLink retries", 60.0),
    ("gpu_nvlink_crc_flit_error_total", "NVLink flow-control checksum errors", 360.0),
    ("gpu_nvlink_crc_data_error_total", "NVLink data checksum errors", 360.0),
    ("gpu_pcie_replay_total", "PCIe retries", 480.0),
)
"""Metric, words, and from how many an hour on it is told: a recovery always; retries from one a minute, PCIe's from
eight a minute, as NVIDIA's health checks (dcgmi health) do; checksum errors from one in ten seconds."""
READINGS = 2
"""A single burst, such as at the start of a driver, is no state."""
TO_DO = (
    "Watch whether the count goes on: where it does, reset the host's cards and fabric manager at the next chance, "
    "and have cables, risers or the board checked."
)


def find(evidence: Evidence) -> list[HealthFinding]:
    """Cards whose links retry or recover often."""
    owner = evidence.job_of_gpu()
    found: list[HealthFinding] = []
    for metric, words, limit in _LIMITS:
        for one in evidence.series(metric):
            move = move_of(one)
            if move is None or move.per_hour < limit or (move.moves < READINGS and metric != _LIMITS[0][0]):
                continue
            job = owner.get(move.entity)
            found.append(
                HealthFinding(
                    KIND,
                    Thing.GPU,
                    move.entity,
                    Severity.WARNING,
                    _score(move, limit),
                    move.since_s,
                    f"{move.amount:.0f} {words} in {move.span_s:.0f} s, {move.per_hour:.0f} an hour "
                    f"(told from {limit:g} an hour on)",
                    TO_DO,
                    (metric,),
                    detail=words,
                    node=node_of_gpu(move.entity),
                    jobs=(job,) if job is not None else (),
                    numbers={"count": move.amount, "per_hour": move.per_hour},
                )
            )
    return found


def _score(move: Move, limit: float) -> float:
    return float(np.clip(0.3 + 0.2 * np.log10(max(move.per_hour / limit, 1.0)), 0.3, 0.9))


SIGN = Sign((("gpu_pcie_replay_total",), ("gpu_nvlink_replay_total",), ("gpu_nvlink_crc_data_error_total",)), find)

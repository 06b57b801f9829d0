"""The catalogue's rows on collectives: NCCL Inspector (RCCL's too) and NCCL RAS.

Sources: NCCL plugins/profiler/inspector (its text files give a GB as 10^9 bytes), NCCL user guide, RAS.
"""

from __future__ import annotations

from telemetry.metric import INF, Blank, Kind, Level, Metric, Source


def _collective(
    name: str, unit: str, *fields: str, meaning: str, scale: float = 1.0, high: float = INF, blank: Blank = Blank.NONE
) -> Metric:
    sources = tuple(Source(field, scale) for field in fields)
    return Metric(name, unit, Kind.GAUGE, Level.COLLECTIVE, sources, high=high, blank=blank, meaning=meaning)


NCCL_METRICS: tuple[Metric, ...] = (
    _collective(
        "nccl_busbw_bytes_per_s",
        "bytes per second",
        "nccl_bus_bandwidth_gbs",
        "nccl_p2p_bus_bandwidth_gbs",
        scale=1e9,
        high=1e14,
        blank=Blank.ZERO,
        meaning="bus bandwidth of an operation, by the slowest rank's time where several ranks are read",
    ),
    _collective(
        "nccl_algbw_bytes_per_s",
        "bytes per second",
        high=1e14,
        blank=Blank.ZERO,
        meaning="bytes of the whole operation over its time",
    ),
    _collective(
        "nccl_exec_time_s",
        "seconds",
        "nccl_collective_exec_time_microseconds",
        "nccl_p2p_exec_time_microseconds",
        scale=1e-6,
        blank=Blank.ZERO,
        meaning="time of an operation on its slowest rank",
    ),
    _collective("nccl_rank_exec_time_s", "seconds", blank=Blank.ZERO, meaning="time of an operation on one rank"),
    _collective(
        "nccl_straggler_lag_s",
        "seconds",
        meaning="how much longer the slowest rank took than the middle one of the others",
    ),
    _collective("nccl_message_bytes", "bytes", meaning="bytes of the whole operation, all ranks' parts together"),
    Metric(
        "nccl_missed_total",
        "operations",
        Kind.COUNTER,
        Level.COLLECTIVE,
        (),
        meaning="operations that the sequence numbers tell of and no record describes, added over ranks",
    ),
    Metric(
        "nccl_launched_total",
        "operations",
        Kind.COUNTER,
        Level.COLLECTIVE,
        (),
        meaning="operations launched by the rank that is furthest, as RAS says",
    ),
    Metric(
        "nccl_launch_lag_count",
        "operations",
        Kind.GAUGE,
        Level.COLLECTIVE,
        (),
        meaning="operations between the furthest and the last rank, as RAS says; one is usual",
    ),
    Metric(
        "nccl_missing_ranks_count",
        "ranks",
        Kind.GAUGE,
        Level.COMMUNICATOR,
        (),
        meaning="ranks that RAS cannot reach",
    ),
    Metric(
        "nccl_failed_ranks_count",
        "ranks",
        Kind.GAUGE,
        Level.COMMUNICATOR,
        (),
        meaning="ranks with an asynchronous error or an abort, as RAS says",
    ),
)

"""Bandwidth of a collective from its size and time.

As nccl-tests' PERFORMANCE.md defines it: algorithm bandwidth is the bytes of the whole operation over its time, bus
bandwidth is that times a factor per operation. NCCL Inspector's sizes are per rank for AllGather and ReduceScatter.
"""

from __future__ import annotations

GB = 1e9
"""NCCL's gigabyte, in bytes."""
_PER_RANK_SIZE = frozenset({"AllGather", "ReduceScatter"})
_FACTOR_ONE = frozenset({"Broadcast", "Reduce"})


def total_bytes(operation: str, size_bytes: int, n_ranks: int) -> int:
    """Bytes of the whole operation from the size that a record gives."""
    return size_bytes * n_ranks if operation in _PER_RANK_SIZE else size_bytes


def bus_factor(operation: str, n_ranks: int, point_to_point: bool = False) -> float | None:
    """Bus bandwidth over algorithm bandwidth; None for an operation without a known factor."""
    if operation == "AllReduce":
        return 2.0 * (n_ranks - 1) / n_ranks
    if operation in _PER_RANK_SIZE:
        return (n_ranks - 1) / n_ranks
    return 1.0 if point_to_point or operation in _FACTOR_ONE else None

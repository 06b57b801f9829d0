"""What a store holds, for ``doctor`` and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreStat:
    """What a store holds.

    Args:
        series: how many series.
        hot_samples: rows in the hot window, repeats included.
        oldest_s: time of the oldest hot sample; None when empty.
        newest_s: time of the newest hot sample; None when empty.
        hot_bytes: size of the database and its log; 0 in memory.
        cold_files: Parquet files.
        cold_bytes: their size.
    """

    series: int
    hot_samples: int
    oldest_s: float | None
    newest_s: float | None
    hot_bytes: int
    cold_files: int
    cold_bytes: int


def size_of(files: Iterable[Path]) -> int:
    """Bytes of the files that exist."""
    return sum(file.stat().st_size for file in files if file.exists())

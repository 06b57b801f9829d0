"""What a store holds, for ``doctor`` and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from features.store.cold import ColdFiles
from features.store.columns import one


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


@dataclass(frozen=True, slots=True)
class ColdStat:
    """What the cold files hold, from their footers.

    Args:
        samples: rows.
        files: how many files.
        bytes: their size.
        partitions: days times metrics.
        oldest_s: least time, Unix seconds; None when empty.
        newest_s: greatest time.
        metrics: (metric, samples, bytes), largest first.
        set_aside: damaged files that are not read.
    """

    samples: int
    files: int
    bytes: int
    partitions: int
    oldest_s: float | None
    newest_s: float | None
    metrics: tuple[tuple[str, int, int], ...]
    set_aside: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the ten largest metrics."""
        return {
            "cold_samples": self.samples,
            "cold_files": self.files,
            "cold_bytes": self.bytes,
            "cold_files_set_aside": self.set_aside,
            "cold_partitions": self.partitions,
            "cold_bytes_per_sample": self.bytes / self.samples if self.samples else None,
            "oldest_s": self.oldest_s,
            "newest_s": self.newest_s,
            "largest_metrics": [{"metric": m, "samples": n, "bytes": b} for m, n, b in self.metrics[:10]],
        }


def cold_stat(connection: duckdb.DuckDBPyConnection, cold: ColdFiles) -> ColdStat:
    """Sum up the cold files; one that cannot be read counts with its size and no samples."""
    per: dict[str, list[int]] = {}
    ends: list[float] = []
    parts = cold.partitions()
    for (_, metric), files in parts.items():
        entry = per.setdefault(metric, [0, 0])
        for file in files:
            entry[1] += size_of([file])
            try:
                found = one(connection, _FOOTER, [str(file)])
            except duckdb.Error:
                continue  # ``verify`` names it
            entry[0] += int(found[0])
            ends += [float(at_s) for at_s in found[1:] if at_s is not None]
    metrics = sorted(((m, n, b) for m, (n, b) in per.items()), key=lambda row: (-row[2], row[0]))
    return ColdStat(
        sum(n for _, n, _ in metrics),
        sum(len(files) for files in parts.values()),
        sum(b for _, _, b in metrics),
        len(parts),
        min(ends, default=None),
        max(ends, default=None),
        tuple(metrics),
        len(cold.set_aside()),
    )


_FOOTER = """
    select count(*), cast(min(at_s) as DOUBLE), cast(max(at_s) as DOUBLE)
    from read_parquet(?, hive_partitioning = false)
"""

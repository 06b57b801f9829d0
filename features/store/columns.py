"""Column arrays on their way into DuckDB and back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from features.store.base import Series
from features.store.merge import first_good
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch


def one(connection: duckdb.DuckDBPyConnection, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The only row of a query."""
    # All of it: a result that is not fetched to its end keeps the connection busy.
    rows: list[tuple[Any, ...]] = connection.execute(query, list(values)).fetchall()
    return rows[0]


def roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """Give a transaction up; after a fatal error DuckDB has dropped it already."""
    try:
        connection.execute("rollback")
    except duckdb.Error:
        return  # The error that led here is the one to report.


def insert(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, NDArray[Any]]) -> None:
    """Insert column arrays; DuckDB scans the arrays where they lie."""
    connection.register("incoming", columns)
    try:
        connection.execute(f"insert into {table} by name select * from incoming")
    finally:
        connection.unregister("incoming")


def sample_columns(
    filled: Sequence[SampleBatch], ids: Sequence[NDArray[np.int32]], row: int
) -> dict[str, NDArray[Any]]:
    """Batches as columns of the table ``samples``.

    Args:
        filled: batches that hold samples.
        ids: for each batch, (n,) series id of each sample; samples with a negative one are left out.
        row: running number of the first sample.
    """
    series_id = np.concatenate(ids)
    received_s = np.array([batch.received_s for batch in filled])
    columns: dict[str, NDArray[Any]] = {
        "series_id": series_id,
        "at_s": np.concatenate([batch.at_s for batch in filled]),
        "value": np.concatenate([batch.value for batch in filled]),
        "reason": np.concatenate([batch.reason for batch in filled]),
        "seen_s": np.repeat(received_s, [len(batch) for batch in filled]),
        "row": np.arange(row, row + series_id.shape[0], dtype=np.int64),
    }
    kept = series_id >= 0
    return columns if kept.all() else {name: column[kept] for name, column in columns.items()}


def cut_series(parts: Sequence[dict[str, Any]], by_id: dict[int, SeriesKey]) -> dict[SeriesKey, Series]:
    """Sort what the files gave, fold repeats, and cut it into series."""

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([part[name] for part in parts])

    series_id, at_s, reason = column("series_id"), column("at_s"), column("reason")
    # DuckDB gives NULLs back as a mask.
    value = np.concatenate([np.ma.filled(part["value"], np.nan) for part in parts])
    order = np.lexsort((column("row"), at_s, series_id))
    order = order[first_good(series_id[order].astype(np.int64), at_s[order], reason[order])]
    series_id, at_s, value, reason = series_id[order], at_s[order], value[order], reason[order]
    seen_s = column("seen_s")[order]
    found: dict[SeriesKey, Series] = {}
    if series_id.shape[0] == 0:
        return found
    edges = np.r_[0, np.flatnonzero(np.diff(series_id)) + 1, series_id.shape[0]]
    newest_s = np.maximum.reduceat(seen_s, edges[:-1])
    for i, (start, stop) in enumerate(pairwise(edges.tolist())):
        key = by_id[int(series_id[start])]
        part = slice(start, stop)
        found[key] = Series(key, at_s[part], value[part], reason[part].astype(np.uint8), float(newest_s[i]))
    return found

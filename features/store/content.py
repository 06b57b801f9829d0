"""A digest of what a store holds: equal exactly where two stores answer every read alike."""

from __future__ import annotations

import hashlib

import duckdb
import numpy as np

from features.store.cold import ColdFiles


def content_digest(connection: duckdb.DuckDBPyConnection, cold: ColdFiles) -> str:
    """SHA-256 over every sample, each series and instant once: metric, entity, time, value and reason.

    The order of writing, repeats, arrival times and where a sample lies (database, one cold file or several) are
    left out, so that only what a read gives back counts. Numbers count with all their bits; missing values are alike.

    Raises:
        duckdb.Error: a file cannot be read.
    """
    digest = hashlib.sha256()
    days = cold.partitions()
    metrics = {row[0] for row in connection.execute("select distinct metric from series").fetchall()}
    for metric in sorted(metrics | {name for _, name in days}):
        files = [str(file) for (_, name), parts in days.items() if name == metric for file in parts]
        values: list[object] = [metric, files] if files else [metric]
        found = connection.execute(_METRIC.format(cold=_COLD if files else ""), values).fetchnumpy()
        if not found["at_s"].size:
            continue
        missing = found["reason"] != 0
        value = np.where(missing, np.nan, np.ma.filled(found["value"], np.nan))
        starts = np.flatnonzero(np.append(True, found["entity"][1:] != found["entity"][:-1]))
        names = [f"{found['entity'][start]}\t{start}\n" for start in starts.tolist()]
        digest.update(f"{metric}\n{''.join(names)}".encode())
        for column in (found["at_s"].astype("<f8"), value.astype("<f8"), found["reason"].astype("<u1")):
            digest.update(column.tobytes())
    return digest.hexdigest()


_COLD = """
    union all
    select entity, cast(at_s as DOUBLE) as at_s, value, reason, row
    from read_parquet($2, hive_partitioning = false, union_by_name = true)
"""
_METRIC = """
    select entity, at_s, value, reason from (
        select distinct on (entity, at_s) entity, at_s, value, reason, row from (
            select entity, at_s, value, reason, row
            from samples join series on series.id = samples.series_id
            where metric = $1
            {cold}
        ) order by entity, at_s, reason <> 0, row
    ) order by entity, at_s
"""

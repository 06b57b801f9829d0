"""Samples written to a folder for other tools: ``date=.../metric=.../*.parquet``, or CSV laid out alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from features.store.columns import one
from features.store.duck import DuckStore
from telemetry.errors import ConfigError

FORMATS = {"parquet": "format parquet, compression zstd", "csv": "format csv, header true"}


def export_samples(
    store: DuckStore, into: Path, from_s: float, to_s: float, metrics: Sequence[str] = (), form: str = "parquet"
) -> int:
    """Write the samples with ``from_s <= at_s < to_s``, each once, hot and cold; gives back how many.

    Columns: entity, at_s (Unix seconds), value (missing is NULL), reason (code of why it is missing, 0 where it is
    not), seen_s (when it arrived); date (UTC) and metric are in the folders' names.

    Args:
        store: where from.
        into: a folder that is new or empty.
        from_s: first moment, Unix seconds.
        to_s: the moment after the last.
        metrics: only these; all when empty.
        form: ``parquet`` or ``csv``.

    Raises:
        ConfigError: the folder holds something.
        StoreError: something cannot be read or written.
    """
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise ConfigError(f"{into} is not an empty folder", mend="Name a new one")
    files = [str(file) for file in store.cold.files()]
    query = _ALL.format(cold=_COLD if files else "", tail="")
    values: list[object] = [from_s, to_s, list(metrics), *([files] if files else [])]
    with store.using() as connection:
        into.parent.mkdir(parents=True, exist_ok=True)
        target = str(into).replace("'", "''")
        copy = f"copy ({query}) to '{target}' ({FORMATS[form]}, partition_by (date, metric))"
        (count,) = one(connection, copy, values)
    return int(count)


_HOT = """
    select metric, entity, at_s, value, reason, seen_s, row
    from samples join series on series.id = samples.series_id
"""
_COLD = """
    union all by name
    select metric, entity, cast(at_s as DOUBLE) as at_s, value, reason, cast(seen_s as DOUBLE) as seen_s, row
    from read_parquet($4, hive_partitioning = true, union_by_name = true)
"""
_ALL = (
    """
    select strftime(make_timestamp(cast(floor(at_s) as BIGINT) * 1000000), '%Y-%m-%d') as date, metric, entity, at_s,
        case when reason = 0 then value end as value, reason, seen_s
    from (
        select distinct on (metric, entity, at_s) * from ("""
    + _HOT
    + """{cold})
        where at_s >= $1 and at_s < $2 and (len($3) = 0 or list_contains(cast($3 as VARCHAR[]), metric))
        order by metric, entity, at_s, reason <> 0, row
    ){tail}
"""
)

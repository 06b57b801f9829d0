"""Cold files of one day and metric merged into one, whole or, for old days, as one summary per step.

A merge is a draft, then a journal that names what it replaces, then the swap. What a crash leaves is finished, or
thrown away where the journal was not yet written, when the store is opened: nothing is lost or doubled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from features.store import seal
from features.store.cold import ColdFiles, exact_decimal, parquet_target, sync
from features.store.columns import one
from telemetry.catalogue import METRICS
from telemetry.errors import StoreError
from telemetry.metric import Kind

JOURNAL = "merge.json"
DRAFT = "merge.draft"
_LEVEL = 15
"""zstd level of merged files: written once and kept, they may cost several times the CPU for 3 % less room."""
_SUMMED_UP = (Kind.GAUGE, Kind.RATE, Kind.WINDOW_COUNT)
"""Kinds whose mean means something; of the others the last value of a step stands."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did.

    Args:
        merged: partitions that were written anew.
        downsampled: how many of them as summaries.
        files_before: cold files before it.
        files_after: cold files after it.
        bytes_before: their size.
        bytes_after: their size.
        dropped: files deleted because their day is too old.
        aside: sentences about damaged files that were set aside.
    """

    merged: int
    downsampled: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    dropped: int = 0
    aside: tuple[str, ...] = ()


def finish_merges(cold: ColdFiles) -> int:
    """Finish or undo what a crash left of merges; gives back how many were finished."""
    if cold.folder is None or not cold.folder.is_dir():
        return 0
    done = 0
    for journal in sorted(cold.folder.glob(f"date=*/metric=*/{JOURNAL}")):
        _swap(journal)
        done += 1
    for draft in cold.folder.glob(f"date=*/metric=*/{DRAFT}"):
        draft.unlink()
    return done


def merge(connection: duckdb.DuckDBPyConnection, files: Sequence[Path], step_s: float | None, aside: list[str]) -> bool:
    """Write the files of one partition as one; False when there is nothing to do.

    Args:
        connection: any DuckDB connection.
        files: all files of one day and metric.
        step_s: keep one summary per series and step of so many seconds; None keeps every sample.
        aside: gets a sentence for each damaged file, which is set aside while the others are merged.
    """
    return bool(seal.reading(files, aside, lambda names: _merge(connection, names, step_s, aside)))


def _merge(connection: duckdb.DuckDBPyConnection, names: list[str], step_s: float | None, aside: list[str]) -> bool:
    files = [Path(name) for name in names]
    folder = files[0].parent
    columns = {row[0] for row in connection.execute(_DESCRIBE, [names]).fetchall()}
    (step_now,) = one(connection, _STEP, [names]) if "step_s" in columns else (None,)
    if len(files) == 1 and (step_s is None or (step_now is not None and step_now >= step_s)):
        return False
    # Only what is written anew is read to its end here; a digest of bytes that rotted would hide the damage for good.
    sound = seal.sound(files, aside)
    if len(sound) < len(files):
        return bool(sound) and _merge(connection, [str(file) for file in sound], step_s, aside)
    draft = folder / DRAFT
    (entities,) = one(connection, "select count(distinct entity) from read_parquet(?)", [names])
    query = _query("step_s" in columns, step_s, folder.name.removeprefix("metric="))
    connection.execute(f"copy ({query}) {parquet_target(draft, entities, _LEVEL)}", [names])
    sync(draft)
    note = {"into": files[-1].name, "replaces": [file.name for file in files], "sha256": seal.digest_of(draft)}
    _write_whole(folder / JOURNAL, json.dumps(note))
    _swap(folder / JOURNAL)
    return True


def _swap(journal: Path) -> None:
    """Put the draft in the place of what it replaces; may be called again after a crash at any point."""
    folder = journal.parent
    try:
        note = json.loads(journal.read_text(encoding="utf-8"))
        into, replaces = Path(note["into"]).name, [Path(name).name for name in note["replaces"]]
        digest = str(note.get("sha256", ""))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{journal} is damaged", mend=f"Delete it and {DRAFT} beside it") from error
    draft = folder / DRAFT
    if draft.exists():
        os.replace(draft, folder / into)
    if (folder / into).exists():
        seal.seal(folder / into, digest)  # the journal stands until this is done, so that no old digest stays
    for name in replaces:
        if name != into:
            seal.remove(folder / name)
    sync(folder)
    journal.unlink()
    sync(folder)


def _write_whole(file: Path, text: str) -> None:
    draft = file.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    sync(draft)
    os.replace(draft, file)
    sync(file.parent)


def _query(summarised: bool, step_s: float | None, metric: str) -> str:
    """The rows of the new file, sorted by time, then entity."""
    source = _PARTS.format(summary=", min, max, count, step_s" if summarised else "")
    if step_s is None:
        tail = ", min, max, count, step_s" if summarised else ""
        times = f"{exact_decimal('at_s')}, value, reason, {exact_decimal('seen_s')}, row{tail}"
        return f"select entity, {times} from ({source}) order by at_s, entity"
    had = ("coalesce(min, value)", "coalesce(max, value)", "coalesce(count, cast(reason = 0 as BIGINT))")
    low, high, count = had if summarised else ("value", "value", "cast(reason = 0 as BIGINT)")
    step = f"greatest({float(step_s)}, max(step_s))" if summarised else f"{float(step_s)}"
    row = next((row for row in METRICS if row.name == metric), None)
    mean = row is None or row.kind in _SUMMED_UP
    value = "sum(value * n) filter (n > 0) / sum(n)" if mean else "arg_max(value, at_s) filter (n > 0)"
    summary = _SUMMARY.format(
        source=source, low=low, high=high, count=count, value=value, step=step, every=float(step_s)
    )
    times = f"{exact_decimal('at_s')}, value, reason, {exact_decimal('seen_s')}"
    return f"select entity, {times}, row, min, max, count, step_s from ({summary}) order by at_s, entity"


_DESCRIBE = "describe select * from read_parquet(?, union_by_name = true, hive_partitioning = false)"
_STEP = "select case when count(step_s) = count(*) then min(step_s) end from read_parquet(?, union_by_name = true)"
_PARTS = """
    select distinct on (entity, at_s) entity, cast(at_s as DOUBLE) as at_s, value, reason,
        cast(seen_s as DOUBLE) as seen_s, row{summary}
    from read_parquet($1, union_by_name = true, hive_partitioning = false)
    order by entity, at_s, reason <> 0, row
"""
# A summary stands at the time of its last sample, so that no read as of an earlier moment learns of a later one.
_SUMMARY = """
    select entity, max(at_s) as at_s, coalesce({value}, cast('nan' as DOUBLE)) as value,
        cast(case when sum(n) > 0 then 0 else min(reason) end as UTINYINT) as reason,
        max(seen_s) as seen_s, min(row) as row,
        min(low) filter (n > 0) as min, max(high) filter (n > 0) as max,
        cast(sum(n) as BIGINT) as count, {step} as step_s
    from (select *, {low} as low, {high} as high, {count} as n from ({source}))
    group by entity, floor(at_s / {every})
"""

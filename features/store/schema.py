"""The database's tables, and opening it with errors that name the mend."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from features.store.columns import roll_back
from features.store.duck_errors import translated
from telemetry.errors import StoreError

SCHEMA_VERSION = 1

_TABLES = """
    create table schema_version (version INTEGER);
    create table series (id INTEGER, metric VARCHAR, entity VARCHAR);
    -- row: order of writing; of two samples at one instant the lower one counts.
    create table samples (
        series_id INTEGER, at_s DOUBLE, value DOUBLE, reason UTINYINT, seen_s DOUBLE, row BIGINT
    );
    create table sightings (gpu VARCHAR, at_s DOUBLE, job VARCHAR, sharers INTEGER);
    -- Older sightings, folded.
    create table spans (gpu VARCHAR, job VARCHAR, from_s DOUBLE, to_s DOUBLE, ended_s DOUBLE, sharers INTEGER);
    -- A spill is written here before its files are, and done when its rows are deleted.
    create table spills (number INTEGER, before_s DOUBLE, next_row BIGINT, done BOOLEAN);
"""

_COLUMNS: dict[str, tuple[tuple[str, type], ...]] = {
    "series": (("id", np.int32), ("metric", object), ("entity", object)),
    "spans": (
        ("gpu", object),
        ("job", object),
        ("from_s", np.float64),
        ("to_s", np.float64),
        ("ended_s", np.float64),
        ("sharers", np.int32),
    ),
    "sightings": (("gpu", object), ("at_s", np.float64), ("job", object), ("sharers", np.int32)),
}


_MIGRATIONS: dict[int, str] = {
    # Version 0 had no order of writing, no folded sightings and no spills; DuckDB's row numbers are the order.
    0: """
        alter table samples rename to samples_0;
        create table samples (
            series_id INTEGER, at_s DOUBLE, value DOUBLE, reason UTINYINT, seen_s DOUBLE, row BIGINT
        );
        insert into samples select series_id, at_s, value, reason, seen_s, rowid from samples_0 order by rowid;
        drop table samples_0;
        create table if not exists sightings (gpu VARCHAR, at_s DOUBLE, job VARCHAR, sharers INTEGER);
        create table if not exists spans (
            gpu VARCHAR, job VARCHAR, from_s DOUBLE, to_s DOUBLE, ended_s DOUBLE, sharers INTEGER
        );
        create table if not exists spills (number INTEGER, before_s DOUBLE, next_row BIGINT, done BOOLEAN);
    """,
}
"""Version -> what makes the next one of it. Cold files need none: old and present ones are read alike."""


def columns_of(rows: Sequence[tuple[Any, ...]], table: str) -> dict[str, NDArray[Any]]:
    """Rows turned into the column arrays of one of the small tables."""
    return {name: np.array([row[place] for row in rows], dtype) for place, (name, dtype) in enumerate(_COLUMNS[table])}


def open_database(path: Path | None, name: str) -> duckdb.DuckDBPyConnection:
    """Open or make a store's database.

    Raises:
        StoreError: its folder cannot be made or written, it is in use, corrupt, foreign, or of a newer version.
    """
    if path is not None:
        _need_folder(path)
    with translated(name):
        connection = duckdb.connect(":memory:" if path is None else str(path))
    try:
        with translated(name):
            _check_version(connection, name)
    except BaseException:
        connection.close()
        raise
    return connection


def _need_folder(path: Path) -> None:
    if path.is_dir():
        raise StoreError(f"{path} is a folder, not a store file", mend="Name a file inside it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder {path.parent} of the store cannot be made ({error.strerror})",
            mend="Make it, or name another with --data-dir",
        ) from error
    if path.is_file() and path.stat().st_size == 0:
        path.unlink()  # A crash right after the file was made; DuckDB takes an empty file for a damaged one.
    if not path.exists() and not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreError(
            f"the folder {path.parent} of the store cannot be written",
            mend="Give this user the right to write there, or name another with --data-dir",
        )


def _check_version(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    tables = {row[0] for row in connection.execute("select table_name from duckdb_tables()").fetchall()}
    if not tables:
        connection.execute("begin")
        connection.execute(_TABLES)
        connection.execute("insert into schema_version values (?)", [SCHEMA_VERSION])
        connection.execute("commit")
        return
    if "schema_version" not in tables or "samples" not in tables:
        raise StoreError(f"{name} is a DuckDB file of something else", mend="Name another file for the store")
    version = connection.execute("select coalesce(max(version), 0) from schema_version").fetchall()[0][0]
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{name} has schema version {version}, and this gpucast knows versions up to {SCHEMA_VERSION}",
            mend="Upgrade gpucast, or move the file away to start a new one",
        )
    _upgrade(connection, int(version))


def _upgrade(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    """Bring an older file to the present version, all of it or nothing."""
    if version == SCHEMA_VERSION:
        return
    connection.execute("begin")
    try:
        for step in range(version, SCHEMA_VERSION):
            connection.execute(_MIGRATIONS[step])
        connection.execute("delete from schema_version")
        connection.execute("insert into schema_version values (?)", [SCHEMA_VERSION])
        connection.execute("commit")
    except BaseException:
        roll_back(connection)
        raise

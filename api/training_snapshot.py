"""A copy of a sample store that a service may have open, to train from: training never holds the store's lock.

The database file changes only when DuckDB folds its log in; a copy during which neither file was replaced or
rewritten is what a crash at that moment would have left, and opens as such. Cold files never change: they are linked.
Cold files are taken after the database, so that what moves between the two is there twice rather than never, and
reads give each sample once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from features.store.base import Series
from features.store.duck import DuckStore
from telemetry.errors import ConfigError, StoreError
from telemetry.ids import SeriesKey
from telemetry.jobs import Allocation

DATABASE = "samples.duckdb"
TRIES = 5


@dataclass(frozen=True, slots=True)
class KnownBy:
    """A store as it was known at a moment: later samples, and those that came in later, are not there.

    Args:
        store: the whole.
        at_s: the moment, Unix seconds of this machine's clock.
    """

    store: DuckStore
    at_s: float

    def read(self, keys: Sequence[SeriesKey], as_of_s: float, window_s: float) -> list[Series]:
        """The series as known then."""
        return self.store.read(keys, as_of_s, window_s, known_by_s=self.at_s)

    def keys(self, metrics: Iterable[str] | None = None) -> list[SeriesKey]:
        """Every series."""
        return self.store.keys(metrics)

    def allocations(self, as_of_s: float, window_s: float) -> list[Allocation]:
        """Who had what."""
        return self.store.allocations(as_of_s, window_s)


@contextmanager
def snapshot_of(folder: Path, scratch: Path) -> Iterator[DuckStore]:
    """The store as it is now, as a copy that ends with the context.

    Args:
        folder: the service's data folder.
        scratch: where the copy lies for as long as it is needed; on the same file system it costs the database only.

    Raises:
        ConfigError: there is no store in the folder.
        StoreError: it changes faster than it can be copied, or cannot be read.
    """
    if not (folder / DATABASE).is_file():
        raise ConfigError(f"there is no store in {folder}", mend="Name its folder with --store")
    scratch.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="snapshot-", dir=scratch) as name:
        copy = Path(name)
        _copy_database(folder, copy)
        _link_cold(folder / "cold", copy / "cold")
        store = DuckStore(copy / DATABASE, cold_dir=copy / "cold")
        try:
            yield store
        finally:
            store.close()


def _copy_database(folder: Path, copy: Path) -> None:
    log = folder / f"{DATABASE}.wal"
    for _ in range(TRIES):
        before = _state(folder / DATABASE), _born(log)
        shutil.copyfile(folder / DATABASE, copy / DATABASE)
        with suppress(FileNotFoundError):
            shutil.copyfile(log, copy / log.name)
        if (_state(folder / DATABASE), _born(log)) == before:
            return
        (copy / log.name).unlink(missing_ok=True)
    raise StoreError(f"{folder / DATABASE} changed {TRIES} times while it was copied", mend="Try again")


def _state(file: Path) -> tuple[int, int, int]:
    told = file.stat()
    return told.st_ino, told.st_size, told.st_mtime_ns


def _born(log: Path) -> int:
    """Which log it is: it may grow while it is copied, its end is then cut off as after a crash."""
    try:
        return log.stat().st_ino
    except FileNotFoundError:
        return 0


def _link_cold(cold: Path, copy: Path) -> None:
    copy.mkdir()
    for file in sorted(cold.rglob("*")) if cold.is_dir() else []:
        target = copy / file.relative_to(cold)
        if file.is_dir() or file.name.startswith("."):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # merged away meanwhile: its samples are in the merged file
            try:
                os.link(file, target)
            except OSError:
                shutil.copyfile(file, target)

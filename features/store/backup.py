"""A copy of a store with a manifest of digests, and back."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from features.store.cold import sync
from features.store.duck import DuckStore
from features.store.seal import digest_of, seal_of
from telemetry.errors import ConfigError, StoreError

MANIFEST = "manifest.json"
DATABASE = "samples.duckdb"
COLD = "cold"


def back_up(store: DuckStore, into: Path) -> int:
    """Copy a store that nobody else writes; gives back how many files were copied.

    The manifest is written last: a folder without one is no backup.

    Raises:
        ConfigError: the folder holds something.
        StoreError: something cannot be read or written.
    """
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise ConfigError(f"{into} is not an empty folder", mend="Name a new one")
    if store.path is None or store.cold.folder is None:
        raise StoreError("a store in memory cannot be copied")
    store.checkpoint()
    with store.using():
        sources = {DATABASE: store.path}
        log = store.path.with_name(store.path.name + ".wal")
        if log.exists() and log.stat().st_size:
            sources[DATABASE + ".wal"] = log
        for file in store.cold.files():
            for each in (file, seal_of(file)):
                if each.exists():
                    sources[f"{COLD}/{each.relative_to(store.cold.folder)}"] = each
        digests = {name: _copy(file, into / name) for name, file in sources.items()}
    draft = into / "manifest.tmp"
    draft.write_text(json.dumps({"gpucast-backup": 1, "sha256": digests}, indent=1) + "\n", encoding="utf-8")
    sync(draft)
    os.replace(draft, into / MANIFEST)
    sync(into)
    return len(digests)


def restore(backup: Path, data_dir: Path) -> int:
    """Copy a backup to where a store is to be; gives back how many files were copied.

    Raises:
        ConfigError: something is there already.
        StoreError: the backup has no manifest, or a file is missing or not what the manifest says; nothing is copied.
    """
    there = [name for name in (DATABASE, DATABASE + ".wal", COLD) if (data_dir / name).exists()]
    if there:
        raise ConfigError(f"{data_dir / there[0]} is there already", mend="Restore to an empty folder, or move it away")
    digests = _manifest(backup)
    for name, digest in digests.items():
        if _digest(backup / name) != digest:
            raise StoreError(f"{backup / name} is missing or not what the manifest says", mend="Take another backup")
    for name in sorted(digests, reverse=True):  # the database last: cut off before it, no store looks whole
        if name != DATABASE:
            _copy(backup / name, data_dir / name)
    _copy(backup / DATABASE, data_dir / DATABASE)
    return len(digests)


def _manifest(backup: Path) -> dict[str, str]:
    try:
        read = json.loads((backup / MANIFEST).read_text(encoding="utf-8"))
        digests = {str(name): str(digest) for name, digest in read["sha256"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{backup} has no usable {MANIFEST}", mend="Name the folder of a finished backup") from error
    strange = [name for name in digests if Path(name).is_absolute() or ".." in Path(name).parts]
    if strange or DATABASE not in digests:
        raise StoreError(f"{backup / MANIFEST} is not that of a store: {strange or 'no database'}")
    return digests


def _copy(source: Path, target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    sync(target)
    return _digest(target)


def _digest(file: Path) -> str:
    """SHA-256, empty when the file is not there."""
    try:
        return digest_of(file)
    except FileNotFoundError:
        return ""

"""The model store: trained models by name and version, which of them is champion, and what became of the others.

``ROOT/NAME/VERSION/`` holds a manifest and artefacts and never changes once it is there; ``ROOT/NAME/champion.json``
points at the version that is served; ``ROOT/NAME/events.jsonl`` tells what was done and why. Every file appears whole
or not at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.store_files import MANIFEST, check_files, digest, files_in, read_json
from models.store_manifest import Manifest
from models.store_records import VERSION, Event, Pointer, Shelf
from telemetry.errors import IncompatibleModel, ModelError

CHAMPION, EVENTS, QUARANTINE, LOCK = "champion.json", "events.jsonl", "quarantined.json", ".lock"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
KEPT_BEFORE = 20
"""So many former champions can be gone back to."""
MOST_VERSIONS = 500
"""Versions of one name that are listed, the newest first."""
EVENTS_BYTES = 1 << 20
"""What is read of the end of the events."""


class ModelStore:
    """A folder of trained models.

    Args:
        root: made on the first write.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> list[str]:
        """Names of models, sorted."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if NAME.fullmatch(path.name) and path.is_dir())

    def folder(self, name: str, version: str = "") -> Path:
        """Where a model lies.

        Raises:
            ModelError: a name or version that no model of ours can have.
        """
        if not NAME.fullmatch(name) or (version and not VERSION.fullmatch(version)):
            raise ModelError(f"{name}{'/' + version if version else ''} is no name of a model")
        return self.root / name / version if version else self.root / name

    def has(self, name: str, version: str) -> bool:
        """Whether a version was published."""
        return (self.folder(name, version) / MANIFEST).is_file()

    def manifest(self, name: str, version: str) -> Manifest:
        """The manifest of a version.

        Raises:
            IncompatibleModel: missing, damaged, of a newer format, or of another model than its folder says.
        """
        path = self.folder(name, version) / MANIFEST
        if path.parent.is_symlink():
            raise IncompatibleModel(
                f"{path.parent} is a link out of the store", mend="Delete it, or move the folder here"
            )
        found = Manifest.from_dict(read_json(path), str(path))
        if (found.name, found.version) != (name, version):
            raise IncompatibleModel(
                f"{path} is of {found.name} {found.version}", mend="It was moved or forged; delete it"
            )
        return found

    def checked(self, name: str, version: str, manifest_sha256: str = "") -> tuple[Path, Manifest]:
        """Folder and manifest of a version, every file held against its digest.

        Raises:
            IncompatibleModel: names the file and what is wrong with it.
        """
        folder = self.folder(name, version)
        found = self.manifest(name, version)
        if manifest_sha256 and digest(folder / MANIFEST) != manifest_sha256:
            raise IncompatibleModel(f"{folder / MANIFEST} was changed since the model was promoted")
        check_files(folder, found.files)
        return folder, found

    def pointer(self, name: str) -> Pointer | None:
        """The champion's pointer; None before the first promotion.

        Raises:
            IncompatibleModel: the file is damaged or of a newer format.
        """
        path = self.folder(name) / CHAMPION
        if not os.path.lexists(path):
            return None
        return Pointer.from_dict(read_json(path), str(path))

    def shelf(self, name: str) -> Shelf:
        """Everything under a name; what cannot be read is named."""
        good: list[Manifest] = []
        bad: dict[str, str] = {}
        pointer: Pointer | None = None
        barred: dict[str, str] = {}
        for version in self._versions(name):
            try:
                good.append(self.manifest(name, version))
            except IncompatibleModel as error:
                bad[version] = str(error)
        try:
            pointer = self.pointer(name)
        except IncompatibleModel as error:
            bad[CHAMPION] = str(error)
        try:
            barred = self.quarantined(name)
        except IncompatibleModel as error:
            bad[QUARANTINE] = str(error)
        good.sort(key=lambda manifest: (-manifest.created_s, manifest.version))
        return Shelf(name, pointer, tuple(good), bad, barred, tuple(self.events(name)))

    def _versions(self, name: str) -> list[str]:
        folder = self.folder(name)
        found = [path for path in folder.iterdir() if VERSION.fullmatch(path.name)] if folder.is_dir() else []
        newest = sorted(found, key=lambda path: (path.lstat().st_mtime, path.name), reverse=True)
        return [path.name for path in newest[:MOST_VERSIONS]]

    def quarantined(self, name: str) -> dict[str, str]:
        """Version -> why it may not serve.

        Raises:
            IncompatibleModel: the file is damaged, so that nobody knows what is barred.
        """
        path = self.folder(name) / QUARANTINE
        if not os.path.lexists(path):
            return {}
        try:
            return {str(version): str(why) for version, why in read_json(path).items()}
        except IncompatibleModel as error:
            raise IncompatibleModel(
                f"{error.message}; which versions may not serve is unknown",
                mend=f"Restore it from the lines of {EVENTS} of the kind quarantined, or delete it to bar nothing",
            ) from error

    def events(self, name: str) -> list[Event]:
        """What was done, oldest first; lines that a crash cut are left out."""
        path = self.folder(name) / EVENTS
        if not path.is_file():
            return []
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - EVENTS_BYTES))
            lines = stream.read(EVENTS_BYTES).splitlines()
        return [event for event in map(Event.from_line, lines) if event is not None]

    # ---- Writing

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Alone under a name; the lock ends with the process that holds it.

        Raises:
            ModelError: somebody else holds it.
        """
        folder = self.folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("a") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ModelError(
                    f"another process works on the model {name} in {self.root}", mend="Wait for its end"
                ) from error
            yield

    def publish(self, made: Path, manifest: Manifest) -> Path:
        """Move a finished folder of artefacts to its place, with its manifest; a sound one that is there already stays.

        Args:
            made: a folder on the same file system that holds the artefacts; a damaged one in its place moves beside it.
            manifest: ``files`` is filled in here.
        """
        target = self.folder(manifest.name, manifest.version)
        try:
            self.checked(manifest.name, manifest.version)
            shutil.rmtree(made)
            return target
        except IncompatibleModel:
            pass  # missing or damaged: what was made takes its place
        full = manifest.with_files(files_in(made))
        write_whole(made / MANIFEST, json.dumps(full.as_dict(), indent=1, sort_keys=True, allow_nan=False))
        for folder in sorted({path.parent for path in made.rglob("*")} | {made}):
            _sync(folder)
        if os.path.lexists(target):
            damaged = made.with_name(f"{target.name}.damaged")
            shutil.rmtree(damaged, ignore_errors=True)
            os.replace(target, damaged)
        os.replace(made, target)
        _sync(target.parent)
        return target

    def point(self, name: str, pointer: Pointer) -> None:
        """Make a version champion, in one step."""
        write_whole(self.folder(name) / CHAMPION, json.dumps(pointer.as_dict(), indent=1, sort_keys=True))

    def quarantine(self, name: str, version: str, why: str) -> None:
        """Bar a version from serving."""
        known = {**self.quarantined(name), version: why}
        write_whole(self.folder(name) / QUARANTINE, json.dumps(known, indent=1, sort_keys=True))

    def tell(self, name: str, event: Event) -> None:
        """Add to the events."""
        path = self.folder(name) / EVENTS
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as stream:
            # A line that a crash cut is closed, so that it does not take this one with it.
            stream.seek(-min(1, stream.seek(0, os.SEEK_END)), os.SEEK_END)
            torn = stream.read(1) not in (b"", b"\n")
            stream.write(b"\n" * torn + event.line())
            stream.flush()
            os.fsync(stream.fileno())


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with beside.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(beside, path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)

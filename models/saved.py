"""Saved models: JSON, text and npz files with digests; never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from models.base import LEVELS
from models.store_files import digest, read_json
from telemetry.errors import IncompatibleModel

__all__ = ["MANIFEST", "digest", "read_state", "write_state"]

MANIFEST = "model.json"


def write_state(folder: Path, name: str, version: str, state: dict[str, Any], files: tuple[str, ...] = ()) -> None:
    """Write ``model.json`` with the state and the SHA-256 of every other file of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {
        "name": name,
        "version": version,
        "levels": list(LEVELS),
        "state": state,
        "sha256": {file: digest(folder / file) for file in files},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")


def read_state(folder: Path, name: str, version: str) -> dict[str, Any]:
    """The state that ``write_state`` wrote, after checking name, version, levels and digests.

    Raises:
        IncompatibleModel: something differs or is missing.
    """
    path = folder / MANIFEST
    mend = "Train the model again with gpucast train"
    try:
        manifest = read_json(path)
        found = (manifest["name"], manifest["version"], tuple(manifest["levels"]))
        digests: dict[str, str] = dict(manifest["sha256"])
        state: dict[str, Any] = dict(manifest["state"])
    except IncompatibleModel as error:
        raise IncompatibleModel(f"{path} is not a saved model ({error.message})", mend=mend) from error
    except (ValueError, KeyError, TypeError) as error:
        raise IncompatibleModel(f"{path} is not a saved model ({error})", mend=mend) from error
    if found != (name, version, LEVELS):
        raise IncompatibleModel(f"{path} holds {found[0]} version {found[1]}, expected {name} {version}", mend=mend)
    for file, want in digests.items():
        target = folder / file
        if Path(file).name != file or not target.is_file() or digest(target) != want:
            raise IncompatibleModel(f"{target} is missing or was changed since it was saved", mend=mend)
    return state

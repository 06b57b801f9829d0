"""Files of trained models, distrusted: names, sizes, digests, JSON, npz without pickle. Nothing is executed."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from models.quantiles import Floats
from telemetry.errors import IncompatibleModel

MANIFEST = "manifest.json"
FILE = re.compile(r"(?:[a-z0-9][a-z0-9_.+-]{0,63}/){0,3}[a-z0-9][a-z0-9_.+-]{0,63}\.(?:txt|json|npz)")
"""Artefacts are LightGBM text, JSON and npz, in few folders."""
JSON_BYTES = 1 << 20
FILE_BYTES = 32 << 20
TOTAL_BYTES = 128 << 20
MOST_FILES = 200
ARRAY_BYTES = 64 << 20
"""Largest npz once unpacked."""
PICKLED = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
_MEND = "Train the model again with gpucast train, or delete the folder"


def digest(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a small file.

    Raises:
        IncompatibleModel: missing, too large, pickled, not JSON, or no object.
    """
    refuse_disguise(path, JSON_BYTES)
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise IncompatibleModel(f"{path} is not JSON ({type(error).__name__})", mend=_MEND) from error
    if not isinstance(told, dict):
        raise IncompatibleModel(f"{path} holds no JSON object", mend=_MEND)
    return told


def refuse_disguise(path: Path, most_bytes: int) -> None:
    """Refuse what is no plain small file of the kind its name says.

    Raises:
        IncompatibleModel: missing, a link, too large, or a pickle under another name.
    """
    if path.is_symlink() or not path.is_file():
        raise IncompatibleModel(f"{path} is missing or no plain file", mend=_MEND)
    size = path.stat().st_size
    if size > most_bytes:
        raise IncompatibleModel(f"{path} has {size} bytes, the most read is {most_bytes}", mend=_MEND)
    with path.open("rb") as stream:
        start = stream.read(2)
    if start in PICKLED:
        raise IncompatibleModel(f"{path} is a pickle, which could run anything and is never read", mend=_MEND)


def files_in(folder: Path) -> dict[str, tuple[str, int]]:
    """Relative name -> (SHA-256, bytes) of every artefact."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {str(path.relative_to(folder)): (digest(path), path.stat().st_size) for path in found}


def check_files(folder: Path, files: dict[str, tuple[str, int]]) -> None:
    """Hold a folder against what its manifest lists.

    Raises:
        IncompatibleModel: a file is missing, changed, foreign, too large, pickled, or not of a kind that is read.
    """
    if len(files) > MOST_FILES or sum(size for _, size in files.values()) > TOTAL_BYTES:
        raise IncompatibleModel(f"{folder} lists too many or too large files", mend=_MEND)
    for name in files:
        if not FILE.fullmatch(name) or ".." in name:
            raise IncompatibleModel(f"{folder / MANIFEST} lists {name!r}, which is no artefact of ours", mend=_MEND)
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink() or (path.is_file() and name != MANIFEST and name not in files):
            raise IncompatibleModel(f"{path} is foreign: the manifest does not list it", mend=_MEND)
    for name, (want, size) in files.items():
        path = folder / name
        refuse_disguise(path, FILE_BYTES)
        if path.stat().st_size != size or digest(path) != want:
            raise IncompatibleModel(f"{path} was changed since it was saved", mend=_MEND)
        if path.suffix == ".npz":
            check_npz(path)
        elif path.suffix == ".json":
            read_json(path)
        elif path.read_bytes()[:5] != b"tree\n":
            raise IncompatibleModel(f"{path} is no LightGBM text", mend=_MEND)


def check_npz(path: Path) -> None:
    """Refuse an npz that is no zip of plain arrays, or is too large once unpacked.

    Raises:
        IncompatibleModel: says which.
    """
    try:
        with zipfile.ZipFile(path) as packed:
            entries = packed.infolist()
    except (OSError, zipfile.BadZipFile) as error:
        raise IncompatibleModel(f"{path} is no npz ({error})", mend=_MEND) from error
    if len(entries) > 64 or sum(entry.file_size for entry in entries) > ARRAY_BYTES:
        raise IncompatibleModel(f"{path} unpacks to more than {ARRAY_BYTES} bytes or 64 arrays", mend=_MEND)
    if any(not entry.filename.endswith(".npy") or "/" in entry.filename for entry in entries):
        raise IncompatibleModel(f"{path} holds something beside arrays", mend=_MEND)


def read_npz(path: Path) -> dict[str, Floats]:
    """Arrays of numbers from an npz, as float64.

    Raises:
        IncompatibleModel: no npz, too large, or an array of Python objects.
    """
    refuse_disguise(path, FILE_BYTES)
    check_npz(path)
    try:
        with np.load(path, allow_pickle=False) as packed:
            return {name: np.asarray(packed[name], np.float64) for name in packed.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise IncompatibleModel(f"{path} cannot be read ({error})", mend=_MEND) from error


def write_npz(path: Path, arrays: Mapping[str, Floats]) -> None:
    """Write arrays such that the same arrays give the same bytes: numpy's own writer puts the time of day in."""
    beside = path.with_name(f".{path.name}.part")
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, values in sorted(arrays.items()):
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            with packed.open(entry, "w") as stream:
                np.lib.format.write_array(stream, np.ascontiguousarray(values), allow_pickle=False)
    beside.replace(path)

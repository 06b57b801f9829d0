"""Every way in: HTTP, webhooks, command line, web page, and the one composition root."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

ROOMS: tuple[str, ...] = ("telemetry", "collectors", "features", "models", "forecast")


def _found_at(spec: ModuleSpec) -> Path:
    """The folder of a package, or the file of a module."""
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin or "")


def _refuse_foreign_rooms() -> None:
    """Look where each room would be imported from, without importing it.

    The rooms are plain top-level packages, so a folder ``models`` of someone else earlier on the path would be
    imported in silence and fail later in a way that explains nothing.

    Raises:
        ImportError: a room is missing, or is not beside this package.
    """
    home = Path(__file__).resolve().parent.parent
    for room in ROOMS:
        spec = find_spec(room)
        if spec is None:
            raise ImportError(
                f"gpucast is installed without its part {room!r} ({home / room}); install it again", name=room
            )
        found = _found_at(spec).resolve()
        if found != home / room:
            raise ImportError(
                f"{found} stands in the place of gpucast's own {home / room}; start the service as "
                f"`{sys.executable} -I -m api`, or take {found.parent} out of PYTHONPATH",
                name=room,
                path=str(found),
            )


_refuse_foreign_rooms()

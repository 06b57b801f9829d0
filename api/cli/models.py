"""``gpucast models``: the model store: what serves, what could, and why."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.store import ModelStore
    from models.store_manifest import Manifest
    from models.store_records import Shelf

ACTIONS = {
    "list": "champions, challengers and where each came from",
    "promote": "make a version champion, if it beats the champion and persistence beyond doubt; exit code 5 if not",
    "rollback": "go back to the former champion, or to the built-in models",
    "diff": "parameters, data and figures of two versions side by side",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("action", choices=list(ACTIONS), help="; ".join(f"{k}: {v}" for k, v in ACTIONS.items()))
    parser.add_argument("name", nargs="?", default="", help="model, such as jobs-1s; all for list, if not given")
    parser.add_argument(
        "version",
        nargs="*",
        help="promote: one, the newest if not given; diff: two, the champion and the newest if not given",
    )
    parser.add_argument("--store", type=Path, metavar="DIR", help="data folder of the service")
    parser.add_argument(
        "--models", type=Path, metavar="DIR", help="model store; `models` in the data folder if not given"
    )
    parser.add_argument("--reason", default="", help="rollback: why, for the events")
    parser.add_argument("--config", type=Path, help="TOML settings file, for the folder")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """Do one of ``ACTIONS``."""
    from api.settings import load_settings
    from models.store import ModelStore

    settings = load_settings(args.config, store__folder=args.store)
    store = ModelStore(args.models or settings.store.folder / "models")
    code, told, lines = _DO[args.action](store, args)
    print(json.dumps(told) if args.json else "\n".join(lines))
    return code


_Answer = tuple[int, Any, list[str]]


def _list(store: ModelStore, args: argparse.Namespace) -> _Answer:
    from api.models_view import shelf_as_dict

    names = [args.name] if args.name else store.names()
    shelves = [store.shelf(name) for name in names if name in store.names()]
    if args.name and not shelves:
        raise _unknown(store, args.name)
    lines = [line for shelf in shelves for line in _shelf(shelf)]
    return 0, [shelf_as_dict(shelf) for shelf in shelves], lines or [f"no model was trained yet in {store.root}"]


def _shelf(shelf: Shelf) -> list[str]:
    from api.cli.tables import table

    champion = shelf.champion.version if shelf.champion else ""
    why = shelf.champion.why if shelf.champion else "nothing was promoted yet"
    lines = [f"{shelf.name}: {'champion ' + champion if champion else 'the built-in models serve'} ({why})"]
    rows = []
    for manifest in shelf.versions:
        state = "champion" if manifest.version == champion else "challenger"
        state = "quarantined" if manifest.version in shelf.quarantined else state
        mine = manifest.figures["challenger"]["skill"]
        rows.append(
            [
                manifest.version,
                state,
                manifest.recipe,
                f"{mine.value:+.3f} ({mine.low:+.3f} .. {mine.high:+.3f})",
                str(manifest.data.get("jobs", "")),
                when(manifest.created_s),
                manifest.judged.get("beside") or "built-in",
            ]
        )
    if rows:
        lines.append(table(["version", "state", "recipe", "skill", "jobs", "made", "judged beside"], rows))
    lines += [f"  {version}: {why}" for version, why in {**shelf.unreadable, **shelf.quarantined}.items()]
    return [*lines, *(f"  {when(e.at_s)} {e.kind} {e.version} by {e.by}: {e.reason}" for e in shelf.events[-5:])]


def when(at_s: float) -> str:
    """A time for people."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at_s))


def _promote(store: ModelStore, args: argparse.Namespace) -> _Answer:
    from models.promotion import promote

    version = args.version[0] if args.version else _newest(store, args.name).version
    _need(store, args.name, version)
    verdict = promote(store, args.name, version, now_s=time.time())
    gains = {rival: [gain.value, gain.low, gain.high] for rival, gain in verdict.gains.items()}
    told = {
        "model": args.name,
        "version": version,
        "promoted": verdict.promote,
        "reason": verdict.reason,
        "gains": gains,
    }
    line = f"{args.name} {version} {'is champion now' if verdict.promote else 'is refused'}: {verdict.reason}"
    return 0 if verdict.promote else 5, told, [line]


def _rollback(store: ModelStore, args: argparse.Namespace) -> _Answer:
    from models.promotion import rollback

    if args.name not in store.names():
        raise _unknown(store, args.name)
    version = rollback(store, args.name, now_s=time.time(), why=args.reason or "a person went back")
    return (
        0,
        {"model": args.name, "champion": version},
        [f"{args.name}: {version or 'the built-in models'} serve again"],
    )


def _diff(store: ModelStore, args: argparse.Namespace) -> _Answer:
    from api.cli.tables import table
    from models.promotion import differences
    from telemetry.errors import ConfigError

    first, second = args.version if len(args.version) == 2 else (_champion(store, args.name), "")
    second = second or _newest(store, args.name).version
    if first == second:
        raise ConfigError(f"{args.name}: both are {first}", mend="Name two versions")
    found = differences(_need(store, args.name, first), _need(store, args.name, second))
    told = {"first": first, "second": second, "differences": [list(row) for row in found]}
    return 0, told, [table(["", first, second], [list(row) for row in found])]


def _champion(store: ModelStore, name: str) -> str:
    from telemetry.errors import ConfigError

    pointer = store.pointer(name) if name in store.names() else None
    if pointer is None or not pointer.version:
        raise ConfigError(f"{name or 'the model'} has no champion to compare with", mend="Name two versions")
    return pointer.version


def _newest(store: ModelStore, name: str) -> Manifest:
    if name not in store.names():
        raise _unknown(store, name)
    versions = store.shelf(name).versions
    if not versions:
        raise _unknown(store, f"{name} with a version")
    return versions[0]


def _need(store: ModelStore, name: str, version: str) -> Manifest:
    from models.store_records import VERSION

    if name not in store.names() or not VERSION.fullmatch(version) or not store.has(name, version):
        raise _unknown(store, f"{name} {version}")
    return store.manifest(name, version)


def _unknown(store: ModelStore, called: str) -> Exception:
    from api.cli.client import NotFound

    known = ", ".join(store.names()) or "none yet"
    return NotFound(str(store.root), f"there is no model {called or '(none named)'}", mend=f"Known are {known}")


_DO = {"list": _list, "promote": _promote, "rollback": _rollback, "diff": _diff}

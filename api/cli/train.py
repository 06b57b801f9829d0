"""``gpucast train``: learn from history and put a challenger into the model store."""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.settings import Settings
    from api.training import Outcome
    from api.training_data import Stretch
    from api.training_parts import Plan
    from features.store.duck import DuckStore
    from models.store_recipes import StepClass


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    add_history(parser)
    parser.add_argument(
        "--promote",
        action="store_true",
        help="then make it champion, where the gate lets it through; exit code 5 if not",
    )


def add_history(parser: argparse.ArgumentParser) -> None:
    """Flags that ``train`` and ``backtest`` share."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--store", type=Path, metavar="DIR", help="data folder of a service, which may be running")
    source.add_argument(
        "--data", type=Path, metavar="FOLDER", help="recordings laid out as for `gpucast bench forecast`"
    )
    parser.add_argument(
        "--models", type=Path, metavar="DIR", help="model store; `models` in the data folder if not given"
    )
    parser.add_argument("--model", metavar="NAME", help="only this model: jobs-1s, jobs-10s or jobs-60s")
    parser.add_argument("--until", metavar="TIME", help="learn only from what was known then; RFC 3339 or Unix seconds")
    parser.add_argument("--days", type=float, default=7.0, help="how far back, days (7)")
    parser.add_argument("--windows", type=int, default=40, help="most forecasts scored at each origin (40)")
    parser.add_argument("--trees", type=int, default=120, help="boosting rounds (120)")
    parser.add_argument("--seed", type=int, default=0, help="of everything drawn (0)")
    parser.add_argument("--config", type=Path, help="TOML settings file, for the folder, horizon and window")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """Train every model that the history can feed; 1 when none could be."""
    from api.training import train
    from models.promotion import promote
    from models.store import ModelStore
    from telemetry.errors import ConfigError

    settings, root = places(args)
    store = ModelStore(root)
    told: list[dict[str, Any]] = []
    refused = False
    for kind, stretches, plan in histories(args, settings, root):
        bar = Bar(kind.name)
        try:
            done = train(
                store,
                kind,
                stretches,
                plan,
                now_s=time.time(),
                source="folder" if args.data else "store",
                progress=bar.show,
            )
        except ConfigError as error:
            bar.end()
            if args.model:
                raise
            say(f"{kind.name}: {error}")
            continue
        bar.end()
        entry = _told(done)
        if args.promote:
            verdict = promote(store, kind.name, done.version, now_s=time.time())
            champion = store.pointer(kind.name)
            already = champion is not None and champion.version == done.version
            entry |= {"promoted": verdict.promote, "verdict": verdict.reason}
            refused |= not (verdict.promote or already)
        told.append(entry)
    if args.json:
        print(json.dumps(told))
    else:
        for entry in told:
            print("\n".join(_lines(entry)))
    if not told:
        say("nothing was trained: no history was long enough")
        return 1
    return 5 if refused else 0


def places(args: argparse.Namespace) -> tuple[Settings, Path]:
    """The settings and the folder of the model store.

    Raises:
        ConfigError: a number is out of range.
    """
    from api.settings import load_settings
    from telemetry.errors import ConfigError

    for flag, value, low, high in (
        ("--days", args.days, 0.01, 400),
        ("--windows", args.windows, 8, 2000),
        ("--trees", args.trees, 5, 2000),
    ):
        if not low <= value <= high:
            raise ConfigError(f"{flag} {value:g} is not within {low:g} and {high:g}")
    settings = load_settings(args.config, store__folder=args.store)
    return settings, args.models or settings.store.folder / "models"


def histories(
    args: argparse.Namespace, settings: Settings, root: Path
) -> list[tuple[StepClass, Sequence[Stretch], Plan]]:
    """What each model can learn from, and how.

    Raises:
        ConfigError: no store, no data, or no such model.
        StoreError: the store cannot be read.
    """
    from api.training import plan_for
    from api.training_data import from_folder, from_store
    from api.training_snapshot import KnownBy, snapshot_of
    from models.store_recipes import STEP_CLASSES, class_of
    from telemetry.errors import ConfigError

    if args.model and args.model not in STEP_CLASSES:
        raise ConfigError(f"--model {args.model!r} is not known", mend=f"Known are {', '.join(STEP_CLASSES)}")
    wanted = [STEP_CLASSES[args.model]] if args.model else list(STEP_CLASSES.values())
    if args.data:
        stretches = from_folder(args.data, wanted, say)
    else:
        with snapshot_of(settings.store.folder, root / ".work") as store:
            until_s = moment(args.until) if args.until else newest_s(store)
            stretches = from_store(KnownBy(store, until_s), until_s, args.days * 86_400.0, wanted, say)
    found: list[tuple[StepClass, Sequence[Stretch], Plan]] = []
    for kind in wanted:
        own = [stretch for stretch in stretches if class_of(stretch.context.step_s) == kind]
        if not own:
            say(f"{kind.name}: no job in the history is sampled like that")
            continue
        plan = plan_for(
            kind,
            horizon_s=settings.forecast.horizon_s,
            window_s=settings.forecast.window_s,
            windows=args.windows,
            trees=args.trees,
            seed=args.seed,
        )
        found.append((kind, own, plan))
    if not found and args.model:
        raise ConfigError(f"there is no history for {args.model}", mend="Give longer history, or another --model")
    return found


def newest_s(store: DuckStore) -> float:
    """When the newest sample came in: the same history gives the same version whenever training runs."""
    from features.store.stat import cold_stat

    with store.using() as connection:
        hot = connection.execute("select max(greatest(at_s, seen_s)) from samples").fetchall()[0][0]
        cold = cold_stat(connection, store.cold).newest_s
    return max([float(at_s) for at_s in (hot, cold) if at_s is not None], default=0.0)


def moment(text: str) -> float:
    """Unix seconds of a time.

    Raises:
        ConfigError: neither a number nor RFC 3339.
    """
    from telemetry.errors import ConfigError

    try:
        return float(text)
    except ValueError:
        pass
    try:
        told = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--until {text!r} is no time", mend="Write 2026-11-30T12:00:00Z, or Unix seconds") from error
    return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()


def say(sentence: str) -> None:
    """A sentence beside the result."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


class Bar:
    """A bar on a terminal, a line per part elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live = sys.stderr.isatty()
        self._open = False

    def show(self, done: int, total: int, what: str) -> None:
        """Another part is done."""
        if not self._live:
            say(f"{self._name}: {done}/{total} {what}")
            return
        filled = round(30 * done / max(total, 1))
        sys.stderr.write(f"\r\x1b[K{self._name} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total} {what}")
        sys.stderr.flush()
        self._open = True

    def end(self) -> None:
        """Leave the line."""
        if self._open:
            sys.stderr.write("\n")
            self._open = False


def _told(done: Outcome) -> dict[str, Any]:
    manifest = done.manifest
    return {
        "model": done.name,
        "version": done.version,
        "new": done.fresh,
        "parts_found": done.parts_found,
        "notes": list(done.notes),
        "manifest": manifest.as_dict() if manifest else None,
    }


def _lines(entry: dict[str, Any]) -> list[str]:
    lines = []
    if not entry["new"]:
        lines.append(
            f"{entry['model']} {entry['version']} is there already: same data, parameters and code; nothing done"
        )
    elif entry["parts_found"]:
        lines.append(f"{entry['model']}: went on from {entry['parts_found']} parts that an earlier run had finished")
    lines += [f"{entry['model']}: {note}" for note in entry["notes"]]
    manifest = entry["manifest"]
    data, judged = manifest["data"], manifest["judged"]
    lines += [
        f"{entry['model']} {entry['version']} ({manifest['recipe']}), from {data['jobs']} jobs, {data['points']} points",
        f"  judged on {judged['windows']} windows after {judged['embargo_steps']} steps of embargo:",
    ]
    for rival, some in manifest["figures"].items():
        value, low, high = some["skill"]
        lines.append(f"  {rival:<18} skill over persistence {value:+.3f} (95 % {low:+.3f} .. {high:+.3f})")
    cover = manifest["figures"]["challenger"]
    for share in ("80", "95"):
        value, low, high = cover[f"coverage{share}"]
        lines.append(f"  {share} % interval of the challenger covers {value:.3f} (95 % {low:.3f} .. {high:.3f})")
    if "verdict" in entry:
        lines.append(f"  {'promoted' if entry['promoted'] else 'not promoted'}: {entry['verdict']}")
    else:
        lines.append(
            f"  a challenger now; gpucast models promote {entry['model']} {entry['version']} holds it against the gate"
        )
    return lines

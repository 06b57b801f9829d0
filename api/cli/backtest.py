"""``gpucast backtest``: what the built-in models, the champion and every recipe would have said of the history."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from api.cli import train as shared

if TYPE_CHECKING:
    from api.training_data import Stretch
    from api.training_parts import Plan
    from models.base import Forecaster
    from models.store import ModelStore
    from models.store_recipes import StepClass


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    shared.add_history(parser)


def run(args: argparse.Namespace) -> int:
    """Score everything at rolling origins; nothing is stored. 1 when no history was long enough."""
    from models.store import ModelStore
    from telemetry.errors import ConfigError

    settings, root = shared.places(args)
    told: list[dict[str, Any]] = []
    for kind, stretches, plan in shared.histories(args, settings, root):
        bar = shared.Bar(kind.name)
        try:
            with TemporaryDirectory(prefix="gpucast-backtest-") as scratch:
                told.append(_one(ModelStore(root), kind, stretches, plan, Path(scratch), bar.show))
        except ConfigError as error:
            if args.model:
                raise
            shared.say(f"{kind.name}: {error}")
        finally:
            bar.end()
    print(json.dumps(told) if args.json else "\n".join(line for entry in told for line in _lines(entry)))
    return 0 if told else 1


def _one(
    store: ModelStore,
    kind: StepClass,
    stretches: Sequence[Stretch],
    plan: Plan,
    scratch: Path,
    progress: Callable[[int, int, str], None],
) -> dict[str, Any]:
    from api.training import rivals
    from api.training_parts import Parts, together
    from api.training_windows import folds
    from models.promotion import figures_of
    from models.promotion_scores import PERSISTENCE, coverage
    from models.store_recipes import RECIPES, load_champion

    origins = folds(stretches, plan.context_points, plan.horizon, plan.windows)
    champion = load_champion(store, kind.name) if store.folder(kind.name).is_dir() else None
    total = len(origins) * (3 + len(RECIPES) + bool(champion))
    parts = Parts(scratch, stretches, origins, plan, total, progress)
    scores: dict[str, list[Any]] = {}
    for fold in range(len(origins)):
        asked: dict[str, Callable[[], Forecaster]] = rivals(parts, fold)
        if champion is not None:
            served = champion.served
            asked[f"champion-{champion.version}"] = lambda served=served: served  # type: ignore[misc]
        for name, made in asked.items():
            scores.setdefault(name, []).append(parts.scores(fold, name, made))
    scores = {name: rows for name, rows in scores.items() if len(rows) == len(origins)}
    figures = figures_of(together(scores, PERSISTENCE), plan.seed)
    for name in figures:
        losses = together(scores, name)
        for share, hits in (("coverage80", losses.in80), ("coverage95", losses.in95)):
            figures[name][share] = coverage(losses, hits, seed=plan.seed)
    return {
        "model": kind.name,
        "origins": [fold.until_s for fold in origins],
        "windows": sum(len(fold.windows) for fold in origins),
        "horizon": plan.horizon,
        "embargo_steps": plan.horizon,
        "figures": {n: {k: [f.value, f.low, f.high] for k, f in some.items()} for n, some in figures.items()},
    }


def _lines(entry: dict[str, Any]) -> list[str]:
    lines = [
        f"{entry['model']}: {entry['windows']} windows at {len(entry['origins'])} origins, {entry['horizon']} steps ahead,"
        f" {entry['embargo_steps']} steps of embargo",
        f"  {'model':<26} {'skill over persistence':<28} {'in 80 %':>8} {'in 95 %':>8}",
    ]
    for name, some in sorted(entry["figures"].items(), key=lambda pair: -pair[1]["skill"][0]):
        value, low, high = some["skill"]
        shown = f"{value:+.3f} ({low:+.3f} .. {high:+.3f})"
        lines.append(f"  {name:<26} {shown:<28} {some['coverage80'][0]:>8.3f} {some['coverage95'][0]:>8.3f}")
    return lines

"""Training as an offline job: history in, a challenger in the model store out. Nothing is promoted here.

The same data, parameters and code give the same version; a version that is there is left alone. What is judged is
what is stored: the booster fitted before the last origin, scored on windows that begin a whole horizon later.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version as version_of_package
from pathlib import Path
from typing import Any

import numpy as np

from api.http.settings import installed_version
from api.training_data import Stretch, digest_of
from api.training_parts import Parts, Plan, Progress, together
from api.training_windows import BOUNDS, Fold, folds
from models.base import Forecaster
from models.gate import Served
from models.persistence import Persistence
from models.promotion import BUILT_IN, LOSSES, figures_of
from models.promotion_scores import PERSISTENCE, Losses, coverage, ratios
from models.quantiles import Floats
from models.store import ModelStore
from models.store_files import write_npz
from models.store_manifest import CHALLENGER, Manifest, version_of
from models.store_recipes import GBDT_FOLDER, RECIPES, StepClass, describe, load_champion, served_by
from models.store_records import Event
from telemetry.errors import ConfigError, IncompatibleModel

ROOMS = ("models", "features")
SELECT = len(BOUNDS) - 1
"""Origins before this one choose the recipe; this one judges."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a training.

    Args:
        name: of the model.
        version: of the challenger; empty when none was made.
        fresh: False when the version was there already.
        manifest: of the challenger; None when none was made.
        parts_found: parts that an earlier, interrupted run had finished.
        notes: what was left out and why.
    """

    name: str
    version: str
    fresh: bool
    manifest: Manifest | None = None
    parts_found: int = 0
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Judged:
    recipe: str
    tried: dict[str, float]
    losses: Losses
    notes: list[str] = field(default_factory=list)


def plan_for(kind: StepClass, *, horizon_s: float, window_s: float, windows: int, trees: int, seed: int) -> Plan:
    """The plan of a class: what the service asks for, within what is worth learning."""
    horizon = int(np.clip(round(horizon_s / kind.step_s), 6, 60))
    context = int(np.clip(round(window_s / kind.step_s), 4 * horizon, 512))
    return Plan(horizon, context, windows=windows, trees=trees, seed=seed)


def code_version() -> dict[str, str]:
    """What trains: the version of gpucast, a digest of the sources that decide the outcome, the libraries."""
    root = Path(__file__).resolve().parents[1]
    files = [path for room in ROOMS for path in sorted((root / room).rglob("*.py"))]
    files += sorted((root / "api").glob("training*.py"))
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    libraries = {name: version_of_package(name) for name in ("lightgbm", "numpy")}
    return {"gpucast": installed_version(), "sha256": total.hexdigest(), **libraries}


def train(
    store: ModelStore,
    kind: StepClass,
    stretches: Sequence[Stretch],
    plan: Plan,
    *,
    now_s: float,
    source: str,
    progress: Progress | None = None,
) -> Outcome:
    """Make a challenger of one class, unless the same one is there.

    Args:
        store: where it goes.
        kind: class of sampling steps.
        stretches: history of that class.
        plan: how.
        now_s: Unix seconds, for the manifest.
        source: ``store`` or ``folder``, for the manifest.
        progress: told of each finished part.

    Raises:
        ConfigError: the history is too short.
        ModelError: another process trains or promotes this model.
    """
    origins = folds(stretches, plan.context_points, plan.horizon, plan.windows)
    code, data = code_version(), digest_of(stretches)
    settings = {**asdict(plan), "recipes": {name: describe(recipe) for name, recipe in RECIPES.items()}}
    inputs = version_of({"name": kind.name, "plan": settings, "code": code, "data": data})
    with store.writing(kind.name):
        beside = _champion_version(store, kind.name)
        known = _known(store, kind.name, inputs, beside)
        if known is not None:
            return Outcome(kind.name, known.version, False, known)
        version = version_of({"inputs": inputs, "beside": beside})
        work = store.folder(kind.name) / ".work" / version
        _only(work)
        expected = SELECT * (3 + len(RECIPES)) + 4 + bool(beside)
        parts = Parts(work, stretches, origins, plan, expected, progress or (lambda *_: None))
        judged = _judge(store, kind.name, parts, beside)
        manifest = Manifest(
            kind.name,
            version,
            judged.recipe,
            {"recipe": describe(RECIPES[judged.recipe]), "plan": settings, "inputs": inputs},
            plan.seed,
            code,
            {"sha256": data, "source": source, **_span(stretches, origins)},
            _figures(judged.losses, plan.seed),
            _judged(judged.losses, origins[SELECT], plan, stretches, beside),
            judged.tried,
            now_s,
        )
        store.publish(_artefacts(work, judged), manifest)
        store.tell(kind.name, Event(now_s, "trained", version, _sentence(manifest)))
        shutil.rmtree(work, ignore_errors=True)
        made = store.manifest(kind.name, version)
    return Outcome(kind.name, version, True, made, parts.found, tuple(judged.notes))


def _champion_version(store: ModelStore, name: str) -> str:
    pointer = store.pointer(name)
    return pointer.version if pointer else ""


def _known(store: ModelStore, name: str, inputs: str, beside: str) -> Manifest | None:
    """A version of the same inputs that is champion, or was judged beside the present champion."""
    for manifest in store.shelf(name).versions:
        same = manifest.parameters.get("inputs") == inputs
        if same and (manifest.version == beside or manifest.judged.get("beside") == beside):
            return manifest
    return None


def _only(work: Path) -> None:
    """Keep this work folder, drop those of other inputs: nobody will go on with them."""
    work.mkdir(parents=True, exist_ok=True)
    for other in work.parent.iterdir():
        if other != work and other.is_dir() and not other.name.startswith("snapshot-"):
            shutil.rmtree(other, ignore_errors=True)


def _judge(store: ModelStore, name: str, parts: Parts, beside: str) -> _Judged:
    notes: list[str] = []
    scores: dict[str, list[Floats]] = {}
    for fold in range(SELECT):
        for rival, made in rivals(parts, fold).items():
            scores.setdefault(rival, []).append(parts.scores(fold, rival, made))
    complete = {rival: rows for rival, rows in scores.items() if len(rows) == SELECT}
    if len(complete) < len(RECIPES) + 2:
        notes.append("the history is too short for a booster; only recipes without one were tried")
    losses = together(complete, PERSISTENCE)
    names = sorted(complete)
    tried = dict(zip(names, ratios(losses, names, draws=0)[0].tolist(), strict=True))
    able = {rival: loss for rival, loss in tried.items() if rival in RECIPES and np.isfinite(loss)}
    if not able:
        raise ConfigError(f"{name}: nothing moves in the history, so nothing can be learnt", mend="Give longer history")
    recipe = min(able, key=lambda rival: (able[rival], rival))
    last = rivals(parts, SELECT)
    if recipe not in last:
        raise ConfigError(f"{name}: the history before the last origin is too short for {recipe}")
    final = {rival: [parts.scores(SELECT, rival, last[rival])] for rival in (PERSISTENCE, BUILT_IN, recipe)}
    final[CHALLENGER] = final.pop(recipe)
    if beside:
        try:
            champion = load_champion(store, name)
            if champion is not None:
                served = champion.served
                final[beside] = [parts.scores(SELECT, f"champion-{beside}", lambda: served)]
        except IncompatibleModel as error:
            notes.append(f"the champion could not be judged beside it: {error}")
    return _Judged(recipe, tried, together(final, CHALLENGER), notes)


def rivals(parts: Parts, fold: int) -> dict[str, Callable[[], Forecaster]]:
    """Persistence, the built-in models and every recipe, as fitted before an origin."""
    booster = parts.booster(fold)
    found: dict[str, Callable[[], Forecaster]] = {PERSISTENCE: Persistence, BUILT_IN: Served}
    for name, recipe in RECIPES.items():
        if recipe.gbdt and booster is None:
            continue
        found[name] = lambda recipe=recipe: served_by(recipe, booster)  # type: ignore[misc]
    return found


def _artefacts(work: Path, judged: _Judged) -> Path:
    made = work / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    if RECIPES[judged.recipe].gbdt:
        shutil.copytree(work / f"fold-{SELECT}-gbdt", made / GBDT_FOLDER)
    write_npz(made / LOSSES, judged.losses.arrays())
    return made


def _figures(losses: Losses, seed: int) -> dict[str, Any]:
    found = figures_of(losses, seed)
    found[CHALLENGER]["coverage80"] = coverage(losses, losses.in80, seed=seed)
    found[CHALLENGER]["coverage95"] = coverage(losses, losses.in95, seed=seed)
    return found


def _span(stretches: Sequence[Stretch], origins: Sequence[Fold]) -> dict[str, Any]:
    return {
        "from_s": min(stretch.start_s for stretch in stretches),
        "until_s": max(stretch.at_s(stretch.context.n_points - 1) for stretch in stretches),
        "learnt_until_s": origins[SELECT].until_s,
        "jobs": len({stretch.job for stretch in stretches}),
        "series": sum(stretch.context.n_series for stretch in stretches),
        "points": int(sum(np.isfinite(stretch.context.values).sum() for stretch in stretches)),
        "step_s": float(np.median([stretch.context.step_s for stretch in stretches])),
    }


def _judged(losses: Losses, fold: Fold, plan: Plan, stretches: Sequence[Stretch], beside: str) -> dict[str, Any]:
    return {
        "windows": len(fold.windows),
        "series": int(np.unique(losses.series).size),
        "blocks": losses.blocks,
        "from_s": min(window.at_s for window in fold.windows),
        "until_s": max(w.at_s + plan.horizon * stretches[w.stretch].context.step_s for w in fold.windows),
        "embargo_steps": plan.horizon,
        "beside": beside,
    }


def _sentence(manifest: Manifest) -> str:
    mine = manifest.figures[CHALLENGER]["skill"]
    return (
        f"{manifest.recipe}: skill over persistence {mine.value:.3f} (95 % {mine.low:.3f} .. {mine.high:.3f})"
        f" on {manifest.judged['windows']} windows of {manifest.data['jobs']} jobs"
    )

"""Ways of forecasting that training chooses from, per class of sampling step, and how a stored one comes to life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.base import Forecaster
from models.gate import Served, fleet_candidates
from models.store import ModelStore
from models.store_manifest import Manifest
from models.store_trees import check_trees
from models.store_watch import Watched
from telemetry.errors import IncompatibleModel

GBDT_FOLDER = "gbdt"
MOST_AHEAD, MOST_NAMES = 4096, 500


@dataclass(frozen=True, slots=True)
class StepClass:
    """Series of like sampling, which share a model.

    Args:
        name: of the model.
        least_s: sampling steps from here on,
        below_s: and below this.
        step_s: a typical one.
    """

    name: str
    least_s: float
    below_s: float
    step_s: float


STEP_CLASSES: dict[str, StepClass] = {
    c.name: c
    for c in (
        StepClass("jobs-1s", 0.75, 3.0, 1.0),
        StepClass("jobs-10s", 3.0, 20.0, 10.0),
        StepClass("jobs-60s", 20.0, 180.0, 60.0),
    )
}
"""Below 0.75 s the rhythm of a job says more than what other jobs taught; nothing is trained there."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A way of forecasting.

    Args:
        gbdt: a trained booster is one of the candidates.
        origins: past origins by which the gate tries its candidates.
        rhythm: the phase model and its kin are candidates too.
    """

    gbdt: bool = False
    origins: int = 6
    rhythm: bool = True


RECIPES: dict[str, Recipe] = {
    "served+gbdt": Recipe(gbdt=True),
    "fleet+gbdt": Recipe(gbdt=True, rhythm=False),
    "served-10-origins": Recipe(origins=10),
}
"""What is tried beside the built-in ``Served()``. All of them keep the gate and its calibration."""


def class_of(step_s: float) -> StepClass | None:
    """The class of a sampling step; None where nothing is trained."""
    return next((c for c in STEP_CLASSES.values() if c.least_s <= step_s < c.below_s), None)


def served_by(recipe: Recipe, gbdt: Forecaster | None, also: Sequence[Forecaster] = ()) -> Served:
    """The gate over what a recipe asks for."""
    extra = (*also, gbdt) if recipe.gbdt and gbdt is not None else tuple(also)
    candidates = None if recipe.rhythm else fleet_candidates()
    return Served(candidates, origins=recipe.origins, also=extra)


def fitted_in(folder: Path, manifest: Manifest) -> Forecaster | None:
    """The booster of a checked version; None where its recipe has none.

    Raises:
        IncompatibleModel: names what is wrong.
    """
    if not recipe_of(manifest).gbdt:
        return None
    from models.gbdt import FITTED, Gbdt

    place = folder / GBDT_FOLDER
    texts = sorted(place.glob("*.txt"))
    if {text.name for text in texts} != {f"q{level}.txt" for level in FITTED}:
        raise IncompatibleModel(f"{place} lacks boosters", mend="Train the model again with gpucast train")
    for text in texts:
        check_trees(text)
    try:
        model = Gbdt.load(place)
    except IncompatibleModel:
        raise
    except Exception as error:  # LightGBM's reader fails in its own ways
        raise IncompatibleModel(f"{place} cannot be read ({type(error).__name__}: {error})") from error
    assert isinstance(model, Gbdt)
    anchors = model.anchors or []
    sound = 0 < model.horizon <= MOST_AHEAD and anchors == sorted(set(anchors)) and len(model.metrics) <= MOST_NAMES
    if not sound or not anchors or anchors[0] < 1 or anchors[-1] > model.horizon:
        raise IncompatibleModel(f"{place} holds a model with anchors {anchors[:8]} of {model.horizon} steps")
    return model


def recipe_of(manifest: Manifest) -> Recipe:
    """The recipe a manifest tells of.

    Raises:
        IncompatibleModel: it is not one of ours, or its settings are not.
    """
    known = RECIPES.get(manifest.recipe)
    told: Any = manifest.parameters.get("recipe")
    if known is None or told != describe(known):
        raise IncompatibleModel(
            f"{manifest.name} {manifest.version} is of the recipe {manifest.recipe!r} with settings that this gpucast"
            " does not have",
            mend="Train the model again with gpucast train",
        )
    return known


def describe(recipe: Recipe) -> dict[str, Any]:
    """A recipe as JSON."""
    return {"gbdt": recipe.gbdt, "origins": recipe.origins, "rhythm": recipe.rhythm}


@dataclass(frozen=True, slots=True, eq=False)
class Champion:
    """A champion that has come to life.

    Args:
        name: of the model.
        version: of it.
        served: the gate over its recipe.
        watched: its booster, watched; None where the recipe has none.
    """

    name: str
    version: str
    served: Served
    watched: Watched | None


def load_champion(store: ModelStore, name: str, also: Sequence[Forecaster] = ()) -> Champion | None:
    """The champion of a name, every file checked and tried on a small context; None where the built-in models serve.

    Raises:
        IncompatibleModel: names the file and what is wrong with it.
    """
    pointer = store.pointer(name)
    if pointer is None or not pointer.version:
        return None
    why = store.quarantined(name).get(pointer.version)
    if why:
        raise IncompatibleModel(f"{name} {pointer.version} is in quarantine: {why}")
    folder, manifest = store.checked(name, pointer.version, pointer.manifest_sha256)
    recipe = recipe_of(manifest)
    booster = fitted_in(folder, manifest)
    watched = Watched(booster) if booster is not None else None
    if watched is not None:
        _try(watched, f"{name} {pointer.version}")
    return Champion(name, pointer.version, served_by(recipe, watched, also), watched)


def _try(model: Watched, called: str) -> None:
    from models.checks import HORIZON, contexts

    model.predict(contexts()["waves"], HORIZON)
    if model.fault or not np.isfinite(model.predict(contexts()["gappy"], HORIZON)).all():
        raise IncompatibleModel(f"{called} fails on a trial: {model.fault or 'its answer is not finite'}")

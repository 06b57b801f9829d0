"""What every forecaster must keep, as checks that a plug-in's author runs too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from features.frame import Context
from models.base import LEVELS, Forecaster
from models.quantiles import Floats

HORIZON = 12
Factory = Callable[[], Forecaster]


def yield_checks(make: Factory) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Named checks; each takes an empty folder and raises AssertionError with a sentence when a law is broken.

    Args:
        make: gives a new, fitted forecaster each time.
    """
    for name, context in contexts().items():
        yield f"answers_{name}", _answers(make, context)
    yield "input_unchanged", _input_unchanged(make)
    yield "same_again", _same_again(make)
    yield "saved_and_loaded_same", _saved_and_loaded_same(make)
    yield "no_look_ahead", _no_look_ahead(make)


def contexts() -> dict[str, Context]:
    """Kinds of history that every model must answer."""
    random = np.random.default_rng(5)
    time = np.arange(160)
    wave = 0.5 + 0.4 * np.sign(np.sin(2 * np.pi * time / 17.3)) + 0.02 * random.normal(size=(6, 160))
    gappy = wave.copy()
    gappy[:, 60:90] = np.nan
    gappy[2, ::2] = np.nan
    gappy[3, -10:] = np.nan
    missing = wave.copy()
    missing[1] = np.nan
    return {
        "waves": context_of(np.clip(wave, 0, 1)),
        "gappy": context_of(np.clip(gappy, 0, 1)),
        "constant": context_of(np.full((3, 160), 0.25)),
        "all_missing_row": context_of(np.clip(missing, 0, 1)),
        "nothing_observed": context_of(np.full((2, 40), np.nan)),
        "four_points": context_of(np.clip(wave[:, :4], 0, 1)),
        "one_point": context_of(np.clip(wave[:, :1], 0, 1)),
        "no_points": context_of(wave[:, :0]),
        "huge_values": context_of(1e12 * np.abs(wave), high=np.inf),
    }


def context_of(values: Floats, *, high: float = 1.0, step_s: float = 1.0) -> Context:
    """A context of one job from plain values."""
    n = values.shape[0]
    metric = ("gpu_sm_active_ratio",) * n
    return Context(values, step_s, metric, np.zeros(n, np.int32), np.zeros(n), np.full(n, high))


def _answers(make: Factory, context: Context) -> Callable[[Path], None]:
    def check(_: Path) -> None:
        cube = make().predict(context, HORIZON)
        want = (context.n_series, HORIZON, len(LEVELS))
        _require(cube.shape == want, f"the cube has shape {cube.shape}, expected {want}")
        _require(bool(np.isfinite(cube).all()), "a quantile is not finite")
        _require(bool((np.diff(cube, axis=-1) >= 0).all()), "quantiles cross")
        above = cube >= context.low[:, None, None]
        below = cube <= context.high[:, None, None]
        _require(bool((above & below).all()), "a quantile lies outside the row's bounds")

    return check


def _input_unchanged(make: Factory) -> Callable[[Path], None]:
    def check(_: Path) -> None:
        context = contexts()["gappy"]
        before = context.values.copy()
        make().predict(context, HORIZON)
        _require(bool(np.array_equal(before, context.values, equal_nan=True)), "predict changed its input")

    return check


def _same_again(make: Factory) -> Callable[[Path], None]:
    def check(_: Path) -> None:
        context = contexts()["waves"]
        first, second = make().predict(context, HORIZON), make().predict(context, HORIZON)
        _require(bool(np.array_equal(first, second)), "the same question got two answers")

    return check


def _saved_and_loaded_same(make: Factory) -> Callable[[Path], None]:
    def check(folder: Path) -> None:
        model, context = make(), contexts()["waves"]
        model.save(folder / "model")
        loaded = type(model).load(folder / "model")
        same = np.array_equal(model.predict(context, HORIZON), loaded.predict(context, HORIZON))
        _require(bool(same), "the loaded model answers differently")
        _require((loaded.name, loaded.version) == (model.name, model.version), "the loaded model has another name")

    return check


def _no_look_ahead(make: Factory) -> Callable[[Path], None]:
    def check(_: Path) -> None:
        context = contexts()["waves"]
        knowing, cut = make(), context.until(120)
        knowing.predict(context, HORIZON)
        first, second = knowing.predict(cut, HORIZON), make().predict(cut, HORIZON)
        same = bool(np.array_equal(first, second))
        _require(same, "an answer from an earlier cutoff uses what the model was shown later")

    return check


def _require(good: bool, sentence: str) -> None:
    # Not an assert statement: the checks must also speak under python -O.
    if not good:
        raise AssertionError(sentence)

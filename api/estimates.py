"""Estimates of jobs that have not run: what is asked, in words or fields, with the coefficients of the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import ValidationError

from api.http import schemas
from forecast.priors.coefficients import Coefficients, from_document
from forecast.priors.estimate import estimate
from forecast.priors.read_text import Reading, read_text
from forecast.priors.types import Estimate, Intent
from telemetry.errors import ConfigError, IncompatibleModel


@cache
def shipped() -> Coefficients:
    """The coefficients in the package.

    Raises:
        IncompatibleModel: the file is missing or damaged.
    """
    try:
        text = files("forecast.priors").joinpath("coefficients.json").read_text(encoding="utf-8")
        document = json.loads(text)
    except (OSError, ValueError) as bad:
        raise IncompatibleModel(
            f"forecast/priors/coefficients.json cannot be read: {bad}", mend="Install the package again"
        ) from bad
    return from_document(document)


def asked(document: Mapping[str, Any]) -> schemas.IntentIn:
    """What a file says, checked.

    Raises:
        ConfigError: a field is unknown or its value cannot be; the sentence names it.
    """
    try:
        return schemas.IntentIn.model_validate(dict(document))
    except ValidationError as bad:
        faults = "; ".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in bad.errors(include_url=False)[:10])
        known = ", ".join(schemas.IntentIn.model_fields)
        raise ConfigError(f"the intent cannot be used: {faults}", mend=f"Known fields are {known}") from bad


def answer_intent(wanted: schemas.IntentIn) -> schemas.EstimateOut:
    """The estimate for what was asked.

    Raises:
        ConfigError: the intent cannot be, or its text and its fields contradict each other.
        IncompatibleModel: the coefficients are damaged.
    """
    reading = read_text(wanted.text) if wanted.text is not None else Reading(Intent(), (), ())
    said = {name: value for name, value in wanted.model_dump(exclude={"text"}).items() if value is not None}
    for name, value in said.items():
        read = getattr(reading.intent, name)
        if read not in (None, "", value):
            raise ConfigError(f"the text says {name} is {read}, the field says {value}", mend="Say one of them")
    if not said and wanted.text is None:
        raise ConfigError("the intent is empty", mend="Give text, or fields such as parameters and gpu_count")
    return _rendered(reading, estimate(replace(reading.intent, **said), shipped()))


def _rendered(reading: Reading, made: Estimate) -> schemas.EstimateOut:
    return schemas.EstimateOut(
        understood=[schemas.UnderstoodOut(phrase=u.phrase, meaning=u.meaning) for u in reading.understood],
        unread=list(reading.unread),
        assumed=[schemas.AssumptionOut(name=a.name, value=a.value, why=a.why) for a in made.plan.assumptions],
        figures={
            name: schemas.FigureOut(
                unit=f.unit, low=_short(f.low), middle=_short(f.middle), high=_short(f.high), because=f.because
            )
            for name, f in made.figures.items()
        },
        exchanges=[schemas.ExchangeOut(**{f.name: getattr(e, f.name) for f in fields(e)}) for e in made.exchanges],
        warnings=list(made.warnings),
        basis=made.basis,
    )


def _short(value: float) -> float:
    """Four significant digits: none of these figures is more exact."""
    return float(f"{value:.4g}")

"""Estimates with the coefficients that come with the service."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from forecast.priors.coefficients import Coefficients, from_document


@cache
def shipped() -> Coefficients:
    """The coefficients in the package.

    Raises:
        IncompatibleModel: the file is missing or damaged.
    """
    from telemetry.errors import IncompatibleModel

    try:
        text = files("forecast.priors").joinpath("coefficients.json").read_text(encoding="utf-8")
        document = json.loads(text)
    except (OSError, ValueError) as bad:
        raise IncompatibleModel(
            f"forecast/priors/coefficients.json cannot be read: {bad}", mend="Install the package again"
        ) from bad
    return from_document(document)

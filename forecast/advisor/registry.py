"""Built-in rules by name. Third parties add theirs through the entry-point group ``gpucast.rules``."""

from __future__ import annotations

from forecast.advisor.rules.hold import hold
from forecast.advisor.rules.shift import shift
from forecast.advisor.types import Rule

BUILTIN: dict[str, Rule] = {
    "shift": shift,
    "hold": hold,
}

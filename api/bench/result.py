"""What every benchmark gives back, and its JSON form."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of a benchmark.

    Args:
        task: what was done, such as ``h100-100ms-48`` or ``parse``.
        model: who did it; losers are listed too.
        metric: which figure, unit in the name where it has one.
        value: the figure; NaN when it could not be computed.
        ci_low: lower end of the 95 % interval; NaN when none was computed.
        ci_high: upper end.
        n: how many windows, origins or repeats the figure rests on.
    """

    task: str
    model: str
    metric: str
    value: float
    ci_low: float
    ci_high: float
    n: int

    def as_dict(self) -> dict[str, Any]:
        """The row with the missing numbers as None: JSON has no NaN."""
        return {
            "task": self.task,
            "model": self.model,
            "metric": self.metric,
            "value": _number(self.value),
            "ci_low": _number(self.ci_low),
            "ci_high": _number(self.ci_high),
            "n": self.n,
        }


@dataclass(frozen=True, slots=True)
class BenchResult:
    """A whole run.

    Args:
        benchmark: ``forecast``, ``ingest``.
        data_sha256: digest of the data that was read, so that two runs can be compared; of the seed and the
            generator's version when the data was simulated.
        rows: every figure.
        notes: sentences for the reader, such as how many windows were dropped; not part of the JSON.
    """

    benchmark: str
    data_sha256: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The document that ``--json`` writes."""
        return {
            "benchmark": self.benchmark,
            "data_sha256": self.data_sha256,
            "rows": [row.as_dict() for row in self.rows],
        }

    def to_json(self) -> str:
        """The same as text, without the tokens NaN and Infinity."""
        return json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None

"""Small parts of the Prometheus text format 0.0.4, as the exporters print it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from telemetry.catalogue import BY_NAME, Kind

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def labels_text(labels: Mapping[str, str]) -> str:
    """``{a="x",b="y"}`` with the three escapes of the format; empty text without labels."""
    if not labels:
        return ""
    escaped = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return "{" + ",".join(escaped) + "}"


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def go_number(value: float) -> str:
    """A number as Go's shortest ``%g`` prints it: ``4``, ``0.21``, ``5e+10``, ``1.2345678e+07``."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else ("+Inf" if value > 0 else "-Inf")
    if value == 0.0 or 1e-4 <= abs(value) < 1e6:
        return str(np.format_float_positional(value, trim="-"))
    return str(np.format_float_scientific(value, trim="-", exp_digits=2))


def field_of(metric: str) -> tuple[str, float]:
    """Canonical field of a catalogue metric and what its printed number must be multiplied with."""
    source = BY_NAME[metric].sources[0]
    return source.field, source.scale


def family_head(field: str, help_text: str, *, counter: bool) -> str:
    """The HELP and TYPE lines of a family."""
    return f"# HELP {field} {help_text}\n# TYPE {field} {'counter' if counter else 'gauge'}\n"


def metric_head(metric: str, field: str | None = None) -> str:
    """HELP and TYPE of a catalogue metric, under its canonical field or the one given."""
    row = BY_NAME[metric]
    # dcgm-exporter declares the NVLink bandwidth a counter although it is a rate.
    counter = row.kind is Kind.COUNTER or metric == "gpu_nvlink_bytes_per_s"
    return family_head(field or row.sources[0].field, row.meaning[:1].upper() + row.meaning[1:] + ".", counter=counter)


def family(head: str, field: str, rows: Iterable[tuple[str, float]]) -> str:
    """A family block from ``(labels, value)`` rows."""
    return head + "".join(f"{field}{labels} {go_number(value)}\n" for labels, value in rows)

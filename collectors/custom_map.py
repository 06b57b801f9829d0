"""A site's own metrics: any Prometheus family becomes a metric of a link, host or GPU, by configuration.

An entry names the family, our metric, the unit in which numbers are printed, and a template that makes the entity from
labels, such as ``{switch}:{ifName}``. Everything is checked when it is loaded; at run time a line without a label that
the template needs is left out and told of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as made_by
from string import Formatter

from telemetry.catalogue import BY_NAME
from telemetry.errors import ConfigError
from telemetry.metric import Blank, Kind, Level, Metric, Source

MOST_ENTRIES = 200
OWN_PREFIX = "site_"
"""A metric that the catalogue has not starts with this, so that no later catalogue can mean something else by it."""

_NAME = re.compile(r"site_[a-z0-9_]{1,70}")
_FIELD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_LEVELS = {"link": Level.PORT, "node": Level.NODE, "gpu": Level.DEVICE}
_KINDS = {"gauge": Kind.GAUGE, "counter": Kind.COUNTER, "rate": Kind.RATE}
_COLONS = {
    Level.PORT: (1, 9, "{device}:{port}, such as {switch}:{ifName} or {node}:{device}:{port}"),
    Level.NODE: (0, 0, "{node}"),
    Level.DEVICE: (1, 1, "{node}:{UUID}"),
}
"""Level -> least and most colons outside the placeholders, and an example."""

UNITS: dict[str, tuple[str, float]] = {
    "seconds": ("seconds", 1.0),
    "milliseconds": ("seconds", 1e-3),
    "microseconds": ("seconds", 1e-6),
    "nanoseconds": ("seconds", 1e-9),
    "bytes": ("bytes", 1.0),
    "kilobytes": ("bytes", 1e3),
    "megabytes": ("bytes", 1e6),
    "gigabytes": ("bytes", 1e9),
    "kibibytes": ("bytes", 1024.0),
    "mebibytes": ("bytes", 1024.0**2),
    "gibibytes": ("bytes", 1024.0**3),
    "words": ("bytes", 4.0),
    "bits": ("bytes", 1 / 8),
    "bytes per second": ("bytes per second", 1.0),
    "kilobytes per second": ("bytes per second", 1e3),
    "megabytes per second": ("bytes per second", 1e6),
    "gigabytes per second": ("bytes per second", 1e9),
    "mebibytes per second": ("bytes per second", 1024.0**2),
    "bits per second": ("bytes per second", 1 / 8),
    "kilobits per second": ("bytes per second", 1e3 / 8),
    "megabits per second": ("bytes per second", 1e6 / 8),
    "gigabits per second": ("bytes per second", 1e9 / 8),
    "ratio": ("ratio", 1.0),
    "percent": ("ratio", 0.01),
    "count": ("count", 1.0),
    "ticks": ("ticks", 1.0),
    "state": ("state", 1.0),
    "flag": ("flag", 1.0),
    "watts": ("watts", 1.0),
    "milliwatts": ("watts", 1e-3),
    "joules": ("joules", 1.0),
    "millijoules": ("joules", 1e-3),
    "celsius": ("celsius", 1.0),
    "hertz": ("hertz", 1.0),
    "megahertz": ("hertz", 1e6),
}
"""What a number may be printed in -> our unit, and what to multiply it with. InfiniBand's words are 4 bytes."""


@dataclass(frozen=True, slots=True)
class CustomEntry:
    """One family of the site.

    Args:
        field: its name.
        metric: of the catalogue, or a name of your own that starts with ``site_``.
        unit: in which it is printed; one of ``UNITS``.
        level: ``link``, ``node`` or ``gpu``.
        entity: template of the entity; ``{node}`` is the host as gpucast names it, any other name a label.
        kind: ``gauge``, ``counter`` or ``rate``; a catalogue metric has its own.
        only: label -> pattern that it has to match wholly.
        add_over: labels whose values are parts of one number, to be added.
    """

    field: str
    metric: str
    unit: str
    level: str
    entity: str
    kind: str = ""
    only: Mapping[str, str] = made_by(default_factory=dict)
    add_over: tuple[str, ...] = ()


class CustomMap:
    """Checked entries.

    Args:
        entries: what the site configured.

    Raises:
        ConfigError: an entry that cannot work; names the entry, the thing and the mend.
    """

    def __init__(self, entries: Iterable[CustomEntry] = ()) -> None:
        self._meanings: dict[str, list[tuple[Metric, Source]]] = {}
        made: dict[str, Metric] = {}
        for number, entry in enumerate(entries, 1):
            if number > MOST_ENTRIES:
                raise ConfigError(f"there are more than {MOST_ENTRIES} custom entries")
            metric, source = _checked(entry, f"custom entry {number} ({entry.field or 'without a field'})")
            twin = made.setdefault(metric.name, metric)
            if (twin.unit, twin.kind, twin.level) != (metric.unit, metric.kind, metric.level):
                raise ConfigError(f"custom entry {number}: {metric.name} has another unit, kind or level further up")
            self._meanings.setdefault(entry.field, []).append((metric, source))
        self.metrics: tuple[Metric, ...] = tuple(made.values())
        """Every metric that the entries give."""

    @property
    def fields(self) -> frozenset[str]:
        """Families that the entries name."""
        return frozenset(self._meanings)

    def meaning_of(self, name: str, labels: Mapping[str, str]) -> tuple[Metric, Source] | None:
        """What the site says that a line is about; None when it says nothing."""
        for metric, source in self._meanings.get(name, ()):
            if source.takes(labels):
                return metric, source
        return None


def _checked(entry: CustomEntry, who: str) -> tuple[Metric, Source]:
    if not _FIELD.fullmatch(entry.field):
        raise ConfigError(f"{who}: {entry.field!r} is not the name of a Prometheus metric")
    if entry.unit not in UNITS:
        raise ConfigError(f"{who}: unit {entry.unit!r} is not known", mend=f"Known are {', '.join(UNITS)}")
    if entry.level not in _LEVELS:
        raise ConfigError(f"{who}: level {entry.level!r} is not known", mend=f"Known are {', '.join(_LEVELS)}")
    if entry.kind and entry.kind not in _KINDS:
        raise ConfigError(f"{who}: kind {entry.kind!r} is not known", mend=f"Known are {', '.join(_KINDS)}")
    level = _LEVELS[entry.level]
    unit, scale = UNITS[entry.unit]
    metric = _metric(entry, who, level, unit)
    _check_template(entry.entity, who, metric.level)
    for label, pattern in entry.only.items():
        _check_pattern(label, pattern, who)
    source = Source(entry.field, scale, only=tuple(sorted(entry.only.items())), entity=entry.entity)
    return replace(metric, sources=(source,), parts=entry.add_over, blank=Blank.NONE), source


def _metric(entry: CustomEntry, who: str, level: Level, unit: str) -> Metric:
    known = BY_NAME.get(entry.metric)
    if known is None:
        if not _NAME.fullmatch(entry.metric):
            raise ConfigError(
                f"{who}: {entry.metric!r} is not a metric of the catalogue",
                mend=f"Name your own with {OWN_PREFIX} in front, in small letters, digits and _",
            )
        kind = _KINDS[entry.kind or "gauge"]
        high = 1.0 if unit == "ratio" else float("inf")
        low = float("-inf") if unit == "celsius" else 0.0
        return Metric(entry.metric, unit, kind, level, (), low=low, high=high, meaning=f"the site's {entry.field}")
    levels = {known.level, Level.DEVICE if known.level is Level.GPU else known.level}
    if level not in levels:
        raise ConfigError(f"{who}: {entry.metric} belongs to a {known.level}, not to a {entry.level}")
    if known.unit != unit:
        raise ConfigError(f"{who}: {entry.metric} is in {known.unit}, and {entry.unit} cannot become that")
    if entry.kind and _KINDS[entry.kind] is not known.kind:
        raise ConfigError(f"{who}: {entry.metric} is a {known.kind}, not a {entry.kind}")
    return known


def _check_template(template: str, who: str, level: Level) -> None:
    """A template has plain placeholders only: no attributes, indices, conversions or formats."""
    least, most, example = _COLONS[Level.DEVICE if level is Level.GPU else level]
    mend = f"Write it like {example}"
    try:
        parts = list(Formatter().parse(template))
    except ValueError as odd:
        raise ConfigError(f"{who}: entity {template!r} is no template: {odd}", mend=mend) from odd
    names = [name for _, name, _, _ in parts if name is not None]
    if not names:
        raise ConfigError(f"{who}: entity {template!r} names no label, so all lines would be one", mend=mend)
    for _, name, spec, conversion in parts:
        if name is not None and (spec or conversion or not _LABEL.fullmatch(name)):
            raise ConfigError(
                f"{who}: entity {template!r}: {name or 'an empty place'} is not a label's name", mend=mend
            )
    colons = sum(text.count(":") for text, _, _, _ in parts)
    if not least <= colons <= most:
        raise ConfigError(f"{who}: entity {template!r} does not name a {_word(level)}", mend=mend)


def _word(level: Level) -> str:
    return next(word for word, known in _LEVELS.items() if known is (Level.DEVICE if level is Level.GPU else level))


def _check_pattern(label: str, pattern: str, who: str) -> None:
    if not _LABEL.fullmatch(label):
        raise ConfigError(f"{who}: {label!r} is not a label's name")
    if len(pattern) > 200 or re.search(r"[*+}]\)*[*+{]", pattern):
        # Nested repeats make Python's matcher try for ever on a hostile label.
        raise ConfigError(f"{who}: the pattern of {label} is too long or repeats a repeat")
    try:
        re.compile(pattern)
    except re.error as odd:
        raise ConfigError(f"{who}: the pattern of {label} cannot be read: {odd}") from odd

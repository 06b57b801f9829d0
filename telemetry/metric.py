"""What a row of the metric catalogue says. The rows are in ``telemetry.catalogue``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

KIB = 1024.0
MIB = 1024.0**2
INF = float("inf")


class Kind(StrEnum):
    """What a number means over time. It overrules the TYPE that an exporter declares."""

    GAUGE = "gauge"
    COUNTER = "counter"
    RATE = "rate"
    """Already per second; never differentiate it again."""
    LAST_CODE = "last_code"
    """The last error number seen; sticky, never averaged or summed."""
    WINDOW_COUNT = "window_count"
    """A count inside a sliding window; it falls, never differentiate it."""


class Level(StrEnum):
    """What the number belongs to."""

    GPU = "gpu"
    """The card. Repeated on each MIG instance line; counts once per card."""
    DEVICE = "device"
    """The schedulable device: each MIG instance has its own value, a whole card has one."""
    NODE = "node"
    """The host as a whole."""
    PORT = "port"
    """A NIC's or a switch's network port."""
    LANE = "lane"
    """One NVLink or xGMI link of a card."""
    WORKLOAD = "workload"
    """One pod's own part of a shared device; entity ``device@namespace/pod/container``."""
    HOST_DEVICE = "host_device"
    """A disk, mount, socket or network interface of a host."""
    JOB = "job"
    RANK = "rank"
    """One process of a job; entity ``job@rank``."""
    COMMUNICATOR = "communicator"
    COLLECTIVE = "collective"
    """An operation of a communicator, over all of its ranks or as one member saw it (``CollectiveId``)."""


class Blank(StrEnum):
    """Which 'no value' numbers a field can hold (dcgm_structs.h)."""

    NONE = "none"
    FLOAT = "float"
    """2^47 + 0..3, and the int64 blanks."""
    INT32 = "int32"
    """2147483632..2147483635, and the int64 blanks."""
    INT64 = "int64"
    """9223372036854775792..795; after a float64, anything >= 2^63 - 1024."""
    ZERO = "zero"
    """A 0 says that nothing was measured: NCCL prints bandwidth 0 where it has no time."""


@dataclass(frozen=True, slots=True)
class Source:
    """One name that an exporter gives a metric.

    Args:
        field: the family name on the page.
        scale: multiply the printed number by this to get the catalogue's unit.
        zero_first: True when the first 0 after the exporter starts means "no earlier reading".
        only: (label, pattern) pairs; a line is this metric's only where each label matches its pattern wholly.
        device: the label, or a fixed name after ``=``, that names the lane or host device; empty elsewhere.
        zero_on_slice: True when a 0 on a slice of a card means "not measured".
        entity: template of the entity's text form over the line's labels and ``{node}``; empty where the usual labels
            tell it.
    """

    field: str
    scale: float = 1.0
    zero_first: bool = False
    only: tuple[tuple[str, str], ...] = ()
    device: str = ""
    zero_on_slice: bool = False
    entity: str = ""

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether a line with these labels is meant."""
        return all(re.fullmatch(pattern, labels.get(label, "")) for label, pattern in self.only)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue.

    Args:
        name: our name, unit at the end.
        unit: the unit in words.
        kind: what the number means over time.
        level: what it belongs to.
        low: least legal value, in the catalogue's unit.
        high: greatest legal value.
        tolerance: values up to ``high + tolerance`` are sampling noise and are clipped to ``high``.
        blank: which blank numbers apply, tested on the printed number before scaling.
        sources: names over the years, the canonical one first.
        meaning: what it tells, in a line.
        parts: labels that split the number into parts which are to be added; ``__name__`` stands for the family.
    """

    name: str
    unit: str
    kind: Kind
    level: Level
    sources: tuple[Source, ...]
    low: float = 0.0
    high: float = INF
    tolerance: float = 0.0
    blank: Blank = Blank.NONE
    meaning: str = ""
    parts: tuple[str, ...] = ()

"""Samples in long form: column arrays, with a reason wherever a value is missing.

A missing value is NaN and carries a ``Reason``; it is never 0. Nothing that leaves the service shows NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import overload

import numpy as np
from numpy.typing import NDArray

from telemetry.errors import SchemaError
from telemetry.ids import GpuId, JobId, SeriesKey

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
CodeArray = NDArray[np.uint8]


class Reason(IntEnum):
    """Why a value is missing, or ``OK``. Stored as one byte; numbers never change meaning."""

    OK = 0
    BLANK = 1
    """The source printed its own 'no value' number."""
    OUT_OF_RANGE = 2
    NOT_FINITE = 3
    NOT_OBSERVED = 4
    """The slot exists on a grid, but no sample fell into it."""
    STALE = 5
    """Repeated by a lookback, not observed."""
    FIRST_READING = 6
    """A zero that means 'no earlier reading'."""
    NOT_MEASURED = 7
    """The device cannot give this field, and prints 0 (a MIG slice's GPU_UTIL, a port that is down)."""
    NO_RATE = 8
    """A counter without a usable earlier sample."""
    FROZEN = 9
    """The source repeats an old number: the device works, and this field of it stands still."""


class Problem(StrEnum):
    """What can be wrong with a reply, as one word for counters and ``doctor``."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    HTTP_STATUS = "http_status"
    NOT_TEXT = "not_text"
    MALFORMED_LINE = "malformed_line"
    TORN = "torn"
    BLANK_VALUE = "blank_value"
    OUT_OF_RANGE = "out_of_range"
    NOT_FINITE = "not_finite"
    DUPLICATE_SERIES = "duplicate_series"
    UNKNOWN_METRIC = "unknown_metric"
    CLOCK_AHEAD = "clock_ahead"
    CLOCK_BEHIND = "clock_behind"
    EMPTY = "empty"
    PARTIAL = "partial"
    WARNING = "warning"
    QUERY_ERROR = "query_error"
    OWNER_UNKNOWN = "owner_unknown"
    NO_NODE = "no_node"
    OWNER_CONFLICT = "owner_conflict"
    """Two sources name different owners of a GPU."""
    UNLAWFUL = "unlawful"
    """A collector of another package broke the contract."""
    DEVICE_UNKNOWN = "device_unknown"
    """A job holds GPUs of a host, but which ones cannot be told."""
    INCONSISTENT = "inconsistent"
    """Numbers of one source contradict each other."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was wrong with a reply, counted.

    Args:
        problem: the kind.
        source: URL, path or target name.
        detail: a sentence naming the metric, label or line at fault.
        count: how many lines or samples it touched.
    """

    problem: Problem
    source: str
    detail: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Sighting:
    """Who a source said was using a GPU at one moment.

    Args:
        gpu: the device.
        at_s: when, Unix seconds.
        job: the owner, None when nobody owns it or the owner is unknown.
        workload: the finer name under Kubernetes, ``namespace/pod/container``; empty elsewhere.
        known: False when the GPU is busy but the source lost its mapping.
        sharers: how many jobs or pods share the device at that moment; 0 when unallocated.
    """

    gpu: GpuId
    at_s: float
    job: JobId | None
    workload: str = ""
    known: bool = True
    sharers: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SightingsAt(Sequence[Sighting]):
    """The same sightings at another moment, made only where somebody looks at them.

    Args:
        base: what was seen. A source that sees the same again hands over the same tuple object, so that whoever folds
            sightings may tell by identity that nothing changed.
        at_s: when, Unix seconds; it stands for the times in ``base``.
    """

    base: tuple[Sighting, ...]
    at_s: float

    def __len__(self) -> int:
        return len(self.base)

    @overload
    def __getitem__(self, place: int) -> Sighting: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Sighting, ...]: ...
    def __getitem__(self, place: int | slice) -> Sighting | tuple[Sighting, ...]:
        return tuple(self)[place]

    def __iter__(self) -> Iterator[Sighting]:
        return (Sighting(s.gpu, self.at_s, s.job, s.workload, s.known, s.sharers) for s in self.base)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | SightingsAt) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True, slots=True, eq=False)
class SampleBatch:
    """What one collection gave: samples as columns, owners seen, and what was wrong.

    Args:
        keys: the series, each once. Collectors that read the same layout again hand over the same tuple
            object, so that a store may cache what it knows about it by identity.
        series: (n,) index into ``keys``.
        at_s: (n,) Unix seconds.
        value: (n,) in the catalogue's unit; NaN where missing.
        reason: (n,) ``Reason`` codes; 0 where the value is good.
        sightings: who used which GPU.
        findings: what was wrong, counted.
        source: URL or path.
        received_s: when the reply arrived, Unix seconds of this machine's clock.
    """

    keys: tuple[SeriesKey, ...]
    series: IntArray
    at_s: FloatArray
    value: FloatArray
    reason: CodeArray
    sightings: Sequence[Sighting] = ()
    findings: tuple[Finding, ...] = ()
    source: str = ""
    received_s: float = 0.0

    def __len__(self) -> int:
        return int(self.series.shape[0])

    @classmethod
    def empty(cls, *, source: str = "", findings: Iterable[Finding] = (), received_s: float = 0.0) -> SampleBatch:
        """A batch without samples, which may still carry findings."""
        return cls(
            keys=(),
            series=np.empty(0, np.int32),
            at_s=np.empty(0, np.float64),
            value=np.empty(0, np.float64),
            reason=np.empty(0, np.uint8),
            findings=tuple(findings),
            source=source,
            received_s=received_s,
        )

    @classmethod
    def of(
        cls,
        rows: Sequence[tuple[SeriesKey, float, float]],
        *,
        source: str = "",
        received_s: float = 0.0,
    ) -> SampleBatch:
        """A batch from ``(key, at_s, value)`` rows; for tests and small sources."""
        index: dict[SeriesKey, int] = {}
        series = np.fromiter((index.setdefault(k, len(index)) for k, _, _ in rows), np.int32, len(rows))
        value = np.fromiter((v for _, _, v in rows), np.float64, len(rows))
        return cls(
            keys=tuple(index),
            series=series,
            at_s=np.fromiter((t for _, t, _ in rows), np.float64, len(rows)),
            value=value,
            reason=np.where(np.isnan(value), np.uint8(Reason.NOT_FINITE), np.uint8(Reason.OK)).astype(np.uint8),
            source=source,
            received_s=received_s,
        )


def validate_batch(batch: SampleBatch) -> None:
    """Check the laws of a batch; called where data enters a room, never deeper.

    Raises:
        SchemaError: columns of unequal length or wrong type, an index outside ``keys``, a repeated key, a
            missing value without a reason, or a reason beside a value.
    """
    n = len(batch)
    for name, want in (("series", np.int32), ("at_s", np.float64), ("value", np.float64), ("reason", np.uint8)):
        column = getattr(batch, name)
        if column.shape != (n,):
            raise SchemaError(f"column {name} has shape {column.shape}, expected ({n},)")
        if column.dtype != want:
            raise SchemaError(f"column {name} has dtype {column.dtype}, expected {np.dtype(want)}")
    if n and (int(batch.series.min()) < 0 or int(batch.series.max()) >= len(batch.keys)):
        raise SchemaError(f"series index outside 0..{len(batch.keys) - 1}")
    if len(set(batch.keys)) != len(batch.keys):
        raise SchemaError("a series key is listed twice")
    if not np.isfinite(batch.at_s).all():
        raise SchemaError("a sample has no finite time")
    if bool((np.isnan(batch.value) != (batch.reason != 0)).any()) or bool(np.isinf(batch.value).any()):
        raise SchemaError("a missing value needs a reason, and a present value must be finite and have none")


@dataclass(frozen=True, slots=True)
class Window:
    """A closed span of time.

    Args:
        start_s: first instant, Unix seconds.
        end_s: last instant, Unix seconds.
    """

    start_s: float
    end_s: float
    tags: tuple[str, ...] = field(default=())

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.end_s - self.start_s

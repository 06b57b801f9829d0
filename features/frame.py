"""The frames that models see: regular grids cut at a known instant."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from telemetry.ids import SeriesKey
from telemetry.jobs import JobView


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The recent past of several series on one regular grid; the last column is the cutoff.

    Args:
        values: (n_series, n_points) in the catalogue's unit, NaN where nothing was observed.
        step_s: grid spacing in seconds.
        metric: (n_series,) catalogue name of each row.
        group: (n_series,) rows with the same number belong to one job and may vote together.
        low: (n_series,) least physical value of each row.
        high: (n_series,) greatest physical value; inf where unbounded.
    """

    values: NDArray[np.float64]
    step_s: float
    metric: tuple[str, ...]
    group: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def n_series(self) -> int:
        """Rows."""
        return int(self.values.shape[0])

    @property
    def n_points(self) -> int:
        """Columns."""
        return int(self.values.shape[1])

    def until(self, column: int) -> Context:
        """The same context cut after ``column`` points: what was known then."""
        return Context(self.values[:, :column], self.step_s, self.metric, self.group, self.low, self.high)

    def rows(self, index: NDArray[np.intp]) -> Context:
        """Some rows only, in the order given."""
        return Context(
            self.values[index],
            self.step_s,
            tuple(self.metric[i] for i in index),
            self.group[index],
            self.low[index],
            self.high[index],
        )


@dataclass(frozen=True, slots=True, eq=False)
class StepStamps:
    """When a job's steps ended, as the job itself says; the newest stretch without a restart or a stop.

    Args:
        at_s: (n,) Unix seconds of the job's host, ascending.
        step: (n,) number of the step that ended then, ascending.
    """

    at_s: NDArray[np.float64]
    step: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveStamps:
    """When a job's collectives ended, and how many bytes each moved, as its communication library says.

    Args:
        at_s: (n,) Unix seconds, ascending.
        size_bytes: (n,) of the whole operation.
    """

    at_s: NDArray[np.float64]
    size_bytes: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointStamps:
    """Checkpoints of a job, by its own reports, oldest first.

    Args:
        start_s: (n,) Unix seconds.
        end_s: (n,) Unix seconds; NaN for one that is being written.
        step: (n,) number of the step before it; NaN where unknown.
    """

    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    step: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class JobFrame:
    """One job's recent past, everything on one grid that ends at ``data_at_s``.

    Args:
        job: who, where.
        data_at_s: time of the last column, in the source's clock, Unix seconds.
        received_s: when the newest sample arrived, in this machine's clock.
        devices: one row per (GPU device, metric); rate metrics are already per second.
        device_keys: which series each row of ``devices`` is.
        totals: one row per metric for the whole job: mean over devices for ratios, temperatures and clocks, sum for
            bytes, bytes per second and watts; plus ``job_fabric_tx_bytes_per_s`` where the job's hosts have NIC ports.
        missing: catalogue metric -> why it has no row, in a sentence.
        frozen: catalogue metric -> proof that devices' readings of it stood still and were left out, in a sentence.
        steps: stamps of its steps; None where the job reports none.
        collectives: stamps of its collectives; None where none are known to be its own.
        checkpoints: what it said of its checkpoints; None where it said nothing.
        usable_memory_bytes: device -> bytes of its memory that jobs may use; devices of which nothing tells are absent.
    """

    job: JobView
    data_at_s: float
    received_s: float
    devices: Context
    device_keys: tuple[SeriesKey, ...]
    totals: Context
    missing: dict[str, str] = field(default_factory=dict)
    frozen: dict[str, str] = field(default_factory=dict)
    steps: StepStamps | None = None
    collectives: CollectiveStamps | None = None
    checkpoints: CheckpointStamps | None = None
    usable_memory_bytes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LinkFrame:
    """The links' recent past on one grid that ends at ``data_at_s``.

    Args:
        data_at_s: time of the last column, Unix seconds.
        received_s: when the newest sample arrived.
        tx: one row per link, ``port_tx_bytes_per_s``.
        rx: one row per link, ``port_rx_bytes_per_s``, same order.
        links: (n_links,) text form of each LinkId.
        capacity_bytes_per_s: (n_links,) of one direction, NaN when unknown.
    """

    data_at_s: float
    received_s: float
    tx: Context
    rx: Context
    links: tuple[str, ...]
    capacity_bytes_per_s: NDArray[np.float64]

"""A cyclic training job: load, compute, communicate, and now and then a checkpoint or an evaluation.

Compute-like phases last seconds; the communicate phase carries bytes and ends when they are sent, so that a
congested link stretches the iteration. Two equal jobs that start together on one link therefore never separate
(the fluid model of CASSINI), and one pause at an iteration boundary moves them apart for good.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from forecast.predict.types import PhaseName
from forecast.simulator.faults import Fault, pace_ratio
from telemetry.errors import ConfigError
from telemetry.ids import JobId

_RECENT = 8
"""Iterations that the measured period looks back on."""
_KEPT = 256
"""Iteration starts kept for the truth."""
_JITTER_CLIP = 3.0
"""Standard deviations at which jitter is cut, so that one iteration never doubles."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job does; everything else follows from it and the seed.

    Args:
        name: job name, its pods are ``name-0``, ``name-1`` ...; under Slurm the job number.
        namespace: Kubernetes namespace; unused under Slurm.
        nodes: hosts in ring order; the job has every GPU of them.
        load_s: reading the batch.
        compute_s: forward and backward.
        communicate_s: all-reduce time when nothing is in the way.
        rate_bytes_per_s: what one ring edge carries then.
        spine: which spine its flows are hashed to.
        starts_after_s: simulated time of its first iteration; before that it holds its GPUs idle.
        jitter_ratio: standard deviation of an iteration's compute time.
        checkpoint_every: iterations between checkpoints; 0 for none.
        checkpoint_s: how long one lasts.
        evaluate_every: iterations between evaluations; 0 for none.
        evaluate_s: how long one lasts.
        ramp_iterations: iterations at the start with a smaller batch (batch-size warm-up).
        ramp_ratio: compute time of those as a share of ``compute_s``.
        intensity_ratio: how hard its compute phase works the SMs, 0..1.
        memory_bytes: framebuffer it holds on each GPU.
        scheduler: ``kubernetes`` or ``slurm``; decides which labels name the job.
    """

    name: str
    namespace: str
    nodes: tuple[str, ...]
    load_s: float
    compute_s: float
    communicate_s: float
    rate_bytes_per_s: float
    spine: int = 0
    starts_after_s: float = 0.0
    jitter_ratio: float = 0.004
    checkpoint_every: int = 0
    checkpoint_s: float = 0.0
    evaluate_every: int = 0
    evaluate_s: float = 0.0
    ramp_iterations: int = 0
    ramp_ratio: float = 1.0
    intensity_ratio: float = 0.85
    memory_bytes: float = 60e9
    scheduler: str = "kubernetes"

    def __post_init__(self) -> None:
        spans = (self.load_s, self.communicate_s, self.starts_after_s, self.checkpoint_s, self.evaluate_s)
        if not all(math.isfinite(span) and span >= 0.0 for span in spans):
            raise ConfigError(f"simulated job {self.name} has a phase that is negative or endless")
        works = (self.compute_s, self.rate_bytes_per_s, self.ramp_ratio)
        if not all(math.isfinite(work) and work > 0.0 for work in works):
            raise ConfigError(
                f"compute_s, rate_bytes_per_s and ramp_ratio of simulated job {self.name} must be above 0"
            )
        if not 0.0 <= self.jitter_ratio < 1.0 / _JITTER_CLIP:
            raise ConfigError(f"jitter_ratio of simulated job {self.name} must be in 0..{1.0 / _JITTER_CLIP:.2f}")
        if self.scheduler not in ("kubernetes", "slurm"):
            raise ConfigError(f"scheduler {self.scheduler!r} of simulated job {self.name} is not kubernetes or slurm")
        if not self.nodes:
            raise ConfigError(f"simulated job {self.name} has no nodes")

    @property
    def id(self) -> JobId:
        """Its id as its scheduler gives it."""
        return JobId(self.scheduler, self.name if self.scheduler == "slurm" else f"{self.namespace}:{self.name}")

    @property
    def period_s(self) -> float:
        """Length of a training iteration when nothing is in the way."""
        return self.load_s + self.compute_s + self.communicate_s

    @property
    def communicate_bytes(self) -> float:
        """Bytes that each ring edge carries in one iteration."""
        return self.communicate_s * self.rate_bytes_per_s


class SimJob:
    """A job in motion. The cluster tells it when a phase ends; it says what comes next."""

    def __init__(self, spec: JobSpec, seed: int, index: int, faults: tuple[Fault, ...] = ()) -> None:
        self.spec = spec
        self.faults = faults
        self.phase = PhaseName.IDLE
        self.since_s = 0.0
        self.ends_s = spec.starts_after_s
        """When a timed phase ends; infinite while bytes are being sent."""
        self.remaining_bytes = 0.0
        self.iteration = -1
        self.starts: deque[float] = deque(maxlen=_KEPT)
        self.steady_s: deque[float] = deque(maxlen=_RECENT)
        """Lengths of recent iterations that held neither pause, checkpoint nor evaluation."""
        self.pending_offset_s = 0.0
        self.applied_offset_s = 0.0
        self._queue: deque[tuple[PhaseName, float]] = deque()
        self._plain = False
        self._paused = False
        # Each job draws from its own stream: shifting one leaves the others as they were.
        self._rng = np.random.default_rng([seed, 1, index])

    @property
    def communicating(self) -> bool:
        """True while it sends bytes."""
        return self.phase is PhaseName.COMMUNICATE

    @property
    def measured_period_s(self) -> float | None:
        """Median length of recent plain iterations, congestion included; None before the second one."""
        return float(np.median(self.steady_s)) if self.steady_s else None

    def shift(self, offset_s: float) -> None:
        """Pause once for ``offset_s`` before the next iteration.

        Raises:
            ConfigError: not a positive, finite number of at most ten periods.
        """
        limit_s = 10.0 * self.spec.period_s
        if not math.isfinite(offset_s) or not 0.0 < offset_s <= limit_s:
            raise ConfigError(
                f"offset_s {offset_s!r} is no pause for job {self.spec.name}", mend=f"Give 0 < offset_s <= {limit_s:g}"
            )
        self.pending_offset_s += offset_s

    def next_phase(self, at_s: float) -> None:
        """Leave the phase that ended at ``at_s`` and enter the next."""
        while True:
            if not self._queue:
                self._queue.extend(self._plan_iteration(pace_ratio(self.faults, self.spec.nodes, at_s)))
            phase, amount = self._queue.popleft()
            if amount > 0.0:
                break
        if phase is PhaseName.LOAD or (phase is PhaseName.COMPUTE and self.spec.load_s <= 0.0):
            self._start_iteration(at_s)
        self.phase, self.since_s = phase, at_s
        if phase is PhaseName.COMMUNICATE:
            self.remaining_bytes, self.ends_s = amount, math.inf
        else:
            self.remaining_bytes, self.ends_s = 0.0, at_s + amount

    def _start_iteration(self, at_s: float) -> None:
        if self.starts and self._plain and not self._paused:
            self.steady_s.append(at_s - self.starts[-1])
        self.starts.append(at_s)
        spec = self.spec
        self._plain = not (_due(self.iteration, spec.checkpoint_every) or _due(self.iteration, spec.evaluate_every))
        self._paused = False

    def _plan_iteration(self, pace: float) -> list[tuple[PhaseName, float]]:
        """Phases of the coming iteration as (phase, seconds or bytes); a pause comes first where one is due.

        Args:
            pace: what is left of the compute speed.
        """
        spec = self.spec
        pause: list[tuple[PhaseName, float]] = []
        if self.pending_offset_s > 0.0:
            pause = [(PhaseName.IDLE, self.pending_offset_s)]
            self.applied_offset_s += self.pending_offset_s
            self.pending_offset_s, self._paused = 0.0, True
        self.iteration += 1
        noise = float(np.clip(self._rng.standard_normal(), -_JITTER_CLIP, _JITTER_CLIP))
        ramp = spec.ramp_ratio if self.iteration < spec.ramp_iterations else 1.0
        phases = [
            *pause,
            (PhaseName.LOAD, spec.load_s),
            (PhaseName.COMPUTE, spec.compute_s * ramp * (1.0 + spec.jitter_ratio * noise) / pace),
            (PhaseName.COMMUNICATE, spec.communicate_bytes),
        ]
        if _due(self.iteration, spec.checkpoint_every):
            phases.append((PhaseName.CHECKPOINT, spec.checkpoint_s))
        if _due(self.iteration, spec.evaluate_every):
            phases.append((PhaseName.EVALUATE, spec.evaluate_s))
        return phases


def _due(iteration: int, every: int) -> bool:
    """True when something follows this iteration that comes every so many."""
    return every > 0 and (iteration + 1) % every == 0

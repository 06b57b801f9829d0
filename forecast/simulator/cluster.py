"""A pretend cluster, exact between events and the same whatever the steps in which it is advanced.

Between two events (a phase ends, the last byte of a burst leaves) every rate is constant, so the state is kept
as of the last event and readings at any later moment are extrapolated from it, never stored. That makes the
result independent of how often somebody looks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecast.simulator.activity import UNUSED, GpuGauges, levels
from forecast.simulator.fabric import Fabric, Port, max_min_rates
from forecast.simulator.faults import FaultKind, link_ratio
from forecast.simulator.scenarios import ClusterSpec
from forecast.simulator.workload import SimJob
from telemetry.errors import ConfigError

FloatArray = NDArray[np.float64]

_KEPT_OVERLOADS = 1024
_INSTANT_S = 1e-6
"""Events that belong together happen one after the other, rounding apart; what lies between them is nothing."""
_WAIT_TICKS_PER_S = 2.5e8
"""Ticks of the transmit-wait counter while a port has data and may not send; the real unit differs by device."""


@dataclass(frozen=True, slots=True)
class Overload:
    """A stretch in which a port sent more than the overload ratio of its capacity.

    Args:
        port: which.
        start_s: simulated time.
        end_s: simulated time; None while it lasts.
    """

    port: Port
    start_s: float
    end_s: float | None


class SimCluster:
    """Jobs on a fabric, advanced to any simulated time.

    Args:
        seed: same seed, same pages.
        spec: hosts, switches and jobs.

    Raises:
        ConfigError: a job names a host or spine that the fabric lacks.
    """

    def __init__(self, seed: int, spec: ClusterSpec) -> None:
        self.seed, self.spec = seed, spec
        self.fabric = Fabric(spec.fabric)
        self.jobs = tuple(SimJob(job, seed, i, spec.faults) for i, job in enumerate(spec.jobs))
        self.use: FloatArray = np.array([self.fabric.ring_use(job.nodes, job.spine) for job in spec.jobs]).T.reshape(
            self.fabric.capacity.shape[0], len(spec.jobs)
        )
        self.now_s = 0.0
        self._event_s = 0.0
        self._rates = np.zeros(len(self.jobs))
        self._link_bytes = np.zeros(self.fabric.capacity.shape[0])
        self._wait_ticks = np.zeros(self.fabric.capacity.shape[0])
        # The last row is a GPU that nobody holds.
        self._done = np.zeros((len(self.jobs) + 1, UNUSED.shape[0]))
        self._activity = np.tile(UNUSED, (len(self.jobs) + 1, 1))
        self._job_of_node = np.full(self.fabric.n_nodes, len(self.jobs))
        for index, job in enumerate(spec.jobs):
            self._job_of_node[[self.fabric.node_index[node] for node in job.nodes]] = index
        self.gauges = GpuGauges(self.fabric.n_nodes, spec.gpus_per_node, seed, spec.noise_ratio)
        self._seen = np.zeros((self.fabric.n_nodes, UNUSED.shape[0]))
        # Exporters start at their own moments, so their refreshes do not fall together.
        self._refreshed_s = np.zeros(self.fabric.n_nodes)
        self._refresh_s = spec.refresh_s * np.random.default_rng([seed, 4]).uniform(0.05, 1.0, self.fabric.n_nodes)
        self._watched = {port.tx_link: port for port in self.fabric.ports if port.id.tier in ("leaf", "spine")}
        self._open: dict[int, float] = {}
        self._overloads: deque[Overload] = deque(maxlen=_KEPT_OVERLOADS)
        self._settle()

    def advance(self, to_s: float) -> None:
        """Live until ``to_s`` simulated seconds; a time already past changes nothing."""
        while True:
            phase_s, job = self._next_phase_end()
            node = int(np.argmin(self._refresh_s))
            refresh_s = float(self._refresh_s[node])
            if min(phase_s, refresh_s) > to_s:
                break
            if phase_s <= refresh_s:
                self._commit(phase_s)
                self.jobs[job].next_phase(phase_s)
                self._settle()
            else:
                self._refresh(node, refresh_s)
        self.now_s = max(self.now_s, to_s)

    def shift(self, name: str, offset_s: float) -> SimJob:
        """Pause a job once at its next iteration boundary.

        Args:
            name: text form of its id, or its bare name.
            offset_s: how long.

        Raises:
            ConfigError: no such job, or no such pause.
        """
        for job in self.jobs:
            if name in (str(job.spec.id), job.spec.name):
                job.shift(offset_s)
                return job
        known = ", ".join(str(job.spec.id) for job in self.jobs)
        raise ConfigError(f"no simulated job {name!r}", mend=f"Known jobs: {known}")

    def job_of_node(self, node: str) -> SimJob | None:
        """Who has a host; None when it is idle."""
        index = int(self._job_of_node[self.fabric.node_index[node]])
        return self.jobs[index] if index < len(self.jobs) else None

    def link_rates(self) -> FloatArray:
        """Bytes per second on each directed link now, (n_links,)."""
        rates: FloatArray = self.use @ self._rates + self.spec.background_bytes_per_s
        return rates

    def link_bytes(self) -> FloatArray:
        """Bytes carried by each directed link up to now, (n_links,); never falls."""
        total: FloatArray = self._link_bytes + self.link_rates() * (self.now_s - self._event_s)
        return total

    def wait_ticks(self) -> FloatArray:
        """Transmit-wait ticks of each directed link up to now, (n_links,); never falls."""
        total: FloatArray = self._wait_ticks + self._wait_rates() * (self.now_s - self._event_s)
        return total

    def overloads(self) -> Iterator[Overload]:
        """Overloads of switch ports, oldest first, the ones that still last at the end."""
        yield from self._overloads
        for link, start_s in self._open.items():
            yield Overload(self._watched[link], start_s, None)

    def _next_phase_end(self) -> tuple[float, int]:
        """When the next phase ends, and whose."""
        best_s, best = math.inf, -1
        for index, job in enumerate(self.jobs):
            end_s = job.ends_s
            if job.communicating:
                end_s = self._event_s + job.remaining_bytes / float(self._rates[index])
            if end_s < best_s:
                best_s, best = end_s, index
        return best_s, best

    def _commit(self, at_s: float) -> None:
        """Move the stored state to ``at_s``, over which every rate was constant."""
        span_s = at_s - self._event_s
        self._link_bytes += self.link_rates() * span_s
        self._wait_ticks += self._wait_rates() * span_s
        self._done += self._activity * span_s
        for job, rate in zip(self.jobs, self._rates, strict=True):
            if job.communicating:
                job.remaining_bytes = max(job.remaining_bytes - float(rate) * span_s, 0.0)
        self._event_s = at_s

    def _settle(self) -> None:
        """Find the rates that hold from the last event on."""
        top = np.array([job.spec.rate_bytes_per_s if job.communicating else 0.0 for job in self.jobs])
        self._rates = max_min_rates(self.use, self._capacity(), top)
        for index, job in enumerate(self.jobs):
            rate = float(self._rates[index])
            self._activity[index] = levels(job.spec, job.phase, rate, self.spec.gpus_per_node)
        over = self.link_rates() > self.spec.overload_ratio * self.fabric.capacity
        for link, port in self._watched.items():
            if over[link] and link not in self._open:
                self._open[link] = self._event_s
            elif not over[link] and link in self._open:
                start_s = self._open.pop(link)
                if self._event_s - start_s > _INSTANT_S:
                    self._overloads.append(Overload(port, start_s, self._event_s))

    def _capacity(self) -> FloatArray:
        """What each directed link carries from the last event on."""
        slow = {fault.node for fault in self.spec.faults if fault.kind is FaultKind.SLOW_LINK}
        if not slow:
            return self.fabric.capacity
        capacity = self.fabric.capacity.copy()
        for node in slow:
            index = self.fabric.node_index[node]
            ends = [self.fabric.host_tx(index), self.fabric.host_rx(index)]
            capacity[ends] *= link_ratio(self.spec.faults, node, self._event_s)
        return capacity

    def _wait_rates(self) -> FloatArray:
        """Ticks per second: back-pressure holds the host's sending port by as much as its flow is throttled."""
        top = np.array([job.spec.rate_bytes_per_s for job in self.jobs])
        busy = np.array([job.communicating for job in self.jobs])
        held = np.where(busy, 1.0 - self._rates / top, 0.0)
        ticks = np.zeros(self.fabric.capacity.shape[0])
        hosts = slice(0, self.fabric.n_nodes)
        ticks[hosts] = _WAIT_TICKS_PER_S * ((self.use[hosts] > 0.0) @ held)
        return ticks

    def _refresh(self, node: int, at_s: float) -> None:
        """Let one exporter read its GPUs."""
        row = int(self._job_of_node[node])
        done = self._done[row] + self._activity[row] * (at_s - self._event_s)
        span_s = at_s - float(self._refreshed_s[node])
        self.gauges.renew(node, (done - self._seen[node]) / span_s, span_s)
        self._seen[node], self._refreshed_s[node] = done, at_s
        self._refresh_s[node] = at_s + self.spec.refresh_s

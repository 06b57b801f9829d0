"""Worlds to simulate: what a cluster is made of, and the one that the demonstration shows.

The demonstration's colliding pair has equal periods, so its bursts meet again in each iteration: a forecaster
that knows both rhythms sees every coming overload for as long as its horizon reaches, not just the next one.
With ``onset="standing"`` they collide from the first burst on; with ``onset="drift"`` the second job begins
with a smaller batch, so its period is a little shorter, its burst slides towards the other one at a constant
speed, and the first overload can be foreseen from two clean rhythms well before any link is full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forecast.simulator.fabric import FabricSpec
from forecast.simulator.faults import Fault
from forecast.simulator.workload import JobSpec
from telemetry.errors import ConfigError

_Hosts = Callable[..., tuple[str, ...]]

_UPLINK = 50e9
"""One 400 Gb/s uplink in bytes per second."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster and its jobs.

    Args:
        fabric: hosts and switches.
        jobs: what runs; a host has at most one job.
        gpus_per_node: cards in a host.
        refresh_s: how often each exporter reads its GPUs; values are means over it.
        overload_ratio: link use that the truth counts as overload.
        noise_ratio: standard deviation of a gauge's measurement noise.
        background_bytes_per_s: management traffic on every link.
        faults: what goes wrong, and when.
    """

    fabric: FabricSpec
    jobs: tuple[JobSpec, ...]
    gpus_per_node: int = 8
    refresh_s: float = 0.5
    overload_ratio: float = 0.9
    noise_ratio: float = 0.01
    background_bytes_per_s: float = 1e6
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        taken = [node for job in self.jobs for node in job.nodes]
        if len(set(taken)) != len(taken):
            raise ConfigError("two simulated jobs share a node", mend="Give each host to one job")
        if len({job.id for job in self.jobs}) != len(self.jobs):
            raise ConfigError("two simulated jobs have the same name", mend="Name each job once")
        if self.refresh_s <= 0.0 or self.gpus_per_node <= 0:
            raise ConfigError("refresh_s and gpus_per_node of the simulated cluster must be above 0")
        for fault in self.faults:
            if fault.node not in self.fabric.nodes or not 0 <= fault.gpu < self.gpus_per_node:
                raise ConfigError(f"a simulated fault is on {fault.node} GPU {fault.gpu}, which is not there")


def demo_spec(*, onset: str = "standing", refresh_s: float = 0.5) -> ClusterSpec:
    """16 hosts of 8 GPUs under 4 leaves and 2 spines, 6 jobs of different rhythm.

    ``vision-a`` and ``lm-b`` both cross the uplink of leaf1 to spine1; each alone takes 0.70 of it, both
    together fill it. ``speech-d`` and ``rank-e`` share the uplinks of leaf3 and leaf4 to spine2 without
    filling them. The others stay under one leaf.

    Args:
        onset: ``standing`` or ``drift``, see the module.
        refresh_s: how often each exporter reads its GPUs.

    Raises:
        ConfigError: an unknown onset.
    """
    if onset not in ("standing", "drift"):
        raise ConfigError(f"unknown onset {onset!r}", mend="Use standing or drift")
    nodes = tuple(f"gpu-{i + 1:02d}" for i in range(16))

    def hosts(*numbers: int) -> tuple[str, ...]:
        return tuple(nodes[number - 1] for number in numbers)

    pair = _standing_pair(hosts) if onset == "standing" else _drifting_pair(hosts)
    return ClusterSpec(
        FabricSpec(nodes),
        (
            *pair,
            JobSpec("embed-c", "search", hosts(7, 8), 0.15, 1.35, 0.50, 0.6 * _UPLINK, starts_after_s=0.7),
            JobSpec(
                "speech-d",
                "audio",
                hosts(11, 13),
                0.30,
                2.00,
                0.80,
                0.45 * _UPLINK,
                spine=1,
                starts_after_s=1.1,
                intensity_ratio=0.75,
                evaluate_every=20,
                evaluate_s=2.5,
            ),
            JobSpec("rank-e", "ads", hosts(12, 14), 0.90, 3.20, 1.20, 0.30 * _UPLINK, spine=1, intensity_ratio=0.55),
            JobSpec(
                "diffuse-f",
                "vision",
                hosts(15, 16),
                0.50,
                5.40,
                1.60,
                0.50 * _UPLINK,
                starts_after_s=1.9,
                intensity_ratio=0.92,
                checkpoint_every=6,
                checkpoint_s=3.0,
            ),
        ),
        refresh_s=refresh_s,
    )


def _standing_pair(hosts: _Hosts) -> tuple[JobSpec, JobSpec]:
    """Two jobs of 4.0 s that burst together for 1.7 s: each then takes about 4.7 s."""
    rate = 0.70 * _UPLINK
    return (
        JobSpec("vision-a", "vision", hosts(1, 2, 5, 6), 0.25, 2.05, 1.70, rate, starts_after_s=0.3),
        JobSpec("lm-b", "nlp", hosts(3, 4, 9, 10), 0.15, 2.15, 1.70, rate, starts_after_s=0.5, intensity_ratio=0.9),
    )


def _drifting_pair(hosts: _Hosts) -> tuple[JobSpec, JobSpec]:
    """Two jobs of 4.0 s; the second runs 14 iterations of 3.84 s first, so its burst slides into the other's."""
    rate = 0.70 * _UPLINK
    compute_s = 2.45
    return (
        JobSpec("vision-a", "vision", hosts(1, 2, 5, 6), 0.25, 2.35, 1.40, rate, starts_after_s=0.3),
        JobSpec(
            "lm-b",
            "nlp",
            hosts(3, 4, 9, 10),
            0.15,
            compute_s,
            1.40,
            rate,
            starts_after_s=3.0,
            ramp_iterations=14,
            ramp_ratio=(compute_s - 0.16) / compute_s,
            intensity_ratio=0.9,
        ),
    )

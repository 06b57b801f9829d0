"""Random jobs of the simulator for benchmarks: any share of network, steady or uneven, with or without pauses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecast.simulator.workload import JobSpec

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Pauses:
    """How often a kind of pause is had, and what it is like then.

    Args:
        chance: that a job has it at all.
        every: iterations between two, the second excluded.
        periods: its length.
    """

    chance: float
    every: tuple[int, int]
    periods: Range


@dataclass(frozen=True, slots=True)
class Kind:
    """What is drawn.

    Args:
        network: share of an iteration.
        load: share of an iteration, where there is any.
        unloaded: how many jobs load nothing for each that does.
        saves: checkpoints.
        tests: evaluations.
    """

    network: Range
    load: Range
    unloaded: int
    saves: Pauses
    tests: Pauses


def random_spec(random: np.random.Generator, period_s: float, kind: Kind, *, pauses: bool = True) -> JobSpec:
    """A job of about this period.

    Without ``pauses`` it never saves and never evaluates: both come every so many iterations, which is a rhythm too.
    """
    network = random.uniform(*kind.network)
    load = float(random.choice([0.0] * kind.unloaded + [random.uniform(*kind.load)]))
    # What is certain takes no draw.
    saves = kind.saves.chance >= 1.0 or random.random() < kind.saves.chance * pauses
    tests = random.random() < kind.tests.chance * pauses
    return JobSpec(
        name="1",
        namespace="bench",
        nodes=("node-0",),
        load_s=load * period_s,
        compute_s=(1.0 - load - network) * period_s,
        communicate_s=network * period_s,
        rate_bytes_per_s=random.uniform(2e9, 4e10),
        jitter_ratio=float(random.choice([0.002, 0.01, 0.03])),
        checkpoint_every=int(random.integers(*kind.saves.every)) if saves else 0,
        checkpoint_s=random.uniform(*kind.saves.periods) * period_s if saves else 0.0,
        evaluate_every=int(random.integers(*kind.tests.every)) if tests else 0,
        evaluate_s=random.uniform(*kind.tests.periods) * period_s if tests else 0.0,
        intensity_ratio=random.uniform(0.35, 1.0),
    )

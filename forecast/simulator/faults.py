"""What goes wrong in the simulated cluster, and when: a slow card, a throttled card, a slow link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from telemetry.errors import ConfigError

THROTTLED_CELSIUS = 88.0
"""Die of a card that is held down by heat."""
SYMBOL_ERRORS_PER_S = 3.0
"""Bit errors of a link that has lost its speed."""


class FaultKind(StrEnum):
    """What can go wrong."""

    SLOW_GPU = "slow_gpu"
    """A card's clock is low for no reason that is told."""
    THROTTLED_GPU = "throttled_gpu"
    """A card's clock is held down by heat, and its counter says so."""
    SLOW_LINK = "slow_link"
    """A host's cable carries less, with bit errors."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Args:
        kind: what.
        node: on which host.
        gpu: which card of it; of no meaning for a link.
        from_s: simulated time at which it begins; a step that has begun by then is not changed.
        to_s: when it ends.
        ratio: what is left of the speed, 0..1.
    """

    kind: FaultKind
    node: str
    gpu: int = 0
    from_s: float = 0.0
    to_s: float = math.inf
    ratio: float = 0.7

    def __post_init__(self) -> None:
        if not 0.0 < self.ratio <= 1.0:
            raise ConfigError(
                f"ratio {self.ratio} of a simulated fault is not in 0..1", mend="Give what is left of the speed"
            )
        if not 0.0 <= self.from_s < self.to_s:
            raise ConfigError("a simulated fault ends before it begins")

    def holds(self, at_s: float) -> bool:
        """Whether it is there at a moment."""
        return self.from_s <= at_s < self.to_s


def read_fault(text: str) -> Fault:
    """A fault from ``kind:node:gpu:from_s:ratio``.

    Raises:
        ConfigError: not of that form.
    """
    parts = text.split(":")
    try:
        kind, node, gpu, from_s, ratio = parts
        return Fault(FaultKind(kind), node, int(gpu), float(from_s), ratio=float(ratio))
    except ValueError as error:
        kinds = ", ".join(kind.value for kind in FaultKind)
        raise ConfigError(
            f"{text!r} is no fault",
            mend=f"Write kind:node:gpu:from_s:ratio, such as slow_gpu:gpu-03:2:120:0.7; kinds are {kinds}",
        ) from error


def pace_ratio(faults: tuple[Fault, ...], nodes: tuple[str, ...], at_s: float) -> float:
    """What is left of a job's compute speed: all wait for the slowest card."""
    slow = (FaultKind.SLOW_GPU, FaultKind.THROTTLED_GPU)
    return min((one.ratio for one in faults if one.kind in slow and one.node in nodes and one.holds(at_s)), default=1.0)


def on_gpu(faults: tuple[Fault, ...], node: str, at_s: float) -> dict[int, Fault]:
    """Card -> what is wrong with it now."""
    return {
        one.gpu: one for one in faults if one.kind is not FaultKind.SLOW_LINK and one.node == node and one.holds(at_s)
    }


def link_ratio(faults: tuple[Fault, ...], node: str, at_s: float) -> float:
    """What is left of a host's link."""
    return min(
        (one.ratio for one in faults if one.kind is FaultKind.SLOW_LINK and one.node == node and one.holds(at_s)),
        default=1.0,
    )


def held_s(faults: tuple[Fault, ...], node: str, gpu: int, at_s: float) -> float:
    """How long heat has held a card down up to a moment."""
    return sum(
        max(0.0, min(at_s, one.to_s) - one.from_s)
        for one in faults
        if one.kind is FaultKind.THROTTLED_GPU and one.node == node and one.gpu == gpu
    )


def symbol_errors(faults: tuple[Fault, ...], node: str, at_s: float) -> float:
    """Bit errors of a host's link up to a moment."""
    slow_s = sum(
        max(0.0, min(at_s, one.to_s) - one.from_s)
        for one in faults
        if one.kind is FaultKind.SLOW_LINK and one.node == node
    )
    return math.floor(SYMBOL_ERRORS_PER_S * slow_s)

"""How far two places are, as words with an order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Reach(IntEnum):
    """How far two places are, near to far.

    Inside a host the words are those of ``nvidia-smi topo -m``. NVLink that crosses hosts comes before PCIe, since a
    rack-scale NVLink domain gives every pair of its GPUs the same NVLink speed.
    """

    SELF = 0
    NVLINK = 1
    NVLINK_DOMAIN = 2
    PIX = 3
    PXB = 4
    PHB = 5
    NODE = 6
    SYS = 7
    SAME_BLOCK = 8
    SAME_LEAF = 9
    SAME_SPINE = 10
    FAR = 11


@dataclass(frozen=True, slots=True)
class Distance:
    """How far two places are, and what they have in common.

    Args:
        reach: the class of the way.
        links: bonded NVLinks; 0 where it is no NVLink or their number is not told.
        via: the NVLink domain, block or lowest common switch; empty inside a host and where there is none.
        tier: tier of that switch, 0 for a leaf; None where there is none.
    """

    reach: Reach
    links: int = 0
    via: str = ""
    tier: int | None = None

    def __str__(self) -> str:
        if self.reach is Reach.NVLINK and self.links:
            return f"NV{self.links}"
        return self.reach.name + (f" ({self.via})" if self.via else "")

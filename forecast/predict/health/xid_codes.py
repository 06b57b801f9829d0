"""What NVIDIA's XID numbers mean for the one who runs the cluster.

Source: NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors), and the catalogue of the GPU Debug Guidelines. Only the
classes that ask for different deeds are told apart; a number that is not listed is told as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class XidClass(StrEnum):
    """What kind of trouble a number stands for."""

    APPLICATION = "application"
    """Most often the program's own fault; the card is well."""
    MEMORY = "memory"
    """An uncorrectable memory error; the program that met it is lost."""
    REMAP = "row remapping"
    """The card put a spare row in place of a bad one, or asks for a reset to do so."""
    NVLINK = "NVLink"
    OFF_THE_BUS = "off the bus"
    """The host cannot reach the card any more."""
    RESET = "needs a reset"
    """The card or its firmware does not answer; every program on it is lost until a reset."""
    HARDWARE = "hardware"
    """A part of the board or its power."""
    DRIVER = "driver"
    UNKNOWN = "unknown"


FATAL = frozenset({XidClass.MEMORY, XidClass.NVLINK, XidClass.OFF_THE_BUS, XidClass.RESET, XidClass.HARDWARE})
"""Classes that cost the job on the card, and that may come again until somebody acts."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One number.

    Args:
        kind: its class.
        meaning: in a few words.
        lasts: True when the card stays unfit until a reset or longer.
    """

    kind: XidClass
    meaning: str
    lasts: bool = False


XIDS: dict[int, Xid] = {
    8: Xid(XidClass.APPLICATION, "the GPU stopped processing: a kernel ran into the time limit"),
    13: Xid(XidClass.APPLICATION, "a fault of the compute engine, usually an access out of bounds"),
    31: Xid(XidClass.APPLICATION, "a memory page fault, usually an illegal address of the program"),
    32: Xid(XidClass.DRIVER, "a corrupted push buffer: driver, program or the PCIe path"),
    38: Xid(XidClass.DRIVER, "a fault of the driver's firmware"),
    43: Xid(XidClass.APPLICATION, "a channel stopped after a fault of its program"),
    44: Xid(XidClass.DRIVER, "a fault while the engine changed contexts"),
    45: Xid(XidClass.APPLICATION, "channels removed after another error or a killed program"),
    46: Xid(XidClass.RESET, "the GPU stopped processing", lasts=True),
    48: Xid(XidClass.MEMORY, "a double-bit ECC error"),
    54: Xid(XidClass.HARDWARE, "auxiliary power is not connected or fails", lasts=True),
    61: Xid(XidClass.RESET, "a breakpoint of the internal micro-controller", lasts=True),
    62: Xid(XidClass.RESET, "the internal micro-controller halted", lasts=True),
    63: Xid(XidClass.REMAP, "a memory row was remapped, or a page was retired"),
    64: Xid(XidClass.REMAP, "a memory row could not be remapped", lasts=True),
    68: Xid(XidClass.APPLICATION, "a fault of the video processor"),
    69: Xid(XidClass.APPLICATION, "a class error of the graphics engine"),
    74: Xid(XidClass.NVLINK, "an NVLink error", lasts=True),
    79: Xid(XidClass.OFF_THE_BUS, "the GPU fell off the bus", lasts=True),
    92: Xid(XidClass.MEMORY, "many single-bit ECC errors"),
    94: Xid(XidClass.MEMORY, "an uncorrectable memory error, contained to its program"),
    95: Xid(XidClass.MEMORY, "an uncontained memory error: every program on the card is affected", lasts=True),
    109: Xid(XidClass.APPLICATION, "a context switch ran into the time limit"),
    110: Xid(XidClass.HARDWARE, "a security fault", lasts=True),
    119: Xid(XidClass.RESET, "the GPU system processor did not answer in time", lasts=True),
    120: Xid(XidClass.RESET, "the GPU system processor failed", lasts=True),
    121: Xid(XidClass.NVLINK, "a correctable error of the chip-to-chip link"),
    122: Xid(XidClass.HARDWARE, "a read of the serial memory failed"),
    123: Xid(XidClass.HARDWARE, "the power management unit did not answer"),
    136: Xid(XidClass.NVLINK, "a fault while NVLink was trained"),
    137: Xid(XidClass.NVLINK, "an NVLink fault on the remote side, or a page fault over NVLink"),
    140: Xid(XidClass.MEMORY, "an ECC error that was not recovered", lasts=True),
    143: Xid(XidClass.RESET, "the GPU could not be initialised", lasts=True),
    144: Xid(XidClass.NVLINK, "an NVLink error of the serial layer"),
    145: Xid(XidClass.NVLINK, "an NVLink error of the receiving layer"),
    146: Xid(XidClass.NVLINK, "an NVLink error of the transport"),
    147: Xid(XidClass.NVLINK, "an NVLink error of the transport"),
    148: Xid(XidClass.NVLINK, "an NVLink error of the transport"),
    149: Xid(XidClass.NVLINK, "an NVLink error of the network layer", lasts=True),
    150: Xid(XidClass.NVLINK, "an NVLink error of the memory path"),
    154: Xid(XidClass.RESET, "the card's own advice on recovery changed"),
    155: Xid(XidClass.NVLINK, "an NVLink was switched off"),
    156: Xid(XidClass.REMAP, "a resource was retired"),
    157: Xid(XidClass.REMAP, "a resource could not be retired", lasts=True),
}

TO_DO: dict[XidClass, str] = {
    XidClass.APPLICATION: "Look at the job's own log first; where the same card shows it under different programs, test the card.",
    XidClass.MEMORY: "Let the job restart from its checkpoint on another card, reset this one, and watch its remapped rows.",
    XidClass.REMAP: "Reset the card at the next chance so that the remapping takes effect; a failed remapping asks for a new card.",
    XidClass.NVLINK: "Reset the cards and the fabric manager of this host; where it comes again, check the board and its switches.",
    XidClass.OFF_THE_BUS: "Take the host out, restart it with power off in between, check seating and power; else return the card.",
    XidClass.RESET: "Take the card out of service and reset it; where it comes again, update driver and firmware, else return the card.",
    XidClass.HARDWARE: "Take the host out and check the power and the board of this card.",
    XidClass.DRIVER: "Compare the driver's version with its release notes; where it comes again, restart the host.",
    XidClass.UNKNOWN: "Look the number up in NVIDIA's list of XID errors and in the kernel log of the host.",
}


def xid(code: int) -> Xid:
    """What a number means; of an unlisted one that it is unknown."""
    return XIDS.get(code, Xid(XidClass.UNKNOWN, "a number that is not in gpucast's list"))

"""Slurm's words for the state of a job and of a node. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telemetry.roster import JobState

_JOB_STATES = {
    "PENDING": JobState.WAITING,
    "PD": JobState.WAITING,
    "REQUEUED": JobState.WAITING,
    "REQUEUE_HOLD": JobState.WAITING,
    "REQUEUE_FED": JobState.WAITING,
    "SPECIAL_EXIT": JobState.WAITING,
    "RESV_DEL_HOLD": JobState.WAITING,
    "CONFIGURING": JobState.RUNNING,
    "CF": JobState.RUNNING,
    "RUNNING": JobState.RUNNING,
    "R": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    "S": JobState.SUSPENDED,
    "COMPLETING": JobState.ENDING,
    "CG": JobState.ENDING,
    "BOOT_FAIL": JobState.ENDED,
    "CANCELLED": JobState.ENDED,
    "CA": JobState.ENDED,
    "COMPLETED": JobState.ENDED,
    "CD": JobState.ENDED,
    "DEADLINE": JobState.ENDED,
    "FAILED": JobState.ENDED,
    "F": JobState.ENDED,
    "LAUNCH_FAILED": JobState.ENDED,
    "NODE_FAIL": JobState.ENDED,
    "OUT_OF_MEMORY": JobState.ENDED,
    "PREEMPTED": JobState.ENDED,
    "RECONFIG_FAIL": JobState.ENDED,
    "REVOKED": JobState.ENDED,
    "TIMEOUT": JobState.ENDED,
    "TO": JobState.ENDED,
}
_STRONGEST = (JobState.ENDING, JobState.WAITING, JobState.SUSPENDED, JobState.RUNNING, JobState.ENDED)
"""Of several words the first of these tells: a job that completes is over but holds its GPUs; a requeued one waits."""

_SUFFIX = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT",
    "^": "REBOOT",
    "-": "PLANNED",
    "+": "CLOUD",
}
_OUT = frozenset(
    [
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "DRNG",
        "FAIL",
        "FAILING",
        "FAILG",
        "ERROR",
        "UNKNOWN",
        "UNK",
        "FUTURE",
        "FUTR",
        "NOT_RESPONDING",
        "NO_RESPOND",
        "INVALID",
        "INVAL",
        "INVALID_REG",
        "POWER_DRAIN",
        "BLOCKED",
        "BLOCK",
        "EXTERNAL",
    ]
)
_HELD = frozenset(["MAINTENANCE", "MAINT", "RESERVED", "RESV", "REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED", "BOOT"])
_OFF = frozenset(
    ["POWERED_DOWN", "POWER_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_UP", "POWER_SAVING", "POW_DN", "POW_UP"]
)


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """What a node's state means for who asks for GPUs.

    Args:
        in_service: neither drained, down, failing nor silent.
        held: kept back for maintenance, a reservation or a reboot.
        needs_power_up: off, or being switched.
    """

    in_service: bool = True
    held: bool = False
    needs_power_up: bool = False


def job_state(words: Sequence[str]) -> JobState:
    """Our word for a job's state, from one or more of Slurm's."""
    found = {_JOB_STATES.get(part.upper(), JobState.UNKNOWN) for word in words for part in word.split()[:1]}
    return next((state for state in _STRONGEST if state in found), JobState.UNKNOWN)


def node_condition(words: Sequence[str]) -> NodeCondition:
    """What a node's state means, from words with suffix letters, joined by ``+``, or a list of flags."""
    flags: set[str] = set()
    for word in words:
        bare = word.strip().upper()
        while bare and bare[-1] in _SUFFIX:
            flags.add(_SUFFIX[bare[-1]])
            bare = bare[:-1]
        flags.update(part for part in bare.split("+") if part)
    if not flags:
        return NodeCondition(in_service=False)
    return NodeCondition(
        in_service=not flags & _OUT,
        held=bool(flags & _HELD),
        needs_power_up=bool(flags & _OFF),
    )

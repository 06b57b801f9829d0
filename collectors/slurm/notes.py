"""What could not be read in one reading of Slurm, and the bounds on what short texts may stand for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from collectors.hostlists import expand_hosts
from telemetry.errors import SchemaError

MOST_NAMES = 400_000
"""Names that the host lists of one reading may stand for, each list counted once: ten times the largest cluster."""
MOST_DEVICES = 200_000
"""Devices that the jobs of one reading may hold in all: twice the largest cluster."""


@dataclass(slots=True)
class Notes:
    """Sentences about what could not be read, each counted; and how much more one reading may list.

    Args:
        counts: sentence -> how often.
        names_left: names that further host lists may stand for.
        devices_left: devices that further jobs may hold.
    """

    counts: Counter[str] = field(default_factory=Counter)
    names_left: int = MOST_NAMES
    devices_left: int = MOST_DEVICES
    _hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, sentence: str) -> None:
        """Count one more of these; beyond a hundred different ones the rest is one line."""
        known = sentence in self.counts or len(self.counts) < 100
        self.counts[sentence if known else "and more of the kind"] += 1

    def hosts(self, text: str, what: str) -> tuple[str, ...]:
        """The names that a host list stands for; none, and a note, where it cannot be read or there are too many."""
        found = self._hosts.get(text)
        if found is not None:
            return found
        if self.names_left < 0:
            return ()
        try:
            found = expand_hosts(text)
        except SchemaError as odd:
            self.add(f"{what}: {odd.message}")
            return ()
        self.names_left -= len(found)
        if self.names_left < 0:
            self.add(f"the host lists name more than {MOST_NAMES} hosts in all; further ones are left out")
            return ()
        self._hosts[text] = found
        return found

    def may_hold(self, count: int) -> bool:
        """Whether jobs may hold so many devices more; a note where they may not."""
        if self.devices_left < 0:
            return False
        self.devices_left -= count
        if self.devices_left < 0:
            self.add(f"jobs hold more than {MOST_DEVICES} devices in all; further ones are left out")
        return self.devices_left >= 0

"""XID events. The value is an error's number and sticks: it is never averaged, and a repeat does not change it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.store.base import Series

ACTIVE_S = 300.0
"""An XID counts as active this long after it happened; the exporter's own window."""


@dataclass(frozen=True, slots=True, order=True)
class XidEvent:
    """An XID happened.

    Args:
        at_s: first reading that shows it, Unix seconds.
        code: NVIDIA's number of the error.
    """

    at_s: float
    code: int


def xid_events(last_code: Series, window_count: Series | None = None) -> list[XidEvent]:
    """What happened on one GPU, oldest first.

    A new number is an event. A repeat of the same number shows only in the windowed count: where that starts to
    rise and the number does not change, the number it stands at happened again. A non-zero number in the very
    first reading is of unknown age and no event.

    Args:
        last_code: ``gpu_xid_last_code``.
        window_count: ``gpu_xid_window_count``, which may be absent.
    """
    good = last_code.reason == 0
    at_s, code = last_code.at_s[good], last_code.value[good]
    changed = np.flatnonzero((np.diff(code) != 0) & (code[1:] != 0)) + 1
    events = {float(at_s[i]): int(code[i]) for i in changed}
    if window_count is not None and at_s.shape[0]:
        counted = window_count.reason == 0
        count_at_s, count = window_count.at_s[counted], window_count.value[counted]
        for i in np.flatnonzero(np.diff(count) > 0) + 1:
            place = int(np.searchsorted(at_s, count_at_s[i], side="right")) - 1
            if place >= 0 and code[place] != 0:
                events.setdefault(float(count_at_s[i]), int(code[place]))
    return sorted(XidEvent(when, number) for when, number in events.items())


def active_codes(events: list[XidEvent], at_s: float, active_s: float = ACTIVE_S) -> list[int]:
    """Numbers of the XIDs that happened within ``active_s`` before ``at_s``, sorted."""
    return sorted({event.code for event in events if event.at_s <= at_s < event.at_s + active_s})


def last_event(events: list[XidEvent], at_s: float) -> XidEvent | None:
    """The newest event up to ``at_s``; its age is ``at_s - event.at_s``."""
    return max((event for event in events if event.at_s <= at_s), default=None)

"""How the interpreter shares its time in a process that reads thousands of pages a second."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH_S = 0.0005
"""A thread that takes the interpreter during a system call of the loop may keep it for 5 ms by default. At thousands of
calls a second that would hold the loop up while the store writes; in one pair of runs of ``gpucast bench ingest`` fewer
reads came late with this setting, on a machine with other work on it."""
_COLLECT_AFTER = (100_000, 20, 20)
"""By default garbage is looked for each 700 new objects, and each time in full the 200,000 series of a large cluster are
walked through. What pages leave behind goes without that: it holds no cycles."""


@contextmanager
def tuned_for_pages() -> Iterator[None]:
    """Switch threads more often and look for garbage less often, while this lasts."""
    switch_s, collect_after = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
        gc.set_threshold(*collect_after)

"""How often to read a source: as often as its values really change, within what this machine can do. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from math import fsum

_GAPS_KEPT = 15
_ODD_GAP = 2.5
"""A gap beyond this many medians is a pause of the source (an idle GPU), not its refresh interval."""
_DUE = 1.1
"""An unchanged reading counts as an observation only once the next refresh is surely past."""
_ALWAYS_CHANGING = 12
"""After so many changed readings in a row the source may be faster than the reader: try a shorter interval."""
_UNKNOWN_MAX_S = 1.0
"""A source that never changed is read at least this often; it may simply be idle."""
_LEAD = 0.9
"""Read a little faster than the source refreshes, so that no refresh is stepped over; repeats are dropped."""
_SEARCH_SHARE = 0.125
"""While searching, wait at most this share of the time since the last change: the refresh is then known to 12 %."""


@dataclass(frozen=True, slots=True)
class CadenceLimits:
    """What a reader may do.

    Args:
        min_s: shortest interval ever.
        max_s: longest.
        max_scrapes_per_s: over all targets of this process.
        fixed_s: interval set by the user; None to learn it.
    """

    min_s: float = 0.1
    max_s: float = 30.0
    max_scrapes_per_s: float = 200.0
    fixed_s: float | None = None

    def floor_s(self, n_targets: int) -> float:
        """Shortest interval while so many targets are read."""
        return min(max(self.min_s, n_targets / self.max_scrapes_per_s), self.max_s)


class Cadence:
    """One target's rhythm of reading.

    The refresh interval is the mean gap between changes of its values, over the last few; single gaps are multiples
    of the reading interval, their mean is not. A reader that sees a change every time cannot tell how much faster the
    source is, and shortens its interval until it sees a repeat.
    """

    def __init__(self, limits: CadenceLimits | None = None) -> None:
        self._limits = limits or CadenceLimits()
        self._gaps_s: deque[float] = deque(maxlen=_GAPS_KEPT)
        self._refresh_s: float | None = None
        """Of ``_gaps_s``; None until it is asked for."""
        self._first_at_s: float | None = None
        self._changed_at_s: float | None = None
        self._kept_at_s: float | None = None
        self._in_a_row = 0
        self._failures = 0
        self._dropped = False
        self._interval_s = self._limits.min_s

    @property
    def refresh_s(self) -> float | None:
        """How often the source's values change; None until two changes were seen."""
        if self._refresh_s is None and self._gaps_s:
            # By hand: this is asked at each reading, and the functions of ``statistics`` take ten times as long.
            gaps_s = sorted(self._gaps_s)
            middle = len(gaps_s) // 2
            median_s = gaps_s[middle] if len(gaps_s) % 2 else (gaps_s[middle - 1] + gaps_s[middle]) / 2
            usual_s = gaps_s[: bisect_right(gaps_s, _ODD_GAP * median_s)]
            self._refresh_s = fsum(usual_s) / len(usual_s)
        return self._refresh_s

    @property
    def may_be_faster(self) -> bool:
        """Whether the source may change more often than it is read: nothing is known yet, or each reading was new."""
        return not self._gaps_s or self._in_a_row >= _ALWAYS_CHANGING

    def observe(self, at_s: float, changed: bool) -> bool:
        """Take note of a reading; True when it is to be kept as an observation.

        A repeat is no second observation. Still, a source whose values stay is one that was observed to stay: one
        reading per refresh, and at most one a second, is kept.
        """
        self._failures = 0
        if self._first_at_s is None:
            self._first_at_s = at_s  # nobody saw when these values came; the first gap starts at the next change
        elif changed:
            if self._changed_at_s is not None:
                self._note_gap(at_s - self._changed_at_s)
            self._changed_at_s = at_s
            self._in_a_row += 1
        else:
            self._in_a_row = 0
        keep = changed or self._kept_at_s is None or not 0.0 <= at_s - self._kept_at_s < self._due_s()
        self._dropped = not keep
        if keep:
            self._kept_at_s = at_s
        return keep

    def failed(self) -> None:
        """The last attempt gave nothing."""
        self._failures += 1
        self._in_a_row = 0

    def next_interval_s(self, at_s: float, n_targets: int) -> float:
        """Seconds from the start of the last reading to the start of the next."""
        limits = self._limits
        if self._failures:
            base_s = limits.fixed_s or max(self._interval_s, 0.5)
            return min(base_s * 2.0 ** min(self._failures - 1, 4), max(5.0, limits.fixed_s or 0.0))
        if limits.fixed_s is not None:
            self._interval_s = limits.fixed_s
            return limits.fixed_s
        floor_s = limits.floor_s(n_targets)
        self._interval_s = min(max(self._wish_s(at_s), floor_s), limits.max_s)
        if self._dropped and self._kept_at_s is not None:
            # The refresh is near, or the source stays as it is: look again when that is certain.
            return min(self._interval_s, max(self._kept_at_s + self._due_s() - at_s, floor_s))
        return self._interval_s

    def _due_s(self) -> float:
        """How long after a kept reading an unchanged one is an observation again."""
        # A hair less, so that the reading that is timed for this instant does not come too early by rounding.
        return max(_DUE * (self.refresh_s or 0.0), 1.0) - 0.01

    def _wish_s(self, at_s: float) -> float:
        refresh_s = self.refresh_s
        if refresh_s is None:
            since_s = self._changed_at_s if self._changed_at_s is not None else self._first_at_s
            waited_s = at_s - since_s if since_s is not None else 0.0
            return min(max(waited_s * _SEARCH_SHARE, self._limits.min_s), _UNKNOWN_MAX_S)
        if self._in_a_row >= _ALWAYS_CHANGING:
            return min(self._interval_s * 0.75, refresh_s)
        return refresh_s * _LEAD

    def _note_gap(self, gap_s: float) -> None:
        """A gap much shorter than the known refresh means that the source was reconfigured: forget the old ones."""
        refresh_s = self.refresh_s
        if refresh_s is not None and gap_s < 0.5 * refresh_s:
            self._gaps_s.clear()
        if gap_s > 0:
            self._gaps_s.append(gap_s)
        self._refresh_s = None

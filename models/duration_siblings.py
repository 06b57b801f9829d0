"""The jobs of one kind that started last, as arrays: what they say about the next one of their kind."""

from __future__ import annotations

import numpy as np

from models.duration_bins import KERNEL, N_BINS, PER_OCTAVE, Floats, bin_of

HALF_LIVES: tuple[float, ...] = (1.5, 5.0, 20.0)
"""Later starts after which a sibling counts half."""
MOST = 40
"""How many of the jobs started last are looked at."""
BACKING = 0.5
"""Siblings that the wider distribution counts for."""
_WEIGHT: Floats = 0.5 ** (np.arange(MOST)[None] / np.asarray(HALF_LIVES)[:, None])
_NEXT_BIN: Floats = np.arange(1.0, N_BINS + 1.0)


class Siblings:
    """A ring of the jobs of one kind that started last.

    A sibling that has ended tells its duration; one that still runs tells that it lasts longer than its age, and counts
    as its own forecast given that.
    """

    def __init__(self) -> None:
        self._said = np.zeros((MOST, N_BINS))
        self._start_s = np.zeros(MOST)
        self._number = np.full(MOST, -1, np.int64)
        self._running = np.zeros(MOST, bool)
        self._count = 0

    def add(self, start_s: float, forecast: Floats) -> int:
        """A job started, with its forecast (n_bins,); gives the number by which its end is told."""
        number = self._count
        place = number % MOST
        self._said[place] = forecast
        self._start_s[place] = start_s
        self._number[place] = number
        self._running[place] = True
        self._count += 1
        return number

    def end(self, number: int, duration_s: float) -> None:
        """The job of that number ended; nothing happens when it has been pushed out."""
        place = number % MOST
        if self._number[place] == number:
            self._said[place] = KERNEL[bin_of(duration_s)]
            self._running[place] = False

    def drop(self, number: int) -> None:
        """The job of that number tells nothing."""
        place = number % MOST
        if self._number[place] == number:
            self._said[place] = 0.0
            self._running[place] = False

    def say(self, at_s: float, backing: Floats, but: int = -1) -> Floats:
        """(n_half_lives, n_bins) distribution of the next one of this kind, as known at ``at_s``.

        Args:
            at_s: Unix seconds.
            backing: (n_bins,) of a wider kind.
            but: number of a job that is left out.
        """
        held = min(self._count, MOST)
        place = (self._count - 1 - np.arange(held)) % MOST
        said = self._said[place]
        running = self._running[place]
        if running.any():
            age_bin = np.log2(np.maximum(at_s - self._start_s[place[running]], 1.0)) * PER_OCTAVE
            rest = (said[running] + 1e-7) * np.clip(_NEXT_BIN - age_bin[:, None], 0.0, 1.0)
            said[running] = rest / np.maximum(rest.sum(axis=1, keepdims=True), 1e-300)
        if but >= 0:
            said[self._number[place] == but] = 0.0
        total = _WEIGHT[:, :held] @ said + BACKING * backing
        result: Floats = total / total.sum(axis=1, keepdims=True)
        return result

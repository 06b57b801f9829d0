"""How long a job lasts, from jobs like it: a mixture of histograms that learns as jobs start and end.

Two kinds of member, for each way of being alike (all jobs; same size; same group; same group and size; and, where
users are known, same user; same user, size and limit; same user and name):

- *ended*: the durations of ended jobs, forgotten exponentially with half-lives from 16 to 1,024 jobs, backed by the
  next wider way where there are few;
- *siblings*: the jobs started last. One that has ended tells its duration; one that still runs tells that it lasts
  longer than its age, and counts as its own forecast given that (self-consistency, Efron 1967). Sweeps are seen here.

The members are pooled with weights learnt online by the likelihood of what ended (one step of expectation maximisation
per ended job, delayed until it ended). Nothing after the moment of asking is used: ``learn_end`` is called when a job
has ended, in the order of time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from models.duration_bins import KERNEL, N_BINS, Floats, bin_of, cumulated
from models.duration_levels import AgeLevels
from models.duration_siblings import HALF_LIVES as SIBLING_HALF_LIVES
from models.duration_siblings import Siblings

HALF_LIVES: tuple[float, ...] = (16.0, 64.0, 256.0, 1024.0)
"""Ended jobs after which one counts half."""
BACKING = 2
"""Which of them backs the next narrower way of being alike."""
LEARNING_RATE = 0.005
"""Step of the pool's weights per ended job."""
FORGETTING = 1e-4
"""Step towards equal weights per ended job: a member that was useless for long can come back."""
MOST_KEYS = 10_000
"""Kinds kept for each way of being alike; the one untouched longest is dropped."""
_DECAY: Floats = 0.5 ** (1.0 / np.asarray(HALF_LIVES))[:, None]
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class _Run:
    """A job that was started.

    Args:
        start_s: Unix seconds.
        keys: its kind, one key per way of being alike.
        pooled: (n_bins,) its forecast at its start.
        members: (n_members, n_bins) what each member said at its start; None when it is not to be judged.
        numbers: its number in each of its rings of siblings.
    """

    start_s: float
    keys: tuple[Hashable, ...]
    pooled: Floats
    members: NDArray[np.float32] | None
    numbers: tuple[int, ...]


class DurationMixture:
    """Durations by kind of job, online.

    Args:
        ways: how many ways of being alike, from wide to narrow; every ``keys`` has as many entries.
        sibling_ways: for which of them siblings are looked at.
        pool_way: the way whose kinds have pool weights of their own; a new kind begins with those of all jobs.
    """

    def __init__(self, ways: int, sibling_ways: Sequence[int], pool_way: int) -> None:
        self._sibling_ways = tuple(sibling_ways)
        self._ended: tuple[OrderedDict[Hashable, Floats], ...] = tuple(OrderedDict() for _ in range(ways))
        self._recent: tuple[OrderedDict[Hashable, Siblings], ...] = tuple(OrderedDict() for _ in sibling_ways)
        self._running: dict[Hashable, _Run] = {}
        n_members = ways * len(HALF_LIVES) + len(self._sibling_ways) * len(SIBLING_HALF_LIVES)
        self._pool_way = pool_way
        self._weight: Floats = np.full(n_members, 1.0 / n_members)
        self._weights: OrderedDict[Hashable, Floats] = OrderedDict()
        self.levels = AgeLevels()
        self.ended_count = 0

    def learn_start(self, job: Hashable, start_s: float, keys: tuple[Hashable, ...], *, judged: bool = True) -> Floats:
        """Take note of a job that started and give its forecast, (n_bins,).

        Args:
            job: its id; one that already runs is started again.
            start_s: Unix seconds.
            keys: its kind, from wide to narrow.
            judged: whether the forecast may be scored when the job ends; False for a job that was found running.
        """
        members = self._members(keys, start_s, ())
        pooled: Floats = self._weights.get(keys[self._pool_way], self._weight) @ members
        numbers = tuple(
            _entry(book, keys[way], Siblings).add(start_s, pooled)
            for book, way in zip(self._recent, self._sibling_ways, strict=True)
        )
        self._running[job] = _Run(start_s, keys, pooled, members.astype(np.float32) if judged else None, numbers)
        return pooled

    def learn_end(self, job: Hashable, end_s: float) -> None:
        """Take note that a job ended; one that was never started is passed over."""
        run = self._running.pop(job, None)
        if run is None:
            return
        duration_s = max(end_s - run.start_s, 0.0)
        place = int(bin_of(duration_s))
        for book, key in zip(self._ended, run.keys, strict=True):
            counts = _entry(book, key, _new_counts)
            counts *= _DECAY
            counts += (1.0 - _DECAY) * KERNEL[place]
        for ring, number in self._rings(run):
            ring.end(number, duration_s)
        self.ended_count += 1
        if run.members is not None:
            likelihood = run.members[:, place].astype(np.float64) + 1e-4
            own = _entry(self._weights, run.keys[self._pool_way], self._weight.copy)
            for weight in (own, self._weight):
                share = weight * likelihood
                weight += LEARNING_RATE * (share / share.sum() - weight)
                weight += FORGETTING * (1.0 / weight.size - weight)
            self.levels.learn(cumulated(run.pooled), duration_s)

    def forget(self, job: Hashable) -> None:
        """A job's end is unknown (it vanished, or was stopped from outside): nothing is learnt from it."""
        run = self._running.pop(job, None)
        if run is None:
            return
        for ring, number in self._rings(run):
            ring.drop(number)

    def _rings(self, run: _Run) -> list[tuple[Siblings, int]]:
        found = zip(self._recent, self._sibling_ways, run.numbers, strict=True)
        return [(book[run.keys[way]], number) for book, way, number in found if run.keys[way] in book]

    def histogram(self, keys: tuple[Hashable, ...], at_s: float, job: Hashable = None) -> Floats:
        """(n_bins,) how long a job of this kind lasts in all, as known at ``at_s``; ``job`` is not its own sibling."""
        run = self._running.get(job)
        weight = self._weights.get(keys[self._pool_way], self._weight)
        result: Floats = weight @ self._members(keys, at_s, run.numbers if run is not None else ())
        return result

    def _members(self, keys: tuple[Hashable, ...], at_s: float, but: tuple[int, ...]) -> Floats:
        rows = np.empty((self._weight.size, N_BINS))
        backing = np.full(N_BINS, 1.0 / N_BINS)
        backings, row = [], 0
        for book, key in zip(self._ended, keys, strict=True):
            counts = book.get(key)
            part = rows[row : row + len(HALF_LIVES)]
            part[:] = backing
            if counts is not None:
                part *= 1.0 - counts.sum(axis=1, keepdims=True)
                part += counts
            backing = part[BACKING]
            backings.append(backing)
            row += len(HALF_LIVES)
        for k, (rings, way) in enumerate(zip(self._recent, self._sibling_ways, strict=True)):
            ring = rings.get(keys[way])
            part = rows[row : row + len(SIBLING_HALF_LIVES)]
            part[:] = backings[way] if ring is None else ring.say(at_s, backings[way], but[k] if but else -1)
            row += len(SIBLING_HALF_LIVES)
        return rows


def _new_counts() -> Floats:
    return np.zeros((len(HALF_LIVES), N_BINS))


def _entry(book: OrderedDict[Hashable, V], key: Hashable, make: Callable[[], V]) -> V:
    """The entry of a key, made where there is none; the one untouched longest makes room."""
    entry = book.get(key)
    if entry is None:
        entry = book[key] = make()
        if len(book) > MOST_KEYS:
            book.popitem(last=False)
    else:
        book.move_to_end(key)
    return entry

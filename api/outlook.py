"""What is foreseen from the schedulers' lists: ends of running jobs, starts of waiting ones, demand."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from forecast.predict.demand import WHOLE, DemandBook
from forecast.predict.ends import EndsBook, Floats, kind_of, sample_remaining
from forecast.predict.ends_types import DemandForecast, RemainingTime, StartTime
from forecast.predict.queue_book import QueueBook
from forecast.predict.queue_eta import DRAWS, tasks_placed
from forecast.predict.types import Absence
from telemetry.ids import JobId
from telemetry.roster import JobRecord, JobState, Roster

LEAST_DRAWS = 20
PLACEMENTS = 10_000
"""Waiting jobs, each task of an array one, times replays of one list: more of them are replayed less often each."""
MOST_ENDS = 2000
"""Running jobs of a list whose end is told."""
SET_BACK_S = 900.0
"""A list that is older than the newest one by more than this says that the clock was set back, not that it came late."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is foreseen of one scheduler.

    Args:
        source: which scheduler.
        made_at_s: Unix seconds.
        starts: of every waiting job.
        ends: of every running job, as far as there are not too many.
        demand: by partition; the empty name is the whole cluster.
    """

    source: str
    made_at_s: float
    starts: dict[JobId, StartTime | Absence] = field(default_factory=dict)
    ends: dict[JobId, RemainingTime | Absence] = field(default_factory=dict)
    demand: dict[str, DemandForecast | Absence] = field(default_factory=dict)


class _Books:
    """What was learnt from one scheduler. It is kept in memory: a restart begins anew."""

    def __init__(self) -> None:
        self.ends = EndsBook()
        self.queue = QueueBook()
        self.demand = DemandBook()
        self.seen_s = 0.0


class Outlooks:
    """Learns from each list once and keeps the newest outlook of each scheduler."""

    def __init__(self) -> None:
        self._books: dict[str, _Books] = {}
        self._latest: dict[str, Outlook] = {}

    def update(self, rosters: Sequence[Roster], now_s: float) -> None:
        """Take newer lists in. Costs about two CPU seconds for 500 waiting and 1,000 running jobs: not for the event loop."""
        for roster in rosters:
            books = self._books.setdefault(roster.source, _Books())
            if roster.at_s < books.seen_s - SET_BACK_S:
                # What was learnt by a clock that ran ahead has wrong ages; without this, nothing would be learnt until then.
                books = self._books[roster.source] = _Books()
            if roster.at_s <= books.seen_s:
                continue
            books.seen_s = roster.at_s
            self._latest[roster.source] = _outlook(books, roster, now_s)
        gone = set(self._latest) - {roster.source for roster in rosters}
        for source in gone:
            del self._latest[source]

    def latest(self) -> dict[str, Outlook]:
        """Scheduler -> its outlook."""
        return dict(self._latest)


def _outlook(books: _Books, roster: Roster, now_s: float) -> Outlook:
    books.ends.observe(roster)
    books.demand.observe(roster)
    draws = max(LEAST_DRAWS, min(DRAWS, PLACEMENTS // max(1, sum(tasks_placed(job) for job in roster.waiting))))

    known: dict[Hashable, Floats | None] = {}

    def draw(record: JobRecord, age_s: float) -> Floats | None:
        # Waiting jobs of one kind last alike; a running one is not its own sibling and is worked out apart.
        kind = (kind_of(record), record.time_limit_s) if record.state is JobState.WAITING else record.job
        if kind not in known:
            known[kind] = books.ends.histogram(record, roster.at_s)
        histogram = known[kind]
        # The seed is the job's own, so that the same list gives the same answer.
        seed = zlib.crc32(str(record.job).encode())
        return None if histogram is None else sample_remaining(histogram, age_s, draws, seed)

    running = [job for job in roster.jobs if job.state in (JobState.RUNNING, JobState.SUSPENDED)]
    return Outlook(
        roster.source,
        now_s,
        books.queue.answers(roster, roster.at_s, draw, draws=draws),
        {job.job: books.ends.remaining(job, now_s) for job in running[:MOST_ENDS]},
        {name: books.demand.forecast(name, roster.at_s) for name in (books.demand.names() or (WHOLE,))},
    )

"""Whether the replay of the queue has been right lately, beside the plain rule that a job waits as the last one waited."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from forecast.predict.ends_types import StartTime
from forecast.predict.queue_eta import DRAWS, Draw, start_times
from forecast.predict.types import Absence
from telemetry.ids import JobId
from telemetry.roster import JobState, Roster

JUDGED = 200
"""Starts that are remembered."""
LEAST_JUDGED = 20
"""Starts before the plain rule can take over."""
SLACK_S = 60.0
"""Waits are compared by the logarithm of wait plus this: seconds of difference do not matter."""
MOST_ASKED = 10_000


@dataclass(frozen=True, slots=True)
class _Said:
    """What both said when a job was first seen waiting: seconds still to wait."""

    at_s: float
    replay_s: float
    plain_s: float
    low_s: float
    high_s: float


class QueueBook:
    """Asks the replay for every list, scores it when jobs start, and serves the plain rule where that was better."""

    def __init__(self) -> None:
        self._said: dict[JobId, _Said] = {}
        self._errors: deque[tuple[float, float, float]] = deque(maxlen=JUDGED)
        """(signed error of the plain rule, of the replay, 1 when inside) in octaves."""
        self._last_wait_s: dict[str, float] = {}
        self._listed_s = 0.0

    def answers(
        self, roster: Roster, at_s: float, draw: Draw, *, draws: int = DRAWS
    ) -> dict[JobId, StartTime | Absence]:
        """Starts of the waiting jobs of a list, by what was better lately. Learns from the jobs that started since."""
        self._learn(roster)
        replayed = start_times(roster, at_s, draw, draws=draws)
        served: dict[JobId, StartTime | Absence] = {}
        for job in roster.waiting:
            said = replayed[job.job]
            waited_s = max(at_s - job.submit_s, 0.0) if job.submit_s is not None else 0.0
            plain_s = self._plain(job.partition, waited_s)
            if isinstance(said, StartTime) and plain_s is not None and len(self._said) < MOST_ASKED:
                ends = (said.start_s - at_s, plain_s, said.low_s - at_s, said.high_s - at_s)
                self._said.setdefault(job.job, _Said(at_s, *ends))
            served[job.job] = self._serve(said, at_s, plain_s)
        return served

    def _plain(self, partition: str, waited_s: float) -> float | None:
        last = self._last_wait_s.get(partition)
        if last is None:
            return None
        # One that has already waited longer than the last is expected to wait as long again.
        return last - waited_s if last > waited_s else waited_s

    def _learn(self, roster: Roster) -> None:
        if roster.at_s <= self._listed_s:
            return
        listed = {job.job: job for job in roster.jobs}
        for job in roster.jobs:
            if job.state is not JobState.RUNNING or job.start_s is None or job.start_s < self._listed_s:
                continue
            said = self._said.pop(job.job, None)
            if said is not None:
                wait_s = max(job.start_s - said.at_s, 0.0)
                inside = said.low_s - 1.0 <= wait_s <= said.high_s + 1.0
                plain, replayed = (_octaves(guess, wait_s) for guess in (said.plain_s, said.replay_s))
                self._errors.append((plain, replayed, float(inside)))
            if job.submit_s is not None:
                self._last_wait_s[job.partition] = max(job.start_s - job.submit_s, 0.0)
        self._said = {job: said for job, said in self._said.items() if job in listed}
        self._listed_s = roster.at_s

    def _serve(self, said: StartTime | Absence, at_s: float, plain_s: float | None) -> StartTime | Absence:
        if not isinstance(said, StartTime):
            return said
        if len(self._errors) < LEAST_JUDGED:
            return replace(said, reason=f"{said.reason} {len(self._errors)} starts were scored so far.")
        error = np.asarray(self._errors)
        plain, replayed = (float(np.abs(error[:, k]).mean()) for k in (0, 1))
        if replayed <= plain or plain_s is None:
            inside = float(error[:, 2].mean())
            sentence = f" Of the last {len(error)} starts {100 * inside:.0f} % lay inside the interval; "
            sentence += f"it erred by a factor of {2**replayed:.1f}, the last wait by {2**plain:.1f}."
            return replace(said, reason=said.reason + sentence)
        low, middle, high = (
            at_s + max((plain_s + SLACK_S) * 2.0**shift - SLACK_S, 0.0)
            for shift in (np.quantile(error[:, 0], 0.1), 0.0, np.quantile(error[:, 0], 0.9))
        )
        sentence = f"It waits as the last one waited: over {len(error)} starts the replay erred by a factor of "
        sentence += f"{2**replayed:.1f}, this rule by {2**plain:.1f}."
        return replace(
            said, start_s=middle, low_s=min(low, middle), high_s=max(high, middle), model="persistence", reason=sentence
        )


def _octaves(guess_s: float, wait_s: float) -> float:
    return float(np.log2((wait_s + SLACK_S) / (max(guess_s, 0.0) + SLACK_S)))

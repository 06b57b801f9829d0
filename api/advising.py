"""From forecasts to advice on the desk: offered, carried out as far as allowed, graded."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping

from api.board import Board
from api.desk import AdviceDesk
from api.settings import Settings
from forecast.advisor.advise import advise_round
from forecast.advisor.grade import grade
from forecast.advisor.types import Advice, Forecasts, Grade, Limits, Rule
from telemetry.clock import Clock
from telemetry.topology import ClusterSnapshot

log = logging.getLogger("gpucast")


class Advising:
    """The advice of each round.

    Args:
        settings: what advice may do.
        board: forecasts of the round, and the measured past for grades.
        desk: keeps advice.
        rules: who proposes advice, by name; the built-in ones when None.
        clock: wall clock.
        counters: of the service.
    """

    def __init__(
        self,
        settings: Settings,
        board: Board,
        desk: AdviceDesk,
        rules: Mapping[str, Rule] | None,
        clock: Clock,
        counters: Counter[str],
    ) -> None:
        self._settings = settings
        self._board = board
        self._desk = desk
        self._rules = rules
        self._clock = clock
        self._counters = counters
        self._failing: Mapping[str, str] = {}

    async def advise(self, snapshot: ClusterSnapshot, now_s: float) -> None:
        """Ask every rule, act where a mode allows it, grade what has had its time."""
        chosen = self._settings.advice
        limits = Limits(
            threshold_ratio=chosen.threshold_ratio,
            min_probability=chosen.min_probability,
            min_skill=chosen.min_skill,
            max_age_s=self._settings.forecast.max_age_s,
        )
        board = self._board
        links = {forecast.link: forecast for forecast in board.link_forecasts.values()}
        forecasts = Forecasts(dict(board.job_forecasts), links)
        standing, applied = self._desk.standing(), self._desk.applied()
        told = advise_round(snapshot, forecasts, limits, rules=self._rules, standing=standing, applied=applied)
        self._count_failing(told.errors)
        self._desk.offer(told.advice, snapshot)
        for record in self._desk.due():
            # Backends may block on a network; the loop must not.
            await asyncio.to_thread(self._desk.apply, record.advice.id, self._clock.now())
        self._desk.settle(now_s, self._grade)

    def _count_failing(self, errors: Mapping[str, str]) -> None:
        """Count rules that failed; each is logged when its trouble begins or changes."""
        for rule, sentence in errors.items():
            self._counters[f'gpucast_rule_errors_total{{rule="{_label(rule)}"}}'] += 1
            if self._failing.get(rule) != sentence:
                log.warning(sentence)
        self._failing = errors

    def _grade(self, advice: Advice, from_s: float) -> Grade | None:
        if self._board.link_frame is None or advice.link is None:
            return None
        history = self._board.use_of(str(advice.link), self._settings.forecast.window_s)
        if history is None:
            return None
        return grade(
            advice,
            history.at_s,
            history.value,
            threshold_ratio=self._settings.advice.threshold_ratio,
            applied_at_s=from_s,
            now_s=self._board.link_frame.data_at_s,
        )


def _label(text: str) -> str:
    """A label's value as Prometheus text."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

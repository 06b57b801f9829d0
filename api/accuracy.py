"""Served forecasts meet the truth: live skill and coverage per job and metric, and per link.

Pure bookkeeping: the caller passes forecasts, frames and times.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from api.reads import AccuracyRow
from features.frame import Context, JobFrame, LinkFrame
from forecast.predict.types import JobForecast, LinkForecast, QuantilePath
from models.base import LEVELS
from models.persistence import Persistence
from telemetry.ids import LinkId

SCORE_STEPS = 60
"""A path is scored over at most this many of its first steps."""
KEEP_SCORES = 200
"""Accuracy covers this many of the newest scored forecasts per subject and metric."""
DECILES = slice(1, 10)


@dataclass(slots=True)
class _Pending:
    metric: str
    start_s: float
    step_s: float
    model: str
    version: str
    values: NDArray[np.float64]
    persistence: NDArray[np.float64]


@dataclass(slots=True)
class _Score:
    model: str
    version: str
    loss: float
    base_loss: float
    inside80: int
    inside95: int
    count: int


@dataclass(slots=True)
class _LinkPending:
    made_s: float
    horizon_s: float
    threshold_ratio: float
    probability: float


@dataclass(slots=True)
class AccuracyBook:
    """What was foreseen, what came, and the score.

    Args:
        every_s: at most one path per job and metric is followed in this time.
    """

    every_s: float = 5.0
    _pending: dict[str, list[_Pending]] = field(default_factory=dict)
    _noted_s: dict[str, float] = field(default_factory=dict)
    _scores: dict[tuple[str, str], deque[_Score]] = field(default_factory=dict)
    _links: dict[str, list[_LinkPending]] = field(default_factory=dict)
    _link_scores: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)

    def note(self, frame: JobFrame, forecast: JobForecast) -> None:
        """Remember a served forecast beside what persistence would have said from the same data."""
        subject = str(forecast.job)
        if forecast.data_at_s - self._noted_s.get(subject, -np.inf) < self.every_s:
            return
        self._noted_s[subject] = forecast.data_at_s
        paths = [path for path in forecast.metrics.values() if isinstance(path, QuantilePath)]
        rows = np.array([frame.totals.metric.index(path.metric) for path in paths], dtype=np.intp)
        if not len(rows):
            return
        horizon = min(SCORE_STEPS, *(len(path.values) for path in paths))
        base = Persistence().predict(frame.totals.rows(rows), horizon)
        self._pending.setdefault(subject, []).extend(
            _Pending(
                path.metric, path.start_s, path.step_s, path.model, path.model_version, path.values[:horizon], base[i]
            )
            for i, path in enumerate(paths)
        )

    def settle(self, frame: JobFrame) -> None:
        """Score every remembered path whose last scored step has been observed."""
        subject = str(frame.job.job)
        waiting: list[_Pending] = []
        for pending in self._pending.get(subject, []):
            end_s = pending.start_s + len(pending.values) * pending.step_s
            if end_s > frame.data_at_s:
                waiting.append(pending)
                continue
            truth = _truth(frame.totals, frame.data_at_s, pending)
            if truth is not None and (score := _score(pending, truth)) is not None:
                key = (subject, pending.metric)
                self._scores.setdefault(key, deque(maxlen=KEEP_SCORES)).append(score)
        self._pending[subject] = waiting

    def note_link(self, forecast: LinkForecast) -> None:
        """Remember a congestion probability."""
        if isinstance(forecast.probability, float):
            waiting = self._links.setdefault(str(forecast.link), [])
            if not waiting or forecast.data_at_s - waiting[-1].made_s >= self.every_s:
                waiting.append(
                    _LinkPending(forecast.data_at_s, forecast.horizon_s, forecast.threshold_ratio, forecast.probability)
                )

    def settle_links(self, frame: LinkFrame) -> None:
        """Score every probability whose horizon has passed: Brier score of 'a sample passed the threshold'."""
        n = frame.tx.n_points
        at_s = frame.data_at_s - (n - 1 - np.arange(n)) * frame.tx.step_s
        for row, name in enumerate(frame.links):
            waiting = self._links.get(name)
            if not waiting:
                continue
            use = np.fmax(frame.tx.values[row], frame.rx.values[row]) / frame.capacity_bytes_per_s[row]
            keep: list[_LinkPending] = []
            for pending in waiting:
                if pending.made_s + pending.horizon_s > frame.data_at_s:
                    keep.append(pending)
                    continue
                span = (at_s > pending.made_s) & (at_s <= pending.made_s + pending.horizon_s) & np.isfinite(use)
                if span.any():
                    hot = float((use[span] >= pending.threshold_ratio).any())
                    self._link_scores.setdefault(name, deque(maxlen=KEEP_SCORES)).append((pending.probability, hot))
            self._links[name] = keep

    def forget(self, subject: str) -> None:
        """Drop what is pending for a job that ended."""
        self._pending.pop(subject, None)
        self._noted_s.pop(subject, None)

    def rows(self) -> list[AccuracyRow]:
        """Accuracy by subject and metric, for the model served last."""
        rows = [_job_row(subject, metric, scores) for (subject, metric), scores in sorted(self._scores.items())]
        rows += [_link_row(name, list(pairs)) for name, pairs in sorted(self._link_scores.items())]
        return rows

    def live(self) -> list[tuple[str, str, str, float, float]]:
        """(subject, metric, model version, loss, persistence's loss) of every scored forecast kept."""
        return [
            (subject, metric, score.version, score.loss, score.base_loss)
            for (subject, metric), scores in self._scores.items()
            for score in scores
        ]

    def link_row(self, link: LinkId) -> AccuracyRow | None:
        """Accuracy of one link's congestion forecasts; None before the first was scored."""
        pairs = self._link_scores.get(str(link))
        return _link_row(str(link), list(pairs)) if pairs else None


def _truth(totals: Context, data_at_s: float, pending: _Pending) -> NDArray[np.float64] | None:
    if pending.metric not in totals.metric:
        return None
    row = totals.values[totals.metric.index(pending.metric)]
    at_s = pending.start_s + pending.step_s * np.arange(1, len(pending.values) + 1)
    column = np.rint(totals.n_points - 1 - (data_at_s - at_s) / totals.step_s).astype(np.int64)
    known = (column >= 0) & (column < totals.n_points)
    return np.where(known, row[np.clip(column, 0, totals.n_points - 1)], np.nan)


def _score(pending: _Pending, truth: NDArray[np.float64]) -> _Score | None:
    seen = np.isfinite(truth)
    if not seen.any():
        return None
    y = truth[seen]
    model, base = pending.values[seen], pending.persistence[seen]
    return _Score(
        pending.model,
        pending.version,
        _pinball(y, model),
        _pinball(y, base),
        int(((y >= model[:, 1]) & (y <= model[:, -2])).sum()),
        int(((y >= model[:, 0]) & (y <= model[:, -1])).sum()),
        int(seen.sum()),
    )


def _pinball(y: NDArray[np.float64], quantiles: NDArray[np.float64]) -> float:
    levels = np.array(LEVELS)[DECILES]
    error = y[:, None] - quantiles[:, DECILES]
    return float(np.maximum(levels * error, (levels - 1) * error).sum())


def _job_row(subject: str, metric: str, scores: deque[_Score]) -> AccuracyRow:
    newest = scores[-1]
    same = [score for score in scores if (score.model, score.version) == (newest.model, newest.version)]
    base = sum(score.base_loss for score in same)
    loss = sum(score.loss for score in same)
    count = sum(score.count for score in same)
    return AccuracyRow(
        subject=subject,
        metric=metric,
        model=newest.model,
        model_version=newest.version,
        skill=1.0 - loss / base if base > 0 else 0.0,
        coverage80=sum(score.inside80 for score in same) / count,
        coverage95=sum(score.inside95 for score in same) / count,
        scored=count,
    )


def _link_row(name: str, pairs: list[tuple[float, float]]) -> AccuracyRow:
    foreseen = np.array([p for p, _ in pairs])
    came = np.array([hot for _, hot in pairs])
    climate = float(((came.mean() - came) ** 2).mean())
    brier = float(((foreseen - came) ** 2).mean())
    # Always or never hot: climatology is perfect in hindsight, so only an equally perfect forecast ties with it.
    skill = 1.0 - brier / climate if climate > 0 else -brier
    return AccuracyRow(
        subject=name,
        metric="congestion",
        model="congestion",
        model_version="1",
        skill=skill,
        coverage80=None,
        coverage95=None,
        scored=len(pairs),
    )

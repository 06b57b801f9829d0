"""What the last round of forecasts left behind, and how it is asked."""

from __future__ import annotations

import numpy as np

from api.reads import History
from features.frame import JobFrame, LinkFrame
from forecast.predict.phases_past import PhasePast
from forecast.predict.types import JobForecast, LinkForecast
from forecast.predict.worker import PredictReply, PredictRequest
from telemetry.catalogue import BY_NAME
from telemetry.ids import JobId, LinkId


class Board:
    """Frames and forecasts of the newest round; every call answers at once from memory."""

    def __init__(self) -> None:
        self.frames: dict[JobId, JobFrame] = {}
        self.link_frame: LinkFrame | None = None
        self.job_forecasts: dict[JobId, JobForecast] = {}
        self.link_forecasts: dict[str, LinkForecast] = {}
        self.phase_past: dict[JobId, PhasePast] = {}
        """What is remembered of the jobs' phases from before the window; a restart begins anew."""
        self._reply = PredictReply()

    def keep(self, request: PredictRequest, reply: PredictReply) -> set[JobId]:
        """Take over a round; the jobs that are gone with it."""
        before = set(self.job_forecasts)
        self.frames = {frame.job.job: frame for frame in request.jobs}
        self.link_frame = request.links
        self._reply = reply
        # A job that had no usable window in this round keeps what was known of it.
        past = {**self.phase_past, **reply.phase_past}
        self.phase_past = {job: past[job] for job in self.frames if job in past}
        self.job_forecasts = {forecast.job: forecast for forecast in reply.jobs}
        self.link_forecasts = {str(forecast.link): forecast for forecast in reply.links}
        return before - set(self.frames)

    def jobs(self) -> list[JobForecast]:
        """Newest forecast of every job, sorted by id."""
        return [self.job_forecasts[job] for job in sorted(self.job_forecasts)]

    def job(self, job: JobId) -> JobForecast | None:
        """Newest forecast of one job."""
        return self.job_forecasts.get(job)

    def job_history(self, job: JobId, metric: str, window_s: float) -> History | None:
        """Actual values of a job's metric."""
        frame = self.frames.get(job)
        if frame is None or metric not in frame.totals.metric:
            return None
        totals = frame.totals
        n = min(totals.n_points, int(window_s / totals.step_s) + 1)
        at_s = frame.data_at_s - totals.step_s * np.arange(n - 1, -1, -1, dtype=np.float64)
        entry = BY_NAME.get(metric)
        unit = entry.unit if entry is not None else ""
        return History(metric, unit, at_s, totals.values[totals.metric.index(metric), totals.n_points - n :])

    def phases(self, job: JobId) -> list[tuple[float, float, str]]:
        """Past phases as (start_s, end_s, name)."""
        return [(start, end, str(phase)) for start, end, phase in self._reply.phases.get(job, [])]

    def links(self) -> list[LinkForecast]:
        """Newest forecast of every link, highest probability first."""

        def key(forecast: LinkForecast) -> tuple[float, float, str]:
            chance = forecast.probability if isinstance(forecast.probability, float) else -1.0
            return (-chance, -(forecast.use_ratio or 0.0), str(forecast.link))

        return sorted(self.link_forecasts.values(), key=key)

    def link(self, link: LinkId) -> LinkForecast | None:
        """Newest forecast of one link."""
        return self.link_forecasts.get(str(link))

    def link_history(self, link: LinkId, window_s: float) -> History | None:
        """Use ratio of a link."""
        return self.use_of(str(link), window_s)

    def use_of(self, name: str, window_s: float) -> History | None:
        """Use ratio of a link by the text form of its id."""
        frame = self.link_frame
        if frame is None or name not in frame.links:
            return None
        row = frame.links.index(name)
        n = min(frame.tx.n_points, int(window_s / frame.tx.step_s) + 1)
        at_s = frame.data_at_s - frame.tx.step_s * np.arange(n - 1, -1, -1, dtype=np.float64)
        first = frame.tx.n_points - n
        use = np.fmax(frame.tx.values[row, first:], frame.rx.values[row, first:]) / frame.capacity_bytes_per_s[row]
        return History("link_use_ratio", "ratio", at_s, use)

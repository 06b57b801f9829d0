"""What each link will carry: the chance of congestion, when, for how long, and whose bytes they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from features.frame import Context, LinkFrame
from forecast.predict.age import age_of, stale
from forecast.predict.attribution import JobRows, candidates
from forecast.predict.jobs import served_path
from forecast.predict.link_ways import Outlook, foresee
from forecast.predict.outlooks import usual_ever
from forecast.predict.room_models import RoomModels, default_models
from forecast.predict.settings import PredictSettings
from forecast.predict.traffic import JobFabric, job_rows
from forecast.predict.types import Absence, JobForecast, LinkForecast, Period, QuantilePath, Why
from telemetry.ids import JobId, LinkId
from telemetry.topology import Topology

FloatArray = NDArray[np.float64]

USE = "link_use_ratio"


def forecast_links(
    frame: LinkFrame,
    jobs: Sequence[JobForecast],
    job_fabric: Mapping[JobId, JobFabric],
    topology: Topology,
    *,
    now_s: float,
    settings: PredictSettings,
    models: RoomModels | None = None,
) -> list[LinkForecast]:
    """One forecast per link of the frame, in its order.

    Args:
        frame: the links' recent past.
        jobs: forecasts made from the same moment; their periods carry into the future.
        job_fabric: what each job sent, on the grid of ``frame``: leaf switch of the sending hosts -> (n_points,)
            bytes per second, key ``""`` where the leaf is unknown. A job that is absent here is taken from its
            duty cycle.
        topology: what is known of the wiring; decides which job may cross which link.
        now_s: this machine's wall time, the clock of ``frame.received_s``.
        settings: horizon, threshold and limits.
        models: what to ask; the built-in models by default.
    """
    age_s = age_of(frame.received_s, now_s)
    ids = _link_ids(frame, topology)
    too_old = stale(age_s, settings.max_age_s)
    if too_old is not None:
        return absent_links(frame, topology, now_s, settings, too_old)
    models = models or default_models()
    use = use_of(frame)
    out: list[LinkForecast | None] = [None] * len(ids)
    usable = np.zeros(len(ids), np.bool_)
    for row, link in enumerate(ids):
        absence = _why_not(frame, use, row, link, settings)
        usable[row] = absence is None
        if absence is not None:
            out[row] = _absent(link, frame, row, now_s, settings, absence)
    for row in _plain_rows(use, usable, settings):
        out[row] = _plain(ids[row], frame, use, int(row), now_s, settings)
    busy = _busy_rows(use, usable, settings)
    if busy.size:
        rows = job_rows(frame, jobs, job_fabric)
        allowed = _allowed([ids[r] for r in busy], rows, topology)
        periods = {job.job: job.period for job in jobs if isinstance(job.period, Period)}
        outlook = foresee(
            _context(frame, use, busy),
            frame.capacity_bytes_per_s[busy],
            rows,
            allowed,
            periods,
            age_s,
            settings,
            models,
        )
        paths = _paths(frame, use, busy, settings, models)
        for place, row in enumerate(busy):
            out[row] = _modelled(ids[row], frame, use, int(row), place, outlook, paths, now_s, settings)
    return [forecast for forecast in out if forecast is not None]


def absent_links(
    frame: LinkFrame, topology: Topology, now_s: float, settings: PredictSettings, absence: Absence
) -> list[LinkForecast]:
    """The same reasoned absence for every link."""
    return [_absent(link, frame, row, now_s, settings, absence) for row, link in enumerate(_link_ids(frame, topology))]


def use_of(frame: LinkFrame) -> FloatArray:
    """Use of the busier direction, (n_links, n_points); NaN where missing or where the capacity is unknown."""
    capacity = np.where(frame.capacity_bytes_per_s > 0.0, frame.capacity_bytes_per_s, np.nan)
    return np.asarray(np.fmax(frame.tx.values, frame.rx.values) / capacity[:, None], np.float64)


def _link_ids(frame: LinkFrame, topology: Topology) -> list[LinkId]:
    known = {str(link.id): link.id for link in topology.links}
    return [known.get(text) or LinkId.parse(text) for text in frame.links]


def _why_not(frame: LinkFrame, use: FloatArray, row: int, link: LinkId, settings: PredictSettings) -> Absence | None:
    """Why a link has no forecast at all, or None when it can have one."""
    traffic = np.isfinite(frame.tx.values[row]) | np.isfinite(frame.rx.values[row])
    present = int(traffic.sum())
    if present == 0:
        return Absence(Why.NO_DATA, f"no byte counter of {link} gave a rate in the window", 0, settings.min_points)
    if not np.isfinite(frame.capacity_bytes_per_s[row]) or frame.capacity_bytes_per_s[row] <= 0.0:
        return Absence(
            Why.NO_CAPACITY,
            f"the capacity of {link} is unknown, so its bytes cannot be turned into use; export the port's rate or name it in the topology",
        )
    if present < settings.min_points:
        return Absence(
            Why.INSUFFICIENT_HISTORY,
            f"{link} has {present} points in the window, and a forecast needs {settings.min_points}",
            present,
            settings.min_points,
        )
    return None if np.isfinite(use[row]).any() else Absence(Why.NO_DATA, f"no use of {link} can be computed")


def _tops(use: FloatArray) -> FloatArray:
    """Greatest observed use per link; 0 where nothing was observed."""
    return np.asarray(np.where(np.isfinite(use), use, 0.0).max(axis=1, initial=0.0), np.float64)


def _busy_rows(use: FloatArray, usable: NDArray[np.bool_], settings: PredictSettings) -> NDArray[np.intp]:
    """Links that get a model of their own, in frame order."""
    tops = _tops(use)
    rows = np.flatnonzero(usable & (tops >= settings.attribution_floor_ratio))
    if rows.size > settings.max_modelled_links:
        rows = np.sort(rows[np.argsort(-tops[rows], kind="stable")[: settings.max_modelled_links]])
    return rows


def _plain_rows(use: FloatArray, usable: NDArray[np.bool_], settings: PredictSettings) -> NDArray[np.intp]:
    """Links for which climatology is answer enough."""
    return np.setdiff1d(np.flatnonzero(usable), _busy_rows(use, usable, settings))


def _context(frame: LinkFrame, use: FloatArray, rows: NDArray[np.intp]) -> Context:
    """Use of some links as a context in which every link stands alone."""
    n = rows.size
    return Context(
        use[rows], frame.tx.step_s, (USE,) * n, np.arange(n, dtype=np.int32), np.zeros(n), np.full(n, np.inf)
    )


def _allowed(ids: Sequence[LinkId], rows: JobRows, topology: Topology) -> NDArray[np.bool_]:
    """Which job rows may cross which link, (n_links, n_rows)."""
    ends = {str(link.id): (link.a, link.b) for link in topology.links}
    out = np.zeros((len(ids), len(rows.jobs)), np.bool_)
    for place, link in enumerate(ids):
        out[place] = candidates(link, rows, topology, ends)
    return out


def _paths(
    frame: LinkFrame, use: FloatArray, busy: NDArray[np.intp], settings: PredictSettings, models: RoomModels
) -> dict[int, QuantilePath | Absence]:
    """Quantile path of the busiest links, by row of the frame."""
    order = busy[np.argsort(-_tops(use)[busy], kind="stable")[: settings.max_paths]]
    steps = max(1, min(settings.link_steps(frame.tx.step_s), frame.tx.n_points // 2))
    served = models.served.predict_served(_context(frame, use, order), steps)
    return {
        int(row): served_path(served, place, USE, frame.data_at_s, frame.tx.step_s) for place, row in enumerate(order)
    }


def _stats(use: FloatArray, row: int, threshold: float) -> tuple[float | None, float, float]:
    """Latest use (None when missing), mean use, and share of samples above the threshold."""
    seen = use[row][np.isfinite(use[row])]
    last = use[row, -1]
    return (float(last) if np.isfinite(last) else None), float(seen.mean()), float((seen > threshold).mean())


def _absent(
    link: LinkId, frame: LinkFrame, row: int, now_s: float, settings: PredictSettings, absence: Absence
) -> LinkForecast:
    capacity = float(frame.capacity_bytes_per_s[row])
    return LinkForecast(
        link=link,
        made_at_s=now_s,
        data_at_s=frame.data_at_s,
        age_s=age_of(frame.received_s, now_s),
        capacity_bytes_per_s=capacity if np.isfinite(capacity) and capacity > 0.0 else None,
        use_ratio=None,
        threshold_ratio=settings.threshold_ratio,
        horizon_s=settings.link_horizon_s,
        probability=absence,
        onset_s=None,
        overload_s=0.0,
        causes=(),
        path=absence,
        skill=None,
        reason=absence.reason,
    )


def _plain(
    link: LinkId, frame: LinkFrame, use: FloatArray, row: int, now_s: float, settings: PredictSettings
) -> LinkForecast:
    """A link that never came near the threshold, or stands too far down the list: its own climatology."""
    last, mean, above = _stats(use, row, settings.threshold_ratio)
    step_s = frame.tx.step_s
    ever, count = usual_ever(use[row : row + 1], settings.threshold_ratio, settings.link_steps(step_s))
    top = float(_tops(use[row : row + 1])[0])
    reason = f"climatology: in the window its use stayed below {top:.2f} of capacity, {above:.1%} of samples above {settings.threshold_ratio:.2f}"
    return LinkForecast(
        link=link,
        made_at_s=now_s,
        data_at_s=frame.data_at_s,
        age_s=age_of(frame.received_s, now_s),
        capacity_bytes_per_s=float(frame.capacity_bytes_per_s[row]),
        use_ratio=last,
        threshold_ratio=settings.threshold_ratio,
        horizon_s=settings.link_horizon_s,
        probability=float(ever[0]),
        onset_s=None,
        overload_s=float(count[0] * step_s),
        causes=(),
        path=Absence(
            Why.NO_TRAFFIC,
            f"paths are made for links whose use passes {settings.attribution_floor_ratio:.2f} of capacity",
        ),
        skill=None,
        reason=reason,
        model="climatology",
        mean_use_ratio=mean,
        above_ratio=above,
    )


def _modelled(
    link: LinkId,
    frame: LinkFrame,
    use: FloatArray,
    row: int,
    place: int,
    outlook: Outlook,
    paths: Mapping[int, QuantilePath | Absence],
    now_s: float,
    settings: PredictSettings,
) -> LinkForecast:
    last, mean, above = _stats(use, row, settings.threshold_ratio)
    return LinkForecast(
        link=link,
        made_at_s=now_s,
        data_at_s=frame.data_at_s,
        age_s=age_of(frame.received_s, now_s),
        capacity_bytes_per_s=float(frame.capacity_bytes_per_s[row]),
        use_ratio=last,
        threshold_ratio=settings.threshold_ratio,
        horizon_s=settings.link_horizon_s,
        probability=float(outlook.probability[place]),
        onset_s=outlook.onset_s(place, frame.data_at_s),
        overload_s=float(outlook.overload_s[place]),
        causes=outlook.causes[place],
        path=paths.get(row, Absence(Why.NO_TRAFFIC, f"paths are made for the {settings.max_paths} busiest links only")),
        skill=outlook.skill[place],
        reason=outlook.sentence(place, settings.threshold_ratio, settings.link_horizon_s),
        model=outlook.model[place],
        mean_use_ratio=mean,
        above_ratio=above,
    )

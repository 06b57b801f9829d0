"""What each link will carry: the chance of congestion, when, for how long, and whose bytes they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from features.frame import Context, LinkFrame
from forecast.predict.age import age_of, stale
from forecast.predict.attribution import JobRows, candidates
from forecast.predict.link_ways import Outlook, foresee
from forecast.predict.outlooks import usual_ever
from forecast.predict.room_models import RoomModels, default_models
from forecast.predict.settings import PredictSettings
from forecast.predict.stamped import foldable
from forecast.predict.traffic import JobFabric, job_rows
from forecast.predict.types import Absence, JobForecast, LinkForecast, Period, QuantilePath, Skill, Why
from models.base import LEVELS
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
    frame, job_fabric = _recent(frame, job_fabric, settings.max_link_points)
    use = use_of(frame)
    out: list[LinkForecast | None] = [None] * len(ids)
    usable = np.zeros(len(ids), np.bool_)
    for row, link in enumerate(ids):
        absence = _why_not(frame, use, row, link, settings)
        usable[row] = absence is None
        if absence is not None:
            out[row] = _absent(link, frame, row, now_s, settings, absence)
    plain = _plain_rows(use, usable, settings)
    ever, count = usual_ever(use[plain], settings.threshold_ratio, settings.link_steps(frame.tx.step_s))
    for place, row in enumerate(plain.tolist()):
        usual = float(ever[place]), float(count[place] * frame.tx.step_s)
        out[row] = _plain(ids[row], frame, use, row, usual, now_s, settings)
    busy = _busy_rows(use, usable, settings)
    if busy.size:
        rows = job_rows(frame, jobs, job_fabric)
        allowed = _allowed([ids[r] for r in busy], rows, topology)
        folds = {job.job: foldable(job.period, job.step_s) for job in jobs}
        periods = {job: fold for job, fold in folds.items() if isinstance(fold, Period)}
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
        shown = set(busy[np.argsort(-_tops(use)[busy], kind="stable")[: settings.max_paths]].tolist())
        for place, row in enumerate(busy):
            out[row] = _modelled(
                ids[row], frame, use, int(row), place, outlook, now_s, settings, show_path=int(row) in shown
            )
    return [forecast for forecast in out if forecast is not None]


def _recent(
    frame: LinkFrame, job_fabric: Mapping[JobId, JobFabric], n_points: int
) -> tuple[LinkFrame, Mapping[JobId, JobFabric]]:
    """The newest columns only: a link that was relieved a while ago is not judged by its past."""
    if frame.tx.n_points <= n_points:
        return frame, job_fabric
    tx, rx = _last_columns(frame.tx, n_points), _last_columns(frame.rx, n_points)
    cut = LinkFrame(frame.data_at_s, frame.received_s, tx, rx, frame.links, frame.capacity_bytes_per_s)
    fabric = {job: {leaf: row[-n_points:] for leaf, row in rows.items()} for job, rows in job_fabric.items()}
    return cut, fabric


def _last_columns(context: Context, n_points: int) -> Context:
    values = context.values[:, -n_points:]
    return Context(values, context.step_s, context.metric, context.group, context.low, context.high)


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


def _path(outlook: Outlook, place: int, start_s: float, step_s: float) -> QuantilePath:
    """Quantile path of one link's use."""
    skill = outlook.path_skill[place]
    model = outlook.path_model[place]
    if skill is None:
        reason = f"{model} is served: no past origin could be scored yet"
    elif skill.skill > 0.0:
        reason = f"{model} beats persistence over {skill.scored} scored steps (skill {skill.skill:.2f})"
    else:
        reason = f"nothing beat persistence over {skill.scored} scored steps"
    return QuantilePath(
        metric=USE,
        unit="ratio",
        start_s=start_s,
        step_s=step_s,
        levels=LEVELS,
        values=np.maximum(outlook.quantiles[place], 0.0),
        model=model,
        model_version="1",
        skill=skill or Skill(0.0, None, None, 0),
        reason=reason,
    )


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
    link: LinkId,
    frame: LinkFrame,
    use: FloatArray,
    row: int,
    usual: tuple[float, float],
    now_s: float,
    settings: PredictSettings,
) -> LinkForecast:
    """A link that never came near the threshold, or stands too far down the list: its own climatology.

    ``usual`` is the chance of a crossing within the horizon, and the seconds above.
    """
    last, mean, above = _stats(use, row, settings.threshold_ratio)
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
        probability=usual[0],
        onset_s=None,
        overload_s=usual[1],
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
    now_s: float,
    settings: PredictSettings,
    *,
    show_path: bool,
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
        path=_path(outlook, place, frame.data_at_s, frame.tx.step_s)
        if show_path
        else Absence(Why.NO_TRAFFIC, f"paths are made for the {settings.max_paths} busiest links only"),
        skill=outlook.skill[place],
        reason=outlook.sentence(place, settings.threshold_ratio, settings.link_horizon_s),
        model=outlook.model[place],
        mean_use_ratio=mean,
        above_ratio=above,
    )

"""What ``bench congestion`` asks: events on ports, a fixed time ahead or within a window, on valid bins only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.bench.congestion_data import Fabric
from models.port_features import HOT
from models.quantiles import sample_quantiles

Floats = NDArray[np.float64]
QUIET_S, WITHIN_S = 60.0, 30.0
LULL_SHARE = 0.25
"""A lull is traffic under this share of the port's own median of the training part."""
MEAN_USE = 0.5
UNSEEN_S = 300.0
"""History of a job never seen."""
REGULAR = 0.5
"""Traffic is regular where its greatest autocorrelation beyond the first dip is at least this, in the training part."""

CARRYING_USE, BUSY_USE = 0.01, 0.1
"""A port with this median use in the training part carries traffic whose lulls matter; it is busy from the second on."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One question.

    Args:
        name: of the task.
        state: (n, t) 1 where a bin has the event, 0 where not, NaN where unknown.
        truth: (n, t) answer for the origin at the end of each bin; NaN where it is not asked.
        leads: bins ahead that count; any of them.
        active: (n,) ports with an event in the training part.
        unseen: only the last minutes are known, and models learn from other jobs.
    """

    name: str
    state: Floats
    truth: Floats
    leads: tuple[int, ...]
    active: NDArray[np.bool_]
    unseen: bool = False

    @property
    def horizon(self) -> int:
        """The furthest bin asked about."""
        return max(self.leads)


def tasks(fabric: Fabric) -> list[Task]:
    """Every question about a fabric."""
    step_s = fabric.step_s
    hot = _state(fabric.peak, fabric.peak >= HOT)
    busy = _state(fabric.use, fabric.use >= MEAN_USE)
    level = LULL_SHARE * known_median(fabric.traffic[:, : fabric.training_end])
    lull = _state(fabric.traffic, fabric.traffic < level[:, None])
    found = [onset(fabric, hot), _ahead(fabric, "peak", hot, 1)]
    found += [_ahead(fabric, f"lull-{s}s", lull, round(s / step_s)) for s in (5, 30, 60, 300)]
    found += [_ahead(fabric, f"lull-unseen-{s}s", lull, round(s / step_s), unseen=True) for s in (5, 60)]
    return [*found, _ahead(fabric, "mean-use", busy, 1)]


def onset(fabric: Fabric, hot: Floats) -> Task:
    """Whether a port without a hot sample for 60 s shows one within 30 s; every bin of both windows must be valid."""
    quiet, within = round(QUIET_S / fabric.step_s), round(WITHIN_S / fabric.step_s)
    truth = np.full(hot.shape, np.nan)
    for t in range(quiet - 1, fabric.n_bins - within):
        before, after = hot[:, t - quiet + 1 : t + 1], hot[:, t + 1 : t + 1 + within]
        asked = (before == 0).all(axis=1) & np.isfinite(after).all(axis=1)
        truth[asked, t] = after[asked].any(axis=1)
    leads = tuple(range(1, within + 1))
    return Task("onset", hot, truth, leads, _active(fabric, truth, within))


def _ahead(fabric: Fabric, name: str, state: Floats, lead: int, *, unseen: bool = False) -> Task:
    """The state at exactly ``lead`` bins ahead, asked where the port's present bin is known too."""
    truth = np.full(state.shape, np.nan)
    truth[:, :-lead] = np.where(np.isfinite(state[:, :-lead]), state[:, lead:], np.nan)
    return Task(name, state, truth, (lead,), _active(fabric, truth, lead), unseen)


def _state(values: Floats, event: NDArray[np.bool_]) -> Floats:
    return np.where(np.isfinite(values), event.astype(np.float64), np.nan)


def _active(fabric: Fabric, truth: Floats, horizon: int) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = (truth[:, fabric.origins("training", horizon)] == 1).any(axis=1)
    return result


def own_period(values: Floats) -> tuple[NDArray[np.intp], Floats]:
    """(n,) lag of the greatest autocorrelation beyond its first dip, and that autocorrelation; lag 1 and 0 without one."""
    n, t = values.shape
    known = np.isfinite(values)
    mean = np.where(known, values, 0.0).sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    size = 1 << int(2 * t - 1).bit_length()
    power = np.abs(np.fft.rfft(np.where(known, values - mean, 0.0), size)) ** 2
    both = np.fft.irfft(np.abs(np.fft.rfft(known.astype(np.float64), size)) ** 2, size)[:, : t // 2]
    alike = np.fft.irfft(power, size)[:, : t // 2] / np.maximum(both, 1.0)
    alike = alike / np.maximum(alike[:, :1], 1e-300)
    # The first dip ends the neighbourhood of lag 0.
    falling = np.concatenate([np.diff(alike, axis=1) <= 0, np.zeros((n, 1), np.bool_)], axis=1)
    dip = np.where(falling.all(axis=1), t // 2, falling.argmin(axis=1))
    beyond = np.where(np.arange(alike.shape[1]) > dip[:, None], alike, -np.inf)
    best = beyond.argmax(axis=1)
    height = beyond[np.arange(n), best]
    good = np.isfinite(height)
    return np.where(good, np.maximum(best, 1), 1), np.where(good, height, 0.0)


def median_use(fabric: Fabric) -> Floats:
    """(n,) median use of each port in the training part."""
    return known_median(fabric.use[:, : fabric.training_end])


def known_median(values: Floats) -> Floats:
    """(n,) median of each row's known values; NaN without any."""
    return sample_quantiles(values, (0.5,))[:, 0]

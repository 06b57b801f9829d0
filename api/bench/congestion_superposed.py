"""Recorded InfiniBand traffic of several jobs laid on one link with random phases: overload within the next 5 s.

``served`` knows the link alone, by its own look-alike moments; ``combined`` knows each job's traffic and combines their
continuations, which the service does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.congestion_rivals import seasonal_states
from api.bench.congestion_tasks import own_period
from api.bench.datasets import FABRIC_FILE, h100_recordings, mean_on_grid
from models.port_events import PortEvents
from models.port_matches import group_profile, nearest, unlikeness
from models.port_superposed import combined_chance
from telemetry.errors import NotFitted

Floats = NDArray[np.float64]
STEP_S, WITHIN_S = 0.5, 5.0
JOBS = 3
LINKS = 60
SHIFT_SHARE = 0.05
"""Jobs start up to this share of the recording apart; phases are random, and no scored moment teaches another link."""
OVER_SHARE = 0.03
"""Capacity of a link: this share of the training part's samples passes it."""
QUIETEST_BYTES_PER_S = 1e8
"""Ports below this on average are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Superposed:
    """Links and the jobs on them.

    Args:
        rows: (n_links * JOBS, t) bytes per second of each job.
        link: (n_links * JOBS,) link of each row.
        total: (n_links, t) what each link carries.
        capacity: (n_links,) bytes per second.
    """

    rows: Floats
    link: NDArray[np.intp]
    total: Floats
    capacity: Floats

    def part(self, name: str) -> NDArray[np.intp]:
        """Origins of a part, each with all it speaks of in the same part."""
        t, within = self.total.shape[1], round(WITHIN_S / STEP_S)
        first, end = {"training": (0.15, 0.6), "middle": (0.6, 0.7), "scored": (0.7, 1.0)}[name]
        return np.arange(round(first * t), round(end * t) - within, dtype=np.intp)

    def truth(self) -> Floats:
        """(n_links, t) whether a sample passes the capacity within 5 s after each; NaN at the end."""
        within = round(WITHIN_S / STEP_S)
        over = self.total > self.capacity[:, None]
        out = np.full(over.shape, np.nan)
        windows = np.lib.stride_tricks.sliding_window_view(over[:, 1:], within, axis=1)
        out[:, : windows.shape[1]] = windows.any(axis=2)
        return out


def read_superposed(folder: Path, seed: int) -> Superposed | None:
    """Links of random ports of different recorded runs; None without recordings."""
    if not (folder / FABRIC_FILE).is_file():
        return None
    runs: dict[str, list[Floats]] = {}
    for recording in h100_recordings(folder, 0.1, False):
        if "fabric" not in recording.name:
            continue
        fine = recording.values
        at_s: Floats = np.arange(fine.shape[1], dtype=np.float64) * 0.1
        for row in fine:
            coarse = mean_on_grid(at_s, row, STEP_S, int(at_s[-1] / STEP_S))[:540]
            if np.nanmean(coarse) >= QUIETEST_BYTES_PER_S:
                runs.setdefault(recording.name.partition(".")[0], []).append(coarse)
    return superpose(runs, seed)


def superpose(runs: dict[str, list[Floats]], seed: int) -> Superposed:
    """Lay one port each of three runs on every link, each starting at a random moment."""
    random = np.random.default_rng(seed)
    length = min(row.size for rows in runs.values() for row in rows)
    shift = int(SHIFT_SHARE * length)
    rows, link = [], []
    for number in range(LINKS):
        for run in random.permutation(sorted(runs))[:JOBS]:
            trace = runs[str(run)][int(random.integers(len(runs[str(run)])))]
            start = int(random.integers(shift + 1))
            rows.append(np.nan_to_num(trace[start : start + length - shift], nan=float(np.nanmean(trace))))
            link.append(number)
    stacked, links = np.stack(rows), np.array(link, np.intp)
    total = np.zeros((LINKS, stacked.shape[1]))
    np.add.at(total, links, stacked)
    capacity = np.quantile(total[:, : round(0.6 * total.shape[1])], 1 - OVER_SHARE, axis=1)
    return Superposed(stacked, links, total, capacity)


def answers(one: Superposed, seed: int, part: str) -> dict[str, Floats]:
    """Model -> (n_links, t) chance of an overload within 5 s; NaN where not asked."""
    truth, within = one.truth(), round(WITHIN_S / STEP_S)
    shape = truth.shape
    training = truth[:, one.part("training")]
    over = (one.total > one.capacity[:, None]).astype(np.float64)
    period, _ = own_period(one.total[:, : round(0.6 * shape[1])])
    out = {
        "always_yes": np.ones(shape),
        "climatology": np.repeat(training.mean(axis=1)[:, None], shape[1], axis=1),
        "seasonal_naive": seasonal_states(over, np.repeat(period[:, None], shape[1], axis=1), range(1, within + 1)),
        "persistence": np.stack([over[:, max(0, t - within + 1) : t + 1].max(axis=1) for t in range(shape[1])], 1),
        "served": np.full(shape, np.nan),
        "lightgbm": np.full(shape, np.nan),
        "combined": np.full(shape, np.nan),
    }
    for origin in np.union1d(one.part("middle"), one.part(part)).tolist():
        until = one.rows[:, : origin + 1]
        out["combined"][:, origin] = combined_chance(until, one.link, one.capacity, within, seed=seed)
        out["served"][:, origin] = _moments(one.total[:, : origin + 1], over, within)
    _lightgbm(one, truth, over, out["lightgbm"], seed, part)
    return out


def _moments(total: Floats, over: Floats, within: int) -> Floats:
    """(n_links,) share of the link's own look-alike moments that were followed by an overload."""
    profile, index = group_profile(total, np.arange(total.shape[0], dtype=np.int32))
    found = nearest(unlikeness(profile, 24, 0.92), 24, index, 24, within)
    past = over[:, : total.shape[1]]
    return found.mean(np.stack([found.following(past, lead) for lead in range(1, within + 1)]).max(axis=0))


def _lightgbm(one: Superposed, truth: Floats, over: Floats, out: Floats, seed: int, part: str) -> None:
    """A plain model of all links: lags of the load against the capacity, overloads lately."""

    def at(origin: int) -> Floats:
        load = one.total[:, : origin + 1] / one.capacity[:, None]
        lags = load[:, -24:][:, ::-1]
        means = np.stack([load[:, -span:].mean(axis=1) for span in (4, 8, 16, 32)], axis=1)
        lately = np.stack([over[:, max(0, origin + 1 - span) : origin + 1].mean(axis=1) for span in (4, 10, 20, 60)], 1)
        return np.hstack([lags, means, lately])

    teaching = one.part("training")
    model = PortEvents(seeds=(seed,))
    try:
        model.fit(np.concatenate([at(t) for t in teaching]), truth[:, teaching].T.ravel().astype(np.bool_))
    except NotFitted:
        return
    for origin in np.union1d(one.part("middle"), one.part(part)).tolist():
        out[:, origin] = model.predict(at(origin))


__all__ = ["Superposed", "answers", "read_superposed", "superpose"]

"""A card that falls behind the other cards of its job, where ranks do not report their steps.

The SM clock speaks for itself: cards of one job are of one kind and get one work, so a card whose clock is lower while
it works holds the others up. How busy a card is does not: pipeline stages, expert counts and rank 0's extra work make
cards differ for good. So activity counts only where a card *fell* behind while it was watched, and only where at least
two of tensor pipe, SMs, power and NVLink agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.frame import JobFrame
from features.store.base import Series
from features.transforms.grid import infer_step_s, to_grid
from forecast.predict.health.moves import node_of_gpu
from forecast.predict.health.types import Evidence, HealthFinding, Severity, Sign, Thing
from models.step_jump import JumpRule
from models.straggler import LEAST_MEMBERS, Straggler, StragglerRule, find_stragglers
from telemetry.ids import SeriesKey

KIND = "straggler"
CLOCK = "gpu_sm_clock_hertz"
POWER = "gpu_power_watts"
ACTIVITY = ("gpu_tensor_active_ratio", "gpu_sm_active_ratio", POWER, "gpu_nvlink_tx_bytes_per_s")
AGREE = 2
BUSY_WATTS_RATIO = 0.35
"""A turn counts when the job's median card draws at least this share of the most it drew."""
TURN_S = 3.0
"""Readings are averaged over turns of about this length, so that phases of a second fall together."""
TURN_READINGS = 4
"""A turn of fewer readings is a longer one: single readings of a job with phases differ by when they were taken."""
MOST_TURNS = 200
CLOCK_RULE = StragglerRule(least_ratio=0.05, jump=JumpRule(least_ratio=0.05, patience=22.0))
ACTIVITY_RULE = StragglerRule(least_ratio=0.20, jump=JumpRule(least_ratio=0.20, target_ratio=0.25, patience=22.0))
SAME_TIME_TURNS = 12
TO_DO = (
    "Look at this card's heat, power and throttle counters and at the errors beside this finding; where its clock "
    "stays low after a restart of the job, take its host out at the next checkpoint and test the card."
)


@dataclass(frozen=True, slots=True)
class Behind:
    """A card that is behind by one metric."""

    metric: str
    one: Straggler
    mine: float
    peers: float


def find(evidence: Evidence) -> list[HealthFinding]:
    """Cards that are behind the others of their job."""
    clocks = {one.key.entity: one for one in evidence.series(CLOCK)}
    found: list[HealthFinding] = []
    for frame in evidence.jobs:
        if len(frame.job.gpus) >= LEAST_MEMBERS and frame.devices.n_points > 1 and not frame.job.shared:
            found += _in_job(frame, clocks)
    return found


def _in_job(frame: JobFrame, clocks: dict[str, Series]) -> list[HealthFinding]:
    step_s = frame.devices.step_s
    cards = sorted({key.entity for key in frame.device_keys})
    if len(cards) < LEAST_MEMBERS:
        return []
    found: dict[str, HealthFinding] = {}
    each, turns = _cut(frame, 1)
    turn_s = each * step_s
    if turns >= CLOCK_RULE.readings:
        busy = _busy(_turns(_rows(frame, POWER, cards), each, turns))
        for behind in _by_clock(frame, clocks, cards, busy, turn_s, turns):
            entity = cards[behind.one.member]
            found[entity] = _finding(frame, entity, (behind,), turns, turn_s)
    each, turns = _cut(frame, TURN_READINGS)
    turn_s = each * step_s
    if turns < ACTIVITY_RULE.readings:
        return list(found.values())
    activity = {metric: _turns(_rows(frame, metric, cards), each, turns) for metric in ACTIVITY}
    for member, those in fallen_behind(activity).items():
        found.setdefault(cards[member], _finding(frame, cards[member], those, turns, turn_s))
    return list(found.values())


def _cut(frame: JobFrame, least: int) -> tuple[int, int]:
    """Readings in a turn, and turns."""
    each = max(least, round(TURN_S / frame.devices.step_s))
    return each, min(MOST_TURNS, frame.devices.n_points // each)


def too_little(evidence: Evidence, frame: JobFrame) -> str:
    """Why a job's cards cannot be compared."""
    gpus = len(frame.job.gpus)
    if gpus < LEAST_MEMBERS:
        return f"it has {gpus} GPUs, and among fewer than {LEAST_MEMBERS} there is no telling who is the odd one"
    if frame.job.shared:
        return "its GPUs have other users too"
    clocked = {one.key.entity for one in evidence.series(CLOCK)}
    by_clock = sum(str(gpu.card) in clocked for gpu in frame.job.gpus) >= LEAST_MEMBERS
    each, turns = _cut(frame, 1 if by_clock else TURN_READINGS)
    needed = CLOCK_RULE.readings if by_clock else ACTIVITY_RULE.readings
    if turns < needed:
        step_s = frame.devices.step_s
        return (
            f"{frame.devices.n_points} readings every {step_s:g} s are too few, "
            f"{needed * each} are needed ({needed * each * step_s:.0f} s)"
        )
    return ""


def fallen_behind(activity: Mapping[str, NDArray[np.float64]]) -> dict[int, tuple[Behind, ...]]:
    """Row of each card that fell behind its peers at one time by at least two metrics -> by which.

    Args:
        activity: metric of ``ACTIVITY`` -> (n_cards, n_turns) means over turns, NaN where missing.
    """
    busy = _busy(activity[POWER])
    by_card: dict[int, list[Behind]] = {}
    for metric, values in activity.items():
        for behind in _by_activity(metric, values, busy):
            by_card.setdefault(behind.one.member, []).append(behind)
    return {
        member: tuple(those)
        for member, those in by_card.items()
        if len(those) >= AGREE and np.ptp([one.one.since for one in those]) <= SAME_TIME_TURNS
    }


def _rows(frame: JobFrame, metric: str, cards: list[str]) -> NDArray[np.float64]:
    place = {key.entity: row for row, key in enumerate(frame.device_keys) if key.metric == metric}
    values = np.full((len(cards), frame.devices.n_points), np.nan)
    for row, card in enumerate(cards):
        if card in place:
            values[row] = frame.devices.values[place[card]]
    return values


def _turns(values: NDArray[np.float64], each: int, turns: int) -> NDArray[np.float64]:
    """Means over turns; NaN where less than half of a turn was read."""
    block = values[:, values.shape[1] - each * turns :].reshape(values.shape[0], turns, each)
    good = np.isfinite(block)
    count = good.sum(axis=2)
    mean = np.where(good, block, 0.0).sum(axis=2) / np.maximum(count, 1)
    return np.where(2 * count > each, mean, np.nan)


def _busy(power: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Turns in which the job works; all of them where power is not read."""
    if not np.isfinite(power).any():
        return np.ones(power.shape[1], dtype=np.bool_)
    middle = _median(power)
    return np.asarray(middle >= BUSY_WATTS_RATIO * np.nanmax(middle), dtype=np.bool_)


def _median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median over cards of each turn; NaN where no card was read."""
    out = np.full(values.shape[1], np.nan)
    some = np.isfinite(values).any(axis=0)
    if some.any():
        out[some] = np.nanmedian(values[:, some], axis=0)
    return out


def _by_clock(
    frame: JobFrame,
    clocks: dict[str, Series],
    cards: list[str],
    busy: NDArray[np.bool_],
    turn_s: float,
    turns: int,
) -> list[Behind]:
    mine = [clocks.get(card) or Series.empty(_key(card)) for card in cards]
    read = [one for one in mine if one.at_s.size > 1]
    if len(read) < LEAST_MEMBERS:
        return []
    # A clock that is read more rarely than a turn is held until its next reading.
    spacing_s = float(np.median([infer_step_s(one.at_s) for one in read]))
    grid_s = max(turn_s, spacing_s) if np.isfinite(spacing_s) else turn_s
    n = max(1, int(turns * turn_s / grid_s))
    values, _ = to_grid(mine, grid_s, frame.data_at_s, n)
    at = np.minimum(((n - 1 - np.arange(n)) * grid_s / turn_s).astype(np.int64), turns - 1)
    values = np.where(busy[turns - 1 - at][None, :], values, np.nan)
    return _behind(CLOCK, values, CLOCK_RULE)


def _by_activity(metric: str, values: NDArray[np.float64], busy: NDArray[np.bool_]) -> list[Behind]:
    values = np.where(busy[None, :], values, np.nan)
    middle = _median(values)
    # A share of a peer's work needs work: a pipe that is hardly used differs by chance.
    worth = 0.02 if metric.endswith("_ratio") else 1e6 if metric.endswith("_bytes_per_s") else 50.0
    values = np.where(middle[None, :] >= worth, values, np.nan)
    return [one for one in _behind(metric, np.maximum(values, 1e-3 * worth), ACTIVITY_RULE) if one.one.jumped]


def _behind(metric: str, values: NDArray[np.float64], rule: StragglerRule) -> list[Behind]:
    if np.isfinite(values).any(axis=1).sum() < LEAST_MEMBERS:
        return []
    recent = values[:, -16:]
    with np.errstate(divide="ignore"):
        found = find_stragglers(1.0 / values, rule)
    return [
        Behind(metric, one, float(np.nanmedian(recent[one.member])), float(np.nanmedian(recent)))
        for one in found
        if np.isfinite(recent[one.member]).any()
    ]


def _key(card: str) -> SeriesKey:
    return SeriesKey(CLOCK, card)


def _finding(frame: JobFrame, entity: str, those: tuple[Behind, ...], turns: int, turn_s: float) -> HealthFinding:
    first = those[0]
    at_s = frame.data_at_s - (turns - 1 - min(one.one.since for one in those)) * turn_s
    parts = " and ".join(
        f"{one.metric} is {100 * (1 - one.mine / one.peers):.0f} % below its peers' median ({one.mine:.4g} against {one.peers:.4g})"
        for one in those
    )
    how = "fell behind" if first.one.jumped else "has been so for as long as it is read"
    return HealthFinding(
        KIND,
        Thing.GPU,
        entity,
        Severity.WARNING,
        float(np.clip((1 - min(one.mine / one.peers for one in those)) / 0.3, 0.2, 1.0)),
        at_s,
        f"{parts}, over {len(frame.job.gpus)} GPUs of {frame.job.job}; it {how}",
        TO_DO,
        tuple(one.metric for one in those),
        node=node_of_gpu(entity),
        jobs=(frame.job.job,),
        numbers={f"{one.metric}_over_peers": one.mine / one.peers for one in those},
    )


SIGN = Sign(
    ((CLOCK,), ("gpu_power_watts", "gpu_sm_active_ratio"), ("gpu_tensor_active_ratio", "gpu_sm_active_ratio")),
    find,
    per_job=True,
    too_little=too_little,
)

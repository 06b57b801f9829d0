"""One member of a group that falls behind its peers: a rank, a worker or a card that holds the others up.

Each reading is compared with the group's median at the same moment, so what the group does together (a slow phase, a
checkpoint) cancels. A member is behind in one of two ways. Its cost over the peers' median has *jumped*, told by the
charts of ``models.step_jump``, to where it lies outside of its peers' spread: quick, and blind to differences that
were always there. Or it *stands* behind: its
rolling median lies far above the group's, in median absolute deviations over members (Rousseeuw and Croux, Journal of
the American Statistical Association 88, 1993); members that differ by their part in the work make the deviation large.

Pure and vectorised over members.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from models.step_jump import LEARN, JumpRule, find_jumps

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_MEMBERS = 4
"""Among fewer there is no telling who is the odd one."""
RECENT = 16
"""Newest readings that say where members stand after a change."""
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True)
class StragglerRule:
    """How a straggler is told from noise.

    Args:
        least_ratio: the smallest lasting excess over the peers' median that is worth telling.
        jump: of the charts on a member's cost over its peers'; more patient than a single series' because each
            member has charts of its own.
        jump_z_bar: deviations over members that the excess must span after a jump; the chart has told the rest.
        z_bar: deviations over members that a standing excess must span.
        smooth: readings of the rolling median of a standing excess.
        hold: readings in a row in which it must be behind.
        floor_ratio: the least deviation assumed, so that equal members do not make trifles count.
    """

    least_ratio: float = 0.08
    jump: JumpRule = field(default_factory=lambda: JumpRule(least_ratio=0.08, patience=22.0))
    jump_z_bar: float = 3.0
    z_bar: float = 6.0
    smooth: int = 15
    hold: int = 10
    floor_ratio: float = 0.005

    @property
    def readings(self) -> int:
        """How many readings are needed before anything can be said."""
        return min(self.smooth + self.hold - 1, LEARN + 1)


@dataclass(frozen=True, slots=True)
class Straggler:
    """A member that is behind at the last reading.

    Args:
        member: row.
        since: column at which it fell behind; 0 where it always was.
        called_at: column at which that could be told.
        ratio: how far above the peers' median it lasts: 0.15 is 15 %.
        jumped: it fell behind while it was watched; False: it stands behind, and nothing shows that it ever did not.
    """

    member: int
    since: int
    called_at: int
    ratio: float
    jumped: bool


def over_peers(cost: Floats) -> Floats:
    """Logarithm of each reading over the group's median at that moment, (n_members, n_readings).

    NaN where a reading is missing or fewer than four members were read. A median of the others alone would make the
    group's odd one look a little worse, and its peers better; with four members and more the difference is small.
    """
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column of NaN alone is a missing reading
        logs = np.where(cost > 0, np.log(cost), np.nan)
        seen = np.isfinite(logs).sum(axis=0)
        off: Floats = logs - np.where(seen >= LEAST_MEMBERS, np.nanmedian(logs, axis=0), np.nan)
    return off


def find_stragglers(cost: Floats, rule: StragglerRule | None = None) -> list[Straggler]:
    """Members that are behind at the end of the readings, worst first.

    Args:
        cost: (n_members, n_readings) positive, larger is slower, oldest first; NaN, zero and below are passed over.
    """
    rule = rule or StragglerRule()
    if cost.shape[0] < LEAST_MEMBERS or cost.shape[1] < rule.readings:
        return []
    off = over_peers(cost)
    found: dict[int, Straggler] = {}
    for jump in find_jumps(np.exp(off), rule.jump):
        found.pop(jump.series, None)  # the newest change rules: a member that recovered is no straggler
        now, apart = _level(off, jump.series, jump.at, rule)
        if jump.ratio >= 1.0 + rule.least_ratio and apart:
            found[jump.series] = Straggler(jump.series, jump.at, jump.called_at, float(np.expm1(now)), True)
    state, lag = _standing(off, rule)
    for member in np.flatnonzero(state[:, -1]) if state.size else ():
        if int(member) not in found:
            before = np.flatnonzero(~state[member])
            called = int(before[-1]) + 1
            found[int(member)] = Straggler(int(member), 0, called, float(np.expm1(lag[member, -1])), False)
    return sorted(found.values(), key=lambda one: -one.ratio)


def straggler_alarms(cost: Floats, rule: StragglerRule | None = None) -> Bools:
    """(n_members, n_readings): True where a member begins to be told as behind; for scoring."""
    rule = rule or StragglerRule()
    alarms = np.zeros(cost.shape, dtype=np.bool_)
    if cost.shape[0] < LEAST_MEMBERS or cost.shape[1] < rule.readings:
        return alarms
    off = over_peers(cost)
    for jump in find_jumps(np.exp(off), rule.jump):
        _, apart = _level(off[:, : jump.called_at + 1], jump.series, jump.at, rule)
        if jump.ratio >= 1.0 + rule.least_ratio and apart:
            alarms[jump.series, jump.called_at] = True
    state, _ = _standing(off, rule)
    if state.size:
        alarms[:, 1:] |= state[:, 1:] & ~state[:, :-1]
    return alarms


def _level(off: Floats, member: int, since: int, rule: StragglerRule) -> tuple[float, bool]:
    """A member's median log excess since a change, and whether it lies apart from what its peers did meanwhile."""
    recent = off[:, since:][:, -RECENT:]
    read: Bools = np.asarray(np.isfinite(recent).any(axis=1))
    if not read[member]:
        return float("nan"), False
    levels = np.full(off.shape[0], np.nan)
    levels[read] = np.nanmedian(recent[read], axis=1)
    others = np.delete(levels, member)
    others = others[np.isfinite(others)]
    if not others.size:
        return float("nan"), False
    middle = float(np.median(others))
    spread = max(_MAD_TO_SIGMA * float(np.median(np.abs(others - middle))), rule.floor_ratio)
    now = float(levels[member])
    return now, now >= np.log1p(rule.least_ratio) and now - middle >= rule.jump_z_bar * spread


def _standing(off: Floats, rule: StragglerRule) -> tuple[Bools, Floats]:
    """Where a member has stood behind for ``hold`` readings, and its lasting log excess; empty where too few came."""
    if off.shape[1] < rule.smooth + rule.hold - 1:
        return np.zeros((0, 0), dtype=np.bool_), np.empty((0, 0))
    lag = np.full(off.shape, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        views = np.lib.stride_tricks.sliding_window_view(off, rule.smooth, axis=1)
        enough = np.isfinite(views).sum(axis=2) > rule.smooth // 2
        lag[:, rule.smooth - 1 :] = np.where(enough, np.nanmedian(views, axis=2), np.nan)
        lag -= np.nanmedian(lag, axis=0)
        sigma = np.fmax(_MAD_TO_SIGMA * np.nanmedian(np.abs(lag), axis=0), rule.floor_ratio)
    with np.errstate(invalid="ignore"):
        over = (lag >= np.log1p(rule.least_ratio)) & (lag >= rule.z_bar * sigma)
    held = over.copy()
    for back in range(1, rule.hold):
        held[:, back:] &= over[:, :-back]
        held[:, :back] = False
    return held, lag

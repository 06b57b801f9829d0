"""What candidates said at earlier cutoffs, remembered from round to round.

A service asks again every few seconds, and the new context is the old one with some points more. What every candidate
said then is a past forecast now, so that a round asks them once, at its own cutoff, instead of at every past origin.

A remembered answer is found by the content that led to it: the newest columns before its cutoff stand for all of the
history. Candidates, rows, bounds, step or newest values that changed give another digest; a change further back does
not. Columns that are all alike tell no history from another (every idle job has them, for as long as it idles): those
are told apart by the newest columns that moved and by how long ago that was. Where none did there is no other history.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.frame import Context
from models.base import Forecaster
from models.quantiles import Floats

MOST_BYTES = 128 * 2**20
"""Answers kept over all jobs, oldest use first out: some 300 jobs of 20 rows; the others are tried anew each round."""
COLUMNS_ALIKE = 64
"""Newest columns before a cutoff that must be the same for an answer to count as one to the same question."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Answer = NDArray[np.float32]
Key = tuple[bytes, int]


class Rounds:
    """Answers of earlier rounds, held to a number of bytes.

    Args:
        most_bytes: kept at most.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._kept: OrderedDict[Key, Answer] = OrderedDict()

    def question(self, candidates: Sequence[Forecaster], context: Context, horizon: int) -> Question:
        """What identifies answers to this question at any column of the context."""
        return Question(candidates, context, horizon)

    def recall(self, question: Question, column: int) -> Answer | None:
        """(k, n, n_leads, n_levels) what was said at this cutoff; None when nobody asked then."""
        key = question.at(column)
        if key is None or key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def known_columns(self, question: Question) -> list[int]:
        """Columns of the context at which an answer is remembered, ascending."""
        keys = ((column, question.at(column)) for column in range(COLUMNS_ALIKE, question.n_points + 1))
        return [column for column, key in keys if key in self._kept]

    def keep(self, question: Question, column: int, answer: Floats) -> None:
        """Remember what was said at this cutoff; the least used answers make room."""
        key = question.at(column)
        size = 4 * answer.size
        if key is None or size > self.most_bytes:
            return
        if key in self._kept:
            self.bytes -= self._kept.pop(key).nbytes
        self._kept[key] = answer.astype(np.float32)
        self.bytes += size
        while self.bytes > self.most_bytes:
            self.bytes -= self._kept.popitem(last=False)[1].nbytes


class Question:
    """Candidates, rows, horizon, and a digest of the content before each column.

    Args:
        candidates: who is asked.
        context: what is known.
        horizon: steps ahead.
    """

    def __init__(self, candidates: Sequence[Forecaster], context: Context, horizon: int) -> None:
        self.n_points = context.n_points
        said = [(candidate.name, candidate.version) for candidate in candidates]
        whole = hashlib.blake2b(repr((said, context.metric, context.step_s, horizon)).encode(), digest_size=16)
        for part in (context.group, context.low, context.high):
            whole.update(np.ascontiguousarray(part).tobytes())
        self._who = whole.digest()
        self._digest = column_digests(context.values, COLUMNS_ALIKE).tolist()

    def at(self, column: int) -> Key | None:
        """The key of an answer whose cutoff is before this column; None where too little lies before it."""
        place = column - COLUMNS_ALIKE
        return (self._who, self._digest[place]) if 0 <= place < len(self._digest) else None


def column_digests(values: Floats, width: int) -> NDArray[np.uint64]:
    """(t - width + 1,) a number for every ``width`` consecutive columns of (n, t), equal where all values are.

    Columns that are all alike are numbered by the newest earlier ones that are not, if there are any, and by how far they
    are from those.
    """
    n, t = values.shape
    if t < width or not n:
        return np.empty(0, np.uint64)
    # One pattern for every NaN, and for zeros of either sign.
    bits = np.ascontiguousarray(np.where(np.isnan(values), np.nan, values) + 0.0).view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(29))) * _MULTIPLIER
    bits ^= bits >> np.uint64(32)
    column = np.zeros(t, np.uint64)
    for row in bits:  # a polynomial over the rows, so that their order counts
        column = column * _MULTIPLIER + row
    column ^= column >> np.uint64(31)
    powers = np.cumprod(np.full(width, _MULTIPLIER | np.uint64(1)))
    windows = np.lib.stride_tricks.sliding_window_view(column, width)
    result: NDArray[np.uint64] = (windows * powers).sum(axis=1, dtype=np.uint64)
    place = np.arange(result.size)
    moved = np.maximum.accumulate(np.where((windows == windows[:, :1]).all(axis=1), -1, place))
    since_moved = result[moved] + (place - moved).astype(np.uint64) * _MULTIPLIER
    return np.where(moved < 0, result, since_moved)

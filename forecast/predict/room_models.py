"""The two powers that forecasting borrows from the models room, as a seam that tests can fill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from features.frame import Context


class PathServer(Protocol):
    """Gives the path that survives the skill gate."""

    def predict_served(self, context: Context, horizon: int) -> Any:
        """One answer for the whole context, with values (n_series, horizon, n_levels)."""
        ...


@dataclass(frozen=True, slots=True)
class RoomModels:
    """What forecasting calls.

    Args:
        detect_periods: one finding per group of a context.
        served: the gated forecaster.
    """

    detect_periods: Callable[[Context], Sequence[Any]]
    served: PathServer


def default_models() -> RoomModels:
    """The built-in ones; imported on first use because the libraries behind them are heavy.

    Whoever asks round after round keeps what this gives: it remembers what was said, and a round then costs a third.
    """
    from models.gate import Served
    from models.period import detect_periods
    from models.rounds import Rounds

    return RoomModels(detect_periods=detect_periods, served=Served(rounds=Rounds()))

"""The law of data age: how old a frame is, and when it is too old to speak from."""

from __future__ import annotations

from forecast.predict.types import Absence, Why


def age_of(received_s: float, now_s: float) -> float:
    """Seconds since the newest sample arrived, both by this machine's clock; never negative."""
    return max(0.0, now_s - received_s)


def stale(age_s: float, max_age_s: float) -> Absence | None:
    """The absence that old data deserves, or None while the data is fresh."""
    if age_s <= max_age_s:
        return None
    return Absence(
        Why.STALE,
        f"the newest sample arrived {age_s:.0f} s ago; nothing is forecast from data older than {max_age_s:.0f} s",
    )

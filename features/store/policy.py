"""How long samples are kept, and when only their summaries are. Pure: days in, days out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class StorePolicy:
    """What happens to cold samples as they grow old; the default keeps everything as it came.

    Args:
        keep_days: days (UTC) that ended longer ago than this are deleted; None keeps all.
        downsample_after_days: days that ended longer ago than this keep one summary per step; None for never.
        downsample_to_s: the step, seconds.
    """

    keep_days: float | None = None
    downsample_after_days: float | None = None
    downsample_to_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("keep_days", "downsample_after_days"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0, or None, not {value!r}")
        if not 1.0 <= self.downsample_to_s <= DAY_S:
            raise ValueError(f"downsample_to_s must be 1 to {DAY_S:g} s, not {self.downsample_to_s!r}")


@dataclass(frozen=True, slots=True)
class Ageing:
    """Which days a policy touches, each a number of days since 1970, sorted."""

    drop: tuple[int, ...]
    downsample: tuple[int, ...]


def ageing(policy: StorePolicy, days: Iterable[int], now_s: float) -> Ageing:
    """What the policy asks of these days at ``now_s``. A day that is not over is never touched.

    Args:
        policy: how old what may become.
        days: the days that hold cold samples, as numbers of days since 1970, UTC.
        now_s: Unix seconds.
    """
    known = sorted(set(days))
    drop = tuple(day for day in known if _over_for(day, policy.keep_days, now_s))
    gone = set(drop)
    small = tuple(day for day in known if day not in gone and _over_for(day, policy.downsample_after_days, now_s))
    return Ageing(drop, small)


def _over_for(day: int, limit_days: float | None, now_s: float) -> bool:
    """Whether the day ended more than ``limit_days`` ago."""
    return limit_days is not None and now_s - (day + 1) * DAY_S > limit_days * DAY_S

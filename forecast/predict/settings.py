"""What the forecasting room may be told, with the reason for each default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PredictSettings:
    """How far to look, and when to decline.

    Args:
        horizon_s: how far the path of a job's metric looks.
        max_steps: at most this many steps, whatever the horizon; 240 steps of 0.1 s are 24 s.
        memory_horizon_s: how far the chance of running out of GPU memory looks.
        max_age_s: data older than this gives no forecast.
        min_points: fewer points than this give no forecast.
        threshold_ratio: link use that counts as congested.
        link_horizon_s: how far the probability of congestion looks.
        max_link_steps: at most this many steps of a link, whatever its horizon.
        max_link_points: only this many newest points of a link count.
        attribution_floor_ratio: links whose greatest use stays below this are not modelled one by one.
        max_modelled_links: at most this many links, busiest first, get a model of their own.
        max_paths: at most this many links, busiest first, get a quantile path of their use.
    """

    horizon_s: float = 120.0
    max_steps: int = 240
    memory_horizon_s: float = 600.0
    max_age_s: float = 30.0
    min_points: int = 8
    threshold_ratio: float = 0.9
    link_horizon_s: float = 10.0
    max_link_steps: int = 120
    max_link_points: int = 240
    attribution_floor_ratio: float = 0.3
    max_modelled_links: int = 512
    max_paths: int = 64

    def steps(self, step_s: float) -> int:
        """Steps of a job's path at this spacing."""
        return max(1, min(self.max_steps, round(self.horizon_s / step_s)))

    def link_steps(self, step_s: float) -> int:
        """Steps of a link's outlook at this spacing."""
        return max(1, min(self.max_link_steps, round(self.link_horizon_s / step_s)))

"""What an alias can show is bounded; what swings further is seen itself."""

from __future__ import annotations

import numpy as np
import pytest

from features.frame import Context
from models.period import detect_periods
from models.period_alias import COUNTED_MARGIN, alias_share, proof, swing_over_bound


def bursts(period: float, share: float, points: int, fine: int = 200, gap: float = 0.0):
    """Means over one sample's time, or over the last ``1 - gap`` of it, of something that is on for a share of its period."""
    at = np.arange(points * fine) / fine
    on = (np.mod(at, period) < share * period).astype(float).reshape(points, fine)
    return on[:, int(gap * fine) :].mean(axis=1)


@pytest.mark.parametrize("true", [0.21, 0.31, 0.47, 0.52, 0.83, 0.9, 1.1, 1.2, 1.9])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.8])
def test_no_alias_of_a_counter_passes_the_bound(true, share):
    """At the period with which it seems to repeat, and at its multiples."""
    row = bursts(true, share, 256)[None, :]
    apart = abs(1 / true - round(1 / true))
    assert max(swing_over_bound(row, m / apart, np.ones(1))[0] for m in (1, 2, 3) if m / apart >= 4.0) < COUNTED_MARGIN


@pytest.mark.parametrize("period", [4.3, 7.7, 15.0, 40.0])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_a_repeat_that_the_samples_see_passes_it(period, share):
    assert swing_over_bound(bursts(period, share, 256)[None, :], period, np.ones(1))[0] > 1.3


def test_a_mean_over_a_whole_period_shows_nothing_and_over_none_everything():
    assert alias_share(0.1, np.array([1e-9]))[0] == pytest.approx(1.0)
    assert alias_share(1e-6, np.array([1.0]))[0] == pytest.approx(0.0, abs=1e-5)


def test_counters_decide_over_gauges():
    """A gauge that is a mean over less than a sample shows an alias in full; the port beside it does not."""
    gauge, port = bursts(0.9, 0.3, 256, gap=0.95), bursts(0.9, 0.3, 256)
    rows = np.stack([gauge, port])
    assert proof(rows[:1], 10.0, ["gpu_nvlink_bytes_per_s"], 1.0) > 1.0
    assert proof(rows, 10.0, ["gpu_nvlink_bytes_per_s", "port_tx_bytes_per_s"], 1.0) < 1.0


@pytest.mark.parametrize(("true", "status"), [(0.9, "too_coarse"), (9.0, "found")])
def test_a_job_on_the_network_is_told_from_its_alias(true, status):
    """Both seem to repeat every nine samples."""
    random = np.random.default_rng(0)
    gauge = 0.8 * bursts(true, 0.6, 256, gap=0.95)
    port = 1e10 * bursts(true, 0.3, 256)
    rows = np.stack([gauge, gauge, port]) * (1 + 0.02 * random.standard_normal((3, 256)))
    names = ("gpu_sm_active_ratio", "gpu_sm_active_ratio", "port_tx_bytes_per_s")
    high = np.array([1.0, 1.0, np.inf])
    context = Context(np.minimum(rows, high[:, None]), 1.0, names, np.zeros(3, np.int32), np.zeros(3), high)
    found = detect_periods(context)[0]
    assert found.status == status
    if status == "too_coarse":
        assert "alias" in found.reason

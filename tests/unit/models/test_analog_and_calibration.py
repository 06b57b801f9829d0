"""Look-alike moments and conformal calibration."""

from __future__ import annotations

import numpy as np
import pytest

from models.analog import Analog, job_distance
from models.calibrated import Calibrated
from models.checks import context_of
from models.conformal import calibrate, lead_buckets, stretch_factors
from models.metrics import HIGH80, HIGH95, LOW80, LOW95, inside, quantile_loss
from models.persistence import Persistence
from models.quantiles import LEVEL_ARRAY, MEDIAN
from models.regime import quiet_moments
from models.rolling import past_origins, past_truth


def _square(points: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    edges = np.cumsum(20 + random.integers(-1, 2, size=points // 10))
    phase = np.searchsorted(edges, np.arange(points), side="right")
    start = np.concatenate([[0], edges])[phase]
    busy = (np.arange(points) - start) < 13
    return np.where(busy, 0.9, 0.1) + 0.02 * random.normal(size=(4, points))


def test_a_jittered_rhythm_is_followed() -> None:
    """On iterations of varying length look-alikes lose less than half of what persistence loses."""
    values = np.clip(_square(560), 0, 1)
    context, truth = context_of(values[:, :512]), values[:, 512:]
    mine = quantile_loss(Analog().predict(context, 48), truth).sum()
    naive = quantile_loss(Persistence().predict(context, 48), truth).sum()
    assert mine < 0.5 * naive


def test_distance_is_zero_one_period_ago_for_an_exact_rhythm() -> None:
    """An exact repetition is at distance zero; half a period away is not."""
    values = np.tile(np.arange(10.0), 12)[None]
    distance = job_distance(values, np.zeros(1, np.int32), 12)[0]
    assert distance[9] == pytest.approx(0.0, abs=1e-9)
    assert distance[4] > 0.5


def test_rows_of_another_job_do_not_matter() -> None:
    """Adding an unrelated job changes nothing about the first one's answer."""
    values = np.clip(_square(300), 0, 1)
    alone = Analog().predict(context_of(values), 12)
    both = context_of(np.vstack([values, np.random.default_rng(9).uniform(size=(3, 300))]))
    both.group[4:] = 1
    np.testing.assert_allclose(Analog().predict(both, 12)[:4], alone)


def _normal_forecasts(width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Standard normal truths, forecast with a wrong width: (cube, past, truth)."""
    random = np.random.default_rng(7)
    from statistics import NormalDist

    shape = np.array([NormalDist().inv_cdf(level) for level in LEVEL_ARRAY]) * width
    past = np.tile(shape, (8, 12, 24, 1))
    return past[0].copy(), past, random.normal(size=(8, 12, 24))


@pytest.mark.parametrize("width", [0.4, 1.0, 1.8])
def test_calibration_brings_coverage_near_the_nominal(width: float) -> None:
    """Too narrow forecasts end near 80 % and 95 %, right ones stay, too wide ones come down somewhat."""
    cube, past, truth = _normal_forecasts(width)
    rows = np.zeros(12, np.intp)
    fixed = calibrate(cube, past, truth, rows, lead_buckets(24))
    fresh = np.random.default_rng(8).normal(size=(200, 12, 24))
    eighty = np.mean([np.nanmean(inside(fixed, t, LOW80, HIGH80)) for t in fresh])
    ninety_five = np.mean([np.nanmean(inside(fixed, t, LOW95, HIGH95)) for t in fresh])
    raw = np.mean([np.nanmean(inside(cube, t, LOW80, HIGH80)) for t in fresh])
    if width > 1:
        # Narrowing is held back: an interval that is too wide does less harm than one that is too narrow.
        assert 0.8 < eighty < raw
    else:
        assert abs(eighty - 0.8) < max(0.04, 0.5 * abs(raw - 0.8))
    assert 0.88 < ninety_five < 0.995


def test_scores_that_are_not_known_yet_are_not_used() -> None:
    """Truths beyond the cutoff are NaN, and changing what is NaN cannot change the calibration."""
    values = np.random.default_rng(3).uniform(size=(2, 50))
    truth = past_truth(values, [48, 40], 12)
    assert np.isnan(truth[0, :, 2:]).all()
    assert np.isnan(truth[1, :, 10:]).all()
    np.testing.assert_array_equal(truth[1, :, :10], values[:, 40:])


def test_no_evidence_no_move() -> None:
    """Without any known truth the forecast stays as it is."""
    cube, past, truth = _normal_forecasts(1.0)
    nothing = np.full_like(truth, np.nan)
    rows = np.zeros(12, np.intp)
    np.testing.assert_allclose(calibrate(cube, past, nothing, rows, lead_buckets(24)), cube)
    np.testing.assert_array_equal(stretch_factors(past, nothing, rows), np.ones((1, 2)))


def test_lead_buckets_are_consecutive_and_cover_short_horizons() -> None:
    """Buckets start at 0, never skip a number, and never fall with the lead."""
    for horizon in (1, 2, 3, 5, 12, 48, 60):
        bucket = lead_buckets(horizon)
        assert bucket[0] == 0
        assert set(np.diff(bucket)) <= {0, 1}


def test_past_origins_leave_room_behind_and_ahead() -> None:
    """Origins lie before the cutoff, newest first, in the later part of the context; a tiny context has none."""
    columns = past_origins(200, 12, 8)
    assert columns == sorted(columns, reverse=True)
    assert 120 <= min(columns) <= max(columns) < 200
    assert past_origins(5, 12, 8) == []


def test_calibrated_keeps_the_median() -> None:
    """Calibration changes the spread, not the median."""
    context = context_of(np.clip(_square(300), 0, 1))
    inner = Analog()
    plain, calibrated = inner.predict(context, 12), Calibrated(inner).predict(context, 12)
    np.testing.assert_allclose(plain[..., MEDIAN], calibrated[..., MEDIAN])


def test_a_short_context_has_an_origin_whose_horizon_was_seen() -> None:
    """A horizon of half the context leaves an origin that was followed by nine tenths of it at least."""
    for points in (40, 41, 80, 120, 160):
        horizon = points // 2
        assert points - min(past_origins(points, horizon, 6)) >= 0.9 * horizon


def test_origins_of_a_long_context_are_spread() -> None:
    """The origins reach back over the later two fifths; for rows of many owners only the newest points are asked."""
    columns, newest = past_origins(512, 12, 6), past_origins(512, 12, 6, spread=False)
    assert len(columns) == len(newest) == 6
    assert max(columns) - min(columns) > 150
    assert min(newest) == 512 - 6 * 4


def test_a_class_with_little_evidence_borrows_from_its_job() -> None:
    """One row per metric and a few origins: a job whose intervals were all too narrow gets wider ones in every class."""
    random = np.random.default_rng(7)
    normal = np.quantile(np.random.default_rng(8).normal(size=20_000), LEVEL_ARRAY)
    past = np.broadcast_to(0.5 * normal, (3, 16, 24, len(LEVEL_ARRAY))).copy()
    truth = random.normal(size=(3, 16, 24))
    classes = np.arange(16)
    alone = stretch_factors(past, truth, classes, np.arange(16))
    shared = stretch_factors(past, truth, classes, np.zeros(16, np.intp))
    assert (shared > 1.3).all()
    assert alone.mean() < shared.mean()


def test_another_jobs_errors_do_not_spread() -> None:
    """What one job missed widens no interval of the other."""
    random = np.random.default_rng(9)
    normal = np.quantile(np.random.default_rng(8).normal(size=20_000), LEVEL_ARRAY)
    past = np.broadcast_to(normal, (4, 16, 24, len(LEVEL_ARRAY))).copy()
    truth = random.normal(size=(4, 16, 24))
    owner = np.repeat([0, 1], 8)
    before = stretch_factors(past, truth, np.arange(16), owner)
    truth[:, :8] *= 5.0
    after = stretch_factors(past, truth, np.arange(16), owner)
    np.testing.assert_array_equal(before[8:], after[8:])
    assert (after[:8] > before[:8]).all()


def test_one_unusual_moment_does_not_set_the_spread_of_a_job() -> None:
    """One past origin in six that all rows missed by far stretches less than if every origin were missed so."""
    random = np.random.default_rng(10)
    normal = np.quantile(np.random.default_rng(8).normal(size=20_000), LEVEL_ARRAY)
    past = np.broadcast_to(normal, (6, 8, 24, len(LEVEL_ARRAY))).copy()
    truth = random.normal(size=(6, 8, 24))
    truth[0] *= 20.0
    once = stretch_factors(past, truth, np.arange(8))
    truth[1:] *= 20.0
    always = stretch_factors(past, truth, np.arange(8))
    assert (once < 2.0).all()
    assert (always > 2.5).all()


def test_a_row_too_short_to_be_quiet_is_not() -> None:
    """Fewer points than quiet asks for are no quiet moment, and no error."""
    for points in range(8):
        assert not quiet_moments(np.zeros((2, points))).any()

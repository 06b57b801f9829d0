"""The batched autocorrelation says what the textbook sum says, with gaps and without."""

from __future__ import annotations

import numpy as np
import pytest

from models.period_acf import acf_batch, fast_length, upsample_acf


def _slow_acf(row: np.ndarray, max_lag: int) -> np.ndarray:
    known = np.isfinite(row)
    t = np.arange(row.size)[known]
    line = np.polyfit(t, row[known], 1)
    y = np.where(known, row - np.polyval(line, np.arange(row.size)), 0.0)
    out = []
    for lag in range(max_lag + 1):
        pairs = np.sum(known[: row.size - lag] & known[lag:])
        out.append(np.sum(y[: row.size - lag] * y[lag:]) / pairs if pairs else 0.0)
    return np.array(out) / out[0]


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_equals_the_plain_sum(gaps):
    """Every lag is the mean product of detrended pairs that are both present, over the variance."""
    rng = np.random.default_rng(1)
    values = np.sin(np.arange(200) / 3.0)[None] + 0.3 * rng.standard_normal((3, 200)) + 1e6
    values[rng.random(values.shape) < gaps] = np.nan
    found = acf_batch(values, 60)
    for row, acf in zip(values, found, strict=True):
        assert acf == pytest.approx(_slow_acf(row, 60), abs=2e-3)


def test_constant_and_empty_rows_are_nan():
    """A row that says nothing is NaN, and spoils no other row."""
    values = np.vstack([np.full(50, 7.0), np.full(50, np.nan), np.arange(50) % 5.0])
    found = acf_batch(values, 20)
    assert np.isnan(found[:2]).all()
    assert found[2, 5] == pytest.approx(1.0, abs=0.05)


def test_a_trend_is_no_correlation():
    """White noise on a steep line correlates as white noise does."""
    noise = np.random.default_rng(2).standard_normal((1, 4000))
    found = acf_batch(noise + 5.0 * np.arange(4000), 10)
    assert np.abs(found[0, 1:]).max() < 0.08


def test_chunks_do_not_show():
    """Rows are answered the same whatever else is in the batch."""
    values = np.random.default_rng(3).standard_normal((1030, 64))
    assert acf_batch(values, 30)[1025] == pytest.approx(acf_batch(values[1025:1026], 30)[0], abs=1e-5)


def test_upsampling_finds_the_peak_between_samples():
    """A period of 7.3 points peaks at lag 7.3."""
    values = np.cos(2 * np.pi * np.arange(300) / 7.3)[None]
    fine = upsample_acf(acf_batch(values, 60), 10)[0]
    assert (50 + np.argmax(fine[50:100])) / 10 == pytest.approx(7.3, abs=0.11)


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (7, 8), (513, 540), (832, 864), (1024, 1024)])
def test_fast_length(n, expected):
    """Transform lengths have no factor above 5 and are not shorter than asked."""
    assert fast_length(n) >= n
    assert fast_length(n) == expected

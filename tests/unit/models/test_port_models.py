"""Ports that move together: groups, moments that looked alike, means, events and combined chances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from features.frame import Context
from models.base import LEVELS
from models.port_events import PortEvents
from models.port_features import HOT, MOMENTS_COLUMNS, PortPast, event_features, port_view
from models.port_groups import traffic_groups
from models.port_means import asked_means, gated_means, true_means
from models.port_moments import PortMoments, shifted
from models.port_superposed import combined_chance
from models.seasonal_naive import SeasonalNaive
from telemetry.errors import IncompatibleModel, NotFitted

MIDDLE = LEVELS.index(0.5)


def jobs(seed: int, points: int = 400, ports: int = 6) -> np.ndarray:
    """Two jobs with periods of 8.3 and 21.7 points, ``ports`` ports each, every port with noise of its own."""
    random = np.random.default_rng(seed)
    at = np.arange(points)
    rows = []
    for period, level in ((8.3, 10.0), (21.7, 4.0)):
        wave = np.where((at % period) / period < 0.4, level, 0.1)
        rows += [wave * (1 + 0.03 * random.normal(size=points)) for _ in range(ports)]
    return np.maximum(np.stack(rows), 0.0) * 1e9


def context(values: np.ndarray) -> Context:
    n = values.shape[0]
    zero = np.zeros(n)
    return Context(values, 5.0, ("port_tx_bytes_per_s",) * n, np.arange(n, dtype=np.int32), zero, zero + np.inf)


def test_ports_of_a_job_are_one_group_and_a_still_port_stands_alone() -> None:
    """Groups follow traffic, also with gaps; a port that never moves joins nobody."""
    values = np.vstack([jobs(1), np.full((1, 400), 3.0)])
    values[0, 50:60] = np.nan
    group = traffic_groups(values)
    assert len(set(group[:6])) == 1
    assert len(set(group[6:12])) == 1
    assert len(set(group)) == 3


def test_moments_foresee_a_rhythm_of_fractional_points() -> None:
    """One point to fifty ahead, the error is a small part of what the last value and a whole-point season leave."""
    values = jobs(2)
    past, truth = context(values[:, :340]), values[:, 340:390]
    said = PortMoments().predict(past, 50)[:, :, MIDDLE]
    season = SeasonalNaive(8 * 5.0).predict(past, 50)[:, :, MIDDLE]
    error, naive = (np.abs(x - truth).sum() / truth.sum() for x in (said, season))
    assert error < 0.25
    assert error < 0.5 * naive


def test_a_late_reading_is_given_back_in_the_next_bin() -> None:
    """Bytes shifted over a bin's edge, on a port whose peers were read in time, are taken from the next forecast."""
    random = np.random.default_rng(3)
    level = 5 + np.sin(np.arange(300) / 3.0)
    edge = random.normal(0, 0.3, (8, 301))
    values = level + edge[:, 1:] - edge[:, :-1]
    given = shifted(values)
    assert np.corrcoef(given, edge[:, -1])[0, 1] > 0.9


def test_unlike_ports_give_nothing_back() -> None:
    """Independent noise is no reading error."""
    assert not shifted(np.random.default_rng(4).random((8, 200))).any()


def test_means_pass_the_gate_only_where_they_beat_the_last_value() -> None:
    """A rhythm's mean is asked of the model; a level that wanders keeps its last value where that was better."""
    values = jobs(5)
    spans = (6, 12)
    past = context(values[:, :340])
    truth = true_means(values[:, 340:], spans)
    served = gated_means(PortMoments(), past, spans)
    assert np.abs(served - truth).sum() < 0.5 * np.abs(values[:, 339:340] - truth).sum()

    class Wrong:
        def predict_means(self, context: Context, spans: tuple[int, ...]) -> np.ndarray:
            return np.full((context.n_series, len(spans)), 1e15)

    np.testing.assert_array_equal(gated_means(Wrong(), past, spans), np.repeat(values[:, 339:340], 2, axis=1))
    assert asked_means(SeasonalNaive(60.0), past, spans).shape == (12, 2)


def test_a_mean_of_mostly_gaps_is_not_scored() -> None:
    """Under half of the points known: NaN."""
    values = np.ones((1, 6))
    values[0, :4] = np.nan
    assert np.isnan(true_means(values, (6,))).all()


def test_event_features_do_not_look_ahead_and_moments_know_the_burst() -> None:
    """The share of look-alike moments that were followed by a burst is high before one and low elsewhere."""
    values = jobs(6)
    peak = values / 12e9
    whole = PortPast(values, peak, np.zeros(12, np.int32))
    event = (peak >= HOT).astype(float)
    found = []
    for origin in range(300, 390):
        view = port_view(whole.until(origin + 1), (1,))
        _, more = event_features(view, event[:, : origin + 1], (1,), event.mean(axis=1), np.ones(12))
        found.append((more[:6, MOMENTS_COLUMNS].mean(axis=1), event[:6, origin + 1]))
    said, came = (np.concatenate(part) for part in zip(*found, strict=True))
    assert came.any()
    assert said[came == 1].mean() > said[came == 0].mean() + 0.5


def test_events_are_saved_and_read_back_and_need_events(tmp_path: Path) -> None:
    """The same chances after reading; a changed file is refused; too few events are refused with the count."""
    random = np.random.default_rng(7)
    x = random.random((400, 4))
    model = PortEvents(trees=20)
    with pytest.raises(NotFitted, match="19 events"):
        model.fit(x, np.arange(400) < 19)
    with pytest.raises(NotFitted):
        model.predict(x)
    model.fit(x, x[:, 0] > 0.6)
    model.save(tmp_path)
    np.testing.assert_allclose(PortEvents.load(tmp_path).predict(x), model.predict(x))
    file = tmp_path / "0-booster.txt"
    file.write_text(file.read_text() + " ")
    with pytest.raises(IncompatibleModel):
        PortEvents.load(tmp_path)


def test_jobs_overload_a_link_together_only_when_their_bursts_meet() -> None:
    """Two rhythms on one link: the chance is high where the true sum passes the capacity soon, low where not."""
    at = np.arange(600)
    rows = np.stack([np.where((at % 20) < 8, 10.0, 1.0), np.where((at % 27) < 8, 10.0, 1.0)])
    over = rows.sum(axis=0) > 15.0
    said, came = [], []
    for origin in range(400, 580, 5):
        chance = combined_chance(rows[:, :origin], np.zeros(2, np.intp), np.array([15.0]), 5)
        said.append(float(chance[0]))
        came.append(bool(over[origin : origin + 5].any()))
    assert 0 < sum(came) < len(came)
    assert np.mean(np.array(said)[came]) > np.mean(np.array(said)[~np.array(came)]) + 0.6

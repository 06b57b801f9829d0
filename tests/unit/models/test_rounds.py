"""A round asks candidates once; what they said in earlier rounds is remembered by its content."""

from __future__ import annotations

import numpy as np
import pytest

from features.frame import Context
from models.base import LEVELS
from models.checks import context_of
from models.gate import Served, default_candidates
from models.leads import ForecastsLeads, at_leads, at_past, tried_leads
from models.looks import Looks
from models.metrics import quantile_loss
from models.persistence import Persistence
from models.phase import PhaseForecaster
from models.rounds import COLUMNS_ALIKE, Rounds, column_digests

HORIZON = 24


class _Counted(Persistence):
    """Persistence that says how often it was asked."""

    name = "counted"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def predict_leads(self, context: Context, horizon: int, leads: np.ndarray) -> np.ndarray:
        self.asked.append(context.n_points)
        return super().predict_leads(context, horizon, leads)


def _job(points: int, seed: int = 3) -> np.ndarray:
    random = np.random.default_rng(seed)
    wave = 0.5 + 0.4 * np.sign(np.sin(2 * np.pi * np.arange(points) / 19.0))
    return np.clip(wave + 0.02 * random.normal(size=(4, points)), 0, 1)


def _round(values: np.ndarray, cutoff: int) -> Context:
    return context_of(values[:, cutoff - 300 : cutoff])


def test_a_later_round_asks_each_candidate_once() -> None:
    """The first round asks at every past origin; rounds after it only at their own cutoff."""
    values, counted = _job(600), _Counted()
    served = Served([counted], rounds=Rounds())
    served.predict(_round(values, 400), HORIZON)
    first = len(counted.asked)
    for cutoff in range(410, 500, 10):
        served.predict(_round(values, cutoff), HORIZON)
    counted.asked.clear()
    served.predict(_round(values, 500), HORIZON)
    assert first == 7
    assert len(counted.asked) <= 2


def test_the_first_round_says_what_a_gate_without_memory_says() -> None:
    """Nothing remembered, nothing changed."""
    context = _round(_job(400), 400)
    np.testing.assert_array_equal(Served(rounds=Rounds()).predict(context, HORIZON), Served().predict(context, HORIZON))


def test_remembered_rounds_forecast_as_well() -> None:
    """Over many rounds the loss is within 5 % of that of a gate that tries everything anew."""
    values, remembering = _job(900), Served(rounds=Rounds())
    mine = anew = 0.0
    for cutoff in range(400, 860, 12):
        context, truth = _round(values, cutoff), values[:, cutoff : cutoff + HORIZON]
        mine += quantile_loss(remembering.predict(context, HORIZON), truth).sum()
        anew += quantile_loss(Served().predict(context, HORIZON), truth).sum()
    assert mine <= 1.05 * anew


def test_rewritten_history_is_another_question() -> None:
    """An answer counts for the very values, rows, bounds, candidates and horizon that it was given for."""
    values, rounds = _job(400), Rounds()
    context, some = _round(values, 400), [Persistence()]
    said = np.zeros((1, 4, 3, len(LEVELS)))
    rounds.keep(rounds.question(some, context, HORIZON), 300, said)
    assert rounds.recall(rounds.question(some, context, HORIZON), 300) is not None
    late = _round(values, 390)
    assert rounds.known_columns(rounds.question(some, late, HORIZON)) == []
    assert rounds.recall(rounds.question(some, context, HORIZON + 1), 300) is None
    assert rounds.recall(rounds.question([*some, *some], context, HORIZON), 300) is None
    assert rounds.recall(rounds.question(some, context.rows(np.array([0, 1, 2])), HORIZON), 300) is None
    other = context.values.copy()
    other[2, 290] += 1e-9
    changed = Context(other, context.step_s, context.metric, context.group, context.low, context.high)
    assert rounds.recall(rounds.question(some, changed, HORIZON), 300) is None


def test_an_answer_is_found_again_after_the_window_has_moved() -> None:
    """The same cutoff lies at another column of a later context."""
    values, rounds = _job(400), Rounds()
    rounds.keep(rounds.question([], _round(values, 360), HORIZON), 300, np.zeros((1, 4, 3, len(LEVELS))))
    assert rounds.known_columns(rounds.question([], _round(values, 400), HORIZON)) == [260]


@pytest.mark.parametrize("idle", [0.0, np.nan])
def test_idle_jobs_are_not_taken_for_one_another(idle: float) -> None:
    """Two jobs that have idled for longer than is compared look the same there; neither is answered for the other."""
    first, second = _job(300, seed=3), _job(300, seed=4)
    first[:, 200:], second[:, 200:] = idle, idle
    rounds, looks = Rounds(), Looks()
    rounds.keep(rounds.question([], context_of(first), HORIZON), 290, np.zeros((1, 4, 3, len(LEVELS))))
    assert rounds.known_columns(rounds.question([], context_of(second), HORIZON)) == []
    assert looks(context_of(first)) is not looks(context_of(second))
    assert rounds.known_columns(rounds.question([], context_of(first[:, 10:]), HORIZON)) == [280]
    assert rounds.known_columns(rounds.question([], context_of(first[:, 200:]), HORIZON)) == []
    assert looks(context_of(first[:, 200:])) is looks(context_of(second[:, 200:]))


def test_memory_is_bounded_and_drops_the_least_used() -> None:
    """The bytes kept never pass the limit; an answer used lately stays."""
    values = _job(1000)
    rounds = Rounds(most_bytes=5 * 4 * 4 * 8 * len(LEVELS))
    said = np.zeros((1, 4, 8, len(LEVELS)))
    first = rounds.question([], _round(values, 400), HORIZON)
    rounds.keep(first, 300, said)
    for cutoff in range(401, 420):
        rounds.keep(rounds.question([], _round(values, cutoff), HORIZON), 300, said)
        assert rounds.recall(first, 300) is not None
        assert rounds.bytes <= rounds.most_bytes
    rounds.keep(first, 299, np.zeros((1, 4, 9_000, len(LEVELS))))
    assert rounds.recall(first, 299) is None


def test_digests_tell_order_of_rows_and_columns_apart() -> None:
    """Swapped rows or columns give other digests; every NaN and either zero give the same."""
    values = _job(COLUMNS_ALIKE)
    plain = column_digests(values, COLUMNS_ALIKE)
    assert plain.size == 1
    assert column_digests(values[::-1], COLUMNS_ALIKE) != plain
    assert column_digests(values[:, ::-1], COLUMNS_ALIKE) != plain
    holes, others = values.copy(), values.copy()
    holes[0, 3], others[0, 3] = np.nan, -np.nan
    holes[1, 3], others[1, 3] = 0.0, -0.0
    assert column_digests(holes, COLUMNS_ALIKE) == column_digests(others, COLUMNS_ALIKE)
    assert column_digests(values[:, 1:], COLUMNS_ALIKE).size == 0


@pytest.mark.parametrize("model", [Persistence(), *default_candidates()], ids=lambda model: model.name)
def test_some_leads_are_the_same_as_those_of_all(model: Persistence) -> None:
    """Leaving out leads saves time and changes nothing about the others."""
    assert isinstance(model, ForecastsLeads)
    context, leads = _round(_job(400), 400), tried_leads(48)
    np.testing.assert_array_equal(at_leads(model, context, 48, leads), model.predict(context, 48)[:, leads - 1])


def test_shared_looks_see_nothing_after_their_cutoff() -> None:
    """What repeats is looked for at the oldest cutoff of several: later values change nothing about any of them."""
    values = _job(400)
    other = values.copy()
    other[:, 300:] = 0.0
    columns, leads = [300, 280, 200], [tried_leads(HORIZON)] * 3
    first = at_past(PhaseForecaster(), context_of(values), columns, HORIZON, leads)
    second = at_past(PhaseForecaster(), context_of(other), columns, HORIZON, leads)
    for mine, its in zip(first, second, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_a_look_serves_until_it_is_too_old() -> None:
    """What repeats is looked for again only after 64 points, or when the past is not the one that was seen."""
    values, looks = _job(600), Looks()
    first = looks(_round(values, 400))
    assert looks(_round(values, 440)) is first
    assert looks(_round(values, 480)) is not first
    other = values.copy()
    other[0, 399] += 0.1
    assert looks(_round(other, 440)) is not first

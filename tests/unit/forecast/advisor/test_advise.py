"""Propose, reconcile, constrain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forecast.advisor.advise import Applied, advise, advise_round
from forecast.advisor.checks import NOW_S, sample_collision
from forecast.advisor.types import Advice, Effect, Forecasts, Limits
from telemetry.ids import JobId, LinkId
from telemetry.topology import ClusterSnapshot, Topology

SNAPSHOT, FORECASTS = sample_collision()
UP = LinkId("leaf1", "u1", "leaf")


def make(advice_id, *, job="1", link=UP, gain=0.2, **changes):
    base = Advice(
        advice_id,
        "shift",
        JobId("slurm", job),
        link,
        {"offset_s": 1.0},
        "made for a test",
        {"probability": 0.9, "skill": 0.5, "age_s": 1.0, "period_moved_s": 4.0},
        Effect("link_overload_ratio", gain, 0.0, 0.0, 0.05, 24.0),
        NOW_S,
        NOW_S + 60.0,
    )
    return replace(base, **changes)


def run(*proposals, **kwargs):
    return advise_round(SNAPSHOT, FORECASTS, Limits(), rules={"test": lambda *_: list(proposals)}, **kwargs)


def test_collision_gives_one_shift():
    """The built-in rules together: one shift, and no hold beside it."""
    found = advise(SNAPSHOT, FORECASTS, Limits())
    assert [a.kind for a in found] == ["shift"]


def test_nothing_gives_nothing():
    """Empty in, empty out."""
    assert advise(ClusterSnapshot(NOW_S, (), Topology()), Forecasts(), Limits()) == []


def test_one_advice_per_job_and_link_the_larger_gain_first():
    """Of two proposals for one job, and of two for one link, the better one stays."""
    low, high = make("b", gain=0.1), make("a", gain=0.3, link=LinkId("spine1", "1"))
    found = run(low, high)
    assert [a.id for a in found.advice] == ["a"]
    assert "already acts" in found.dropped[0][1]
    other_job = make("c", job="2", gain=0.1)
    assert [a.id for a in run(make("d"), other_job).advice] == ["d"]


def test_two_ends_of_one_cable_do_not_move_both_jobs():
    """Moving A against B and B against A at once would undo itself."""
    first = make("a", job="1", action={"offset_s": 1.0, "against": "slurm:2"}, gain=0.3)
    second = make("b", job="2", link=LinkId("spine1", "1"), action={"offset_s": 1.0, "against": "slurm:1"})
    assert [a.id for a in run(first, second).advice] == ["a"]


def test_same_advice_twice_is_once():
    """Two rules that say the same are heard once."""
    found = run(make("a"), make("a"))
    assert len(found.advice) == 1
    assert found.dropped[0][1] == "proposed twice"


def test_open_advice_is_not_replaced_by_a_slightly_other_one():
    """A standing advice about the same link keeps its place until it expires."""
    standing = make("old")
    assert run(make("new"), standing=[standing]).advice == ()
    assert [a.id for a in run(make("old"), standing=[standing]).advice] == ["old"]
    gone = replace(standing, expires_at_s=NOW_S - 1.0)
    assert [a.id for a in run(make("new"), standing=[gone]).advice] == ["new"]


def test_what_was_just_moved_is_left_alone_until_measured():
    """Job and link of an applied advice wait for the pause and the window, and no longer."""
    applied = Applied(make("old"), NOW_S - 20.0)
    assert applied.settled_at_s == NOW_S - 20.0 + 4.0 + 1.0 + 24.0
    assert run(make("new"), applied=[applied]).advice == ()
    assert run(make("new"), applied=[replace(applied, at_s=NOW_S - 30.0)]).advice != ()
    other = make("else", job="7", link=LinkId("leaf4", "u2"))
    assert [a.id for a in run(other, applied=[applied]).advice] == ["else"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reason": ""}, "no reason"),
        ({"expires_at_s": NOW_S}, "expired"),
        ({"numbers": {"probability": 0.1}}, "probability"),
        ({"numbers": {"skill": 0.0}}, "skill"),
        ({"numbers": {"age_s": 99.0}}, "old"),
        ({"numbers": {"period_moved_s": 0.5}}, "periods"),
    ],
)
def test_limits_hold_for_every_rule(changes, words):
    """Whatever a rule proposes, the limits decide, and say so."""
    found = run(make("a", **changes))
    assert found.advice == ()
    assert words in found.dropped[0][1]


def test_failing_rule_is_named_and_others_go_on():
    """One rule raises: its name and error are kept, and the other's advice goes out."""

    def bad(*_):
        raise ValueError("no")

    found = advise_round(SNAPSHOT, FORECASTS, Limits(), rules={"bad": bad, "good": lambda *_: [make("a")]})
    assert [a.id for a in found.advice] == ["a"]
    assert "rule bad failed: ValueError" in found.errors["bad"]


def test_other_end_of_the_cable_waits_too():
    """A link filled by the jobs just moved gets no hold of its own while the effect is being measured."""
    applied = Applied(make("old", link=LinkId("spine1", "1"), action={"offset_s": 1.0, "against": "slurm:2"}), NOW_S)
    wait = Advice("h", "hold", None, UP, {}, "hold: made for a test", {}, None, NOW_S, NOW_S + 60.0)
    found = run(wait, applied=[applied])
    assert found.advice == ()
    assert "still being measured" in found.dropped[0][1]

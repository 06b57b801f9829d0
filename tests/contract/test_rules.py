"""Every registered rule passes the checks that come with the seam."""

from __future__ import annotations

import pytest

from forecast.advisor.checks import sample_collision, yield_checks
from forecast.advisor.registry import BUILTIN
from forecast.advisor.types import Limits

CASES = [(name, check_name, check) for name, rule in BUILTIN.items() for check_name, check in yield_checks(rule)]


@pytest.mark.parametrize(("rule", "law", "check"), CASES, ids=[f"{rule}-{law}" for rule, law, _ in CASES])
def test_rule_keeps_the_law(rule, law, check):
    """A built-in rule keeps every law of the seam."""
    check()


def test_checks_catch_a_rule_that_moves_on_anything():
    """A rule that ignores skill, or gives no reason, is caught."""
    snapshot, forecasts = sample_collision()
    good = BUILTIN["shift"](snapshot, forecasts, Limits())
    assert good, "the sample situation must lead to a shift"
    reckless = dict(yield_checks(lambda *_: good))
    with pytest.raises(AssertionError, match="out of nothing"):
        reckless["empty_in_empty_out"]()
    with pytest.raises(AssertionError, match="untrusted"):
        reckless["untrusted_moves_nothing"]()
    with pytest.raises(AssertionError, match="above"):
        reckless["budget_kept"]()

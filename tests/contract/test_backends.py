"""Every registered backend passes the checks that come with the seam."""

from __future__ import annotations

import pytest

from forecast.backends.base import Receipt
from forecast.backends.checks import yield_checks
from forecast.backends.dry_run import DryRunBackend
from forecast.backends.registry import BUILTIN

CASES = [(name, law, check) for name, factory in BUILTIN.items() for law, check in yield_checks(factory)]


@pytest.mark.parametrize(("backend", "law", "check"), CASES, ids=[f"{backend}-{law}" for backend, law, _ in CASES])
def test_backend_keeps_the_law(backend, law, check):
    """A built-in backend keeps every law of the seam."""
    check()


class _Reckless(DryRunBackend):
    """Acts on every call and never refuses."""

    def apply(self, plan):
        return Receipt(plan.advice_id, True, "done", self._clock.now())


def test_checks_catch_a_backend_that_acts_on_anything():
    """A backend that repeats itself, or applies expired plans, is caught."""
    checks = dict(yield_checks(_Reckless))
    for law in ("apply_twice_acts_once", "expired_is_refused", "old_snapshot_is_refused"):
        with pytest.raises(AssertionError):
            checks[law]()

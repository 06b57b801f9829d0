"""The running service through kill -9 under load and through a disk without room."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.bench.store_full import WHERE, fill_apart
from api.bench.store_kill import kill_and_count


@pytest.mark.slow
def test_kills_of_the_service_lose_and_double_nothing(tmp_path: Path) -> None:
    """Whatever was acknowledged before any of three kills is there once, with its own value."""
    found = kill_and_count(tmp_path, 3, lambda _: None, n_nodes=32)
    assert found.acknowledged > 0
    assert all(rate > 0 for rate in found.samples_per_s)
    assert (found.lost, found.doubled, found.refusals) == (0, 0, ())
    assert found.stored >= found.acknowledged
    assert len(found.ready_s) == 3


@pytest.mark.slow
def test_a_full_disk_is_told_and_left_behind_without_a_restart() -> None:
    """Pushes are answered 507 and readiness says why; reads and forecasts go on, and nothing acknowledged is lost."""
    found, why = fill_apart(lambda _: None)
    if why:
        pytest.skip(why)
    assert tuple(one.where for one in found) == WHERE
    for one in found:
        assert (one.status, one.ready_status) == (507, 503)
        for told in (one.sentence, one.ready_reason):
            assert "No space left on device" in told
            assert "Free disk space" in told
        assert one.reads_failed == 0
        assert one.rounds > 0
        assert one.jobs > 0
        assert one.acknowledged > 0
        assert (one.lost, one.doubled) == (0, 0)

"""XID numbers stick; events are what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from features.ring import Ring
from features.transforms.xid import XidEvent, active_codes, last_event, xid_events


def test_a_first_number_is_no_event(series):
    """A number that stood there before the first reading is of unknown age."""
    assert xid_events(series([0, 60], [31, 31])) == []
    assert xid_events(series([0, 60, 120], [31, 31, 43])) == [XidEvent(120.0, 43)]


def test_a_reload_to_zero_is_no_event(series):
    """Going back to 0 says that the driver restarted, not that something failed."""
    assert xid_events(series([0, 60, 120, 180], [0, 31, 0, 31])) == [XidEvent(60.0, 31), XidEvent(180.0, 31)]


@pytest.mark.shared
def test_field_case_of_a_sticky_number(answer_batch, shared_dir: Path):
    """Three events, one of them a repeat that only the windowed count shows; none is active at the end."""
    path = shared_dir / "cases/08-xid-last-value-gauge/query_range.json"
    ring = Ring(1e5)
    for field in ("DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT"):
        ring.append(answer_batch(path, (field,)))
    end_s = 1_767_229_140.0
    (code,) = ring.read(ring.keys(["gpu_xid_last_code"]), end_s, 1e5)
    (count,) = ring.read(ring.keys(["gpu_xid_window_count"]), end_s, 1e5)
    assert len(code.at_s) == 60
    events = xid_events(code, count)
    assert [(event.code, event.at_s) for event in events] == [
        (31, 1_767_225_900.0),
        (31, 1_767_226_800.0),
        (43, 1_767_228_060.0),
    ]
    assert [event.code for event in xid_events(code)] == [31, 43]
    newest = last_event(events, end_s)
    assert newest is not None
    assert (newest.code, end_s - newest.at_s) == (43, 1080.0)
    assert active_codes(events, end_s) == []
    assert active_codes(events, 1_767_226_199.0) == [31]
    for at_s in (1_767_226_200.0, 1_767_226_799.0, 1_767_227_100.0):
        assert active_codes(events, at_s) == []

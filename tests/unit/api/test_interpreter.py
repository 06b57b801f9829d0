"""What is tuned for pages is put back."""

from __future__ import annotations

import gc
import sys

import pytest

from api.interpreter import tuned_for_pages


def _state() -> tuple[float, tuple[int, int, int]]:
    return sys.getswitchinterval(), gc.get_threshold()


def test_threads_switch_sooner_and_garbage_is_sought_later_while_it_lasts():
    before = _state()
    with tuned_for_pages():
        assert sys.getswitchinterval() < before[0]
        assert gc.get_threshold()[0] > before[1][0]
    assert _state() == before


def test_an_error_inside_puts_it_back_too():
    before = _state()
    with pytest.raises(KeyError), tuned_for_pages():
        raise KeyError
    assert _state() == before

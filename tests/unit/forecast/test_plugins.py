"""Plug-in authors import one module."""

from __future__ import annotations

import forecast.plugins as plugins


def test_every_name_is_there_and_no_other():
    """What ``__all__`` promises exists, in order, once."""
    assert all(hasattr(plugins, name) for name in plugins.__all__)
    assert len(set(plugins.__all__)) == len(plugins.__all__)
    assert {"Collector", "FeatureStore", "Forecaster", "Rule", "Backend"} <= set(plugins.__all__)

"""Forecasters, period and phase detection, calibration, skill gate, back-tests."""

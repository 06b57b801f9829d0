"""Forecasts and a snapshot become advice. Pure."""

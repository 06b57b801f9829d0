"""Benchmarks: the same command on any folder laid out as the recorded data, the same JSON from each."""

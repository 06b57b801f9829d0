"""Prometheus remote write, 1.0 and 2.0: bodies that others send -> sample batches. No I/O."""

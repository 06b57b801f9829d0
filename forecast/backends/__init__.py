"""Advice becomes a plan, and a plan is applied or discarded."""

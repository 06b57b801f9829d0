"""Everything that the author of a plug-in imports: the seams, their words, and the checks that come with them.

The rooms may be moved or split; what stands here stays.

A plug-in lives in its own distribution and announces itself by an entry point in one of the groups
``gpucast.collectors``, ``gpucast.models``, ``gpucast.rules`` and ``gpucast.backends``. The service asks
every rule, acts through the backend that the settings name, reads the collectors of ``[[plugin.NAME]]`` and tries the
models of ``forecast.models``. Collectors and models are held to their contract while they run.
"""

from __future__ import annotations

from collectors.base import Collector
from collectors.checks import CollectorStage
from collectors.checks import yield_checks as yield_collector_checks
from features.frame import Context, JobFrame, LinkFrame
from features.store.base import FeatureStore, Series
from forecast.advisor.checks import yield_checks as yield_rule_checks
from forecast.advisor.types import Advice, Effect, Forecasts, Grade, Limits, Mode, Rule
from forecast.backends.base import Backend, Plan, Receipt
from forecast.backends.checks import yield_checks as yield_backend_checks
from forecast.predict.types import Absence, JobForecast, LinkForecast, QuantilePath, Skill, Why
from models.base import LEVELS, Forecaster
from models.checks import yield_checks as yield_model_checks
from telemetry.catalogue import METRICS, Metric
from telemetry.clock import Clock, VirtualClock
from telemetry.errors import (
    AdviceError,
    BackendConflict,
    BackendRefused,
    BackendUnreachable,
    ConfigError,
    GpucastError,
    IncompatibleModel,
    NotFitted,
)
from telemetry.ids import GpuId, JobId, LinkId, NodeId, SeriesKey
from telemetry.jobs import Allocation, JobIntent, JobView
from telemetry.samples import Finding, Problem, Reason, SampleBatch, Sighting, Window, validate_batch
from telemetry.topology import ClusterSnapshot, Link, Topology

__all__ = [
    "LEVELS",
    "METRICS",
    "Absence",
    "Advice",
    "AdviceError",
    "Allocation",
    "Backend",
    "BackendConflict",
    "BackendRefused",
    "BackendUnreachable",
    "Clock",
    "ClusterSnapshot",
    "Collector",
    "CollectorStage",
    "ConfigError",
    "Context",
    "Effect",
    "FeatureStore",
    "Finding",
    "Forecaster",
    "Forecasts",
    "GpuId",
    "GpucastError",
    "Grade",
    "IncompatibleModel",
    "JobForecast",
    "JobFrame",
    "JobId",
    "JobIntent",
    "JobView",
    "Limits",
    "Link",
    "LinkForecast",
    "LinkFrame",
    "LinkId",
    "Metric",
    "Mode",
    "NodeId",
    "NotFitted",
    "Plan",
    "Problem",
    "QuantilePath",
    "Reason",
    "Receipt",
    "Rule",
    "SampleBatch",
    "Series",
    "SeriesKey",
    "Sighting",
    "Skill",
    "Topology",
    "VirtualClock",
    "Why",
    "Window",
    "validate_batch",
    "yield_backend_checks",
    "yield_collector_checks",
    "yield_model_checks",
    "yield_rule_checks",
]

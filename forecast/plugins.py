"""Everything that an extension needs, under the one public name: write ``from forecast.plugins import ...``.

The rooms may be moved or split; what stands here stays.
"""

from __future__ import annotations

from collectors.base import Collector
from features.frame import Context
from forecast.advisor.types import Advice, Effect, Forecasts, Grade, Limits, Mode, Rule
from forecast.backends.base import Backend, Plan, Receipt
from forecast.predict.types import Absence, JobForecast, LinkForecast, QuantilePath, Skill, Why
from models.base import LEVELS, Forecaster
from telemetry.catalogue import METRICS, Metric
from telemetry.clock import Clock
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
from telemetry.ids import GpuId, JobId, LinkId, SeriesKey
from telemetry.samples import Reason, SampleBatch, Window
from telemetry.topology import ClusterSnapshot, Topology

__all__ = [
    "LEVELS",
    "METRICS",
    "Absence",
    "Advice",
    "AdviceError",
    "Backend",
    "BackendConflict",
    "BackendRefused",
    "BackendUnreachable",
    "Clock",
    "ClusterSnapshot",
    "Collector",
    "ConfigError",
    "Context",
    "Effect",
    "Forecaster",
    "Forecasts",
    "GpuId",
    "GpucastError",
    "Grade",
    "IncompatibleModel",
    "JobForecast",
    "JobId",
    "Limits",
    "LinkForecast",
    "LinkId",
    "Metric",
    "Mode",
    "NotFitted",
    "Plan",
    "QuantilePath",
    "Reason",
    "Receipt",
    "Rule",
    "SampleBatch",
    "SeriesKey",
    "Skill",
    "Topology",
    "Why",
    "Window",
]

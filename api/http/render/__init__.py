"""The service's values as API models, one module per resource."""

from __future__ import annotations

from api.http.render.base import absent, history, number, numbers, path, rfc3339, skill
from api.http.render.health import accuracy, target
from api.http.render.jobs import duty, headline, job_forecast, job_summary, lull, metric_summary, period, phase, phases
from api.http.render.links import link_congestion, link_summary

__all__ = [
    "absent",
    "accuracy",
    "duty",
    "headline",
    "history",
    "job_forecast",
    "job_summary",
    "link_congestion",
    "link_summary",
    "lull",
    "metric_summary",
    "number",
    "numbers",
    "path",
    "period",
    "phase",
    "phases",
    "rfc3339",
    "skill",
    "target",
]

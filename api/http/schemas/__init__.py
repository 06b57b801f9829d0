"""What the HTTP API answers: pydantic models with the unit in each name, nothing extra, never NaN.

"Maybe" fields hold either the thing or an ``Absent`` object; ``absent: true`` tells them apart. Times are Unix
seconds (``_s``) and, where people read them, RFC 3339 UTC (``_at``) beside them.
"""

from __future__ import annotations

from api.http.schemas.advice import AdviceList, AdviceOut, EffectOut, GradeOut, PlanOut, ReceiptOut
from api.http.schemas.base import (
    Absent,
    Answer,
    HistoryOut,
    JobText,
    LinkText,
    ProblemDocument,
    QuantilePathOut,
    Rfc3339,
    SkillOut,
)
from api.http.schemas.health import (
    AccuracyList,
    AccuracyOut,
    DevicesOut,
    HealthOut,
    PluginList,
    PluginOut,
    ProbeOut,
    ServerOut,
    TargetOut,
    TwiceOut,
)
from api.http.schemas.intents import AssumptionOut, EstimateOut, ExchangeOut, FigureOut, IntentIn, UnderstoodOut
from api.http.schemas.jobs import (
    DutyCycleOut,
    JobForecastOut,
    JobList,
    JobSummary,
    LullOut,
    MemoryOut,
    MetricSummary,
    NextPhaseOut,
    OtherPeriodOut,
    PeriodOut,
    PhaseOut,
    PhasesOut,
    PhaseSpan,
)
from api.http.schemas.links import CauseOut, LinkCongestion, LinkList, LinkSummary
from api.http.schemas.models import LiveSkillOut, ModelEventOut, ModelList, ModelOut, ModelVersionOut
from api.http.schemas.push import StepIn, StepsOut

__all__ = [
    "Absent",
    "AccuracyList",
    "AccuracyOut",
    "AdviceList",
    "AdviceOut",
    "Answer",
    "AssumptionOut",
    "CauseOut",
    "DevicesOut",
    "DutyCycleOut",
    "EffectOut",
    "EstimateOut",
    "ExchangeOut",
    "FigureOut",
    "GradeOut",
    "HealthOut",
    "HistoryOut",
    "IntentIn",
    "JobForecastOut",
    "JobList",
    "JobSummary",
    "JobText",
    "LinkCongestion",
    "LinkList",
    "LinkSummary",
    "LinkText",
    "LiveSkillOut",
    "LullOut",
    "MemoryOut",
    "MetricSummary",
    "ModelEventOut",
    "ModelList",
    "ModelOut",
    "ModelVersionOut",
    "NextPhaseOut",
    "OtherPeriodOut",
    "PeriodOut",
    "PhaseOut",
    "PhaseSpan",
    "PhasesOut",
    "PlanOut",
    "PluginList",
    "PluginOut",
    "ProbeOut",
    "ProblemDocument",
    "QuantilePathOut",
    "ReceiptOut",
    "Rfc3339",
    "ServerOut",
    "SkillOut",
    "StepIn",
    "StepsOut",
    "TargetOut",
    "TwiceOut",
    "UnderstoodOut",
]

"""Answers of the Prometheus HTTP API, read into columns. Warnings are kept: they mean that data may be missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from telemetry.errors import BadReply
from telemetry.samples import FloatArray

_TOO_MUCH = ("too many samples", "exceeded maximum resolution", "limit exceeded", "too large")
_RETRY_SMALLER_TYPES = frozenset({"execution", "timeout", "too_many_requests"})


@dataclass(frozen=True, slots=True, eq=False)
class AnswerSeries:
    """One series of an answer.

    Args:
        labels: with ``__name__`` where the query left it.
        at_s: (n,) Unix seconds.
        value: (n,) as Prometheus wrote it, NaN and infinities included.
    """

    labels: dict[str, str]
    at_s: FloatArray
    value: FloatArray


@dataclass(frozen=True, slots=True)
class NativeHistogram:
    """One native histogram sample."""

    labels: dict[str, str]
    at_s: float
    count: float
    sum: float

    @property
    def mean(self) -> float:
        """Mean of what was observed; NaN when nothing was."""
        return self.sum / self.count if self.count > 0 else math.nan


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A whole answer.

    Args:
        kind: ``vector``, ``matrix``, ``scalar``, ``string``; empty for an error without data.
        series: float series.
        histograms: native histogram samples.
        warnings: something failed at the server; the answer may be incomplete.
        infos: hints about the query; never a sign of missing data.
        error_type: Prometheus' word for the failure; empty when it succeeded.
        error: its sentence.
    """

    kind: str
    series: tuple[AnswerSeries, ...] = ()
    histograms: tuple[NativeHistogram, ...] = ()
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    error_type: str = ""
    error: str = ""

    @property
    def state(self) -> str:
        """``error``, ``partial``, ``no_data`` or ``ok``."""
        if self.error_type or self.error:
            return "error"
        if self.warnings:
            return "partial"
        return "ok" if self.series or self.histograms else "no_data"

    @property
    def retry_smaller(self) -> bool:
        """Whether a smaller range may succeed where the same one fails again."""
        text = self.error.lower()
        return self.state == "error" and (
            self.error_type in _RETRY_SMALLER_TYPES or any(sign in text for sign in _TOO_MUCH)
        )


def named(answer: Answer, field: str) -> Answer:
    """The answer with the name that a function took from its series."""
    series = tuple(replace(one, labels={"__name__": field, **one.labels}) for one in answer.series)
    return replace(answer, series=series)


def is_answer(document: object) -> bool:
    """Whether a JSON document looks like an answer of the Prometheus API."""
    return isinstance(document, dict) and document.get("status") in ("success", "error")


def read_answer(document: object, source: str) -> Answer:
    """The answer in columns.

    Raises:
        BadReply: the document has not the shape of a Prometheus answer.
    """
    if not isinstance(document, dict) or not is_answer(document):
        raise BadReply(source, "answers with something that is no Prometheus API answer")
    data = document.get("data") or {}
    try:
        kind = str(data.get("resultType", "")) if isinstance(data, dict) else ""
        result = data.get("result", []) if isinstance(data, dict) else []
        series, histograms = _read_result(kind, result)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as odd:
        raise BadReply(source, f"answers with a Prometheus result of an unknown shape ({odd})") from odd
    failed = document["status"] == "error"
    return Answer(
        kind=kind,
        series=series,
        histograms=histograms,
        warnings=tuple(str(text) for text in document.get("warnings") or ()),
        infos=tuple(str(text) for text in document.get("infos") or ()),
        error_type=str(document.get("errorType") or "unknown") if failed else "",
        error=str(document.get("error") or "") if failed else "",
    )


def _read_result(kind: str, result: Any) -> tuple[tuple[AnswerSeries, ...], tuple[NativeHistogram, ...]]:
    if kind in ("scalar", "string"):
        return ((_series({}, [result]),) if kind == "scalar" else ()), ()
    series: list[AnswerSeries] = []
    histograms: list[NativeHistogram] = []
    for item in result:
        labels = {str(name): str(value) for name, value in item["metric"].items()}
        pairs = item.get("values") or ([item["value"]] if "value" in item else [])
        if pairs:
            series.append(_series(labels, pairs))
        for at_s, body in item.get("histograms") or ([item["histogram"]] if "histogram" in item else []):
            histograms.append(_histogram(labels, float(at_s), body))
    return tuple(series), tuple(histograms)


def _series(labels: dict[str, str], pairs: list[Any]) -> AnswerSeries:
    n = len(pairs)
    times, texts = tuple(zip(*pairs, strict=False))[:2]  # a pair cut short makes this fail, as it must
    at_s = np.fromiter(times, np.float64, n)
    try:
        value = np.fromiter(map(float, texts), np.float64, n)
    except (TypeError, ValueError):
        value = np.fromiter(map(_number, texts), np.float64, n)
    return AnswerSeries(labels, at_s, value)


def _number(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def _histogram(labels: dict[str, str], at_s: float, body: Mapping[str, Any]) -> NativeHistogram:
    return NativeHistogram(labels, at_s, _number(body.get("count")), _number(body.get("sum")))

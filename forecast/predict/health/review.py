"""All signs over one round's evidence: findings, scores, what could not be judged, and what to remember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from features.frame import JobFrame
from features.transforms.health import XID
from forecast.predict.health.registry import BUILTIN
from forecast.predict.health.scores import scores_of
from forecast.predict.health.types import (
    Evidence,
    HealthFinding,
    HealthMemory,
    HealthReport,
    Severity,
    Sign,
    Unjudged,
)
from telemetry.ids import JobId

KEEP_S = 86_400.0
"""A lasting finding is kept this long after its samples have left the window, or until its card is seen to be reset."""
MOST_FINDINGS = 2000
MOST_PERIODS = 128
MOST_UNJUDGED = 200
_ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


def review(
    evidence: Evidence, periods: Mapping[JobId, float] | None = None, signs: Mapping[str, Sign] | None = None
) -> HealthReport:
    """Look for every sign; one that fails is named, and the others go on.

    Args:
        evidence: what there is.
        periods: tracked period of each job that has one, seconds.
        signs: which to look for; the built-in ones when None.
    """
    signs = BUILTIN if signs is None else signs
    evidence = replace(evidence, memory=_with_periods(evidence, periods or {}))
    found: dict[tuple[str, str, str, str], HealthFinding] = {}
    failed: dict[str, str] = {}
    for name, sign in signs.items():
        try:
            for one in sign.find(evidence):
                found.setdefault(one.key, one)
        except Exception as error:  # a sign may fail in any way; the others still have something to say
            failed[name] = f"the sign {name} failed: {type(error).__name__}: {error}"
    findings = _sorted(_remembered(found, evidence))[:MOST_FINDINGS]
    return HealthReport(
        at_s=_now_s(evidence),
        findings=findings,
        scores=scores_of(findings, evidence),
        seen=_seen(evidence),
        unjudged=_unjudged(evidence, signs),
        memory=HealthMemory(findings, evidence.memory.periods),
        failed=failed,
    )


def _now_s(evidence: Evidence) -> float:
    return max([evidence.frame.data_at_s, *(frame.data_at_s for frame in evidence.jobs)])


def _with_periods(evidence: Evidence, periods: Mapping[JobId, float]) -> HealthMemory:
    kept: dict[JobId, tuple[tuple[float, float], ...]] = {}
    for frame in evidence.jobs:
        job = frame.job.job
        past = tuple(evidence.memory.periods.get(job, ()))
        if job in periods and (not past or frame.data_at_s > past[-1][0]):
            past = (*past, (frame.data_at_s, periods[job]))[-MOST_PERIODS:]
        if past:
            kept[job] = past
    return replace(evidence.memory, periods=kept)


def _remembered(found: dict[tuple[str, str, str, str], HealthFinding], evidence: Evidence) -> list[HealthFinding]:
    """What was known before keeps its beginning; what lasts until a reset is kept without fresh samples."""
    now_s = _now_s(evidence)
    standing = {one.key.entity: float(one.value[-1]) for one in evidence.series(XID)}
    for old in evidence.memory.findings:
        new = found.get(old.key)
        if new is not None:
            found[old.key] = replace(new, since_s=min(old.since_s, new.since_s))
            continue
        # A code that went back to 0 says that the driver was loaded anew; of a card that is not read it says nothing.
        reset = old.kind == "xid" and old.entity in evidence.frame.xid_read and standing.get(old.entity, 0.0) == 0.0
        if old.lasts and not reset and now_s - old.since_s <= KEEP_S:
            found[old.key] = old
    return list(found.values())


def _sorted(findings: list[HealthFinding]) -> tuple[HealthFinding, ...]:
    return tuple(sorted(findings, key=lambda one: (_ORDER[one.severity], -one.score, one.entity, one.kind, one.detail)))


def _seen(evidence: Evidence) -> dict[str, int]:
    gpus = {str(gpu.card) for frame in evidence.jobs for gpu in frame.job.gpus}
    nodes = {node for frame in evidence.jobs for node in frame.job.nodes}
    counts = evidence.frame.read_count
    return {
        "gpu": max([len(gpus), *(count for metric, count in counts.items() if metric.startswith("gpu_"))]),
        "node": len(
            nodes | {p for m, places in evidence.frame.read_on.items() if m.startswith("gpu_") for p in places}
        ),
        "job": len(evidence.jobs),
    }


def _unjudged(evidence: Evidence, signs: Mapping[str, Sign]) -> tuple[Unjudged, ...]:
    found: list[Unjudged] = []
    for name, sign in signs.items():
        scopes: tuple[JobFrame | None, ...] = evidence.jobs if sign.per_job else (None,)
        for frame in scopes:
            have = _read(evidence, frame)
            if any(set(needed) <= have for needed in sign.needs):
                short = sign.too_little(evidence, frame) if sign.too_little and frame is not None else ""
                if short and frame is not None:
                    scope = str(frame.job.job)
                    found.append(Unjudged(name, scope, (), f"{name} of {scope} is unknown: {short}"))
                continue
            missing = tuple(dict.fromkeys(metric for needed in sign.needs for metric in needed if metric not in have))
            sets = " or ".join(" with ".join(needed) for needed in sign.needs)
            where = f"of {frame.job.job}" if frame is not None else "of anything that is collected"
            scope = str(frame.job.job) if frame is not None else ""
            found.append(Unjudged(name, scope, missing, f"{name} {where} is unknown: it needs {sets}"))
    return tuple(found[:MOST_UNJUDGED])


def _read(evidence: Evidence, frame: JobFrame | None) -> set[str]:
    """What is read of a job, or at all."""
    read_on = evidence.frame.read_on
    if frame is None:
        return {metric for metric, places in read_on.items() if places}
    mine = {str(frame.job.job), *frame.job.nodes}
    have = {metric for metric, places in read_on.items() if not mine.isdisjoint(places)}
    have.update(key.metric for key in frame.device_keys)
    if frame.steps is not None:
        have.add("steps")
    if evidence.memory.periods.get(frame.job.job):
        have.add("period")
    if frame.devices.n_points:
        have.add("frame")
    return have

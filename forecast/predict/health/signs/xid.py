"""XID errors of cards: what each number means, how often it came, and what it asks for."""

from __future__ import annotations

from features.store.base import Series
from features.transforms.xid import XidEvent, xid_events
from forecast.predict.health.moves import node_of_gpu
from forecast.predict.health.types import Evidence, HealthFinding, Severity, Sign, Thing
from forecast.predict.health.xid_codes import FATAL, TO_DO, XidClass, xid
from telemetry.ids import JobId

KIND = "xid"
LAST = "gpu_xid_last_code"
COUNT = "gpu_xid_window_count"
_SCORE = {
    XidClass.APPLICATION: 0.2,
    XidClass.DRIVER: 0.4,
    XidClass.UNKNOWN: 0.3,
    XidClass.REMAP: 0.5,
    XidClass.MEMORY: 0.8,
    XidClass.NVLINK: 0.8,
    XidClass.RESET: 0.95,
    XidClass.HARDWARE: 0.9,
    XidClass.OFF_THE_BUS: 1.0,
}


def find(evidence: Evidence) -> list[HealthFinding]:
    """XIDs that happened inside the window. A number that stood from the first reading on is of unknown age: no event."""
    counts = {one.key.entity: one for one in evidence.series(COUNT)}
    owner = evidence.job_of_gpu()
    found: list[HealthFinding] = []
    for one in evidence.series(LAST):
        by_code: dict[int, list[XidEvent]] = {}
        for event in xid_events(one, counts.get(one.key.entity)):
            by_code.setdefault(event.code, []).append(event)
        for code, events in sorted(by_code.items()):
            found.append(_finding(one, code, events, owner, evidence.frame.data_at_s))
    return found


def _finding(one: Series, code: int, events: list[XidEvent], owner: dict[str, JobId], now_s: float) -> HealthFinding:
    meaning = xid(code)
    fatal = meaning.kind in FATAL or meaning.lasts
    severity = (
        Severity.CRITICAL if fatal else Severity.INFO if meaning.kind is XidClass.APPLICATION else Severity.WARNING
    )
    times = "once" if len(events) == 1 else f"{len(events)} times"
    job = owner.get(one.key.entity)
    return HealthFinding(
        KIND,
        Thing.GPU,
        one.key.entity,
        severity,
        min(1.0, _SCORE[meaning.kind] + 0.1 * (len(events) - 1)),
        events[0].at_s,
        f"XID {code} ({meaning.kind}: {meaning.meaning}) {times}, last {max(0.0, now_s - events[-1].at_s):.0f} s ago",
        TO_DO[meaning.kind],
        (LAST, COUNT),
        detail=str(code),
        node=node_of_gpu(one.key.entity),
        jobs=(job,) if job is not None else (),
        numbers={"code": float(code), "events": float(len(events)), "last_s": events[-1].at_s},
        lasts=meaning.lasts,
    )


SIGN = Sign(((LAST,),), find)

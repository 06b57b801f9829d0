"""Parsed pages -> sample batches in the catalogue's words.

What a line means is worked out once per layout (``collectors.page_plan``); a page with a known layout then costs a few
array operations, and hands over the same ``keys`` tuple object again.
"""

from __future__ import annotations

import numpy as np

from collectors.attribution import BUSY_RATIO, OwnerRules
from collectors.custom_map import CustomMap
from collectors.entities import Place
from collectors.exposition import Layout, ParsedPage
from collectors.nccl.inspector_text import TextfileAges
from collectors.page_plan import PagePlan, plan_page
from collectors.quality import PROBLEM_OF, judge
from telemetry.catalogue import ACTIVE_PORT_STATE
from telemetry.samples import (
    CodeArray,
    Finding,
    FloatArray,
    IntArray,
    Problem,
    Reason,
    SampleBatch,
    Sighting,
    SightingsAt,
)

_MOST_NAMES_KEPT = 10_000


class FieldMapper:
    """Turns one target's pages into batches.

    Args:
        source: the target's URL or path, for findings.
        place: what is known of the target besides its labels.
        rules: the site's naming of owners.
        custom: the site's own metrics.
    """

    def __init__(
        self,
        source: str,
        place: Place | None = None,
        rules: OwnerRules | None = None,
        custom: CustomMap | None = None,
    ) -> None:
        self._source = source
        self._place = place or Place()
        self._rules = rules or OwnerRules()
        self._custom = custom or CustomMap()
        self._textfiles = TextfileAges(source)
        self._layout: Layout | None = None
        self._plan: PagePlan | None = None
        self._owners: _Owners | None = None
        self._first_printed: FloatArray | None = None
        self._restarted = True
        self._unknown: set[str] = set()

    def restart(self) -> None:
        """The target was away; its next zeros may mean "no earlier reading"."""
        self._restarted = True

    def batch(self, page: ParsedPage, received_s: float) -> SampleBatch:
        """The page's samples; those without a timestamp of their own are stamped ``received_s``."""
        plan, owners, findings = self._plan_of(page)
        findings += [Finding(problem, self._source, text, count) for problem, text, count in page.notes]
        printed = page.value[plan.rows]
        value, reason = judge(printed, plan.limits)
        self._mark_first_readings(plan, page, printed, reason)
        _mark_not_measured(plan, page, printed, reason)
        findings += self._textfiles.mark(page, plan.keys, plan.series, received_s, reason)
        missing = reason != 0
        if missing.any():
            value[missing] = np.nan
            findings += self._findings_of_missing(plan, page, reason)
        findings += self._findings_of_repeats(plan, page)
        if page.at_s is None:
            at_s = np.full(printed.shape, received_s)
        else:
            at_s = page.at_s[plan.rows]
            at_s[np.isnan(at_s)] = received_s
        keys, series = plan.keys, plan.series
        if plan.parts:
            value, reason, at_s, series = _add_parts(plan, value, reason, at_s)
        elif page.unreadable is not None:
            kept = ~page.unreadable[plan.rows]
            value, reason, at_s, series = value[kept], reason[kept], at_s[kept], series[kept]
        seen_s = received_s if page.at_s is None or not at_s.size else float(at_s.max())
        sightings, lost = owners.seen(value, series, seen_s)
        if lost:
            text = "busy GPUs without an owner in their labels"
            findings.append(Finding(Problem.OWNER_UNKNOWN, self._source, text, lost))
        return SampleBatch(
            keys=keys,
            series=series,
            at_s=at_s,
            value=value,
            reason=reason,
            sightings=sightings,
            findings=tuple(findings),
            source=self._source,
            received_s=received_s,
        )

    def _plan_of(self, page: ParsedPage) -> tuple[PagePlan, _Owners, list[Finding]]:
        """The plan of the page's layout, its owners, and what is to be told about a layout seen for the first time."""
        if self._plan is not None and self._owners is not None and page.layout is self._layout:
            return self._plan, self._owners, list(self._plan.findings)
        plan = plan_page(page.layout, self._source, self._place, self._rules, self._plan, self._custom)
        owners = _Owners(plan)
        self._layout, self._plan, self._owners = page.layout, plan, owners
        findings = list(plan.findings)
        fresh = [name for name in plan.unknown if name not in self._unknown]
        if fresh and len(self._unknown) < _MOST_NAMES_KEPT:
            self._unknown.update(fresh)
            shown = ", ".join(fresh[:5]) + (", ..." if len(fresh) > 5 else "")
            text = f"not in the catalogue, left out: {shown}"
            findings.append(Finding(Problem.UNKNOWN_METRIC, self._source, text, len(fresh)))
        return plan, owners, findings

    def _mark_first_readings(self, plan: PagePlan, page: ParsedPage, printed: FloatArray, reason: CodeArray) -> None:
        """A zero on the first page means "no earlier reading" until the page's numbers move."""
        if self._restarted:
            self._first_printed, self._restarted = page.value, False
        first = self._first_printed
        if first is None:
            return
        if first.shape != page.value.shape or not np.array_equal(first, page.value, equal_nan=True):
            self._first_printed = None
            return
        reason[plan.zero_first & (printed == 0)] = Reason.FIRST_READING

    def _findings_of_missing(self, plan: PagePlan, page: ParsedPage, reason: CodeArray) -> list[Finding]:
        found: list[Finding] = []
        counts: dict[tuple[str, int], int] = {}
        told = (reason != 0) if page.unreadable is None else (reason != 0) & ~page.unreadable[plan.rows]
        rows = np.flatnonzero(told)
        for series, why in zip(plan.series[rows].tolist(), reason[rows].tolist(), strict=True):
            pair = (plan.keys[series].metric, why)
            counts[pair] = counts.get(pair, 0) + 1
        for (metric, code), count in counts.items():
            reason_found = Reason(code)
            if reason_found in PROBLEM_OF:
                text = f"{metric} is missing: {reason_found.name.lower().replace('_', ' ')}"
                found.append(Finding(PROBLEM_OF[reason_found], self._source, text, count))
        return found

    def _findings_of_repeats(self, plan: PagePlan, page: ParsedPage) -> list[Finding]:
        found: list[Finding] = []
        if plan.same_a.size:
            a, b = page.value[plan.same_a], page.value[plan.same_b]
            differ = (a != b) & ~(np.isnan(a) & np.isnan(b))
            if differ.any():
                name = page.layout.names[int(plan.same_a[np.argmax(differ)])]
                text = f"{name} is given twice for one device with different numbers; the first is kept"
                found.append(Finding(Problem.DUPLICATE_SERIES, self._source, text, int(differ.sum())))
        return found


def _mark_not_measured(plan: PagePlan, page: ParsedPage, printed: FloatArray, reason: CodeArray) -> None:
    """Fields that the device cannot give, and everything but the state of a port that is down."""
    if plan.never_measured is not None:
        reason[plan.never_measured] = Reason.NOT_MEASURED
    if plan.zero_unmeasured is not None:
        reason[plan.zero_unmeasured & (printed == 0)] = Reason.NOT_MEASURED
    if plan.state_row is not None:
        state = page.value[plan.state_row]
        down = (plan.state_row >= 0) & np.isfinite(state) & (state != ACTIVE_PORT_STATE)
        reason[down] = Reason.NOT_MEASURED


def _add_parts(
    plan: PagePlan, value: FloatArray, reason: CodeArray, at_s: FloatArray
) -> tuple[FloatArray, CodeArray, FloatArray, IntArray]:
    """One row per key: window counts of several kinds are added; every other key has one row already."""
    n = len(plan.keys)
    total, why, when = np.zeros(n), np.zeros(n, np.uint8), np.zeros(n)
    np.add.at(total, plan.series, value)
    np.maximum.at(why, plan.series, reason)
    np.maximum.at(when, plan.series, at_s)
    why[np.isnan(total) & (why == 0)] = Reason.NOT_FINITE
    return total, why, when, np.arange(n, dtype=np.int32)


class _Owners:
    """Who has the devices of one layout; the same tuple object while that stays as it is."""

    def __init__(self, plan: PagePlan) -> None:
        self._owned = tuple(Sighting(o.gpu, 0.0, o.job, o.workload, True, o.sharers) for o in plan.owned)
        self._ownerless = plan.ownerless
        self._n_keys = len(plan.keys)
        self._busy: tuple[bool, ...] = ()
        self._base = self._owned

    def seen(self, value: FloatArray, series: IntArray, at_s: float) -> tuple[SightingsAt, int]:
        """What a page of the layout tells, and how many of its devices are busy without an owner."""
        if self._ownerless:
            by_key = np.full(self._n_keys, np.nan)
            by_key[series] = value
            over = by_key > BUSY_RATIO
            busy = tuple(bool(over[keys].any()) for _, keys in self._ownerless)
            if busy != self._busy:
                self._busy = busy
                idle = ((gpu, not works) for (gpu, _), works in zip(self._ownerless, busy, strict=True))
                self._base = self._owned + tuple(Sighting(gpu, 0.0, None, "", known, 0) for gpu, known in idle)
        return SightingsAt(self._base, at_s), sum(self._busy)

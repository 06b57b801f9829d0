"""``/metrics``: what gpucast says about itself and its forecasts, as Prometheus text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fastapi import APIRouter
from starlette.responses import Response

from api.http.answers import NEVER_STORE
from api.http.dependencies import ReadsDep, SettingsDep, errors
from api.http.settings import HttpSettings
from api.reads import Health, Reads
from forecast.predict.types import QuantilePath

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SERIES = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})?')

router = APIRouter(tags=["metrics"])


@dataclass(slots=True)
class Family:
    """One metric family.

    Args:
        name: with the unit, and ``_total`` for a counter.
        kind: ``gauge`` or ``counter``.
        help: one line.
        rows: (labels in braces or empty, value).
    """

    name: str
    kind: str
    help: str
    rows: list[tuple[str, float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> None:
        """Add a series; a missing or non-finite value adds nothing."""
        if value is None or not math.isfinite(value):
            return
        inner = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        self.rows.append((f"{{{inner}}}" if inner else "", float(value)))

    def lines(self) -> Iterator[str]:
        """The family in the text format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.rows:
            yield f"{self.name}{labels} {value:.17g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _state(health: Health, settings: HttpSettings) -> list[Family]:
    build = Family("gpucast_build_info", "gauge", "Version of this build; always 1.")
    build.add(1, version=settings.build_version)
    ready = Family("gpucast_ready", "gauge", "1 when samples arrive and the store can be written.")
    ready.add(float(health.ready))
    started = Family("gpucast_start_time_seconds", "gauge", "When the service started, Unix seconds.")
    started.add(health.started_s)
    missing = Family("gpucast_missing_field", "gauge", "1 for each metric that no source gives.")
    for name in sorted(health.missing_fields):
        missing.add(1, metric=name)
    return [build, ready, started, missing]


def _sources(health: Health) -> list[Family]:
    up = Family("gpucast_target_up", "gauge", "1 when the last attempt to read the source gave samples.")
    samples = Family("gpucast_target_samples", "gauge", "Samples in the last reply of the source.")
    last_ok = Family("gpucast_target_last_ok_timestamp_seconds", "gauge", "Last good reply, Unix seconds.")
    interval = Family("gpucast_target_interval_seconds", "gauge", "How often the source is read now.")
    offset = Family("gpucast_target_clock_offset_seconds", "gauge", "Our clock minus the source's timestamps.")
    findings = Family("gpucast_findings_total", "counter", "What was wrong with replies, lines or samples touched.")
    for target in health.targets:
        up.add(float(target.up), source=target.source)
        samples.add(target.samples, source=target.source)
        last_ok.add(target.last_ok_s, source=target.source)
        interval.add(target.interval_s, source=target.source)
        offset.add(target.clock_offset_s, source=target.source)
        for problem, count in sorted(target.findings.items()):
            findings.add(count, source=target.source, problem=problem)
    return [up, samples, last_ok, interval, offset, findings]


def _forecasts(reads: Reads) -> list[Family]:
    jobs = reads.jobs()
    count = Family("gpucast_jobs", "gauge", "Jobs known now.")
    count.add(len(jobs))
    skill = Family("gpucast_forecast_skill_ratio", "gauge", "1 - WQL of the served model / WQL of persistence.")
    coverage = Family("gpucast_forecast_coverage80_ratio", "gauge", "Share of truths inside the 80 % interval.")
    age = Family("gpucast_forecast_data_age_seconds", "gauge", "Age of the newest sample when the forecast was made.")
    absent = Family("gpucast_forecast_absent", "gauge", "1 for each job and metric without a forecast, with the why.")
    for job in jobs:
        age.add(job.age_s, job=str(job.job))
        for metric, path in sorted(job.metrics.items()):
            if isinstance(path, QuantilePath):
                skill.add(path.skill.skill, job=str(job.job), metric=metric, model=path.model)
                coverage.add(path.skill.coverage80, job=str(job.job), metric=metric)
            else:
                absent.add(1, job=str(job.job), metric=metric, why=str(path.why))
    return [count, skill, coverage, age, absent]


def _links_and_advice(reads: Reads) -> list[Family]:
    links = reads.links()
    count = Family("gpucast_links", "gauge", "Links known now.")
    count.add(len(links))
    chance = Family("gpucast_link_congestion_probability_ratio", "gauge", "Chance to pass the threshold.")
    use = Family("gpucast_link_use_ratio", "gauge", "Latest use of the link.")
    for link in links:
        if isinstance(link.probability, float | int):
            chance.add(float(link.probability), link=str(link.link))
        use.add(link.use_ratio, link=str(link.link))
    statuses = [record.status for record in reads.advice()]
    advice = Family("gpucast_advice", "gauge", "Advice kept, by status.")
    for status in sorted(set(statuses)):
        advice.add(statuses.count(status), status=status)
    return [count, chance, use, advice]


def _sickness(reads: Reads) -> list[Family]:
    """Only what has a finding has a series; the worst come first, so that the page's limit leaves them in."""
    report = reads.sickness()
    score = Family(
        "gpucast_health_score_ratio", "gauge", "1 is well; only GPUs, nodes and jobs with a finding are shown."
    )
    for one in report.scores:
        score.add(one.score, thing=str(one.thing), entity=one.entity)
    count = Family("gpucast_health_findings", "gauge", "Findings of what is slow and sick, by kind and severity.")
    kinds = Counter((one.kind, str(one.severity)) for one in report.findings)
    for (kind, severity), n in sorted(kinds.items()):
        count.add(n, kind=kind, severity=severity)
    unknown = Family(
        "gpucast_health_unknown", "gauge", "Signs that could not be looked for, by sign; for how many jobs."
    )
    for sign, n in sorted(Counter(one.kind for one in report.unjudged).items()):
        unknown.add(n, sign=sign)
    return [score, count, unknown]


def _own(counters: dict[str, float], taken: set[str]) -> list[Family]:
    """The service's own counters; a name that is not legal, or is ours already, is left out."""
    families: dict[str, Family] = {}
    for series, value in sorted(counters.items()):
        match = _SERIES.fullmatch(series)
        if match is None or match[1] in taken or not math.isfinite(value):
            continue
        kind = "counter" if match[1].endswith("_total") else "gauge"
        words = match[1].removeprefix("gpucast_").removesuffix("_total").replace("_", " ")
        family = families.setdefault(match[1], Family(match[1], kind, f"{words.capitalize()} since the start."))
        family.rows.append((match[2] or "", float(value)))
    return list(families.values())


def exposition(reads: Reads, settings: HttpSettings) -> str:
    """Everything as Prometheus text; each family keeps at most ``max_metric_series`` series."""
    health = reads.health()
    families = [
        *_state(health, settings),
        *_sources(health),
        *_forecasts(reads),
        *_links_and_advice(reads),
        *_sickness(reads),
    ]
    families += _own(health.counters, {family.name for family in families} | {"gpucast_series_omitted"})
    omitted = Family("gpucast_series_omitted", "gauge", "Series left out of this page to keep it small, by family.")
    for family in families:
        extra = len(family.rows) - settings.max_metric_series
        if extra > 0:
            del family.rows[settings.max_metric_series :]
            omitted.add(extra, family=family.name)
    return _joined(line for family in [*families, omitted] for line in family.lines())


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


@router.get(
    "/metrics",
    response_class=Response,
    responses={**errors(), 200: {"description": "Prometheus text 0.0.4.", "content": {"text/plain": {}}}},
)
async def metrics(reads: ReadsDep, settings: SettingsDep) -> Response:
    """Own counters, sources, skill and congestion as Prometheus text."""
    headers = {"Content-Type": CONTENT_TYPE, "Cache-Control": NEVER_STORE}
    return Response(exposition(reads, settings), headers=headers)

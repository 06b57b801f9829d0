"""What the demonstration notes while it watches a service as a user would, and how it scores it by the simulator's truth."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from api.reads import AdviceRecord
from api.service import Service
from forecast.predict.types import JobForecast, LinkForecast, Lull, Period, PhaseNow, QuantilePath
from telemetry.errors import AdviceError

Say = Callable[[str], None]
POLL_S = 0.25
WARN_AT = 0.6
APPROVE_AFTER_S = 14.0
"""An advice is watched for so long before it is approved: three or four bursts of the colliding pair."""
PHASE_SLACK_S = 0.5
"""A gauge is a mean over the exporter's last refresh of 0.5 s, so it tells of a moment that long ago."""
SLACK_S = 0.5
"""A burst is announced in time when it is placed this near; counters are read three times a second."""
PERIOD_TOLERANCE = 0.03
"""Half of it is the job's own jitter over the few iterations seen by then."""


@dataclass(slots=True)
class JobFinding:
    """One job: its period just before the shift, and how its forecasts did by the end."""

    job: str
    true_period_s: float
    found_period_s: float | None
    found_after_s: float | None
    phase: str
    phase_ratio: float | None
    phase_right_ratio: float | None
    next_lull_in_s: float | None
    skill: float | None
    coverage80: float | None
    scored: int
    why_none: str = ""

    @property
    def error_ratio(self) -> float | None:
        """Relative error of the period; None when none was found."""
        if self.found_period_s is None:
            return None
        return abs(self.found_period_s / self.true_period_s - 1.0)


@dataclass(slots=True)
class DemoReport:
    """Everything the demonstration shows at its end."""

    first_forecast_s: float | None = None
    jobs: list[JobFinding] = field(default_factory=list)
    warned_link: str = ""
    warned_at_s: float | None = None
    warned_probability: float | None = None
    first_lead_s: float | None = None
    """From the warning to the first overload the link ever had; None where it had been overloaded before."""
    overloads: int = 0
    announced: int = 0
    lead_s: float | None = None
    precision_ratio: float | None = None
    causes: list[str] = field(default_factory=list)
    false_alarms: int = 0
    advice: AdviceRecord | None = None
    applied_at_s: float | None = None
    overload_before_ratio: float | None = None
    overload_after_ratio: float | None = None
    duration_s: float = 0.0
    samples: int = 0
    failures: list[str] = field(default_factory=list)


class Watch:
    """Looks at the service as it works, and notes what it said when."""

    def __init__(self, service: Service, base_url: str, began_s: float, until_s: float, say: Say) -> None:
        self._service = service
        self._base_url = base_url
        self._began_s = began_s
        self._until_s = until_s
        self._say_line = say
        self._truth: dict[str, Any] = {}
        self._found: dict[str, JobFinding] = {}
        """As known when the shift was applied: later the colliding jobs change their pace."""
        self._warned: dict[str, tuple[float, float, tuple[str, ...]]] = {}
        self._alarms: list[tuple[str, float]] = []
        self._hot_steps: dict[str, list[tuple[float, float]]] = {}
        """Link -> (when it was said, when it was to be overloaded), one per step of a path."""
        self._rounds_s: dict[str, float] = {}
        self._offered_s: float | None = None
        self._true_phases: dict[str, list[tuple[float, str]]] = {}
        self._phases_said: dict[str, dict[float, str]] = {}
        """Job -> time of the data -> the phase that was said of it."""
        self.report = DemoReport()

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _say(self, text: str) -> None:
        self._say_line(f"{self._elapsed_s():5.1f} s  {text}")

    async def until_done(self, service: asyncio.Task[None]) -> None:
        """Watch until everything was shown, or time is up, or the service ended."""
        while not service.done() and time.monotonic() < self._until_s:
            await asyncio.sleep(POLL_S)
            self._truth = await asyncio.to_thread(_truth, self._base_url)
            self._look_at_jobs()
            self._look_at_links()
            if self._look_at_advice():
                break
        if service.done() and not service.cancelled() and service.exception() is not None:
            self.report.failures.append(f"the service ended: {service.exception()}")

    def _look_at_jobs(self) -> None:
        jobs = self._service.jobs()
        if self.report.first_forecast_s is None and any(
            isinstance(path, QuantilePath) for job in jobs for path in job.metrics.values()
        ):
            self.report.first_forecast_s = self._elapsed_s()
            self._say(f"first forecast: {len(jobs)} jobs seen")
        truth = {job["id"]: job for job in self._truth["jobs"]}
        for name, job in truth.items():
            self._true_phases.setdefault(name, []).append((self._truth["now_s"], job["phase"]))
        for forecast in jobs:
            name = str(forecast.job)
            if isinstance(forecast.phase, PhaseNow):
                self._phases_said.setdefault(name, {})[forecast.data_at_s] = str(forecast.phase.phase)
            if not isinstance(forecast.period, Period) or name not in truth:
                continue
            first = self._found.get(name)
            if first is not None and self.report.applied_at_s is not None:
                continue
            finding = self._finding(forecast, truth[name])
            self._found[name] = finding
            if first is not None:
                finding.found_after_s = first.found_after_s
                continue
            self._say(
                f"{name}: period {finding.found_period_s:.2f} s (true {finding.true_period_s:.2f} s), "
                f"{forecast.period.votes} of {forecast.period.voters} series agree"
            )

    def _finding(self, forecast: JobForecast, truth: dict[str, Any]) -> JobFinding:
        period, phase, lull = forecast.period, forecast.phase, forecast.next_lull
        return JobFinding(
            job=str(forecast.job),
            true_period_s=_recent_period_s(truth),
            found_period_s=period.period_s if isinstance(period, Period) else None,
            found_after_s=self._elapsed_s(),
            phase=str(phase.phase) if isinstance(phase, PhaseNow) else "-",
            phase_ratio=phase.probabilities[phase.phase] if isinstance(phase, PhaseNow) else None,
            phase_right_ratio=None,
            next_lull_in_s=lull.start_s - forecast.made_at_s if isinstance(lull, Lull) else None,
            skill=None,
            coverage80=None,
            scored=0,
            why_none="" if isinstance(period, Period) else period.reason,
        )

    def _look_at_links(self) -> None:
        for link in self._service.links():
            name = str(link.link)
            if not isinstance(link.probability, float):
                continue
            self._note_path(name, link)
            if link.probability >= WARN_AT and name not in self._warned:
                causes = tuple(f"{cause.job} {cause.share_ratio:.0%}" for cause in link.causes[:2])
                self._warned[name] = (time.time(), link.probability, causes)
                self._say(_warning(link, causes, time.time()))
            elif link.probability < WARN_AT / 2 and name in self._warned and not self._was_hot(name):
                self._alarms.append((name, self._warned.pop(name)[0]))

    def _note_path(self, name: str, link: LinkForecast) -> None:
        """Remember which of the coming moments a fresh path calls overloaded."""
        path = link.path
        if not isinstance(path, QuantilePath) or self._rounds_s.get(name) == link.made_at_s:
            return
        self._rounds_s[name] = link.made_at_s
        hot = np.flatnonzero(path.values[:, path.levels.index(0.5)] >= link.threshold_ratio)
        said_s = time.time()
        self._hot_steps.setdefault(name, []).extend((said_s, path.start_s + float(h + 1) * path.step_s) for h in hot)

    def _was_hot(self, name: str) -> bool:
        since_s = self._warned[name][0]
        return any(over["link"] == name and over["start_s"] >= since_s for over in self._truth["overloads"])

    def _look_at_advice(self) -> bool:
        """True once an applied advice has its grade."""
        for record in self._service.advice():
            if record.advice.kind == "shift" and record.status == "open":
                self._wait_and_approve(record)
            if record.advice.kind != "shift" or record.receipt is None:
                continue
            if self.report.applied_at_s is None:
                self.report.applied_at_s = record.receipt.applied_at_s
                self._say(f"approved and applied: {record.receipt.detail}")
            if record.grade is not None:
                self.report.advice = record
                self._say(f"graded {record.grade.verdict}: {record.grade.reason}")
                return True
        return False

    def _wait_and_approve(self, record: AdviceRecord) -> None:
        """What a person would do: read the advice, watch a few bursts, then approve it."""
        if self._offered_s is None:
            self._offered_s = self._elapsed_s()
            steps = "; ".join(record.plan.steps) if record.plan is not None else "nothing"
            self._say(f"advice: {record.advice.reason}")
            self._say(f"plan: {steps} (waits for approval)")
        elif self._elapsed_s() - self._offered_s >= APPROVE_AFTER_S and self.report.applied_at_s is None:
            with contextlib.suppress(AdviceError):
                self._service.decide(record.advice.id, "approve")

    def close(self) -> DemoReport:
        """Fill in the report and say what is missing or wrong in it."""
        report = self.report
        report.duration_s = self._elapsed_s()
        report.samples = int(self._service.health().counters["gpucast_samples_received_total"])
        report.false_alarms = len(self._alarms)
        self._close_jobs()
        self._close_links()
        self._judge()
        return report

    def _close_jobs(self) -> None:
        rows = self._service.accuracy()
        current = {str(forecast.job): forecast for forecast in self._service.jobs()}
        for truth in self._truth.get("jobs", []):
            name = truth["id"]
            forecast = current.get(name)
            if forecast is None:
                self.report.failures.append(f"{name} was never seen")
                continue
            finding = self._finding(forecast, truth)
            if name in self._found:
                known = self._found[name]
                finding.true_period_s, finding.found_period_s = known.true_period_s, known.found_period_s
                finding.found_after_s = known.found_after_s
            finding.phase_right_ratio = self._phases_right(name)
            mine = [row for row in rows if row.subject == name and row.scored]
            if mine:
                finding.skill = float(np.median([row.skill for row in mine]))
                finding.coverage80 = float(np.mean([row.coverage80 for row in mine if row.coverage80 is not None]))
                finding.scored = sum(row.scored for row in mine)
            self.report.jobs.append(finding)

    def _phases_right(self, name: str) -> float | None:
        """Share of looks at which the phase said of the newest data was the true one, within one refresh."""
        truth = self._true_phases.get(name, [])
        at_s = np.array([at for at, _ in truth])
        right = []
        for data_s, said in self._phases_said.get(name, {}).items():
            near = np.flatnonzero(np.abs(at_s - data_s) <= PHASE_SLACK_S)
            if near.size:
                right.append(any(truth[i][1] == said for i in near))
        return float(np.mean(right)) if right else None

    def _close_links(self) -> None:
        report = self.report
        until_s = report.applied_at_s if report.applied_at_s is not None else float(self._truth["now_s"])
        for name, (warned_s, probability, causes) in sorted(self._warned.items(), key=lambda item: item[1][0]):
            bursts = [
                (over["start_s"], until_s if over["end_s"] is None else over["end_s"])
                for over in self._truth["overloads"]
                if over["link"] == name and warned_s < over["start_s"] < until_s
            ]
            if not bursts:
                continue
            report.warned_link, report.warned_at_s, report.warned_probability = name, warned_s, probability
            report.causes, report.overloads = list(causes), len(bursts)
            ever_s = min(over["start_s"] for over in self._truth["overloads"] if over["link"] == name)
            report.first_lead_s = ever_s - warned_s if ever_s > warned_s else None
            self._score_announcements(name, bursts, until_s)
            break
        if report.applied_at_s is not None and report.warned_link and report.advice is not None:
            effect = report.advice.advice.predicted
            window_s = effect.window_s if effect is not None else 20.0
            now_s = float(self._truth["now_s"])
            report.overload_before_ratio = self._overload_ratio(report.applied_at_s - window_s, report.applied_at_s)
            report.overload_after_ratio = self._overload_ratio(now_s - window_s, now_s)

    def _score_announcements(self, name: str, bursts: list[tuple[float, float]], until_s: float) -> None:
        """How long before each burst it was first placed rightly, and how many of the announced moments came true."""
        said = self._hot_steps.get(name, [])
        leads = []
        for start_s, end_s in bursts:
            early = [
                start_s - said_s
                for said_s, hot_s in said
                if said_s < start_s and start_s - SLACK_S <= hot_s <= end_s + SLACK_S
            ]
            if early:
                leads.append(max(early))
        first_s, last_s = bursts[0][0] - SLACK_S, bursts[-1][1] + SLACK_S
        due = [hot_s for said_s, hot_s in said if first_s <= hot_s <= min(last_s, until_s) and said_s < hot_s]
        right = [any(start_s - SLACK_S <= hot_s <= end_s + SLACK_S for start_s, end_s in bursts) for hot_s in due]
        self.report.announced = len(leads)
        self.report.lead_s = float(np.median(leads)) if leads else None
        self.report.precision_ratio = float(np.mean(right)) if right else None

    def _overload_ratio(self, from_s: float, to_s: float) -> float:
        """True share of the time in which the warned link was overloaded."""
        total = 0.0
        for over in self._truth["overloads"]:
            if over["link"] == self.report.warned_link:
                end_s = to_s if over["end_s"] is None else min(over["end_s"], to_s)
                total += max(0.0, end_s - max(over["start_s"], from_s))
        return total / (to_s - from_s)

    def _judge(self) -> None:
        report, wrong = self.report, self.report.failures
        if report.first_forecast_s is None:
            wrong.append("no forecast was made")
        for finding in report.jobs:
            if finding.error_ratio is None:
                wrong.append(f"{finding.job}: no period was found ({finding.why_none})")
            elif finding.error_ratio > PERIOD_TOLERANCE:
                wrong.append(f"{finding.job}: the period is off by {finding.error_ratio:.1%}")
        skills = [finding.skill for finding in report.jobs if finding.skill is not None]
        if not skills or np.median(skills) <= 0:
            wrong.append("the served forecasts did not beat persistence")
        if report.lead_s is None:
            wrong.append("no overload was announced before it came")
        if report.advice is None or report.advice.grade is None:
            said = [record.advice.reason for record in self._service.advice()]
            wrong.append(f"no advice was applied and graded; the advisor said: {said[0] if said else 'nothing'}")
        elif report.advice.grade.verdict not in {"inside", "better"}:
            wrong.append(f"the advice was graded {report.advice.grade.verdict}: {report.advice.grade.reason}")


def _truth(base_url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{base_url}/control/state", timeout=5) as reply:
        truth: dict[str, Any] = json.loads(reply.read())
    return truth


def _recent_period_s(truth: dict[str, Any]) -> float:
    """Median spacing of the newest iterations; checkpoints and evaluations stand between some of them."""
    starts = truth["iteration_starts_s"][-8:]
    return float(np.median(np.diff(starts))) if len(starts) > 2 else float(truth["period_s"])


def _warning(link: LinkForecast, causes: tuple[str, ...], now_s: float) -> str:
    onset = "" if link.onset_s is None else f", first in about {max(0.0, link.onset_s - now_s):.0f} s"
    by = f", by {' and '.join(causes)}" if causes else ""
    return f"warning: {link.link} passes {link.threshold_ratio:.0%} within {link.horizon_s:.0f} s with {link.probability:.0%}{onset}{by}"

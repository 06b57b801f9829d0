"""``gpucast demo``."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--seed", type=int, default=7, help="same seed, same cluster (default 7)")
    parser.add_argument("--port", type=int, default=0, help="port of the page (default a free one)")
    parser.add_argument(
        "--onset",
        choices=("standing", "drift"),
        default="standing",
        help="two jobs collide from the first burst on, or slide into each other later (default standing)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--exit", action="store_true", help="end after the report, also on a terminal")


def run(args: argparse.Namespace) -> int:
    """Run the demonstration; exit code 1 when what it shows is wrong or missing."""
    import asyncio
    import logging

    from api.demo import run_demo
    from api.demo_watch import DemoReport

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    keep = sys.stdout.isatty() and not args.exit and not args.json
    say = _say_to(sys.stderr if args.json else sys.stdout)

    async def stay(report: DemoReport, page: str) -> None:
        if keep:
            print(_report(report))
            print(f"\nstill serving at {page} - open it in a browser; press Ctrl-C to end", flush=True)
            await asyncio.Event().wait()

    report = asyncio.run(run_demo(seed=args.seed, port=args.port, onset=args.onset, say=say, afterwards=stay))
    if args.json:
        print(json.dumps(_as_json(report)))
    elif not keep:
        print(_report(report))
    return 1 if report.failures else 0


def _say_to(stream: Any) -> Any:
    def say(line: str) -> None:
        print(line, file=stream, flush=True)

    return say


def _as_json(report: Any) -> dict[str, Any]:
    import time
    from dataclasses import asdict

    from api.http.render.advice import advice

    tree = asdict(report)
    tree["advice"] = None if report.advice is None else advice(report.advice, time.time()).model_dump()
    return tree


def _report(report: Any) -> str:
    from api.cli.tables import colour, percent, seconds, table

    rows = [
        [
            job.job,
            seconds(job.true_period_s),
            seconds(job.found_period_s),
            "-" if job.error_ratio is None else f"{job.error_ratio:.1%}",
            seconds(job.found_after_s),
            f"{job.phase} {percent(job.phase_ratio)}",
            percent(job.phase_right_ratio),
            seconds(job.next_lull_in_s, sign=True),
            "-" if job.skill is None else f"{job.skill:+.2f}",
            percent(job.coverage80),
        ]
        for job in report.jobs
    ]
    head = ["job", "true period", "found", "error", "after", "phase now", "phase right", "next lull", "skill", "cov80"]
    lines = ["", table(head, rows), "(skill against persistence, live: 0 is persistence, 1 is perfect)", ""]
    if report.lead_s is not None:
        lines += [
            f"congestion  {report.warned_link}: {report.announced} of {report.overloads} overloads announced, "
            f"median lead {seconds(report.lead_s)}; {percent(report.precision_ratio)} of the announced moments came true; "
            f"false alarms on other links: {report.false_alarms}",
            f"causes      {', '.join(report.causes)}",
        ]
        if report.first_lead_s is not None:
            lines.append(
                f"first ever  warned {seconds(report.first_lead_s)} before the link was overloaded for the first time"
            )
    if report.advice is not None:
        advice, grade = report.advice.advice, report.advice.grade
        lines.append(f"advice      {advice.kind} {advice.job}: {advice.reason}")
        if advice.predicted is not None:
            effect = advice.predicted
            lines.append(
                f"predicted   {effect.metric} {effect.baseline:.2f} -> {effect.median:.2f} "
                f"(80 %: {effect.low:.2f} .. {effect.high:.2f})"
            )
        if grade is not None:
            lines.append(f"graded      {grade.verdict}: {grade.reason}")
        lines.append(
            f"truth       overloaded {percent(report.overload_before_ratio)} of the time before, "
            f"{percent(report.overload_after_ratio)} after"
        )
    lines.append(
        f"{report.samples} samples over HTTP, first forecast after {seconds(report.first_forecast_s)}, "
        f"whole run {seconds(report.duration_s)}"
    )
    lines += [colour(f"wrong       {text}", "red") for text in report.failures]
    return "\n".join(lines)

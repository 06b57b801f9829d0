"""``gpucast forecast``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from api.cli.client import add_url_argument, ask, quote
from api.cli.tables import absent, colour, percent, quantity, seconds, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("job", nargs="?", help="a job's id, such as kubernetes:team-a:train; without it, every job")
    add_url_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Show every job, or one job in full. Exit code 4 when the one job has no forecast at all."""
    if args.job is None:
        answer = ask(args.url, "/v1/jobs?limit=500", needs=("items",))
        print(json.dumps(answer) if args.json else _overview(answer["items"]))
        return 0
    answer = ask(args.url, f"/v1/jobs/{quote(args.job)}/forecast", needs=("period", "metrics"))
    print(json.dumps(answer) if args.json else _detail(answer))
    nothing = absent(answer["period"]) and all(absent(path) for path in answer["metrics"].values())
    return 4 if nothing else 0


def _overview(jobs: list[dict[str, Any]]) -> str:
    if not jobs:
        return "no jobs are seen yet; 'gpucast doctor' shows what is collected"
    rows = [
        [
            job["id"],
            str(job["gpu_count"]),
            _period(job["period"]),
            "-" if absent(job["phase"]) else job["phase"]["phase"],
            "-" if absent(job["next_lull"]) else seconds(job["next_lull"]["start_s"] - job["data_at_s"], sign=True),
            _skills(job["metrics"]),
            seconds(job["age_s"]),
        ]
        for job in jobs
    ]
    return table(["job", "GPUs", "period", "phase", "next lull", "skill against persistence", "data age"], rows)


def _period(period: dict[str, Any]) -> str:
    return f"none: {period['why']}" if absent(period) else seconds(period["period_s"])


def _skills(metrics: dict[str, Any]) -> str:
    skills = [m["skill"]["skill"] for m in metrics.values() if not absent(m) and m["skill"]["skill"] is not None]
    return f"{max(skills):+.2f} best of {len(skills)}" if skills else "-"


def _told_by(period: dict[str, Any]) -> str:
    """Where a period comes from, and what the other sources say."""
    own = f"{period['votes']} of {period['voters']} series agree"
    if period.get("source", "telemetry") != "telemetry":
        own = f"from the job's own {period['source']}, {period['votes']} of them"
    others = [
        f"{one['source']}: {one['period_s']:.3f} s" if one["period_s"] else f"{one['source']}: none, {one['reason']}"
        for one in period.get("others", ())
    ]
    return "; ".join([own, *others])


def _detail(job: dict[str, Any]) -> str:
    lines = [colour(job["id"], "bold") + f"  {job['gpu_count']} GPUs on {', '.join(job['nodes'])}"]
    period, phase, lull = job["period"], job["phase"], job["next_lull"]
    lines.append(
        f"period     none ({period['why']}): {period['reason']}"
        if absent(period)
        else f"period     {period['period_s']:.3f} s ({seconds(period['low_s'])} .. {seconds(period['high_s'])}), "
        + _told_by(period)
    )
    lines.append(
        f"phase      none ({phase['why']}): {phase['reason']}"
        if absent(phase)
        else f"phase      {phase['phase']} ({percent(phase['probabilities'][phase['phase']])}): {phase['evidence']}"
    )
    lines.append(
        f"next lull  none ({lull['why']}): {lull['reason']}"
        if absent(lull)
        else f"next lull  in {seconds(lull['start_s'] - job['data_at_s'])} for {seconds(lull['end_s'] - lull['start_s'])}"
    )
    lines += [_ahead(name, value, job["data_at_s"]) for name, value in sorted(job.get("next_phases", {}).items())]
    if "memory" in job:  # an older service does not say
        lines.append(f"memory     {_memory(job['memory'])}")
    lines.append(f"data       {seconds(job['age_s'])} old, one point per {seconds(job['step_s'])}")
    rows = [_path_row(name, path) for name, path in sorted(job["metrics"].items()) if not absent(path)]
    if rows:
        lines += ["", table(["metric", "in", "median", "80 % interval", "model", "skill", "cov80", "cov95"], rows)]
    reasons = [f"{name}: {path['reason']}" for name, path in sorted(job["metrics"].items()) if absent(path)]
    if reasons:
        lines += ["", "no forecast for"] + [f"  {line}" for line in reasons]
    return "\n".join(lines)


def _ahead(name: str, value: dict[str, Any], data_at_s: float) -> str:
    """The next checkpoint or evaluation in one line."""
    if absent(value):
        return f"next {name}  none ({value['why']}): {value['reason']}"
    starts, early, late = (seconds(value[key] - data_at_s) for key in ("start_s", "start_low_s", "start_high_s"))
    lasts = f"{seconds(value['length_s'])} ({seconds(value['length_low_s'])} .. {seconds(value['length_high_s'])})"
    return (
        f"next {name}  in {starts} ({early} .. {late}), lasting {lasts}, {percent(value['probability'])}:"
        f" {value['evidence']}"
    )


def _memory(value: dict[str, Any]) -> str:
    """Head-room and the chance to run out, in one line."""
    if absent(value):
        return f"none ({value['why']}): {value['reason']}"
    rise = "" if value["trend"] == "flat" else f", rising {quantity(value['slope_bytes_per_s'], 'bytes per second')}"
    full = "" if value["full_in_s"] is None else f", full in {seconds(value['full_in_s'])}"
    return (
        f"{value['trend']}: {quantity(value['headroom_bytes'], 'bytes')} of {quantity(value['usable_bytes'], 'bytes')} left"
        f" on {value['device']}{rise}{full}; {percent(value['out_of_memory_probability'])} to run out within"
        f" {seconds(value['horizon_s'])}"
    )


def _path_row(name: str, path: dict[str, Any]) -> list[str]:
    by_level = dict(zip(path["levels"], path["values"], strict=True))
    unit = path["unit"]
    step = len(by_level[0.5]) // 2
    return [
        name,
        seconds((step + 1) * path["step_s"]),
        quantity(by_level[0.5][step], unit),
        f"{quantity(by_level[0.1][step], unit)} .. {quantity(by_level[0.9][step], unit)}",
        path["model"],
        "-" if path["skill"]["skill"] is None else f"{path['skill']['skill']:+.2f}",
        percent(path["skill"]["coverage80"]),
        percent(path["skill"]["coverage95"]),
    ]

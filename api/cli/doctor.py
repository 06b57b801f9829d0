"""``gpucast doctor``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from api.cli.client import add_url_argument, ask
from api.cli.doctor_sections import clock_lines, clocks, device_lines, field_lines, sampling, sampling_lines
from api.cli.tables import colour, seconds, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    add_url_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Show sources and what is missing. Exit code 4 when the service is not ready or a source is down."""
    health = ask(args.url, "/v1/health", needs=("ready", "targets"))
    plugins = ask(args.url, "/v1/plugins", needs=("items",))["items"]
    nccl = ask(args.url, "/v1/collectives?limit=1000", needs=("items",))
    wiring = ask(args.url, "/v1/topology?limit=1000", needs=("conflicts", "sources"))
    jobs = ask(args.url, "/v1/jobs?limit=1000", needs=("items",))["items"]
    found = {
        "clocks": clocks(health["targets"]),
        "sampling": sampling(health["targets"], jobs, health.get("devices", {}).get("nodes_of", {})),
    }
    if args.json:
        beside = {"collectives": nccl, "topology": {key: wiring[key] for key in ("conflicts", "unknowns", "sources")}}
        print(json.dumps({**health, **found, "plugins": plugins, **beside}))
    else:
        print("\n".join([_text(health, plugins, found), *_collectives(nccl), *_wiring(wiring)]))
    return 0 if health["ready"] and health["sources_up"] == health["sources_total"] else 4


def _text(health: dict[str, Any], plugins: list[dict[str, Any]], found: dict[str, list[dict[str, Any]]]) -> str:
    state = colour("ready", "green") if health["ready"] else colour("not ready", "red")
    lines = [
        f"gpucast {health['version']}: {state}, {health['sources_up']} of {health['sources_total']} sources up, "
        f"mode {health['mode']}, backend {health['backend']}"
    ]
    lines += [f"  {reason}" for reason in health["reasons"]]
    rows = [
        [
            target["source"] if target["role"] == "telemetry" else f"{target['source']} ({target['role']})",
            "up" if target["up"] else "DOWN",
            _ago(target["last_ok_s"], health["now_s"]),
            seconds(target["interval_s"]),
            seconds(target["refresh_s"]),
            seconds(target["clock_offset_s"], sign=True),
            str(target["samples"]),
            _notes(target),
        ]
        for target in health["targets"]
    ]
    lines += ["", table(["source", "state", "last", "every", "changes every", "clock", "samples", "notes"], rows)]
    lines += device_lines(health["devices"]) if "devices" in health else []
    lines += [*clock_lines(found["clocks"]), *sampling_lines(found["sampling"])]
    lines += _troubles(health["targets"])
    if plugins:
        lines += ["", "plug-ins"]
        lines += [f"  {one['seam']}: {one['name']} ({one['module']}) {_state(one)}" for one in plugins]
    if health["missing_fields"]:
        lines += field_lines(health["missing_fields"])
        lines += _counters(health["missing_fields"])
    return "\n".join(lines)


def _collectives(nccl: dict[str, Any]) -> list[str]:
    """Communicators in trouble, and how many operations have no record, by job."""
    if not nccl["items"]:
        return []
    lines = ["", f"collectives: {nccl['in_trouble']} of {nccl['total']} communicators in trouble"]
    for one in nccl["items"]:
        missed = f", {one['missed_count']} operations without a record" if one["missed_count"] else ""
        if not one["in_trouble"] and not missed:
            continue
        whose = one["job"] or f"job unknown ({one['job_reason']})"
        lines.append(f"  {one['id']} of {whose}: {_ranks(one)}{missed}")
        lines += [f"    {colour(trouble['sentence'], 'red')}" for trouble in one["troubles"]]
    return lines


def _ranks(one: dict[str, Any]) -> str:
    if one["missing_ranks"] is None:
        return f"{one['recorded_ranks']} of {one['rank_count']} ranks have records"
    return f"{one['missing_ranks']} of {one['rank_count']} ranks missing, {one['failed_ranks']} failed"


def _wiring(wiring: dict[str, Any]) -> list[str]:
    """What topology sources do not agree on, and those that cannot be used."""
    lines = []
    if wiring["conflicts"]:
        lines += ["", "topology: sources do not agree"]
        for one in wiring["conflicts"]:
            sides = "; ".join(f"{side['source']} says {side['value']}" for side in one["says"])
            lines.append(f"  {one['what']} of {one['subject']}: {sides}; {one['kept'] or 'nothing'} is used")
    old = [one for one in wiring["sources"] if one["error"] and one["age_s"] is not None]
    lines += [f"  {one['source']}: content of {seconds(one['age_s'])} ago is used" for one in old]
    return lines


def _counters(missing: dict[str, str]) -> list[str]:
    """What to add to dcgm-exporter's counters file; nothing where the exporter does print the field."""
    from collectors.counters_file import counter_lines

    absent = [name for name, why in missing.items() if "stand still" not in why and "repeat an old number" not in why]
    lines = counter_lines(absent)
    if not lines:
        return []
    head = "add these lines to the counters file of dcgm-exporter (--collectors), where its GPUs have the field"
    return ["", head, *(f"  {line}" for line in lines)]


def _troubles(targets: list[dict[str, Any]]) -> list[str]:
    """What was ever wrong with a source, the newest sentence of each kind."""
    told = [
        f"  {target['source']}: {problem} x{target['findings'].get(problem, 0)}: {sentence}"
        for target in targets
        for problem, sentence in sorted(target["details"].items())
    ]
    return ["", colour("what was wrong with replies since the start", "bold"), *told] if told else []


def _state(plugin: dict[str, Any]) -> str:
    if plugin["loaded"]:
        return "is in use" if plugin["in_use"] else "is loaded, and not in use by the settings"
    return colour(f"is left out: {plugin['error']}", "red")


def _notes(target: dict[str, Any]) -> str:
    """How often each trouble came; the sentences stand below the table, but for an error that no finding tells of."""
    notes = [f"{problem} x{count}" for problem, count in sorted(target["findings"].items())]
    alone = target["last_error"] and target["last_error"] not in target["details"].values()
    return "; ".join(([target["last_error"]] if alone else []) + notes)


def _ago(last_ok_s: float | None, now_s: float) -> str:
    if last_ok_s is None:
        return "never"
    return "just now" if now_s - last_ok_s < 1.0 else seconds(now_s - last_ok_s) + " ago"

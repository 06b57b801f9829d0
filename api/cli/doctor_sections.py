"""What ``gpucast doctor`` says of GPUs, clocks and sampling, from the service's answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from api.cli.tables import absent, colour, seconds

CLOCK_TOLERANCE_S = 2.0
"""Below this a clock is as good as the samples: dcgm-exporter's values may be a second old when they are printed."""
SAMPLES_TO_SEE = 4
"""Values within one iteration below which its period cannot be found."""
SAMPLES_FOR_PHASES = 8
"""Values within one iteration below which its phases run into each other."""
_COARSE_S = 5.0
_FINEST_MS = 100
_USUAL_MS = 1000
_MOST_NAMED = 5
_USUAL = re.compile(r"^no sample of \S+ came for this job's devices in the last [0-9.]+ s(?:; )?")
"""The plain case of an absent field: the head line says as much."""
_NODES_TOLD = 100
"""As many hosts of a source as the service names; there may be more."""


def clocks(targets: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sources whose clock differs from the service's by more than the tolerance; ``offset_s`` is ours minus theirs."""
    return [
        {"source": target["source"], "offset_s": offset_s}
        for target in targets
        if (offset_s := target["clock_offset_s"]) is not None and abs(offset_s) > CLOCK_TOLERANCE_S
    ]


def sampling(
    targets: Sequence[dict[str, Any]], jobs: Sequence[dict[str, Any]], nodes_of: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Sources whose values change too seldom for the iterations of the jobs, and the interval that would do.

    Args:
        targets: of ``/v1/health``.
        jobs: of ``/v1/jobs``.
        nodes_of: source -> hosts that it serves; a hundred of them stand for any number.
    """
    periods = {
        job["id"]: float(job["period"]["period_s"])
        for job in jobs
        if isinstance(job.get("period"), dict) and not absent(job["period"])
    }
    hosts = {job["id"]: job.get("nodes", ()) for job in jobs}
    found = []
    for target in targets:
        refresh_s, served = target["refresh_s"] or 0.0, nodes_of.get(target["source"], ())
        coarse_for = sorted(
            job
            for job, period_s in periods.items()
            if period_s < SAMPLES_FOR_PHASES * refresh_s
            and (len(served) >= _NODES_TOLD or not served or set(served) & set(hosts[job]))
        )
        if not coarse_for and refresh_s <= _COARSE_S:
            continue
        shortest_s = min((periods[job] for job in coarse_for), default=None)
        found.append(
            {
                "source": target["source"],
                "refresh_s": refresh_s,
                "shortest_visible_s": SAMPLES_TO_SEE * refresh_s,
                "jobs": coarse_for,
                "shortest_period_s": shortest_s,
                "interval_ms": _interval_ms(shortest_s),
            }
        )
    return found


def _interval_ms(period_s: float | None) -> int:
    """The longest interval in steps of 100 ms that gives enough values within a period; a second where none is known."""
    if period_s is None:
        return _USUAL_MS
    return max(int(period_s * 1000 / SAMPLES_FOR_PHASES) // _FINEST_MS * _FINEST_MS, _FINEST_MS)


def device_lines(devices: dict[str, Any]) -> list[str]:
    """GPUs: how many, those that belong to nobody, those without a host, those that are served twice."""
    if not devices["total"]:
        return []
    lines = ["", f"{colour('GPUs', 'bold')}: {devices['total']} served by the sources"]
    if free := devices["without_job_total"]:
        lines.append(f"  {free} of them belong to no job that is known: {_some(devices['without_job'], free)}")
        lines.append("    idle ones are fine; for busy ones add pod labels, or read the scheduler")
    if homeless := devices["without_node"]:
        lines.append(f"  {len(homeless)} have a host that no source names: {_some(homeless, len(homeless))}")
        lines.append("    give it with the target (url=NODE), or have the exporter print its Hostname label")
    if twice := devices["twice_total"]:
        lines.append(f"  {colour(f'{twice} are served by more than one source', 'red')}: keep one, or they count twice")
        lines += [f"    {one['device']}: {_servers(one['servers'])}" for one in devices["twice"][:_MOST_NAMED]]
        lines += [f"    and {twice - _MOST_NAMED} more"] if twice > _MOST_NAMED else []
    return lines


def clock_lines(found: Sequence[dict[str, Any]]) -> list[str]:
    """Clocks that are off."""
    if not found:
        return []
    told = [
        f"  {one['source']}: {seconds(abs(one['offset_s']))} {'behind' if one['offset_s'] > 0 else 'ahead of'} this host"
        for one in found
    ]
    return [
        "",
        colour("clocks that differ", "bold"),
        *told,
        "    run NTP or chrony on both, or their samples do not line up",
    ]


def sampling_lines(found: Sequence[dict[str, Any]]) -> list[str]:
    """Sources that are too coarse, and what would do."""
    if not found:
        return []
    lines = ["", colour("sampling too coarse for phases", "bold")]
    for one in found:
        head = f"  {one['source']}: values change every {seconds(one['refresh_s'])}"
        lines.append(f"{head}, so iterations shorter than {seconds(one['shortest_visible_s'])} stay invisible")
        why = "shows iterations from 4 s on"
        if one["jobs"]:
            names = _some(one["jobs"], len(one["jobs"]))
            why = f"would do for the shortest iteration, {seconds(one['shortest_period_s'])} ({names})"
        lines.append(f"    dcgm-exporter --collect-interval {one['interval_ms']} (milliseconds) {why}")
    return lines


def field_lines(missing: Mapping[str, str]) -> list[str]:
    """Fields that are absent: first what each costs, then those that only refine a figure, in one line."""
    told: list[tuple[str, str]] = []
    refining: list[tuple[str, str]] = []
    for name, why in sorted(missing.items()):
        cost = _USUAL.sub("", why)
        (told if cost else refining).append((name, cost))
    if not told and not refining:
        return []
    width = max((len(name) for name, _ in told), default=0)
    lines = ["", colour("fields that no source gives, and what that costs", "bold")]
    lines += [f"  {name.ljust(width)}  {cost}" for name, cost in told]
    lines += [f"  without cost of their own: {', '.join(name for name, _ in refining)}"] if refining else []
    return lines


def _servers(servers: Sequence[dict[str, str]]) -> str:
    return " and ".join(f"{one['source']} as {one['entity']}" for one in servers)


def _some(names: Sequence[str], total: int) -> str:
    more = f" and {total - _MOST_NAMED} more" if total > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more

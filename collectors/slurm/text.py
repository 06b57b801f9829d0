"""Text of ``scontrol show job -d``, ``scontrol show node -d``, ``squeue`` and ``sinfo`` as records. Pure, linear.

Ask for times with ``SLURM_TIME_FORMAT=%s``: then they are Unix seconds. Others are the controller's local time, whose zone
nothing tells; ``zone`` is then what the caller takes it for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

from collectors.slurm.records import SlurmJob, SlurmNode
from telemetry.errors import SchemaError

_PAIR = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_:./-]{0,60})=(\S*)")
_WHOLE_LINE = frozenset(["JobName", "Command", "WorkDir", "StdErr", "StdIn", "StdOut", "Comment", "AdminComment", "SystemComment",
               "OS", "Reason", "Dependency", "Features", "Extra"])  # fmt: skip
"""Keys whose value may hold blanks and ``=``: the user, or an administrator, wrote it."""
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,8})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_UNSET = frozenset({"", "(null)", "n/a", "none", "not_set", "unknown", "invalid", "partition_limit"})
_SINFO_WORDS = 4


def read_scontrol_jobs(text: str, zone: tzinfo = UTC) -> list[SlurmJob]:
    """Jobs of ``scontrol show job -d`` (one record per paragraph, not ``-o``)."""
    return [_scontrol_job(fields, detail, zone) for fields, detail in _records(text, "JobId")]


def read_scontrol_nodes(text: str) -> list[SlurmNode]:
    """Nodes of ``scontrol show node -d``; without ``-d`` what is in use is not told."""
    return [
        SlurmNode(
            name=fields["NodeName"],
            state=tuple(word for word in (fields.get("State", ""),) if word),
            gres=_told(fields.get("Gres", "")),
            gres_used=fields.get("GresUsed"),
            partitions=tuple(part for part in fields.get("Partitions", "").split(",") if part),
        )
        for fields, _ in _records(text, "NodeName")
    ]


def _records(text: str, first: str) -> Iterator[tuple[dict[str, str], list[tuple[str, str]]]]:
    """Fields of each paragraph that begins with ``first``, and its (Nodes, GRES) lines; one that tells no more is none."""
    fields: dict[str, str] = {}
    detail: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith(f"{first}="):
            if len(fields) > 1:
                yield fields, detail
            fields, detail = {}, []
        elif not fields:
            continue
        stripped = line.strip()
        if stripped.startswith("Nodes=") and " GRES=" in stripped:
            # Comments come later; a line break in one must not bring devices with it.
            if "Command" not in fields:
                pairs = dict(_PAIR.findall(stripped))
                detail.append((pairs.get("Nodes", ""), stripped.rpartition(" GRES=")[2]))
            continue
        _take(stripped, fields)
    if len(fields) > 1:
        yield fields, detail


def _take(line: str, fields: dict[str, str]) -> None:
    """Add a line's fields; the last of two wins, since what the user wrote comes with the first lines."""
    key, equals, value = line.partition("=")
    if equals and key in _WHOLE_LINE:
        fields[key] = value
        return
    head, name, rest = line.partition(" JobName=")
    fields.update(_PAIR.findall(head))
    if name:
        fields["JobName"] = rest


def _scontrol_job(fields: dict[str, str], detail: list[tuple[str, str]], zone: tzinfo) -> SlurmJob:
    nodes, _, _ = fields.get("NumNodes", "").partition("-")
    return SlurmJob(
        id=fields["JobId"],
        state=tuple(word for word in (fields.get("JobState", ""),) if word),
        name=fields.get("JobName", ""),
        user=fields.get("UserId", "").partition("(")[0],
        account=_told(fields.get("Account", "")),
        partition=_told(fields.get("Partition", "")),
        nodes=_told(fields.get("NodeList", "")),
        detail=tuple(detail),
        tres_alloc=fields.get("AllocTRES", fields.get("TRES", "")),
        tres_req=fields.get("ReqTRES", fields.get("TRES", "")),
        per_node=fields.get("TresPerNode", ""),
        per_job=fields.get("TresPerJob", ""),
        per_task=fields.get("TresPerTask", ""),
        node_count=_whole(nodes),
        tasks=_whole(fields.get("NumTasks", "")),
        submit_s=read_time(fields.get("SubmitTime", ""), zone),
        start_s=read_time(fields.get("StartTime", ""), zone),
        time_limit_s=read_duration(fields.get("TimeLimit", "")),
        priority=_number(fields.get("Priority", "")),
        restarts=_whole(fields.get("Restarts", "")) or 0,
        reason=_told(fields.get("Reason", "")),
        array_job=_told(fields.get("ArrayJobId", "")),
        array_tasks=_told(fields.get("ArrayTaskId", "")),
        het_job=_told(fields.get("HetJobId", "")),
    )


def read_squeue(text: str, zone: tzinfo = UTC) -> list[SlurmJob]:
    """Jobs of ``squeue`` text with ``|`` between the columns and their names in the first line.

    Made by ``squeue -a -O "JobID:|,Account:|,State:|,..."`` (a trailing text after the colon keeps it from being cut at
    20 characters). Names are read without regard to case, ``-``, ``_`` and blanks.

    Raises:
        SchemaError: no line of column names with a job id among them.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    names = [re.sub(r"[^a-z]", "", name.lower()) for name in lines[0].split("|")] if lines else []
    if not {"jobid", "state"} <= set(names):
        raise SchemaError("this is no squeue text with column names", mend="The first line must name jobid and state")
    rows = (dict(zip(names, (value.strip() for value in line.split("|")), strict=False)) for line in lines[1:])
    return [_squeue_job(row, zone) for row in rows if row.get("jobid")]


def _squeue_job(row: dict[str, str], zone: tzinfo) -> SlurmJob:
    return SlurmJob(
        id=row["jobid"],
        state=tuple(word for word in (row.get("state", ""),) if word),
        name=row.get("name", ""),
        user=row.get("username", row.get("user", "")),
        account=_told(row.get("account", "")),
        partition=_told(row.get("partition", "")),
        nodes=_told(row.get("nodelist", row.get("nodes", ""))),
        tres_alloc=row.get("tresalloc", ""),
        per_node=row.get("grespernode", row.get("trespernode", "")),
        per_job=row.get("tresperjob", ""),
        per_task=row.get("trespertask", ""),
        node_count=_whole(row.get("numnodes", "").partition("-")[0]),
        tasks=_whole(row.get("numtasks", "")),
        submit_s=read_time(row.get("submittime", ""), zone),
        start_s=read_time(row.get("starttime", ""), zone),
        time_limit_s=read_duration(row.get("timelimit", "")),
        priority=_number(row.get("priority", row.get("prioritylong", ""))),
        reason=_told(row.get("reason", "")),
        array_job=_told(row.get("arrayjobid", "")),
    )


def read_sinfo(text: str) -> list[SlurmNode]:
    """Nodes of ``sinfo -N -h -O "NodeList: ,StateLong: ,Gres: ,GresUsed:"``: four words a line, one line a node.

    A node that serves several partitions has a line for each; the first is taken. Lines of other shapes are left out.
    """
    found: dict[str, SlurmNode] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == _SINFO_WORDS and words[0].upper() not in ("NODELIST", "HOSTNAMES"):
            found.setdefault(words[0], SlurmNode(words[0], (words[1],), _told(words[2]), words[3]))
    return list(found.values())


def read_time(text: str, zone: tzinfo = UTC) -> float | None:
    """Unix seconds of ``1796079248`` or ``2026-11-30T19:26:36``; None for ``Unknown``, ``N/A`` and what is no time."""
    text = text.strip()
    if not text or text.lower() in _UNSET or len(text) > 40:
        return None
    if text.isascii() and text.isdigit():
        return float(text) or None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        return None


def read_duration(text: str) -> float | None:
    """Seconds of ``[days-]hours:minutes:seconds`` or ``minutes:seconds`` or ``minutes``; inf for ``UNLIMITED``."""
    text = text.strip()
    if not text:
        return None
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return float("inf")
    match = _DURATION.fullmatch(text)
    if text.lower() in _UNSET or match is None:
        return None
    days = int(match[1] or 0)
    parts = [int(part) for part in match.groups()[1:] if part is not None]
    if match[1] is not None:  # days-hours[:minutes[:seconds]]
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:  # minutes[:seconds]
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _told(text: str) -> str:
    if not text:
        return ""
    return "" if text.strip().lower() in ("(null)", "n/a", "none", "none assigned") else text.strip()


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _number(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None

"""JSON of ``squeue --json``, ``sinfo --json``, ``scontrol show ... --json`` and slurmrestd as records. Pure.

Versions differ in spelling: a state is a text up to v0.0.39 and a list since; a number is bare or
``{"set", "infinite", "number"}``; nodes stand under ``nodes`` or, from newer ``sinfo``, in groups under ``sinfo``. What a
version does not tell is None or empty; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from collectors.hostlists import expand_hosts
from collectors.slurm.notes import Notes
from collectors.slurm.records import SlurmJob, SlurmNode
from telemetry.errors import BadReply, SchemaError

INFINITE = float("inf")
# Slurm's own words for "no number" and "no limit" in 32 and 64 bits (slurm.h: NO_VAL, INFINITE and their 64-bit twins).
_NO_VALUES = frozenset({0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE})
_NO_LIMITS = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, -1})


def load_reply(body: bytes, source: str) -> dict[str, Any]:
    """The JSON document.

    Raises:
        BadReply: not JSON, or no object.
    """
    try:
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            # A job's name may hold any bytes; one user's must not hide everybody's jobs.
            document = orjson.loads(body.decode("utf-8", "replace"))
    except orjson.JSONDecodeError as torn:
        start = body[:60].decode("utf-8", "replace").strip()
        raise BadReply(source, f"answers with something that is no JSON ({start!r})") from torn
    if not isinstance(document, dict):
        raise BadReply(source, "answers with JSON of an unknown shape")
    return document


def is_slurm(document: object) -> bool:
    """Whether a JSON document looks like an answer of Slurm with jobs or nodes."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("meta"), dict)
        and any(isinstance(document.get(name), list) for name in ("jobs", "nodes", "sinfo"))
    )


def errors_of(document: Mapping[str, Any]) -> list[str]:
    """What Slurm says went wrong, a sentence each; an answer with HTTP 200 may hold some."""
    found = []
    for item in document.get("errors") or ():
        if isinstance(item, dict):
            parts = [str(item.get(name) or "") for name in ("source", "description", "error")]
            found.append(": ".join(part for part in dict.fromkeys(parts) if part) or "an error without a text")
        elif item:
            found.append(str(item))
    return found


def warnings_of(document: Mapping[str, Any]) -> list[str]:
    """Warnings of newer versions, a sentence each."""
    items = document.get("warnings") or ()
    return [str(item.get("description") or item.get("source") or item) for item in items if isinstance(item, dict)]


def read_jobs(document: Mapping[str, Any], notes: Notes) -> list[SlurmJob]:
    """Every job of an answer; an entry of an unknown shape is noted and left out."""
    found = []
    for item in _list(document.get("jobs")):
        if not isinstance(item, dict) or _number(item.get("job_id")) is None:
            notes.add("a job without a job_id is left out")
            continue
        found.append(_job(item))
    return found


def _job(item: Mapping[str, Any]) -> SlurmJob:
    limit_min = _number(item.get("time_limit"))
    resources = item.get("job_resources")
    nodes = _text(item.get("nodes"))
    if not nodes and isinstance(resources, dict):
        nodes = _node_list(resources)
    return SlurmJob(
        id=_id(item.get("job_id")),
        state=_words(item.get("job_state")),
        name=_text(item.get("name")),
        user=_text(item.get("user_name")) or _id(item.get("user_id")),
        account=_text(item.get("account")),
        partition=_text(item.get("partition")),
        nodes=nodes,
        detail=tuple(("", text) for text in _list(item.get("gres_detail")) if isinstance(text, str)),
        tres_alloc=_text(item.get("tres_alloc_str")),
        tres_req=_text(item.get("tres_req_str")),
        per_node=_text(item.get("tres_per_node")),
        per_job=_text(item.get("tres_per_job")),
        per_task=_text(item.get("tres_per_task")),
        node_count=_whole(item.get("node_count")),
        tasks=_whole(item.get("tasks")),
        submit_s=_time(item.get("submit_time")),
        start_s=_time(item.get("start_time")),
        time_limit_s=None if limit_min is None else limit_min * 60.0,
        priority=_finite(_number(item.get("priority"))),
        restarts=_whole(item.get("restart_cnt")) or 0,
        reason=_text(item.get("state_reason")),
        array_job=_group(item.get("array_job_id")),
        array_tasks=_text(item.get("array_task_string")),
        het_job=_group(item.get("het_job_id")),
    )


def _node_list(resources: Mapping[str, Any]) -> str:
    """Host list of ``job_resources``: a text, or an object with ``list``."""
    nodes = resources.get("nodes")
    return _text(nodes.get("list")) if isinstance(nodes, dict) else _text(nodes)


def read_nodes(document: Mapping[str, Any], notes: Notes) -> list[SlurmNode]:
    """Every node of an answer, once."""
    found: dict[str, SlurmNode] = {}
    for item in _list(document.get("nodes")):
        name = _text(item.get("name")) if isinstance(item, dict) else ""
        if not name:
            notes.add("a node without a name is left out")
            continue
        flags = _words(item.get("state_flags"))
        parts = tuple(part for part in _words(item.get("partitions")) if part)
        used = item.get("gres_used")
        gres_used = used if isinstance(used, str) else None
        node = SlurmNode(name, (*_words(item.get("state")), *flags), _text(item.get("gres")), gres_used, parts)
        found.setdefault(name, node)
    for item in _list(document.get("sinfo")):
        for node in _group_nodes(item, notes) if isinstance(item, dict) else ():
            found.setdefault(node.name, node)
    return list(found.values())


def _group_nodes(item: Mapping[str, Any], notes: Notes) -> list[SlurmNode]:
    """Nodes of one group of newer ``sinfo --json``.

    The group's ``used`` is told once; for several nodes it is nobody's number, so their use is then unknown.
    """
    names: list[str] = []
    listed = item.get("nodes")
    for text in _words(listed.get("nodes")) if isinstance(listed, dict) else ():
        try:
            names.extend(expand_hosts(text))
        except SchemaError as odd:
            notes.add(f"a group of sinfo: {odd.message}")
    gres = item.get("gres")
    gres = gres if isinstance(gres, dict) else {}
    state = item.get("node")
    words = _words(state.get("state")) if isinstance(state, dict) else ()
    partition = item.get("partition")
    part = _text(partition.get("name")) if isinstance(partition, dict) else ""
    used = _text(gres.get("used")) if len(names) == 1 and isinstance(gres.get("used"), str) else None
    return [SlurmNode(name, words, _text(gres.get("total")), used, (part,) if part else ()) for name in names]


def _number(value: Any) -> float | None:
    """A number that may be unset (None) or without limit (inf), in any version's spelling."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return INFINITE
        return _number(value.get("number")) if value.get("set") is True else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if value in _NO_VALUES:
        return None
    return INFINITE if value in _NO_LIMITS else float(value)


def _finite(value: float | None) -> float | None:
    return None if value is None or abs(value) == INFINITE else value


def _whole(value: Any) -> int | None:
    """A count; a text such as ``4-4`` gives its first number."""
    if isinstance(value, str):
        value = value.partition("-")[0]
    number = _finite(_number(value))
    return None if number is None else int(number)


def _time(value: Any) -> float | None:
    """Unix seconds; 0 means that there is none."""
    return _finite(_number(value)) or None


def _id(value: Any) -> str:
    number = _whole(value)
    return "" if number is None else str(number)


def _group(value: Any) -> str:
    return _id(value) if _whole(value) else ""


def _text(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    return "" if text.lower() in ("(null)", "none assigned") else text


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(word for word in _list(value) if isinstance(word, str))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

"""NCCL's outputs for ``gpucast inspect``: what would be kept of a piece of text, and what it tells besides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import orjson

from collectors.inspection import Inspection, count_text, rows_of
from collectors.nccl.bandwidth import GB
from collectors.nccl.collectives import Collective, collectives_of
from collectors.nccl.communicators import CommunicatorView, Roll
from collectors.nccl.debug_log import DebugFacts, parse_debug_log
from collectors.nccl.inspector import InspectorDump, Timing, parse_dump
from collectors.nccl.nccl_tests import RunHalf, RunOutput, is_nccl_tests, parse_nccl_tests
from collectors.nccl.ras import RasReport, is_ras, parse_ras
from collectors.nccl.ras_client import findings_of, rows_of_report
from collectors.nccl.ras_text import is_ras_text, parse_ras_text
from collectors.nccl.samples import BatchMaker, Row, notes_of_records, rows_of_collective, rows_of_record
from collectors.nccl.sequences import SequenceLedger
from telemetry.errors import BadReply
from telemetry.ids import CollectiveId, CommunicatorId, SeriesKey
from telemetry.samples import Reason, Window

_EVER = Window(0.0, 4e9)
_MOST_FACTS = 200
_NO_TIME = "no time, or one that cannot be used (see below)"


def read_inspector(data: bytes, source: str) -> Inspection | None:
    """JSON lines of NCCL Inspector; None when there is no record in them."""
    if b'"coll_perf"' not in data and b'"p2p_perf"' not in data:
        return None
    dump = parse_dump(data)
    if not dump.records:
        return None
    rows, facts = _inspector_rows(dump, source)
    findings = dump.findings(source) + notes_of_records(dump.records, source)
    batch = BatchMaker(source).batch(rows, _EVER, findings)
    excluded = sum(bool(record.why_excluded) for record in dump.records)
    summary = f"{len(dump.records)} records of NCCL Inspector"
    summary += f", {excluded} of them without a usable time" if excluded else ""
    summary += f", {dump.incomplete} incomplete" if dump.incomplete else ""
    return Inspection(
        source,
        "NCCL Inspector records",
        f"{summary}: {count_text(batch)}",
        tuple(replace(row, why_missing=_NO_TIME) if row.why_missing else row for row in rows_of(batch, True)),
        batch.findings,
        _cut(facts),
    )


def read_ras_answer(data: bytes, source: str) -> Inspection | None:
    """An answer of NCCL RAS, in JSON or text; None when it is none."""
    try:
        report = _ras_report(data, source)
    except BadReply:
        return None
    if report is None:
        return None
    batch = BatchMaker(source, missing=Reason.NOT_FINITE).batch(
        rows_of_report(report, 0.0), _EVER, findings_of(report, source)
    )
    n = len(report.communicators) or sum(group.communicators for group in report.groups)
    troubles = f", {len(report.troubles)} troubles" if report.troubles else ", nothing wrong"
    summary = f"state of {n} communicators (NCCL {report.nccl_version or 'of unknown version'}){troubles}"
    facts = [f"{trouble.kind} in {trouble.communicator}: {trouble.sentence}" for trouble in report.troubles]
    facts += [
        f"group {group.number}: {group.communicators} communicators, {group.ranks} ranks, {group.state}, {group.problem}"
        for group in report.groups
    ]
    return Inspection(
        source, "NCCL RAS answer", f"{summary}: {count_text(batch)}", rows_of(batch, False), batch.findings, _cut(facts)
    )


def read_debug_log(data: bytes, source: str) -> Inspection | None:
    """An NCCL debug log; None when no line is one of NCCL's."""
    if b"CCL INFO" not in data and b"CCL WARN" not in data:
        return None
    facts = parse_debug_log(data)
    if not facts.n_lines:
        return None
    channels = sum(facts.connections.values())
    summary = f"NCCL debug log with {facts.n_lines} lines: {channels} channels of {len(facts.connections)} connections"
    return Inspection(source, "NCCL debug log", summary, facts=_cut(_debug_facts(facts)))


def read_nccl_tests(data: bytes, source: str) -> Inspection | None:
    """Output of nccl-tests; None when it has no such table."""
    if not is_nccl_tests(data):
        return None
    output = parse_nccl_tests(data)
    if not output.rows:
        return None
    best = max((half.busbw_bytes_per_s or 0.0 for half in _halves(output)), default=0.0)
    summary = (
        f"{output.program or 'nccl-tests'}: {len(output.rows)} message sizes, best bus bandwidth {best / GB:.4g} GB/s"
    )
    return Inspection(source, "nccl-tests output", summary, facts=_cut(_test_facts(output)))


def _inspector_rows(dump: InspectorDump, source: str) -> tuple[list[Row], list[str]]:
    roll, ledger = Roll(), SequenceLedger()
    rows: list[Row] = []
    last_s: dict[tuple[str, str], float] = {}
    for record in dump.records:
        rows += rows_of_record(record, roll.note(record, source))
        if record.peer is None:
            ledger.add(record, source, 0.0)
            kind = (record.communicator.hash, record.operation)
            last_s[kind] = max(last_s.get(kind, 0.0), record.written_s)
    collectives = collectives_of(dump.records)
    for one in collectives:
        rows += rows_of_collective(one)
    names = roll.names()
    missed = {
        CollectiveId(CommunicatorId(names[kind[0]], kind[0]), kind[1]): (count, last_s[kind])
        for kind, count in ledger.missed(0.0, 0.0).items()
    }
    rows += [(SeriesKey("nccl_missed_total", str(one)), at_s, float(count)) for one, (count, at_s) in missed.items()]
    facts = [_communicator_fact(view) for view in roll.views()]
    facts += [f"{one}: {count} operations without a record" for one, (count, _) in missed.items() if count]
    facts += [fact for one in collectives for fact in _straggler_facts(one)]
    unknown = sum(record.timing is Timing.UNKNOWN for record in dump.records)
    facts += [f"{unknown} records do not say what measured their time"] if unknown else []
    return rows, facts


def _communicator_fact(view: CommunicatorView) -> str:
    hosts = sorted({member.host for member in view.members if member.host})
    job = f", job {view.job}" if view.job else ""
    where = ", ".join(hosts[:8]) + (", ..." if len(hosts) > 8 else "")
    return (
        f"communicator {view.id}: {len(view.members)} of {view.n_ranks} ranks read, on {where or 'unknown hosts'}{job}"
    )


def _straggler_facts(one: Collective) -> Iterable[str]:
    if one.lag_s and one.exec_time_s:
        yield (
            f"{one.id} {one.sequence}: rank {one.slowest_rank} was the slowest with {one.exec_time_s * 1e6:.0f} us, "
            f"{one.lag_s * 1e6:.0f} us behind the others"
        )


def _ras_report(data: bytes, source: str) -> RasReport | None:
    if data.lstrip()[:1] == b"{":
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        return parse_ras(data, source) if is_ras(document) else None
    return parse_ras_text(data, source) if is_ras_text(data) else None


def _debug_facts(facts: DebugFacts) -> list[str]:
    lines = [f"slow path: {sign}" for sign in facts.slow_signs()]
    lines += [f"network: {name}" for name in facts.networks]
    lines += [f"{transport}: {channels} channels" for transport, channels in facts.transports().items()]
    lines += [f"NIC {nic} of {host}: {channels} channels" for (host, nic), channels in facts.nics().items()]
    if facts.channels:
        lines.append("channels per rank: " + ", ".join(f"{count} {kind}" for kind, count in facts.channels.items()))
    for inside, between, bw, between_bw in facts.patterns:
        lines.append(
            f"per channel: {bw / GB:g} GB/s over {inside} within a host, {between_bw / GB:g} GB/s over {between} between hosts"
        )
    if facts.nvls_hosts:
        lines.append(f"NVLink multicast (NVLS) on {len(facts.nvls_hosts)} hosts")
    lines += [
        f"rank {one.rank} of {one.n_ranks} on {one.host} (process {one.pid}): communicator {one.commid or one.address}"
        for one in facts.communicators
    ]
    lines += [f"warning x{count}: {text}" for text, count in facts.warnings.items()]
    if facts.cut:
        lines.append(f"{facts.cut} further facts were left out, there were too many")
    return lines


def _test_facts(output: RunOutput) -> list[str]:
    lines = [
        f"{row.size_bytes} bytes: {_half_text('out of place', row.out_of_place)}"
        + (f"; {_half_text('in place', row.in_place)}" if row.in_place else "")
        for row in output.rows
    ]
    wrong = sum(half.wrong or 0 for half in _halves(output))
    lines += [f"{wrong} elements with a wrong result"] if wrong else []
    return lines + ([f"{output.malformed} rows do not fit the header"] if output.malformed else [])


def _half_text(name: str, half: RunHalf) -> str:
    time_us = "no time" if half.time_s is None else f"{half.time_s * 1e6:.6g} us"
    busbw = "unknown" if half.busbw_bytes_per_s is None else f"{half.busbw_bytes_per_s / GB:.6g} GB/s"
    return f"{name} {time_us}, bus bandwidth {busbw}"


def _halves(output: RunOutput) -> list[RunHalf]:
    return [half for row in output.rows for half in (row.out_of_place, row.in_place) if half is not None]


def _cut(facts: list[str]) -> tuple[str, ...]:
    if len(facts) <= _MOST_FACTS:
        return tuple(facts)
    return (*facts[:_MOST_FACTS], f"... {len(facts) - _MOST_FACTS} more")

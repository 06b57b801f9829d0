"""What would be ingested from a piece of text: samples with units, owners, what is missing and why. Pure."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from collectors.answer import is_answer, read_answer
from collectors.entities import UNKNOWN_NODE, Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.inspection import InspectedRow, Inspection, count_text, rows_of
from collectors.kubernetes.inspect import read_kubernetes
from collectors.nccl.inspected import read_debug_log, read_inspector, read_nccl_tests, read_ras_answer
from collectors.pushed import read_steps, read_write
from collectors.series_map import SeriesMapper
from collectors.slurm.inspect import read_slurm
from collectors.switch_counters import read_switch_csv
from collectors.topology.inspected import read_topology
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem

__all__ = ["FORMATS", "InspectedRow", "Inspection", "inspect_source"]


def inspect_source(data: bytes, source: str) -> Inspection:
    """What would be ingested from ``data``; never raises on any bytes.

    Args:
        data: the whole file, page or answer.
        source: path or URL, for the report.
    """
    if not data.strip():
        return Inspection(source, "", f"{source} is empty")
    for read in FORMATS.values():
        found = read(data, source)
        if found is not None:
            return found
    known = ", ".join(FORMATS)
    return Inspection(source, "", f"{source} is in no format that gpucast reads (it reads: {known})")


def _read_answer(data: bytes, source: str) -> Inspection | None:
    """An answer of the Prometheus HTTP API."""
    if data.lstrip()[:1] != b"{":
        return None
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not is_answer(document):
        return None
    name = "Prometheus API answer"
    try:
        answer = read_answer(document, source)
    except BadReply as bad:
        return Inspection(source, name, bad.message)
    if answer.state == "error":
        mend = "; a smaller range may succeed" if answer.retry_smaller else ""
        finding = Finding(Problem.QUERY_ERROR, source, f"{answer.error_type}: {answer.error}")
        return Inspection(
            source, name, f"the server refused: {answer.error_type}: {answer.error}{mend}", (), (finding,)
        )
    batch = SeriesMapper(source).batch([answer], 0.0)
    histograms = f", {len(answer.histograms)} native histogram samples (left out)" if answer.histograms else ""
    hints = f", {len(answer.infos)} hints about the query" if answer.infos else ""
    state = {"partial": "incomplete answer", "no_data": "no data"}.get(answer.state, "answer")
    summary = f"{state} of kind {answer.kind} with {len(answer.series)} series{histograms}{hints}"
    return Inspection(source, name, f"{summary}: {count_text(batch)}", rows_of(batch, True), batch.findings)


def _read_page(data: bytes, source: str) -> Inspection | None:
    """A page of an exporter: most of its lines can be read as samples."""
    page = PageParser().parse(data)
    unreadable = 0 if page.unreadable is None else int(page.unreadable.sum())
    readable = len(page.layout.names) - unreadable
    bad = sum(count for problem, _, count in page.notes if problem is not Problem.TORN)
    if not readable or readable < bad:
        return None
    stamped = page.at_s is not None
    batch = FieldMapper(source, Place(fallback=UNKNOWN_NODE)).batch(page, 0.0)
    summary = f"exposition page with {len(page.layout.names)} sample lines: {count_text(batch)}"
    return Inspection(source, "Prometheus exposition page", summary, rows_of(batch, stamped), batch.findings)


FORMATS: dict[str, Callable[[bytes, str], Inspection | None]] = {
    "Prometheus API answer": _read_answer,
    "Slurm job or node list": read_slurm,
    "Kubernetes pod or node list": read_kubernetes,
    "NCCL Inspector records": read_inspector,
    "NCCL RAS answer": read_ras_answer,
    "NCCL debug log": read_debug_log,
    "nccl-tests output": read_nccl_tests,
    "topology (Slurm, Topograph, node labels, nvidia-smi, NCCL)": read_topology,
    "switch counters (CSV)": read_switch_csv,
    "steps that a job reports": read_steps,
    "remote write request": read_write,
    "Prometheus exposition page": _read_page,
}
"""Tried in this order; each gives None when the data is not its own. A new format is a function and a line here."""

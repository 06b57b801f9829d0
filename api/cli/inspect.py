"""``gpucast inspect``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collectors.inspect import InspectedRow, Inspection

TIMEOUT_S = 10.0
MAX_BYTES = 256 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "source", help="address or file of an exporter page or a Prometheus API answer; - for standard input"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument("--limit", type=int, default=60, help="most rows shown as text (default 60; 0 shows all)")


def run(args: argparse.Namespace) -> int:
    """Show what would be ingested. Exit code 4 when nothing would be."""
    from collectors.inspect import inspect_source

    inspection = inspect_source(read_bytes(args.source), args.source)
    print(json.dumps(_as_json(inspection)) if args.json else _text(inspection, args.limit))
    return 0 if inspection.facts or any(row.value is not None for row in inspection.rows) else 4


def read_bytes(source: str) -> bytes:
    """The bytes of a file, an address or standard input.

    Raises:
        ConfigError: no such file, or not readable.
        SourceUnreachable: no answer.
        BadReply: larger than what a source may send.
    """
    from telemetry.errors import BadReply, ConfigError, SourceUnreachable

    if source == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    elif source.startswith(("http://", "https://")):
        import http.client
        import urllib.error
        import urllib.request

        try:
            with urllib.request.urlopen(source, timeout=TIMEOUT_S) as reply:
                data = reply.read(MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            data = error.read(MAX_BYTES + 1)
            if not data.lstrip().startswith(b"{"):
                raise BadReply(source, f"answered with status {error.code}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SourceUnreachable(source, f"no answer ({getattr(error, 'reason', error)})") from error
    else:
        try:
            with Path(source).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"cannot read {source!r}: {getattr(error, 'strerror', None) or error}",
                mend="Give a file, an http address, or -",
            ) from error
    if len(data) > MAX_BYTES:
        raise BadReply(source, f"larger than {MAX_BYTES // 2**20} MiB")
    return data


def _as_json(inspection: Inspection) -> dict[str, Any]:
    return {
        "source": inspection.source,
        "format": inspection.format,
        "summary": inspection.summary,
        "rows": [
            {
                "metric": row.metric,
                "entity": row.entity,
                "value": row.value,
                "unit": row.unit,
                "at_s": row.at_s,
                "owner": row.owner or None,
                "why_missing": row.why_missing or None,
            }
            for row in inspection.rows
        ],
        "findings": [
            {"problem": str(finding.problem), "detail": finding.detail, "count": finding.count}
            for finding in inspection.findings
        ],
        "facts": list(inspection.facts),
    }


def _text(inspection: Inspection, limit: int) -> str:
    from api.cli.tables import colour, table

    lines = [f"{colour(inspection.source, 'bold')}: {inspection.format}", inspection.summary]
    shown = inspection.rows if limit <= 0 else inspection.rows[:limit]
    if shown:
        lines += ["", table(["metric", "of", "value", "owner"], [_row(row) for row in shown])]
    if len(shown) < len(inspection.rows):
        lines.append(f"... {len(inspection.rows) - len(shown)} more rows; --limit 0 shows all")
    if inspection.facts:
        lines += ["", *inspection.facts]
    if inspection.findings:
        lines += ["", "what was wrong or left out"]
        lines += [f"  {finding.problem} x{finding.count}: {finding.detail}" for finding in inspection.findings]
    return "\n".join(lines)


def _row(row: InspectedRow) -> list[str]:
    from api.cli.tables import quantity

    value = quantity(row.value, row.unit) if row.value is not None else f"missing: {row.why_missing}"
    return [row.metric, row.entity, value, row.owner or "-"]

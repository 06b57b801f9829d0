"""``gpucast topology``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.cli.client import add_url_argument, ask
from telemetry.errors import ConfigError

if TYPE_CHECKING:
    from collectors.topology.keeper import Kept, SourceState
    from collectors.topology.read import SourceText
    from telemetry.errors import SourceError
    from telemetry.topology import Topology


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "--from",
        dest="sources",
        metavar="SOURCE[=HOST]",
        nargs="+",
        action="extend",
        help="files or addresses instead of the running service, the most trusted first: Slurm's topology.conf or topology.yaml, scontrol show topology, "
        "Topograph's graph, kubectl get nodes -o json, a Kueue Topology, nvidia-smi topo -m, nvidia-smi -L, "
        "nvidia-smi mig -lgi, NCCL's topology XML; =HOST says whose inside it shows; - is standard input",
    )
    parser.add_argument(
        "--between",
        nargs=2,
        metavar=("A", "B"),
        help="also say how far two places are: hosts, or devices such as gpu001:GPU0 or gpu001:mlx5_0",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="remember every source that was good in this file; one that fails later is shown as it was, with its age",
    )
    add_url_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Draw one topology of all sources. Exit code 4 when a source failed, sources conflict or no host is known."""
    if not args.sources:
        return _of_service(args)
    from collectors.topology.files import named_source
    from collectors.topology.keeper import with_last_good

    kept = _kept(args.keep)
    fresh = [_fetched(named_source(text), bool(kept)) for text in args.sources]
    topology, states, keep = with_last_good(fresh, kept, time.time())
    if args.keep is not None:
        _write(args.keep, keep)
    between = [*args.between, topology.distance(*args.between)] if args.between else None
    print(json.dumps(_as_json(topology, states, between)) if args.json else _text(topology, states, between))
    for state in states:
        if state.error:
            sys.stderr.write(f"gpucast: {state.error}\n")
    bad = any(state.error for state in states) or bool(topology.conflicts)
    nothing = not topology.hosts and any(state.format != "Kueue topology levels" for state in states)
    return 4 if bad or nothing else 0


def _of_service(args: argparse.Namespace) -> int:
    """What the running service uses. Exit code 4 when a source failed, sources conflict or no host is known."""
    if args.between or args.keep:
        raise ConfigError("--between and --keep need --from", mend="Name the sources, or leave these flags out")
    answer = ask(args.url, "/v1/topology?limit=20000", needs=("hosts", "links", "conflicts"))
    print(json.dumps(answer) if args.json else _service_text(answer))
    failed = any(source["error"] for source in answer["sources"])
    return 4 if failed or answer["conflicts"] or not answer["hosts"] else 0


def _service_text(answer: dict[str, Any]) -> str:
    from api.cli.tables import colour, quantity, table
    from collectors.hostlists import fold_hosts

    under: dict[tuple[str, ...], list[str]] = {}
    for host in answer["hosts"]:
        under.setdefault(tuple(switch or "?" for switch in host["switches"]) or ("?",), []).append(host["id"])
    told = answer["told_by"] or "no source"
    lines = [colour(f"{answer['host_count']} hosts, {answer['link_count']} links, told by {told}", "bold")]
    if under:
        rows = [[" > ".join(path), str(len(hosts)), fold_hosts(hosts)] for path, hosts in sorted(under.items())]
        lines += ["", table(["switches above", "hosts", "which"], rows)]
    if answer["domains"]:
        rows = [
            [one["kind"], one["name"], str(len(one["hosts"])), fold_hosts(one["hosts"])] for one in answer["domains"]
        ]
        lines += ["", table(["domain", "name", "hosts", "which"], rows)]
    cables = [one for one in answer["links"] if one["tier"] != "nic"]
    if cables:
        rows = [
            [one["id"], one["b"] or "?", quantity(one["capacity_bytes_per_s"], "bytes per second")]
            for one in cables[:60]
        ]
        lines += ["", table(["switch port", "other end", "capacity"], rows)]
        lines += [f"... {len(cables) - 60} more; --json shows all"] if len(cables) > 60 else []
    for one in answer["conflicts"]:
        sides = "; ".join(f"{side['source']} says {side['value']}" for side in one["says"])
        lines.append(f"\nconflict: {one['what']} of {one['subject']}: {sides}; {one['kept'] or 'nothing'} is used")
    lines += ["", "unknown", *(f"  {sentence}" for sentence in answer["unknowns"])] if answer["unknowns"] else []
    if answer["sources"]:
        rows = [
            [one["source"], one["format"] or "not usable", _age(one["age_s"]), one["error"] or ""]
            for one in answer["sources"]
        ]
        lines += ["", table(["source", "taken for", "age", "trouble"], rows)]
    return "\n".join(lines)


def _fetched(named: tuple[str, str], has_kept: bool) -> SourceText | tuple[SourceText, SourceError]:
    from api.cli.inspect import read_bytes
    from collectors.topology.read import SourceText
    from telemetry.errors import BadReply, SourceError

    source, host = named
    try:
        return SourceText(read_bytes(source), source, host)
    except SourceError as error:
        return SourceText(b"", source, host), error
    except ConfigError as error:
        if not has_kept:
            raise
        return SourceText(b"", source, host), BadReply(source, error.message)


def _kept(path: Path | None) -> dict[str, Kept]:
    from collectors.topology.keeper import unpacked

    if path is None or not path.exists():
        return {}
    return unpacked(path.read_bytes(), str(path))


def _write(path: Path, keep: dict[str, Kept]) -> None:
    """Beside it first, so that a full disk leaves the older file whole."""
    from collectors.topology.keeper import packed

    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(packed(keep))
    beside.replace(path)


def _as_json(topology: Topology, states: tuple[SourceState, ...], between: list[Any] | None) -> dict[str, Any]:
    from collectors.topology.document import as_document

    document = as_document(topology)
    document["sources"] = [
        {
            "source": state.source,
            "host": state.host or None,
            "format": state.format or None,
            "age_s": state.age_s,
            "error": state.error or None,
            "findings": [{"problem": str(f.problem), "detail": f.detail, "count": f.count} for f in state.findings],
        }
        for state in states
    ]
    if between is not None:
        a, b, way = between
        document["between"] = {"a": a, "b": b, "distance": None if way is None else str(way)}
    return document


def _text(topology: Topology, states: tuple[SourceState, ...], between: list[Any] | None) -> str:
    from api.cli.tables import colour, table
    from collectors.topology.draw import drawn

    lines = drawn(topology)
    lines[0] = colour(lines[0], "bold")
    if between is not None:
        a, b, way = between
        lines += ["", f"{a} to {b}: {'unknown' if way is None else way}"]
    rows = [[_source_text(state), state.format or "not usable", _age(state.age_s)] for state in states]
    lines += ["", table(["source", "taken for", "age"], rows)]
    findings = [finding for state in states for finding in state.findings]
    if findings:
        lines += ["", "what was wrong or left out"]
        lines += [f"  {finding.problem} x{finding.count}: {finding.detail}" for finding in findings]
    return "\n".join(lines)


def _source_text(state: SourceState) -> str:
    return f"{state.source}={state.host}" if state.host else state.source


def _age(age_s: float | None) -> str:
    from api.cli.tables import seconds

    if age_s is None:
        return "-"
    return "now" if age_s == 0.0 else f"{seconds(age_s)} (last good)"

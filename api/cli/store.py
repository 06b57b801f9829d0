"""``gpucast store``: look after a store that no service has open."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from api.settings import Settings
    from features.store.duck import DuckStore

ACTIONS = {
    "stat": "show what it holds and how large it is",
    "compact": "merge the cold files of each day and metric, delete and down-sample what the settings call old",
    "export": "write samples to a folder, as Parquet or CSV",
    "verify": "read every cold file and say which are damaged; exit code 1 when one is",
    "digest": "print one digest of all samples; stores that answer every read alike have the same",
    "backup": "copy it, with a manifest of digests",
    "restore": "bring a backup back to an empty folder",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("action", choices=list(ACTIONS), help="; ".join(f"{k}: {v}" for k, v in ACTIONS.items()))
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder of the sample store")
    parser.add_argument("--config", type=Path, help="TOML settings file, for the folder and the policy")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="export, backup: a new or empty folder to write to")
    parser.add_argument("--backup", type=Path, metavar="FOLDER", help="restore: the folder that backup wrote")
    parser.add_argument("--from-s", type=float, default=0.0, help="export: first moment, Unix seconds")
    parser.add_argument("--to-s", type=float, default=1e11, help="export: moment after the last, Unix seconds")
    parser.add_argument("--metric", action="append", default=[], help="export: only this metric; may be repeated")
    parser.add_argument("--format", choices=["parquet", "csv"], default="parquet", help="export: form of the files")


def run(args: argparse.Namespace) -> int:
    """Do one of ``ACTIONS``."""
    from api.settings import load_settings

    settings = load_settings(args.config, store__folder=args.data_dir)
    told, sentences = _restore(args, settings) if args.action == "restore" else _with_store(args, settings)
    print(json.dumps(told) if args.json else "\n".join(sentences))
    return 1 if told.get("problems") else 0


def _restore(args: argparse.Namespace, settings: Settings) -> tuple[dict[str, Any], list[str]]:
    from features.store.backup import restore

    count = restore(_need(args.backup, "--backup"), settings.store.folder)
    return {"files": count}, [f"restored {count} files to {settings.store.folder}"]


def _with_store(args: argparse.Namespace, settings: Settings) -> tuple[dict[str, Any], list[str]]:
    from features.store.duck import DuckStore
    from telemetry.errors import ConfigError, StoreError

    folder = settings.store.folder
    file = folder / "samples.duckdb"
    if not file.is_file():
        raise ConfigError(f"there is no store in {folder}", mend="Name its folder with --data-dir")
    try:
        store = DuckStore(file, cold_dir=folder / "cold", policy=settings.store.policy())
    except StoreError as error:
        if args.action not in ("stat", "verify") or "is in use by" not in str(error):
            raise
        # Cold files are never changed in place, so they may be read while a service writes.
        sys.stderr.write(f"gpucast: {error.message}; only its cold files are read\n")
        return _COLD_ONLY[args.action](folder / "cold")
    try:
        return _DO[args.action](store, args)
    finally:
        store.close()


def _stat(store: DuckStore, _: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from features.store.stat import cold_stat

    stat = store.stat()
    with store.using() as connection:
        cold = cold_stat(connection, store.cold)
    found = {"series": stat.series, "hot_samples": stat.hot_samples, "hot_bytes": stat.hot_bytes, **cold.as_dict()}
    spans = [at_s for at_s in (stat.oldest_s, stat.newest_s, cold.oldest_s, cold.newest_s) if at_s is not None]
    found["oldest_s"], found["newest_s"] = (min(spans), max(spans)) if spans else (None, None)
    return found, _stat_text(found)


def _stat_cold(folder: Path) -> tuple[dict[str, Any], list[str]]:
    import duckdb

    from features.store.cold import ColdFiles
    from features.store.stat import cold_stat

    with duckdb.connect() as connection:
        found = cold_stat(connection, ColdFiles(folder)).as_dict()
    return found, _stat_text(found)


def _stat_text(found: dict[str, Any]) -> list[str]:
    from api.cli.tables import quantity, table

    per = found["cold_bytes_per_sample"]
    lines = []
    if "series" in found:
        hot = quantity(float(found["hot_bytes"]), "bytes")
        lines += [f"{found['series']} series; hot: {found['hot_samples']} samples, {hot}"]
    lines.append(
        f"cold: {found['cold_samples']} samples, {quantity(float(found['cold_bytes']), 'bytes')}"
        f"{f', {per:.2f} bytes a sample' if per is not None else ''}, {found['cold_files']} files in"
        f" {found['cold_partitions']} partitions"
    )
    if found["cold_files_set_aside"]:
        lines.append(f"{found['cold_files_set_aside']} damaged files are set aside; `gpucast store verify` names them")
    if found["oldest_s"] is not None:
        lines.append(f"from {_when(found['oldest_s'])} to {_when(found['newest_s'])}")
    rows = [[m["metric"], str(m["samples"]), quantity(float(m["bytes"]), "bytes")] for m in found["largest_metrics"]]
    return [*lines, "", table(["metric", "cold samples", "size"], rows)] if rows else lines


def _when(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_s))


def _compact(store: DuckStore, _: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from dataclasses import asdict

    done = store.compact(time.time())
    store.checkpoint()
    return asdict(done), [
        *done.aside,
        f"merged {done.merged} partitions ({done.downsampled} down-sampled), deleted {done.dropped} old files:"
        f" {done.files_before} files of {done.bytes_before} bytes are now {done.files_after} of {done.bytes_after}",
    ]


def _export(store: DuckStore, args: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from features.store.export import export_samples

    into = _need(args.into, "--into")
    count = export_samples(store, into, args.from_s, args.to_s, args.metric, args.format)
    return {"samples": count, "folder": str(into)}, [f"wrote {count} samples to {into}"]


def _verify(store: DuckStore, _: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from features.store.verify import verify_cold

    with store.using() as connection:
        return _verdict(verify_cold(connection, store.cold))


def _verify_cold_only(folder: Path) -> tuple[dict[str, Any], list[str]]:
    import duckdb

    from features.store.cold import ColdFiles
    from features.store.verify import verify_cold

    with duckdb.connect() as connection:
        return _verdict(verify_cold(connection, ColdFiles(folder)))


def _verdict(verdict: Any) -> tuple[dict[str, Any], list[str]]:
    found = {
        "files": verdict.files,
        "samples": verdict.samples,
        "sealed": verdict.sealed,
        "problems": list(verdict.problems),
    }
    end = f"{len(verdict.problems)} problems" if verdict.problems else "all is well"
    return found, [
        *verdict.problems,
        f"{verdict.files} cold files, {verdict.samples} samples, {verdict.sealed} with a digest: {end}",
    ]


def _digest(store: DuckStore, _: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from features.store.content import content_digest

    with store.using() as connection:
        digest = content_digest(connection, store.cold)
    return {"sha256": digest}, [digest]


def _backup(store: DuckStore, args: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    from features.store.backup import back_up

    into = _need(args.into, "--into")
    count = back_up(store, into)
    return {"files": count, "folder": str(into)}, [f"copied {count} files to {into}"]


def _need(value: Path | None, flag: str) -> Path:
    from telemetry.errors import ConfigError

    if value is None:
        raise ConfigError(f"{flag} is missing", mend="Name a folder with it")
    return value


_DO = {"stat": _stat, "compact": _compact, "export": _export, "verify": _verify, "digest": _digest, "backup": _backup}
_COLD_ONLY = {"stat": _stat_cold, "verify": _verify_cold_only}

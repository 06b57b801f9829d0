"""A disk that fills up under a running service, on a small tmpfs that no other process sees.

The part that fills the disk runs in namespaces of its own (``unshare``), where it may mount a tmpfs without rights
on the machine: ``python -m api.bench.store_full`` is that part.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from api.bench.pushed import Answer, Fleet, push
from api.bench.result import Row
from api.bench.served import Served
from api.bench.store_kill import count_stored

_MIB = 2**20
_DISK_BYTES = 96 * _MIB
WHERE = ("log", "fold")
"""What meets the full disk: the database's log, which cannot grow; or its fold into the file, for which the log is
left as much room as it takes until DuckDB folds it, and one block more."""
_FOLD_AT_BYTES, _BLOCK_BYTES = 16 * _MIB, 256 * 1024
_REFUSED = 77
_N_NODES = 128
_BEFORE, _AFTER, _REFUSALS = 30, 20, 10
_MOST_PUSHES = 2000
_WITHIN_S = 30.0
_READS = ("/v1/jobs", "/v1/links", "/v1/advice", "/v1/health")

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Filled:
    """What one filling came to.

    Args:
        where: one of ``WHERE``.
        status: of refused pushes; 0 when they had several.
        sentence: why the first was refused.
        answer_max_s: longest time to a refusal.
        ready_status: of ``/readyz`` while full.
        ready_reason: what it said.
        reads_failed: reads that did not answer 200 while full.
        rounds: rounds of forecasts that ended while full.
        jobs: jobs that were listed while full.
        recovered_s: from the room's return to the next acknowledgement.
        ready_again_s: from the room's return to 200 from ``/readyz``.
        acknowledged: samples, before and after.
        lost: of those, how many are not in the store after a final ``kill -9``.
        doubled: samples that are there twice.
    """

    where: str
    status: int
    sentence: str
    answer_max_s: float
    ready_status: int
    ready_reason: str
    reads_failed: int
    rounds: int
    jobs: int
    recovered_s: float
    ready_again_s: float
    acknowledged: int
    lost: int
    doubled: int


def rows(progress: Progress) -> tuple[list[Row], str, str]:
    """Task ``full``, the digest of what was done, and a sentence where there is nothing to tell."""
    digest = hashlib.sha256(f"full {_DISK_BYTES} {WHERE} {_N_NODES}".encode()).hexdigest()
    found, why = fill_apart(progress)
    told = []
    for one in found:
        task = f"full-{one.where}"
        for name, value in asdict(one).items():
            if isinstance(value, int | float):
                told.append(Row(task, "gpucast", name, float(value), np.nan, np.nan, _REFUSALS))
        progress(f"{task}: pushes are told: {one.sentence}")
        progress(f"{task}: /readyz says: {one.ready_reason}")
    return told, digest, why


def fill_apart(progress: Progress) -> tuple[list[Filled], str]:
    """Run the fillings in namespaces of their own; no result and a sentence where those are refused."""
    try:
        may = subprocess.run(["unshare", "-rm", "true"], capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        return [], "nothing was measured: unshare (util-linux) is not installed"
    if may.returncode:
        return [], f"nothing was measured: namespaces are refused here ({may.stderr.strip()})"
    found = []
    for where in WHERE:
        progress(f"filling a disk of {_DISK_BYTES // _MIB} MiB under a running service: the {where} fails")
        command = ["unshare", "-rm", sys.executable, "-I", "-m", "api.bench.store_full", where]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode == _REFUSED:
            return [], f"nothing was measured: {done.stderr.strip()}"
        if done.returncode:
            raise RuntimeError(done.stderr)
        found.append(Filled(**json.loads(done.stdout)))
    return found, ""


def fill(folder: Path, data: Path, where: str) -> Filled:
    """Fill the disk that ``data`` lies on under a running service, give its room back, and count what is there."""
    fleet = Fleet(_N_NODES, time.time() - 60.0)
    served = Served(folder, data)
    acknowledged: list[int] = []
    try:
        served.start()
        while served.ask("/livez")[0] != 200:
            time.sleep(0.05)
        _push(served, fleet, range(_BEFORE), acknowledged)
        served.ready_after_s()
        _wait_for(lambda: served.counter("gpucast_forecast_rounds_total") > 0)
        ballast = data / "ballast"
        log_bytes = (data / "samples.duckdb.wal").stat().st_size
        _fill_up(ballast, _FOLD_AT_BYTES - log_bytes + _BLOCK_BYTES if where == "fold" else 0)
        number, refusals = _push_until_refused(served, fleet, acknowledged)
        rounds = served.counter("gpucast_forecast_rounds_total")
        refusals += [push(served.port, fleet.body(number)) for _ in range(_REFUSALS - 1)]
        ready_status, ready = served.ask("/readyz")
        failed = sum(served.ask(path)[0] != 200 for path in _READS)
        _wait_for(lambda: served.counter("gpucast_forecast_rounds_total") > rounds)
        rounds = served.counter("gpucast_forecast_rounds_total") - rounds
        jobs = len(served.ask("/v1/jobs")[1].get("items", []))
        ballast.unlink()
        began_s = time.perf_counter()
        _wait_for(lambda: push(served.port, fleet.body(number)).status == 204)
        recovered_s = time.perf_counter() - began_s
        served.ready_after_s()
        ready_again_s = time.perf_counter() - began_s
        _push(served, fleet, range(number, number + _AFTER), acknowledged)
        served.kill()
    finally:
        served.stop()
    lost, doubled, _ = count_stored(data, fleet, acknowledged)
    statuses = {answer.status for answer in refusals}
    return Filled(
        where=where,
        status=statuses.pop() if len(statuses) == 1 else 0,
        sentence=refusals[0].detail,
        answer_max_s=max(answer.seconds for answer in refusals),
        ready_status=ready_status,
        ready_reason=str(ready.get("detail", "")),
        reads_failed=failed,
        rounds=int(rounds),
        jobs=jobs,
        recovered_s=recovered_s,
        ready_again_s=ready_again_s,
        acknowledged=len(acknowledged) * len(fleet.keys),
        lost=lost,
        doubled=doubled,
    )


def _push(served: Served, fleet: Fleet, numbers: Iterable[int], acknowledged: list[int]) -> None:
    for number in numbers:
        answer = push(served.port, fleet.body(number))
        if answer.status != 204:
            raise RuntimeError(f"a push that had room was refused: {answer.status} {answer.detail}")
        acknowledged.append(number)


def _push_until_refused(served: Served, fleet: Fleet, acknowledged: list[int]) -> tuple[int, list[Answer]]:
    """Push on until one is refused; its number, and the answer."""
    for number in range(len(acknowledged), _MOST_PUSHES):
        answer = push(served.port, fleet.body(number))
        if answer.status != 204:
            return number, [answer]
        acknowledged.append(number)
    raise RuntimeError("the disk never got full")


def _fill_up(ballast: Path, left_bytes: int) -> None:
    """Take all room of the disk but ``left_bytes``."""
    disk = os.statvfs(ballast.parent)
    piece = bytes(64 * 1024)
    room = disk.f_bavail * disk.f_frsize - left_bytes
    with ballast.open("wb", buffering=0) as file:
        try:
            while left_bytes == 0 or room > 0:
                room -= file.write(piece)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _wait_for(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + _WITHIN_S
    while not condition():
        if time.monotonic() > until_s:
            raise RuntimeError(f"not within {_WITHIN_S:g} s")
        time.sleep(0.02)


def main() -> int:
    """The part inside the namespaces: mount, fill, print."""
    with tempfile.TemporaryDirectory(prefix="gpucast-bench-") as name:
        folder, data = Path(name), Path(name) / "data"
        data.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(data)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.stderr.write(f"a tmpfs cannot be mounted here ({done.stderr.strip()})")
            return _REFUSED
        try:
            found = fill(folder, data, sys.argv[1])
        except BaseException:
            sys.stderr.write((folder / "service.log").read_text(encoding="utf-8", errors="replace")[-4000:])
            raise
        finally:
            subprocess.run(["umount", str(data)], check=False)
    sys.stdout.write(json.dumps(asdict(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Pretend ``squeue`` and ``scontrol``: programs that print what a test tells them to."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from collectors.base import Collector
from collectors.slurm.collector import SlurmCollector
from collectors.slurm.commands import SlurmCommands
from telemetry.samples import Window

JOB: dict[str, Any] = {
    "job_id": 7,
    "job_state": ["RUNNING"],
    "nodes": "gpu-01",
    "account": "lab",
    "user_name": "eve",
    "gres_detail": ["gpu:h100:2(IDX:0-1)"],
}
NODE = "NodeName=gpu-01 Arch=x86_64\n   Gres=gpu:h100:4\n   GresUsed=gpu:h100:2(IDX:0-1)\n   State=MIXED ThreadsPerCore=1\n"
UNTOLD = "NodeName=gpu-02 Arch=x86_64\n   Gres=gpu:h100:4\n   State=IDLE ThreadsPerCore=1\n"
NO_CONTROLLER = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


def squeue_json(*jobs: Mapping[str, Any]) -> str:
    """What ``squeue --json`` prints."""
    return json.dumps({"meta": {"plugin": {"type": "openapi/v0.0.38"}}, "errors": [], "jobs": list(jobs)})


def printing(text: str | bytes, *, error: str = "", code: int = 0) -> str:
    """Script lines that print ``text`` and end with ``code``."""
    data = text if isinstance(text, bytes) else text.encode()
    octal = "".join(f"\\0{byte:03o}" for byte in data)
    said = f"echo {shlex.quote(error)} >&2\n" if error else ""
    return f"printf %b {shlex.quote(octal)}\n{said}exit {code}\n"


def install(folder: Path, **scripts: str) -> dict[str, str]:
    """Write one program for each script; gives the environment in which they, and no other, are found."""
    for name, lines in scripts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{lines}", encoding="ascii")
        path.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"} if scripts else {"PATH": str(folder)}


class SlurmStage:
    """Slurm's tools in every condition."""

    window = Window(1000.0, 1000.0)

    @asynccontextmanager
    async def collector(self, condition: str) -> AsyncIterator[Collector]:
        """A collector of such tools."""
        jobs, nodes = _scripts(condition)
        with tempfile.TemporaryDirectory() as folder:
            environment = install(Path(folder), squeue=jobs, scontrol=nodes)
            timeout_s = 0.5 if condition == "slow" else 10.0
            collector = SlurmCollector(SlurmCommands(timeout_s, max_bytes=1_000_000, environment=environment))
            try:
                yield collector
            finally:
                await collector.close()


def _scripts(condition: str) -> tuple[str, str]:
    good = printing(squeue_json(JOB))
    every: dict[str, tuple[str, str]] = {
        "good": (good, printing(NODE)),
        "dead": (printing("", error=NO_CONTROLLER, code=1), printing("", error=NO_CONTROLLER, code=1)),
        "slow": ("exec sleep 30\n", "exec sleep 30\n"),
        "huge": ("exec yes '{'\n", "exec yes NodeName=x\n"),
        "torn": (printing(squeue_json(JOB)[:-20]), printing(NODE[:-20])),
        "empty": (printing(""), printing("")),
        "nan": (good, printing(f"{NODE}\n{UNTOLD}")),
        "duplicate": (printing(squeue_json(JOB, JOB)), printing(f"{NODE}\n{NODE}")),
        "not_text": (printing(b"\xff\xfe\x00"), printing(b"\xff\xfe\x00")),
    }
    return every[condition]

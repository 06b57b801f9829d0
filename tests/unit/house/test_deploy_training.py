"""The files that run training unattended are sound, and give it no more power than it needs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"


def test_the_cron_job_is_hardened() -> None:
    """Not root, nothing to write but data and scratch, no powers, no token, never two at once."""
    told = yaml.safe_load((DEPLOY / "training" / "cronjob.yaml").read_text(encoding="utf-8"))
    pod = told["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert (told["apiVersion"], told["kind"], told["spec"]["concurrencyPolicy"]) == ("batch/v1", "CronJob", "Forbid")
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_what_they_run_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words in every file are accepted by the command line."""
    from api.cli import build_parser

    job = yaml.safe_load((DEPLOY / "training" / "cronjob.yaml").read_text(encoding="utf-8"))
    args = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    texts = [
        (DEPLOY / "training" / "train.sbatch").read_text(),
        (DEPLOY / "systemd" / "gpucast-train.service").read_text(),
    ]
    found = [re.search(r"-I -m api (train[^|\n]*)", text)[1].replace('"', "").split() for text in texts]

    for words in (args, *found):
        assert build_parser().parse_args(words).command == "train"


def test_systemd_accepts_service_and_timer(tmp_path: Path) -> None:
    """systemd-analyze finds nothing wrong with either."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    for name in ("gpucast-train.service", "gpucast-train.timer"):
        text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("/opt/gpucast/.venv/bin/python", "/bin/true"), encoding="utf-8")

    result = subprocess.run(
        [program, "verify", *(str(tmp_path / name) for name in ("gpucast-train.timer", "gpucast-train.service"))],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert [line for line in result.stderr.splitlines() if "gpucast-train" in line] == []


def test_the_unit_is_as_confined_as_the_service() -> None:
    """Every restriction of the service's unit also binds training, which needs no network at all."""
    service, training = (
        set(re.findall(r"^((?:Protect|Private|Restrict|NoNew|Lock|Capability|Ambient|SystemCall|UMask|Dynamic)\w*=.*)$", text, re.M))
        for text in ((DEPLOY / "systemd" / f"{name}.service").read_text() for name in ("gpucast", "gpucast-train"))
    )  # fmt: skip

    assert {line for line in service - training if not line.startswith("RestrictAddressFamilies")} == set()
    assert "PrivateNetwork=yes" in training


def test_the_batch_script_turns_the_gates_no_into_success(tmp_path: Path) -> None:
    """Exit code 5 counts as done, others are passed on, root and a missing folder are refused."""
    script = DEPLOY / "training" / "train.sbatch"
    fake = tmp_path / "python"

    def run(code: int, **more: str) -> int:
        fake.write_text(f"#!/bin/sh\nexit {code}\n")
        fake.chmod(0o755)
        environment = {"PATH": "/usr/bin:/bin", "TRAIN_PYTHON": str(fake), **more}
        return subprocess.run(
            ["bash", str(script)], env=environment, capture_output=True, timeout=30, check=False
        ).returncode

    good = {"TRAIN_DATA": str(tmp_path), "TRAIN_AS_ROOT": "1"}
    assert [run(code, **good) for code in (0, 1, 5)] == [0, 1, 0]
    assert run(0, TRAIN_AS_ROOT="1") != 0

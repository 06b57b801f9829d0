"""What stands in deploy/ and examples/ fits the code and is accepted by the tools it is for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
DEPLOY = REPOSITORY / "deploy"


def _promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed; scripts/install-debian installs it")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.prometheus
def test_the_scrape_example_is_accepted_by_prometheus() -> None:
    """promtool reads the configuration and the rules it names."""
    result = _promtool("check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.prometheus
def test_alerts_fire_when_and_only_when_they_should() -> None:
    """promtool plays series through the rules."""
    result = _promtool("test", "rules", str(DEPLOY / "prometheus" / "gpucast.rules.test.yml"))

    assert result.returncode == 0, result.stdout + result.stderr


def test_alerts_rest_on_metrics_that_exist() -> None:
    """Every gpucast_ name in the rules is documented, and what is documented is tested against the code elsewhere."""
    rules = (DEPLOY / "prometheus" / "gpucast.rules.yml").read_text(encoding="utf-8")
    documented = (REPOSITORY / "docs" / "metrics.md").read_text(encoding="utf-8")
    used = set(re.findall(r"\b(gpucast_[a-z0-9_]+)", rules))

    assert used
    assert [name for name in sorted(used) if f"`{name}`" not in documented] == []


def test_the_image_copies_what_exists_and_every_room() -> None:
    """Each COPY source is in the repository, and no room is forgotten."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    sources = [
        source for words in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE) for source in words.split()[:-1]
    ]

    assert [source for source in sources if not (REPOSITORY / source).exists()] == []
    assert {"telemetry", "collectors", "features", "models", "forecast", "api"} <= set(sources)


@pytest.mark.parametrize("path", ["deploy/Dockerfile", "deploy/systemd/gpucast.service"])
def test_services_start_isolated(path: str) -> None:
    """Every unattended start uses ``-I -m api``, so that no foreign folder can shadow a room."""
    text = (REPOSITORY / path).read_text(encoding="utf-8").replace('", "', " ")

    assert "python -I -m api" in text


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """systemd-analyze finds nothing wrong with the unit."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "systemd" / "gpucast.service").read_text(encoding="utf-8")
    unit = tmp_path / "gpucast.service"
    unit.write_text(text.replace("/opt/gpucast/.venv/bin/python", "/bin/true"), encoding="utf-8")

    result = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False)

    assert [line for line in result.stderr.splitlines() if "gpucast.service" in line] == []


def test_the_slurm_hook_keeps_one_line_per_job_and_gpu(tmp_path: Path) -> None:
    """Two jobs that share a GPU both stand in its file; the last to end takes the file away."""
    hook = REPOSITORY / "examples" / "slurm" / "gpucast-job-map"
    for name in ("map-start", "map-end"):
        (tmp_path / name).symlink_to(hook)
    folder = tmp_path / "map"

    def run(name: str, job: str, gpus: str) -> None:
        environment = {**os.environ, "GPUCAST_JOB_MAP": str(folder), "SLURM_JOB_ID": job, "SLURM_JOB_GPUS": gpus}
        subprocess.run([str(tmp_path / name)], env=environment, check=True, timeout=30)

    def shown() -> dict[str, list[str]]:
        return {path.name: path.read_text().split() for path in sorted(folder.glob("[0-9]*"))}

    run("map-start", "101", "0,1")
    run("map-start", "101", "0,1")
    run("map-start", "10", "1")
    assert shown() == {"0": ["101"], "1": ["101", "10"]}
    run("map-end", "10", "1")
    assert shown() == {"0": ["101"], "1": ["101"]}
    run("map-end", "101", "0,1")
    assert shown() == {}
    run("map-start", "102", "")
    assert shown() == {}

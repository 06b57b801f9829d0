"""The whole loop on a small store: train, kill, go on, promote, refuse, go back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from api.forecast_worker import ForecastWorker
from api.training_data import from_store
from api.training_snapshot import KnownBy, snapshot_of
from features.frame import JobFrame
from features.store.duck import DuckStore
from forecast.predict.settings import PredictSettings
from forecast.predict.types import QuantilePath
from forecast.predict.worker import PredictRequest, TrainedState
from models.promotion import promote
from models.store import ModelStore
from models.store_recipes import STEP_CLASSES
from telemetry.ids import GpuId, JobId
from telemetry.jobs import JobView
from tests.kit.trained_models import booster, context, losses, publish
from tests.kit.training_store import START_S, fill_store

REPOSITORY = Path(__file__).resolve().parents[2]
FLAGS = ("--windows", "8", "--trees", "8", "--model", "jobs-1s")
NAME = "jobs-1s"


def _gpucast(*words: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, '.'); from api.cli import main; sys.exit(main(sys.argv[1:]))",
        *words,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("service")
    config = folder / "gpucast.toml"
    config.write_text("[forecast]\nhorizon_s = 20\nwindow_s = 120\n")
    fill_store(folder, jobs=3, points=600)
    return folder


@pytest.fixture(scope="module")
def trained(data: Path) -> dict[str, object]:
    """A first training that nothing disturbs."""
    done = _gpucast("train", "--store", str(data), "--config", str(data / "gpucast.toml"), *FLAGS, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [entry["new"] for entry in told] == [True]
    return told[0]


def test_what_is_stored_tells_where_it_came_from(data: Path, trained: dict[str, object]) -> None:
    """The manifest holds data, code, parameters and figures with intervals beside persistence, all digests fit."""
    store = ModelStore(data / "models")
    _, manifest = store.checked(NAME, str(trained["version"]))

    assert manifest.data["jobs"] == 3
    assert manifest.data["from_s"] >= START_S
    assert manifest.data["learnt_until_s"] + 20 <= manifest.judged["from_s"]
    assert {"challenger", "built-in", "persistence"} <= set(manifest.figures)
    skill = manifest.figures["challenger"]["skill"]
    assert skill.low <= skill.value <= skill.high
    assert manifest.figures["persistence"]["skill"].value == 0.0
    assert not list((data / "models" / ".work").iterdir()), "no copy of the store is left"


def test_the_same_again_does_nothing(data: Path, trained: dict[str, object]) -> None:
    """Same data, parameters and code: the same version, and a sentence."""
    done = _gpucast("train", "--store", str(data), "--config", str(data / "gpucast.toml"), *FLAGS)

    assert done.returncode == 0
    assert f"{trained['version']} is there already" in done.stdout


def test_killed_half_way_it_goes_on(data: Path, trained: dict[str, object], tmp_path: Path) -> None:
    """A run that is killed is finished by the next, from its parts, with the very files of an undisturbed run."""
    root = tmp_path / "models"
    words = [
        "train",
        "--store",
        str(data),
        "--models",
        str(root),
        "--config",
        str(data / "gpucast.toml"),
        *FLAGS,
        "--json",
    ]
    code = "import sys; sys.path.insert(0, '.'); from api.cli import main; sys.exit(main(sys.argv[1:]))"
    victim = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    work = root / NAME / ".work"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(work.glob("*/fold-*"))) < 4:
        time.sleep(0.02)
    victim.send_signal(signal.SIGKILL)
    assert victim.wait(30) == -signal.SIGKILL
    store = ModelStore(root)
    assert not store.shelf(NAME).versions, "nothing is published half done"

    done = _gpucast(*words)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)[0]
    assert told["parts_found"] >= 4
    assert told["version"] == trained["version"]
    assert told["manifest"]["files"] == trained["manifest"]["files"]  # type: ignore[index]


def test_the_gate_speaks_through_the_command(data: Path, trained: dict[str, object]) -> None:
    """Promotion tells figures either way; its exit code is the verdict; list, diff and rollback follow."""
    version = str(trained["version"])
    done = _gpucast("models", "promote", NAME, version, "--store", str(data), "--json")
    verdict = json.loads(done.stdout)

    assert done.returncode == (0 if verdict["promoted"] else 5)
    assert "95 %" in verdict["reason"]
    assert (verdict["gains"]["built-in"][1] > 0 and verdict["gains"]["persistence"][1] > 0) == verdict["promoted"]
    listed = json.loads(_gpucast("models", "list", "--store", str(data), "--json").stdout)
    assert listed[0]["versions"][0]["state"] == ("champion" if verdict["promoted"] else "challenger")
    assert _gpucast("models", "promote", NAME, "0" * 16, "--store", str(data)).returncode == 3
    assert _gpucast("models", "promote", NAME, version, "--store", str(data), "--force").returncode == 2


def test_until_sees_only_what_was_known_then(data: Path) -> None:
    """Samples later than the moment, or that came in later, are not there."""
    with snapshot_of(data, data / "scratch") as store:
        stretches = from_store(
            KnownBy(store, START_S + 300), START_S + 300, 86_400.0, list(STEP_CLASSES.values()), lambda _: None
        )

    assert stretches
    assert max(one.at_s(one.context.n_points - 1) for one in stretches) <= START_S + 300


def test_late_samples_are_not_learnt_from(tmp_path: Path) -> None:
    """What came in an hour late was not known then, and is once it was."""
    fill_store(tmp_path, jobs=1, points=300, late_from_s=START_S + 180)
    found = []
    with snapshot_of(tmp_path, tmp_path / "scratch") as store:
        for until_s in (START_S + 299, START_S + 299 + 3600):
            known = KnownBy(store, until_s)
            stretches = from_store(known, until_s, 86_400.0, list(STEP_CLASSES.values()), lambda _: None)
            found.append(max(one.at_s(one.context.n_points - 1) for one in stretches))

    assert found[0] < START_S + 180
    assert found[1] == START_S + 299


def test_it_trains_beside_a_service_that_has_the_store_open(tmp_path: Path) -> None:
    """The copy is taken while another process holds the store, also of what lies in its log and in cold files."""
    fill_store(tmp_path, jobs=1, points=300)
    shutil.rmtree(tmp_path / "models", ignore_errors=True)
    holder = DuckStore(tmp_path / "samples.duckdb", cold_dir=tmp_path / "cold")
    try:
        holder.spill(START_S + 120)
        before = sorted(path.name for path in (tmp_path / "cold").rglob("*"))
        with snapshot_of(tmp_path, tmp_path / "scratch") as copy:
            keys = holder.keys()
            mine, theirs = (s.read(keys, START_S + 400, 1000.0) for s in (copy, holder))
        assert sorted(path.name for path in (tmp_path / "cold").rglob("*")) == before
    finally:
        holder.close()

    assert [one.at_s.tolist() for one in mine] == [one.at_s.tolist() for one in theirs]
    assert all(one.at_s.size == 300 for one in mine)


@pytest.mark.asyncio
async def test_the_service_takes_a_champion_up_while_it_runs(tmp_path: Path) -> None:
    """The very process that forecast without a champion forecasts with it in the round after its promotion."""
    root = tmp_path / "models"
    store = ModelStore(root)
    version = publish(store, losses(0.5, 0.6), booster(tmp_path / "fitted" / "gbdt"))
    gpu = GpuId("gpu-00", "GPU-0")
    one = context(points=400)
    job = JobView(JobId("slurm", "1"), ("gpu-00",), (gpu,), START_S, START_S + 400)
    frame = JobFrame(job, START_S + 400, START_S + 400, one.rows(np.empty(0, np.intp)), (), one)
    request = PredictRequest(now_s=START_S + 401, jobs=(frame,), settings=PredictSettings(horizon_s=20, max_age_s=30))
    worker = ForecastWorker(store=root)
    try:
        before = await worker.predict(request)
        promote(store, NAME, version, now_s=1.0)
        after = await worker.predict(request)
    finally:
        worker.close()

    assert (before.trained, after.trained) == ((), (TrainedState(NAME, version),))
    versions = [path.model_version for path in after.jobs[0].metrics.values() if isinstance(path, QuantilePath)]
    assert any(one.endswith(f"@{version}") for one in versions)
    assert worker.restarts_total == 0

"""Collectors and models of another package really run: samples reach the store, forecasts name the model."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from api.forecast_worker import ForecastWorker
from api.plugin_models import tried_models
from api.settings import load_settings
from api.wiring import build
from features.frame import Context, JobFrame
from forecast.predict.types import QuantilePath
from forecast.predict.worker import PredictRequest
from telemetry.errors import ConfigError
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import JobView
from tests.kit.http_client import get

MODULE = '''
from dataclasses import replace

import numpy as np

from forecast.plugins import LEVELS, GpuId, JobId, SampleBatch, SeriesKey, Sighting


class Meter:
    """A power meter of the machine room."""

    provides = frozenset({"gpu_power_watts"})

    def __init__(self, host, watts=100.0):
        self.name, self._watts, self.closed = f"meter {host}", watts, False
        self._gpu = GpuId(host, "GPU-1")
        self._keys = (SeriesKey("gpu_power_watts", str(self._gpu)),)

    async def collect(self, window):
        sighting = Sighting(self._gpu, window.end_s, JobId("slurm", "7"), "", True, 1)
        batch = SampleBatch.of([(self._keys[0], window.end_s, self._watts)], received_s=window.end_s)
        return replace(batch, source=self.name, sightings=(sighting,))


class Liar(Meter):
    async def collect(self, window):
        return SampleBatch.of([(SeriesKey("made_up", "x"), window.end_s, 1.0)], received_s=window.end_s)


class Oracle:
    """Knows the one wave of the test, and says it with small intervals."""

    name, version = "oracle", "3"

    def fit(self, contexts, horizon):
        pass

    def predict(self, context, horizon):
        t = context.n_points + np.arange(horizon)
        middle = np.broadcast_to(wave(t), (context.n_series, horizon)).copy()
        cube = middle[:, :, None] + 1e-4 * (np.array(LEVELS) - 0.5)
        return np.clip(cube, context.low[:, None, None], context.high[:, None, None])

    def save(self, folder):
        folder.mkdir()

    @classmethod
    def load(cls, folder):
        return cls()


def wave(t):
    return np.random.default_rng(1).random(4096)[np.asarray(t, int) % 4096]


class Broken(Oracle):
    name = "broken"

    def predict(self, context, horizon):
        return np.full((context.n_series, horizon, len(LEVELS)), np.nan)
'''
ENTRY_POINTS = """
[gpucast.collectors]
meter = my_site:Meter
liar = my_site:Liar

[gpucast.models]
oracle = my_site:Oracle
broken = my_site:Broken
"""
WAVE = np.random.default_rng(1).random(4096)


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution of a site, installed as far as Python can tell."""
    folder = tmp_path / "site"
    info = folder / "my_site-0.3.dist-info"
    info.mkdir(parents=True)
    (folder / "my_site.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-site\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    yield folder
    sys.modules.pop("my_site", None)


def _settings(tmp_path: Path, toml: str) -> Path:
    path = tmp_path / "gpucast.toml"
    path.write_text(f'[store]\nfolder = "{tmp_path / "store"}"\n[scrape]\ntargets = []\n{toml}')
    return path


def test_a_collector_of_the_settings_feeds_the_service(theirs: Path, tmp_path: Path) -> None:
    """Each table is one source with its own options; one that lies is down with the law that it broke."""
    toml = '[[plugin.meter]]\nhost = "gpu-01"\ninterval_s = 0.1\n[[plugin.meter]]\nhost = "gpu-02"\nwatts = 250.0\n'
    path = _settings(tmp_path, toml + "interval_s = 0.1\n[[plugin.liar]]\nhost = 'x'\ninterval_s = 0.1\n")
    built = build(load_settings(path, environment={}))

    health = None
    try:
        # The pool forgets its sources when it stops, so that they are asked for while it runs.
        async def run() -> None:
            nonlocal health
            source = asyncio.create_task(built.service._source.run())
            async with asyncio.timeout(20):
                while health is None or len([one for one in health.targets if one.last_ok_s or one.last_error]) < 3:
                    await asyncio.sleep(0.05)
                    health = built.service.health()
            source.cancel()
            await asyncio.gather(source, return_exceptions=True)
            await built.service._intake.close()

        asyncio.run(run())
    finally:
        built.service.end_worker()

    targets = {one.source: one for one in health.targets}
    assert targets["plugin:meter:meter gpu-01"].up
    assert targets["plugin:liar:meter x"].last_error.endswith("made_up is not in the catalogue")
    assert not targets["plugin:liar:meter x"].up
    assert health.ready
    keys = {str(key.entity) for key in built.service._ring.keys(("gpu_power_watts",))}
    assert keys == {"gpu-01:GPU-1", "gpu-02:GPU-1"}
    shown = {one["name"]: one["in_use"] for one in get(built.app, "/v1/plugins").json()["items"]}
    assert shown == {"meter": True, "liar": True, "oracle": False, "broken": False}


def test_a_collector_that_cannot_be_made_is_named_with_its_table(theirs: Path, tmp_path: Path) -> None:
    """At the start, in one sentence."""
    built = build(load_settings(_settings(tmp_path, "[[plugin.meter]]\nplace = 1\n"), environment={}))
    try:
        with pytest.raises(ConfigError, match=r"plugin\.meter\[0\]: cannot be made: TypeError"):
            asyncio.run(built.service._source.run())
    finally:
        built.service.end_worker()
    with pytest.raises(
        ConfigError, match=r"plugin\.nobody: no collector of that name is installed. Installed: liar, m"
    ):
        build(load_settings(_settings(tmp_path, "[[plugin.nobody]]\n"), environment={}))


def _request() -> PredictRequest:
    """Noise that nobody but the oracle can foresee."""
    values = WAVE[None, :200].copy()
    zero, one = np.zeros(1), np.ones(1)
    group = np.zeros(1, np.int32)
    context = Context(values, 1.0, ("gpu_sm_active_ratio",), group, zero, one)
    gpu = GpuId("n", "GPU-1")
    job = JobView(JobId("slurm", "7"), ("n",), (gpu,), 0.0, 200.0)
    frame = JobFrame(job, 200.0, 200.0, context, (SeriesKey("gpu_sm_active_ratio", str(gpu)),), context)
    return PredictRequest(now_s=200.5, jobs=(frame,))


def test_a_model_of_the_settings_is_tried_and_served_where_it_wins(theirs: Path) -> None:
    """In the process that forecasts, through the gate like every other; one that breaks the contract is named once."""
    worker = ForecastWorker(models=("oracle", "broken", "nobody"))

    async def rounds() -> list[tuple[QuantilePath, tuple[str, ...]]]:
        got = []
        for _ in range(2):
            reply = await worker.predict(_request())
            path = reply.jobs[0].metrics["gpu_sm_active_ratio"]
            assert isinstance(path, QuantilePath)
            got.append((path, reply.messages))
        return got

    try:
        (first, told), (_, again) = asyncio.run(rounds())
    finally:
        worker.close()
    assert "oracle" in first.model
    assert first.skill.skill > 0.5
    median = first.values[:10, len(first.levels) // 2]
    np.testing.assert_allclose(median, WAVE[200:210], atol=0.05)
    assert any("model broken of a plug-in is left out: it breaks the contract" in sentence for sentence in told)
    assert any("model nobody of a plug-in is left out: it is not installed" in sentence for sentence in told)
    assert again == ()


def test_without_names_nothing_is_loaded(theirs: Path) -> None:
    """An installed package changes no forecast until the settings name it."""
    tried = tried_models(())
    assert tried.room is None
    assert "my_site" not in sys.modules

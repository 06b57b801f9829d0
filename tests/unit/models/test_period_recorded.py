"""Recorded H100 jobs: the known period is found, idle and aliased runs are not."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from features.frame import Context
from models.period import detect_periods

COLUMNS = {
    "power_w": "gpu_power_watts",
    "sm_active": "gpu_sm_active_ratio",
    "tensor_active": "gpu_tensor_active_ratio",
    "dram_active": "gpu_dram_active_ratio",
    "pcie_rx_bytes_s": "gpu_pcie_rx_bytes_per_s",
    "nvlink_tx_bytes_s": "gpu_nvlink_tx_bytes_per_s",
}


@pytest.fixture(scope="module")
def load(shared_dir):
    path = shared_dir / "data" / "h100_dcgm_10hz" / "telemetry.parquet"

    def one(run, step_s):
        table = duckdb.sql(
            f"select gpu, timestamp, {', '.join(COLUMNS)} from '{path}' "
            f"where run = '{run}' and node = 0 and phase = 'steady' order by gpu, timestamp"
        ).fetchnumpy()
        gpu, time = np.asarray(table["gpu"]), np.asarray(table["timestamp"])
        grid = np.arange(time.min(), time.max(), step_s)
        rows = []
        for device in range(8):
            mine = gpu == device
            last = np.clip(np.searchsorted(time[mine], grid, side="right") - 1, 0, None)
            stale = grid - time[mine][last] > 3 * max(step_s, 0.1)
            for column in COLUMNS:
                values = np.ma.filled(np.ma.asarray(table[column])[mine].astype(float), np.nan)[last]
                rows.append(np.where(stale, np.nan, values))
        return np.array(rows)

    return one


def windows(values, step_s, length_s, count):
    n = round(length_s / step_s)
    for start in np.linspace(0, values.shape[1] - n, count).astype(int):
        rows = values[:, start : start + n]
        names = tuple(COLUMNS.values()) * 8
        size = len(names)
        yield Context(rows, step_s, names, np.zeros(size, np.int32), np.zeros(size), np.full(size, np.inf))


@pytest.mark.shared
@pytest.mark.parametrize("step_s", [0.1, 0.2, 0.4, 0.5])
def test_offloaded_training_is_found(load, step_s):
    """Iterations of about 3.455 s: the first minute says so within 2 %, and no window doubles or halves it."""
    found = [detect_periods(context)[0] for context in windows(load("t6", step_s), step_s, 60, 8)]
    assert all(f.status == "found" for f in found)
    assert found[0].period_s == pytest.approx(3.455, rel=0.02)
    # The job itself runs up to 4 % slower in its second minute.
    assert max(abs(f.period_s / 3.455 - 1) for f in found) < 0.045


@pytest.mark.shared
@pytest.mark.parametrize("run", ["t2", "b1"])
@pytest.mark.parametrize("step_s", [0.1, 0.5, 1.0, 2.0])
def test_aliased_and_idle_runs_are_not_found(load, run, step_s):
    """Steps of 38 ms and an idle machine never get a period, at any sampling."""
    for context in windows(load(run, step_s), step_s, 60, 6):
        assert detect_periods(context)[0].status != "found"

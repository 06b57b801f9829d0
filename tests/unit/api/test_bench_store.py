"""``gpucast bench store``: what it must give back, on simulated telemetry and on a recording."""

from __future__ import annotations

from pathlib import Path

import duckdb

from api.bench.store import run

TASKS = {("append", "samples_per_cpu_s"), ("cold", "bytes_per_sample"), ("read-series", "ms")}


def test_simulated_figures_are_named_so_and_repeat():
    """Without data the tasks say that they are simulated, and the bytes are the same in every run."""
    first, second = (run(None, lambda _: None, quick=True) for _ in range(2))
    found = {(row.task, row.metric) for row in first.rows}
    assert {(f"sim-{task}", metric) for task, metric in TASKS} | {("read-job-1000", "ms")} == found
    cold = [[row.value for row in result.rows if row.task == "sim-cold"] for result in (first, second)]
    assert cold[0] == cold[1]
    assert first.data_sha256 == second.data_sha256
    assert first.notes


def test_a_recording_is_stored_whole(tmp_path: Path):
    """Every column with a metric of ours counts once per GPU and moment."""
    file = tmp_path / "h100_dcgm_10hz" / "telemetry.parquet"
    file.parent.mkdir()
    zeros = ["pcie_tx_bytes_s", "pcie_rx_bytes_s", "nvlink_tx_bytes_s", "nvlink_rx_bytes_s", "fp16_active"]
    ones = ["power_w", "temp_c", "gpu_util_pct", "mem_util_pct", "mem_used_mib", "energy_mj"]
    actives = ["sm_active", "tensor_active", "dram_active"]
    columns = [f"{value} as {name}" for names, value in ((zeros, 0.0), (ones, 1.0), (actives, 0.5)) for name in names]
    duckdb.execute(
        f"copy (select 'r' as run, 0 as node, 1767225600 + t * 0.1 as timestamp, gpu, {', '.join(columns)}"
        f" from range(50) a(t), range(2) b(gpu)) to '{file}' (format parquet)"
    )
    result = run(tmp_path, lambda _: None, quick=True)
    (cold,) = [row for row in result.rows if (row.task, row.model) == ("cold", "all")]
    assert cold.n == 50 * 2 * 14
    assert not result.notes

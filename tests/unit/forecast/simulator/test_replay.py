"""Replayed pages equal the record, line by line, at timestamps that never run ahead of the clock."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from forecast.simulator.recording import read_run
from forecast.simulator.replay import Anchor, Replay
from telemetry.clock import VirtualClock
from telemetry.errors import ConfigError

BEGAN = 1_700_000_000.0


def write_record(folder: Path, *, ports: bool = False) -> Path:
    """Run ``r1``: one host, 2 cards, 50 samples at 10 Hz; ``r2``: two hosts. SM activity says which sample it is."""
    rows = """
        select run, node, {began} + i / 10.0 + node * 0.03 as timestamp,
               case when i < 10 then 'warmup' else 'steady' end as phase, gpu, 'NVIDIA H100 80GB HBM3' as gpu_model,
               300.5 + i as power_w, 40 + gpu as temp_c, 1000 + i as mem_used_mib, 81559 as mem_total_mib,
               i % 101 as gpu_util_pct, 7 as mem_util_pct,
               case when i = 20 and gpu = 1 then 'nan'::double when i = 21 then null else i / 100.0 end as sm_active,
               0.25 as tensor_active, 0.5 as dram_active, 0.0 as fp16_active, 1e9 as pcie_tx_bytes_s,
               2e9 as pcie_rx_bytes_s, 3e9 as nvlink_tx_bytes_s, 4e9 as nvlink_rx_bytes_s, 0 as throttle_reasons,
               237285356251 + i * 30 as energy_mj
        from (values ('r1', 0), ('r2', 0), ('r2', 1)) as runs(run, node), range(50) as t(i), range(2) as g(gpu)
    """
    duckdb.sql(f"copy ({rows.format(began=BEGAN)}) to '{folder / 'telemetry.parquet'}' (format parquet)")
    if ports:
        names = ", ".join(
            f"{1000 * (p + 1)} as ib{p}_tx_bytes_s, {2000 * (p + 1)} as ib{p}_rx_bytes_s" for p in range(8)
        )
        text = f"select 'r2' as run, n as node, {BEGAN} + i / 10.0 as timestamp, {names} from range(50) t(i), range(2) s(n)"
        duckdb.sql(f"copy ({text}) to '{folder / 'infiniband.parquet'}' (format parquet)")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_record(tmp_path_factory.mktemp("record"), ports=True)


def samples(page: bytes):
    return [sample for family in text_string_to_metric_families(page.decode()) for sample in family.samples]


def values(page: bytes, name: str) -> dict[str, float]:
    return {s.labels["gpu"]: s.value for s in samples(page) if s.name == name}


@given(st.floats(0.1, 50.0), st.floats(1.0, 5000.0), st.floats(0.0, 1.0), st.floats(0.0, 2e9))
def test_recorded_time_never_runs_ahead_and_meets_the_clock_at_the_end(
    speed: float, length_s: float, share: float, wall_start_s: float
) -> None:
    """Above speed 1 it starts in the past and arrives now; below, it starts now and falls behind."""
    anchor = Anchor(BEGAN, length_s, wall_start_s, speed)
    wall_s = wall_start_s + share * length_s / speed
    moved_s = anchor.moved_s(anchor.recorded_s(wall_s))
    # A wall clock of 2e9 s is known to 2e-7 s, and speed multiplies that.
    slack_s = 1e-6 * (1.0 + length_s) * max(1.0, speed)
    assert moved_s <= wall_s + slack_s
    if speed >= 1.0:
        assert anchor.moved_s(BEGAN + length_s) == pytest.approx(anchor.ends_s(), abs=slack_s)
        whole = wall_start_s + length_s / speed - length_s + speed * (wall_s - wall_start_s)
        assert moved_s == pytest.approx(whole, abs=slack_s)


def test_each_page_is_the_newest_recorded_sample(folder: Path) -> None:
    """Every field of every card, in the record's numbers, at the sample's own moved time."""
    clock = VirtualClock(5000.0)
    replay = Replay(read_run(folder, "r1"), "r1", speed=2.0, clock=clock)
    clock.advance(1.73)
    page = replay.gpu_page(0)
    # 2 x 1.73 s = 3.46 s into a record of 4.9 s: sample 34, moved to 5000 + 2.45 - 4.9 + 3.4.
    seen = samples(page)
    assert {sample.timestamp for sample in seen} == {5000.95}
    assert len(seen) == 14 * 2
    assert values(page, "DCGM_FI_PROF_SM_ACTIVE") == {"0": 0.34, "1": 0.34}
    assert values(page, "DCGM_FI_DEV_POWER_USAGE") == {"0": 334.5, "1": 334.5}
    assert values(page, "DCGM_FI_DEV_GPU_TEMP") == {"0": 40.0, "1": 41.0}
    assert values(page, "DCGM_FI_DEV_GPU_UTIL") == {"0": 34.0, "1": 34.0}
    assert values(page, "DCGM_FI_DEV_FB_USED") == {"0": 1034.0, "1": 1034.0}
    assert values(page, "DCGM_FI_PROF_NVLINK_RX_BYTES") == {"0": 4e9, "1": 4e9}
    # prometheus_client appends _total to a declared counter.
    assert values(page, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total")["0"] == 237285356251 + 34 * 30
    assert {(s.labels["namespace"], s.labels["pod"], s.labels["container"]) for s in seen} == {
        ("replay", "r1-0", "main")
    }


def test_what_was_not_recorded_has_no_line(folder: Path) -> None:
    """NaN and null alike: never 0, never NaN."""
    clock = VirtualClock(5000.0)
    replay = Replay(read_run(folder, "r1"), "r1", speed=1.0, clock=clock)
    clock.advance(2.05)
    assert values(replay.gpu_page(0), "DCGM_FI_PROF_SM_ACTIVE") == {"0": 0.2}
    clock.advance(0.1)
    page = replay.gpu_page(0)
    assert values(page, "DCGM_FI_PROF_SM_ACTIVE") == {}
    assert b"SM_ACTIVE" not in page
    assert values(page, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") == {"0": 0.25, "1": 0.25}


def test_port_counters_are_the_sum_of_recorded_rates(folder: Path) -> None:
    """1000 B/s for 3 s are 3000 bytes on the first port, in whole words; none for a run without a record."""
    clock = VirtualClock(5000.0)
    replay = Replay(read_run(folder, "r2"), "r2", speed=1.0, clock=clock)
    clock.advance(3.05)
    seen = {(s.name, s.labels["device"]): s.value for s in samples(replay.port_page(1)) if "device" in s.labels}
    assert seen["node_infiniband_port_data_transmitted_bytes_total", "mlx5_0"] == pytest.approx(3000.0, abs=4.0)
    assert seen["node_infiniband_port_data_received_bytes_total", "mlx5_7"] == pytest.approx(48000.0, abs=4.0)
    alone = Replay(read_run(folder, "r1"), "r1", speed=1.0, clock=clock)
    assert {s.name for s in samples(alone.port_page(0))} == {"node_uname_info"}


def test_it_ends_once_and_holds_the_last_sample(folder: Path) -> None:
    """After the record's length over the speed."""
    clock = VirtualClock(5000.0)
    replay = Replay(read_run(folder, "r1"), "r1", speed=4.0, clock=clock)
    clock.advance(1.2)
    assert not replay.ended()
    clock.advance(0.1)
    assert replay.ended()
    assert values(replay.gpu_page(0), "DCGM_FI_PROF_SM_ACTIVE") == {"0": 0.49, "1": 0.49}
    assert replay.progress()["played_s"] == pytest.approx(4.9)


def test_a_loop_goes_on_with_rising_timestamps(folder: Path) -> None:
    """At the end the record begins again, later on the clock."""
    clock = VirtualClock(5000.0)
    replay = Replay(read_run(folder, "r1"), "r1", speed=1.0, clock=clock, loop=True)
    stamps = []
    for _ in range(120):
        clock.advance(0.1)
        assert not replay.ended()
        stamps.append(samples(replay.gpu_page(0))[0].timestamp)
    assert replay.laps == 2
    assert stamps == sorted(stamps)
    assert stamps[-1] <= clock.now()


def test_playing_may_start_at_a_phase_or_a_time(folder: Path) -> None:
    """``steady`` begins at sample 10; seconds may come as text from a command line."""
    for start, first in (("beginning", 0.0), ("steady", 0.1), (2.5, 0.25), ("2.5", 0.25)):
        replay = Replay(read_run(folder, "r1"), "r1", speed=1.0, clock=VirtualClock(5000.0), start=start)
        shown = values(replay.gpu_page(0), "DCGM_FI_PROF_SM_ACTIVE")
        assert shown == {"0": pytest.approx(first), "1": pytest.approx(first)}, start
    assert replay.progress()["phase"] == "steady"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"speed": 0.0}, "above 0"),
        ({"speed": -1.0}, "above 0"),
        ({"speed": math.nan}, "above 0"),
        ({"speed": 4.0, "loop": True}, "ahead of the clock"),
        ({"speed": 1.0, "start": "lunch"}, "steady, warmup"),
        ({"speed": 1.0, "start": 60.0}, "outside the record"),
    ],
)
def test_a_flag_that_cannot_work_is_a_config_error(folder: Path, options: dict, words: str) -> None:
    """The sentence says what would."""
    with pytest.raises(ConfigError, match=words):
        Replay(read_run(folder, "r1"), "r1", clock=VirtualClock(), **options)


def test_missing_folders_files_and_runs_are_named(folder: Path, tmp_path: Path) -> None:
    """An unknown run comes with the list of those there."""
    with pytest.raises(ConfigError, match="no folder"):
        read_run(tmp_path / "nowhere", "r1")
    with pytest.raises(ConfigError, match=r"no telemetry\.parquet"):
        read_run(tmp_path, "r1")
    with pytest.raises(ConfigError, match="Runs there: r1, r2"):
        read_run(folder, "r9")
    (tmp_path / "telemetry.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(ConfigError, match="cannot be read as a record"):
        read_run(tmp_path, "r1")

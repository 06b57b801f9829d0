"""Lines for dcgm-exporter's counters file."""

from __future__ import annotations

from collectors.counters_file import cost_of, counter_lines
from features.transforms.jobs import FABRIC_RX, FABRIC_TX, FRAME_METRICS
from telemetry.catalogue import BY_FIELD, METRICS


def test_lines_have_three_columns_and_the_fields_current_name():
    """The exporter refuses a line without exactly two commas."""
    lines = counter_lines(["gpu_sm_active_ratio", "gpu_energy_joules_total", "gpu_sm_active_ratio"])
    assert [line.split(", ")[:2] for line in lines] == [
        ["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter"],
        ["DCGM_FI_PROF_SM_ACTIVE", "gauge"],
    ]


def test_a_line_for_each_metric_of_a_frame_brings_that_metric():
    for name in FRAME_METRICS:
        (line,) = counter_lines([name])
        assert line.count(",") == 2
        assert BY_FIELD[line.split(",")[0]][0].name == name


def test_what_dcgm_has_not_gives_no_line():
    """Network ports and hosts have exporters of their own; unknown names are passed over."""
    assert counter_lines([FABRIC_TX, "node_load_count", "port_tx_bytes_total", "nonsense"]) == []
    assert all(line.count(",") == 2 for line in counter_lines(metric.name for metric in METRICS))


def test_costs_are_clauses():
    for name in (FABRIC_TX, FABRIC_RX, "gpu_sm_active_ratio", "gpu_dram_active_ratio"):
        assert cost_of(name)
        assert not cost_of(name).endswith(".")
    assert cost_of("gpu_vgpu_license_flag") == ""

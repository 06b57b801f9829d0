"""Simulated pages are pages: prometheus_client reads them, and the catalogue knows every field."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from forecast.simulator.cluster import SimCluster
from forecast.simulator.exporters import DcgmPages, gpu_ids, node_page, switch_page
from forecast.simulator.exposition import go_number, labels_text
from forecast.simulator.fabric import FabricSpec
from forecast.simulator.scenarios import ClusterSpec, demo_spec
from forecast.simulator.workload import JobSpec
from telemetry.catalogue import BY_FIELD


@pytest.fixture(scope="module")
def cluster() -> SimCluster:
    made = SimCluster(7, demo_spec())
    made.advance(23.4)
    return made


def samples(page: bytes):
    return [sample for family in text_string_to_metric_families(page.decode()) for sample in family.samples]


def test_every_gpu_field_is_in_the_catalogue_and_in_range(cluster: SimCluster) -> None:
    """29 fields of 8 cards, each a legal value in the catalogue's unit, none with a timestamp."""
    seen = samples(DcgmPages(cluster).page("gpu-03"))
    assert len(seen) == 29 * 8
    for sample in seen:
        # prometheus_client appends _total to a declared counter that has none.
        name = sample.name if sample.name in BY_FIELD else sample.name.removesuffix("_total")
        metric, source = BY_FIELD[name]
        assert sample.timestamp is None
        assert metric.low <= sample.value * source.scale <= metric.high + metric.tolerance


def test_labels_name_the_card_the_host_and_the_owner(cluster: SimCluster) -> None:
    """Label set of dcgm-exporter with Kubernetes mapping."""
    labels = samples(DcgmPages(cluster).page("gpu-03"))[3].labels
    assert labels["gpu"] == "3"
    assert labels["Hostname"] == "gpu-03"
    assert (labels["namespace"], labels["pod"], labels["container"]) == ("nlp", "lm-b-0", "main")
    assert labels["UUID"] == gpu_ids(cluster, "gpu-03")[3].uuid
    assert {"pci_bus_id", "device", "modelName", "DCGM_FI_DRIVER_VERSION"} <= set(labels)


def test_idle_cards_carry_no_owner() -> None:
    """A host without a job prints no pod labels, and its cards do nothing."""
    job = JobSpec("one", "x", ("a",), 0.1, 0.5, 0.1, 1.0)
    cluster = SimCluster(1, ClusterSpec(FabricSpec(("a", "b")), (job,), gpus_per_node=2))
    cluster.advance(3.0)
    seen = samples(DcgmPages(cluster).page("b"))
    assert not any("pod" in sample.labels for sample in seen)
    assert {sample.value for sample in seen if sample.name == "DCGM_FI_PROF_SM_ACTIVE"} == {0.0}


def test_a_slurm_job_is_named_by_its_number() -> None:
    """``hpc_job`` from the exporter's mapping files, and no pod."""
    job = JobSpec("8123", "", ("a",), 0.1, 0.5, 0.1, 1.0, scheduler="slurm")
    cluster = SimCluster(1, ClusterSpec(FabricSpec(("a",)), (job,), gpus_per_node=2))
    seen = samples(DcgmPages(cluster).page("a"))
    assert {sample.labels["hpc_job"] for sample in seen} == {"8123"}
    assert not any("pod" in sample.labels for sample in seen)
    assert str(job.id) == "slurm:8123"


def test_integers_are_bare_and_ratios_have_six_decimals(cluster: SimCluster) -> None:
    """As DCGM prints its int64 and double fields."""
    for line in DcgmPages(cluster).page("gpu-01").decode().splitlines():
        if line.startswith("#"):
            continue
        name, number = line.partition("{")[0], line.rpartition(" ")[2]
        decimals = "POWER" in name or name.endswith("_ACTIVE") or name.endswith("OCCUPANCY")
        assert re.fullmatch(r"\d+\.\d{6}" if decimals else r"\d+", number), line


def test_a_page_stays_the_same_until_the_exporter_refreshes() -> None:
    """Reading faster than the refresh shows each value again; the next refresh changes it."""
    cluster = SimCluster(7, demo_spec(refresh_s=2.0))
    pages = DcgmPages(cluster)
    distinct = set()
    for to_s in np.arange(10.0, 20.0, 0.25):
        cluster.advance(float(to_s))
        distinct.add(pages.page("gpu-01"))
    assert len(distinct) in (5, 6)


def test_the_same_seed_gives_the_same_pages() -> None:
    """Byte for byte, also when one cluster is read all the time and the other once."""
    busy, calm = SimCluster(11, demo_spec()), SimCluster(11, demo_spec())
    pages = DcgmPages(busy)
    for to_s in np.arange(0.0, 20.0, 0.3):
        busy.advance(float(to_s))
        pages.page("gpu-05")
    busy.advance(20.0)
    calm.advance(20.0)
    assert pages.page("gpu-05") == DcgmPages(calm).page("gpu-05")
    assert node_page(busy, "gpu-05") == node_page(calm, "gpu-05")
    assert switch_page(busy, "leaf1") == switch_page(calm, "leaf1")


def test_values_are_means_over_the_refresh_interval() -> None:
    """Over many refreshes the printed SM activity averages to the job's duty cycle, not to instants of it."""
    job = JobSpec("one", "x", ("a", "b"), 0.0, 0.7, 0.3, 1.0, jitter_ratio=0.0, intensity_ratio=1.0)
    spec = ClusterSpec(FabricSpec(("a", "b")), (job,), gpus_per_node=2, noise_ratio=0.0, refresh_s=1.0)
    cluster = SimCluster(1, spec)
    pages = DcgmPages(cluster)
    shown = []
    for to_s in range(5, 40):
        cluster.advance(float(to_s))
        shown += [s.value for s in samples(pages.page("a")) if s.name == "DCGM_FI_PROF_SM_ACTIVE"]
    # 0.7 s at 1.0 and 0.3 s at 0.24, seen through cards that differ by up to 4 %.
    assert np.array(shown) == pytest.approx(np.full(len(shown), 0.772), rel=0.05)


def test_host_pages_tell_name_ports_and_bytes(cluster: SimCluster) -> None:
    """node_exporter: two ports, active, at full speed, bytes in whole words; the host's name is there."""
    seen = samples(node_page(cluster, "gpu-01"))
    by_name: dict[str, list] = {}
    for sample in seen:
        by_name.setdefault(sample.name, []).append(sample)
    sent = by_name["node_infiniband_port_data_transmitted_bytes_total"]
    assert [sample.labels for sample in sent] == [{"device": f"mlx5_{i}", "port": "1"} for i in (0, 1)]
    total = cluster.link_bytes()[cluster.fabric.host_tx(0)]
    assert sum(sample.value for sample in sent) == pytest.approx(total, abs=16.0)
    assert all(sample.value % 4 == 0 for sample in sent)
    assert {sample.value for sample in by_name["node_infiniband_state_id"]} == {4.0}
    assert by_name["node_uname_info"][0].labels["nodename"] == "gpu-01"
    assert {s.name for s in seen} - {"node_uname_info", "node_load1"} <= set(BY_FIELD)


def test_back_pressure_shows_at_hosts_whose_burst_is_held_back(cluster: SimCluster) -> None:
    """Wait ticks grow for the colliding pair and stay zero for a job with room."""

    def waited(node: str) -> float:
        return sum(s.value for s in samples(node_page(cluster, node)) if "transmit_wait" in s.name)

    assert waited("gpu-01") > 0.0
    assert waited("gpu-15") == 0.0


def test_switch_pages_tell_both_ends_of_each_cable(cluster: SimCluster) -> None:
    """infiniband_exporter: 8 host ports and 2 uplinks at a leaf, each with its far end."""
    seen = samples(switch_page(cluster, "leaf1"))
    ends = {s.labels["port"]: s.labels for s in seen if s.name == "infiniband_switch_uplink_info"}
    assert [ends[str(i)]["uplink_type"] for i in range(1, 11)] == ["CA"] * 8 + ["SW"] * 2
    assert ends["3"]["uplink"] == "gpu-02 mlx5_0"
    assert ends["9"]["uplink"] == "spine1"
    assert all(re.fullmatch(r"0x[0-9a-f]{16}", end["uplink_guid"]) for end in ends.values())
    rate = {s.labels["port"]: s.value for s in seen if s.name == "infiniband_switch_port_rate_bytes_per_second"}
    assert (rate["1"], rate["9"]) == (25e9, 50e9)
    sent = {s.labels["port"]: s.value for s in seen if s.name == "infiniband_switch_port_transmit_data_bytes_total"}
    assert sent["9"] == pytest.approx(cluster.link_bytes()[cluster.fabric.up(0, 0)], abs=4.0)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_numbers_read_back_as_they_were(value: float) -> None:
    """The shortest form loses nothing."""
    assert float(go_number(value)) == value


def test_numbers_look_as_go_prints_them() -> None:
    """Exponents from 1e+06 on, two digits at least; words for what is no number."""
    assert [go_number(v) for v in (4.0, 0.21, 5e10, 12345678.0, float("nan"), float("-inf"))] == [
        "4", "0.21", "5e+10", "1.2345678e+07", "NaN", "-Inf",
    ]  # fmt: skip


def test_label_values_are_escaped() -> None:
    """Backslash, quote and line end."""
    text = "x" + labels_text({"a": 'q"\\\n'}) + " 1\n"
    assert samples(text.encode())[0].labels == {"a": 'q"\\\n'}

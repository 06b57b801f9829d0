"""Faults put into the simulated cluster are found through its pages, and a well cluster shows nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from features.ring import Ring
from features.transforms.health import health_frame
from features.transforms.jobs import job_frame, job_views
from forecast.predict.health.review import review
from forecast.predict.health.types import Evidence, HealthFinding, HealthMemory, HealthReport
from forecast.simulator.cluster import SimCluster
from forecast.simulator.exporters import DcgmPages, gpu_uuid, node_page
from forecast.simulator.fabric import FabricSpec
from forecast.simulator.faults import Fault, FaultKind, read_fault
from forecast.simulator.scenarios import ClusterSpec
from forecast.simulator.workload import JobSpec
from telemetry.errors import ConfigError
from tests.kit.page_reader import PageReader

START_S = 1_767_225_600.0
SEED = 3
NODES = ("n1", "n2", "n3")
SPEC = ClusterSpec(
    FabricSpec(NODES),
    (
        JobSpec("train", "team", ("n1", "n2"), 0.2, 1.2, 0.6, 20e9),
        JobSpec("alone", "team", ("n3",), 0.1, 1.0, 0.0, 20e9),
    ),
    gpus_per_node=4,
    refresh_s=1.0,
)
FAULT_S = 240.0


def _report(faults: tuple[Fault, ...], until_s: float) -> HealthReport:
    """What is found by reading the pages once a second and looking each 30 s."""
    cluster = SimCluster(SEED, replace(SPEC, faults=faults))
    pages, reader, ring = DcgmPages(cluster), PageReader(), Ring(900.0)
    memory, report = HealthMemory(), HealthReport()
    for second in range(1, int(until_s) + 1):
        cluster.advance(float(second))
        now_s = START_S + second
        for node in NODES:
            ring.append(reader.read(f"dcgm {node}", pages.page(node), node, now_s))
            if second % 5 == 0:
                ring.append(reader.read(f"node {node}", node_page(cluster, node), node, now_s))
        if second % 30 == 0 and second >= 60:
            views = job_views(ring.allocations(now_s, 600.0), now_s)
            frames = tuple(job_frame(ring, view, now_s=now_s, window_s=600.0) for view in views)
            frame = health_frame(ring, now_s=now_s, window_s=600.0)
            report = review(Evidence(frame, frames, memory=memory))
            assert report.failed == {}
            memory = report.memory
    return report


def _of(report: HealthReport, kind: str) -> list[HealthFinding]:
    return [one for one in report.findings if one.kind == kind]


def test_a_well_cluster_shows_nothing() -> None:
    """No fault, no finding, and every score is 1."""
    report = _report((), 420.0)
    assert report.findings == ()
    assert report.scores == ()


@pytest.mark.parametrize("kind", [FaultKind.SLOW_GPU, FaultKind.THROTTLED_GPU])
def test_a_card_with_a_low_clock_is_found_alone(kind: FaultKind) -> None:
    """The card, and no other, is told as a straggler, since about when it fell behind; heat is told where it is the cause."""
    report = _report((Fault(kind, "n2", 1, from_s=FAULT_S, ratio=0.75),), 360.0)
    sick = f"n2:{gpu_uuid(SEED, 'n2', 1)}"
    assert {one.entity for one in _of(report, "straggler")} == {sick}
    assert abs(_of(report, "straggler")[0].since_s - (START_S + FAULT_S)) < 20.0
    hot = _of(report, "throttled")
    assert {one.entity for one in hot} == ({sick} if kind is FaultKind.THROTTLED_GPU else set())
    worst = {one.entity: one.score for one in report.scores}
    assert worst[sick] < 0.9
    assert "kubernetes:team:train" in worst
    assert "kubernetes:team:alone" not in worst


def test_a_slow_link_is_found_by_its_errors() -> None:
    """The host's ports are told, and the job that suffers."""
    report = _report((Fault(FaultKind.SLOW_LINK, "n1", from_s=FAULT_S, ratio=0.3),), 360.0)
    found = _of(report, "port_errors")
    assert {one.node for one in found} == {"n1"}
    assert {str(job) for one in found for job in one.jobs} == {"kubernetes:team:train"}


def test_a_slow_card_slows_its_job() -> None:
    """The truth itself: all wait for the slowest card, and its job's period grows by what compute grows."""
    slow = SimCluster(SEED, replace(SPEC, faults=(Fault(FaultKind.SLOW_GPU, "n1", ratio=0.5),)))
    well = SimCluster(SEED, SPEC)
    for cluster in (slow, well):
        cluster.advance(60.0)
    grown = (slow.jobs[0].measured_period_s or 0.0) - (well.jobs[0].measured_period_s or 0.0)
    assert grown == pytest.approx(1.2, rel=0.05)


def test_a_fault_is_read_from_text() -> None:
    """Five parts; anything else is refused with an example."""
    assert read_fault("slow_gpu:n1:2:30:0.7") == Fault(FaultKind.SLOW_GPU, "n1", 2, 30.0, ratio=0.7)
    for text in ("", "slow_gpu:n1", "broken:n1:0:0:0.5", "slow_gpu:n1:x:0:0.5", "slow_gpu:n1:0:0:1.5"):
        with pytest.raises(ConfigError):
            read_fault(text)


def test_a_fault_on_a_card_that_is_not_there_is_refused() -> None:
    """A typing error must not give a well cluster."""
    with pytest.raises(ConfigError, match="not there"):
        replace(SPEC, faults=(Fault(FaultKind.SLOW_GPU, "n1", 9),))

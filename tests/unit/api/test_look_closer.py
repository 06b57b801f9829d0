"""A period that cannot be resolved makes the service read that job's hosts more closely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from api.closer_look import CanBurst, look_closer
from api.settings import Settings
from api.sources import ExporterSource
from collectors.burst import BurstAnswer
from forecast.predict.types import Absence, Period, Why
from telemetry.clock import VirtualClock
from telemetry.topology import Topology


class Source:
    """Notes which hosts it is to look at; gives no data."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def run(self) -> None:
        return

    def status(self) -> list[Any]:
        return []

    def topology(self) -> Topology:
        return Topology()

    def burst(self, nodes: Iterable[str]) -> BurstAnswer:
        self.asked.append(list(nodes))
        return BurstAnswer(("http://n1",), {"http://n2": "slow_source"})


@pytest.fixture
def source() -> Source:
    """What the service reads."""
    return Source()


def told(*periods: Period | Absence) -> tuple[Any, Any]:
    """A request and its reply: one job each, on a host of its own."""
    frames = [SimpleNamespace(job=SimpleNamespace(nodes=(f"n{i}",))) for i in range(len(periods))]
    return SimpleNamespace(jobs=frames), SimpleNamespace(jobs=[SimpleNamespace(period=period) for period in periods])


def test_only_hosts_of_jobs_sampled_too_coarsely_are_asked_for(source: Source) -> None:
    """Not those of idle jobs, nor of jobs whose period is known."""
    found = Period(2.0, 1.9, 2.1, 0.9, 3, 3)
    coarse = Absence(Why.SAMPLING_TOO_COARSE, "30 s between samples")
    counters: Counter[str] = Counter()
    look_closer(source, *told(coarse, found, Absence(Why.IDLE, "idle"), coarse), counters)
    assert source.asked == [["n0", "n3"]]
    assert counters["gpucast_bursts_total"] == 1
    assert counters['gpucast_bursts_refused_total{why="slow_source"}'] == 1


def test_where_every_period_is_known_nothing_is_asked(source: Source) -> None:
    look_closer(source, *told(Period(2.0, 1.9, 2.1, 0.9, 3, 3)), Counter())
    assert source.asked == []


def test_exporters_can_be_read_more_closely() -> None:
    """A Prometheus server cannot: it has what it scraped."""
    from api.sources import PrometheusSource

    assert isinstance(ExporterSource(Settings().scrape, None, VirtualClock()), CanBurst)  # type: ignore[arg-type]
    assert not issubclass(PrometheusSource, CanBurst)

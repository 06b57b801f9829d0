"""The checks that every sign must pass; authors of a sign run the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from features.frame import Context, JobFrame, StepStamps
from features.store.base import Series
from features.transforms.health import COUNTERS, FLAGS, HEALTH_METRICS, HealthFrame, place_of
from forecast.predict.health.types import CommunicatorPeers, Evidence, Sign
from telemetry.catalogue import BY_NAME, Kind, Level
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import JobView

Check = Callable[[], None]
NOW_S = 1_767_225_600.0
OTHER_NEEDS = frozenset({"steps", "period", "frame"})
_GPUS = tuple(GpuId(f"n{i // 4}", f"GPU-{i}") for i in range(8))
_JOB = JobId("slurm", "7")
_DEVICE = ("gpu_power_watts", "gpu_sm_active_ratio", "gpu_tensor_active_ratio", "gpu_nvlink_tx_bytes_per_s")
_LEVEL = {
    "gpu_power_watts": 600.0,
    "gpu_sm_active_ratio": 0.8,
    "gpu_tensor_active_ratio": 0.5,
    "gpu_nvlink_tx_bytes_per_s": 4e9,
    "gpu_sm_clock_hertz": 1.98e9,
    "gpu_temperature_celsius": 62.0,
    "gpu_memory_temperature_celsius": 74.0,
    "rank_step_duration_s": 1.0,
    "nccl_busbw_bytes_per_s": 3.5e11,
    "nccl_message_bytes": 2.0**28,
    "port_state_id": 4.0,
    "gpu_health_flag": 1.0,
}


def yield_checks(sign: Sign) -> Iterator[tuple[str, Check]]:
    """Every check as (name, callable); a broken law raises AssertionError with a sentence."""
    for check in (
        check_needs_are_known,
        check_nothing_in_nothing_out,
        check_well_is_silent,
        check_deterministic,
        check_findings_are_whole,
        check_holes_are_no_crash,
        check_strangers_are_no_crash,
        check_input_untouched,
    ):
        yield check.__name__.removeprefix("check_"), partial(check, sign)


def series_of(metric: str, entity: str, values: NDArray[np.float64], step_s: float = 5.0) -> Series:
    """A series whose newest reading stands at ``NOW_S``."""
    at_s = NOW_S - step_s * np.arange(values.size - 1, -1, -1, dtype=np.float64)
    return Series(SeriesKey(metric, entity), at_s, values, np.zeros(values.size, np.uint8), NOW_S)


def well(seed: int = 0, *, points: int = 120) -> Evidence:
    """A job of eight cards on two hosts in which nothing is wrong, every metric read."""
    random = np.random.default_rng(seed)
    series: dict[str, tuple[Series, ...]] = {}
    read_on: dict[str, frozenset[str]] = {}
    for metric in HEALTH_METRICS:
        entities = _entities(metric)
        read_on[metric] = frozenset(place_of(metric, entity) for entity in entities)
        if metric in COUNTERS or metric in FLAGS or BY_NAME[metric].kind in (Kind.LAST_CODE, Kind.WINDOW_COUNT):
            series[metric] = ()  # what stands still and stands well is left behind
            continue
        noise = 1.0 if metric == "nccl_message_bytes" else 1.0 + 0.01 * random.standard_normal((len(entities), points))
        level = np.broadcast_to(_LEVEL[metric] * noise, (len(entities), points))
        series[metric] = tuple(series_of(metric, one, level[i].copy()) for i, one in enumerate(entities))
    counts = {metric: len(_entities(metric)) for metric in HEALTH_METRICS}
    frame = HealthFrame(NOW_S, 600.0, series, read_on, counts, frozenset(map(str, _GPUS)))
    return Evidence(frame, (_job(random, points),), {"dp:1": CommunicatorPeers(8, _JOB, ("n0", "n1"))})


def _entities(metric: str) -> list[str]:
    level = BY_NAME[metric].level
    if level in (Level.GPU, Level.DEVICE):
        return [str(gpu) for gpu in _GPUS]
    if level is Level.PORT:
        return [f"n{i}:mlx5_{j}:1" for i in range(2) for j in range(2)]
    if level is Level.RANK:
        return [f"{_JOB}@{rank}" for rank in range(8)]
    return ["dp:1:AllReduce"]


def _job(random: np.random.Generator, points: int) -> JobFrame:
    keys = tuple(SeriesKey(metric, str(gpu)) for metric in _DEVICE for gpu in _GPUS)
    values = np.array([_LEVEL[key.metric] * (1.0 + 0.01 * random.standard_normal(points)) for key in keys])
    n = len(keys)
    context = Context(
        values, 5.0, tuple(key.metric for key in keys), np.zeros(n, np.int32), np.zeros(n), np.full(n, np.inf)
    )
    empty = Context(np.empty((0, points)), 5.0, (), np.empty(0, np.int32), np.empty(0), np.empty(0))
    took_s = 1.0 + 0.01 * random.standard_normal(points)
    at_s = NOW_S - took_s.sum() + np.cumsum(took_s)
    view = JobView(_JOB, ("n0", "n1"), _GPUS, NOW_S - 900.0, NOW_S)
    return JobFrame(
        view, NOW_S, NOW_S, context, keys, empty, steps=StepStamps(at_s, np.arange(points, dtype=np.float64))
    )


def with_series(evidence: Evidence, *those: Series) -> Evidence:
    """The same evidence with some series in place of those of the same key."""
    series = {metric: list(kept) for metric, kept in evidence.frame.series.items()}
    for one in those:
        kept = [old for old in series.get(one.key.metric, []) if old.key != one.key]
        series[one.key.metric] = [*kept, one]
    frame = replace(evidence.frame, series={metric: tuple(kept) for metric, kept in series.items()})
    return replace(evidence, frame=frame)


def sick(seed: int = 0) -> Evidence:
    """Everything that can be told by readings, at once: each built-in sign that reads the health frame finds some of it."""
    evidence = well(seed)
    gpu, n = str(_GPUS[3]), 120
    ramp, step = np.arange(n, dtype=np.float64), np.where(np.arange(n) >= 60, 1.0, 0.0)
    those = [series_of(metric, entity, 40.0 * ramp) for metric in COUNTERS for entity in _entities(metric)[1:2]]
    those += [
        series_of("gpu_xid_last_code", gpu, 79.0 * step),
        series_of("gpu_clock_event_reasons_bits", gpu, 64.0 * step),
        series_of("gpu_row_remap_failure_flag", gpu, step),
        series_of("gpu_row_remap_pending_flag", gpu, step),
        series_of("gpu_health_flag", gpu, 1.0 - step),
        series_of("port_state_id", "n0:mlx5_0:1", 4.0 - 3.0 * step),
        series_of("gpu_sm_clock_hertz", gpu, 1.98e9 * (1.0 - 0.3 * step)),
        series_of("gpu_temperature_celsius", str(_GPUS[5]), 62.0 + 30.0 * step),
        series_of("rank_step_duration_s", f"{_JOB}@3", 1.0 + 0.3 * step),
        series_of("nccl_busbw_bytes_per_s", "dp:1:AllReduce", 3.5e11 * (1.0 - 0.5 * step)),
        series_of("port_rx_packets_total", "n0:mlx5_1:1", 1000.0 * ramp),
    ]
    job = evidence.jobs[0]
    took_s = np.where(np.arange(n) >= 60, 1.3, 1.0) * (1.0 + 0.01 * np.random.default_rng(seed).standard_normal(n))
    at_s = NOW_S - took_s.sum() + np.cumsum(took_s)
    steps = StepStamps(at_s, np.arange(n, dtype=np.float64))
    job = replace(job, steps=steps, frozen={"gpu_sm_active_ratio": f"{gpu}: stood at 0 for 60 s"})
    return with_series(replace(evidence, jobs=(job,)), *those)


def check_needs_are_known(sign: Sign) -> None:
    """Every need is a metric of the catalogue, or one of the frames' own words."""
    assert sign.needs, "a sign that needs nothing can never be unknown"
    for needed in sign.needs:
        for metric in needed:
            assert metric in BY_NAME or metric in OTHER_NEEDS, f"{metric} is no metric of the catalogue"


def check_nothing_in_nothing_out(sign: Sign) -> None:
    """Without evidence there is no finding."""
    assert sign.find(Evidence()) == [], "a finding came out of nothing"


def check_well_is_silent(sign: Sign) -> None:
    """Where nothing is wrong there is no finding, whatever the noise."""
    for seed in range(8):
        assert sign.find(well(seed)) == [], f"a finding where nothing is wrong (seed {seed})"


def check_deterministic(sign: Sign) -> None:
    """The same evidence gives the same findings."""
    assert sign.find(sick()) == sign.find(sick()), "two runs differ"


def check_findings_are_whole(sign: Sign) -> None:
    """A finding has a strength of 0..1, evidence with a number, a deed, sources, finite numbers, and a past beginning."""
    for one in sign.find(sick()):
        name = f"the finding {one.key}"
        assert 0.0 < one.score <= 1.0, f"{name} has the score {one.score}"
        assert any(letter.isdigit() for letter in one.evidence), f"the evidence of {name} has no number"
        assert one.to_do.endswith("."), f"{name} does not say in a sentence what to do"
        assert one.sources, f"{name} names no source"
        assert one.entity, f"{name} is about nothing"
        assert all(np.isfinite(number) for number in one.numbers.values()), f"a number of {name} is not finite"
        assert 0.0 < one.since_s <= NOW_S, f"{name} begins at {one.since_s}"


def check_holes_are_no_crash(sign: Sign) -> None:
    """Readings that are missing, single, or wholly absent are lived with, and what is found is whole."""
    evidence = sick()
    for change in (_punched, _single, _none):
        series = {metric: tuple(change(one) for one in kept) for metric, kept in evidence.frame.series.items()}
        changed = replace(evidence, frame=replace(evidence.frame, series=series))
        for one in sign.find(changed):
            assert 0.0 < one.score <= 1.0, f"{one.key} has the score {one.score}"


def _punched(one: Series) -> Series:
    keep = np.arange(one.at_s.size) % 3 != 1
    return Series(one.key, one.at_s[keep], one.value[keep], one.reason[keep], one.received_s)


def _single(one: Series) -> Series:
    return Series(one.key, one.at_s[-1:], one.value[-1:], one.reason[-1:], one.received_s)


def _none(one: Series) -> Series:
    return Series.empty(one.key)


def check_strangers_are_no_crash(sign: Sign) -> None:
    """Cards, ports and ranks of no known job are lived with."""
    for one in sign.find(replace(sick(), jobs=(), communicators={})):
        assert one.entity, "a finding about nothing"


def check_input_untouched(sign: Sign) -> None:
    """What a sign is given stays what it was."""
    evidence = sick()
    before: Mapping[str, list[bytes]] = {
        metric: [one.value.tobytes() for one in kept] for metric, kept in evidence.frame.series.items()
    }
    sign.find(evidence)
    for metric, kept in evidence.frame.series.items():
        assert before[metric] == [one.value.tobytes() for one in kept], f"the sign changed {metric}"

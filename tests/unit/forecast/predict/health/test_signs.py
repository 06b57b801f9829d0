"""What single signs tell, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.transforms.health import COUNTERS
from forecast.predict.health.checks import NOW_S, series_of, sick, well, with_series
from forecast.predict.health.registry import BUILTIN
from forecast.predict.health.review import review
from forecast.predict.health.scores import scores_of
from forecast.predict.health.signs import memory_errors, slow_collective, slow_job, throttled, xid
from forecast.predict.health.types import CommunicatorPeers, Evidence, HealthMemory, Severity, Sign
from forecast.predict.health.xid_codes import TO_DO, XIDS, XidClass

GPU = "n0:GPU-3"
STEP = np.where(np.arange(120) >= 60, 1.0, 0.0)


def _with_xids(codes: np.ndarray, *, step_s: float = 5.0) -> Evidence:
    return with_series(well(), series_of("gpu_xid_last_code", GPU, codes, step_s))


def test_an_xid_of_unknown_age_is_no_event() -> None:
    """A number that stood from the first reading on may be from last year."""
    assert xid.find(_with_xids(np.full(120, 79.0))) == []


@pytest.mark.parametrize(("code", "severity"), [(79, "critical"), (31, "info"), (63, "warning"), (9999, "warning")])
def test_an_xid_has_its_meaning(code: int, severity: str) -> None:
    """Severity and deed follow from the class; a number that is not listed is told as unknown."""
    (one,) = xid.find(_with_xids(code * STEP))
    assert (one.severity, one.detail, one.entity) == (severity, str(code), GPU)
    assert str(code) in one.evidence
    if code == 9999:
        assert "unknown" in one.evidence


def test_every_class_of_xid_says_what_to_do() -> None:
    """No number without a meaning in words, no class without a deed."""
    assert all(one.meaning and one.kind in TO_DO for one in XIDS.values())
    assert set(TO_DO) == set(XidClass)


def test_what_lasts_is_remembered_until_the_driver_is_loaded_anew() -> None:
    """A card off the bus stays told when its samples have left the window, and not once its number is 0 again."""
    first = review(_with_xids(79.0 * STEP))
    assert [one.kind for one in first.findings] == ["xid"]
    stands = replace(_with_xids(np.full(120, 79.0)), memory=first.memory)
    again = review(stands)
    assert [(one.detail, one.since_s) for one in again.findings] == [("79", first.findings[0].since_s)]
    assert review(replace(well(), memory=again.memory)).findings == ()


def test_a_card_that_is_not_read_any_more_was_not_reset() -> None:
    """A card off the bus leaves the page while its neighbours and its host's ports are still read: it stays told."""
    memory = review(_with_xids(79.0 * STEP)).memory
    evidence = well()
    frame = replace(evidence.frame, xid_read=evidence.frame.xid_read - {GPU})
    assert [one.detail for one in review(replace(evidence, frame=frame, memory=memory)).findings] == ["79"]


def test_a_count_beyond_64_bits_is_no_finding() -> None:
    """An exporter that shows 1e308 makes no figure that is not finite, and no sign fails."""
    for metric in COUNTERS:
        wild = np.where(STEP > 0, 1e308, 1.0)
        report = review(with_series(well(), *(series_of(metric, one, wild) for one in (GPU, "n0:mlx5_0:1"))))
        assert (report.findings, report.failed) == ((), {}), metric


def test_ecc_counters_that_stand_high_are_no_finding() -> None:
    """Errors of the card's past life are history; only growth counts."""
    assert memory_errors.find(with_series(well(), series_of("gpu_ecc_dbe_total", GPU, np.full(120, 7.0)))) == []


def test_power_limit_alone_is_no_finding() -> None:
    """All cards of a job at their power limit are cards at work; one alone with a lower clock is not."""
    ramp = 4.0 * np.arange(120, dtype=np.float64)
    cards = [f"n{i // 4}:GPU-{i}" for i in range(8)]
    held = with_series(well(), *(series_of("gpu_power_throttle_seconds_total", card, ramp) for card in cards))
    assert throttled.find(held) == []
    alone = with_series(
        well(),
        series_of("gpu_power_throttle_seconds_total", GPU, ramp),
        series_of("gpu_sm_clock_hertz", GPU, np.full(120, 1.5e9)),
    )
    (one,) = throttled.find(alone)
    assert one.entity == GPU
    assert "80 %" in one.evidence


def test_software_power_cap_in_the_reasons_is_usual() -> None:
    """Bit 0x4 is a card at work; bit 0x40 is heat."""
    assert throttled.find(with_series(well(), series_of("gpu_clock_event_reasons_bits", GPU, np.full(120, 4.0)))) == []
    (one,) = throttled.find(with_series(well(), series_of("gpu_clock_event_reasons_bits", GPU, 4.0 + 64.0 * STEP)))
    assert "heat" in one.evidence


def test_a_slow_communicator_among_its_peers() -> None:
    """Of five communicators of one job and size, the one at half of the others' bandwidth is told."""
    those = {f"tp:{i}": 1.5e11 if i == 4 else 3.5e11 for i in range(5)}
    evidence = well()
    evidence = with_series(
        replace(
            evidence, communicators={name: CommunicatorPeers(8, evidence.jobs[0].job.job, ("n0",)) for name in those}
        ),
        *(
            series_of("nccl_busbw_bytes_per_s", f"{name}:AllGather", np.full(40, level))
            for name, level in those.items()
        ),
        *(series_of("nccl_message_bytes", f"{name}:AllGather", np.full(40, 2.0**26)) for name in those),
    )
    (one,) = slow_collective.find(evidence)
    assert one.entity == "tp:4"
    assert "57 %" in one.evidence


def test_small_messages_say_nothing_of_a_link() -> None:
    """Latency rules below a few MiB."""
    evidence = with_series(
        well(),
        series_of("nccl_busbw_bytes_per_s", "dp:1:AllReduce", 3.5e11 * (1.0 - 0.6 * STEP)),
        series_of("nccl_message_bytes", "dp:1:AllReduce", np.full(120, 4096.0)),
    )
    assert slow_collective.find(evidence) == []


def _by_period(periods: list[float]) -> list[str]:
    evidence = well()
    job = replace(evidence.jobs[0], steps=None)
    readings = tuple((NOW_S - 10.0 * (len(periods) - i), one) for i, one in enumerate(periods))
    memory = HealthMemory(periods={job.job.job: readings})
    return [one.evidence for one in slow_job.find(replace(evidence, jobs=(job,), memory=memory))]


def test_a_job_without_step_reports_is_judged_by_its_period() -> None:
    """Three readings of a period a fifth longer are told; a doubling is not, since estimates double by mistake."""
    assert "20 %" in _by_period([2.0] * 10 + [2.4] * 3)[0]
    assert _by_period([2.0] * 10 + [2.4] * 2) == []
    assert _by_period([2.0] * 10 + [4.0] * 3) == []
    assert _by_period([2.0, 2.3, 1.8, 2.2, 1.9, 2.4, 2.0, 2.1, 2.4, 2.3, 2.4]) == []


def test_a_slow_job_stays_told_when_the_change_has_left_the_window() -> None:
    """The usual pace is remembered, and forgotten once the job is back at it."""
    first = review(sick())
    slow = next(one for one in first.findings if one.kind == "slow_job")
    assert slow.numbers["ratio"] == pytest.approx(1.3, rel=0.03)
    evidence = sick()
    job = evidence.jobs[0]
    assert job.steps is not None
    later = replace(job, steps=replace(job.steps, at_s=job.steps.at_s[70:], step=job.steps.step[70:]))
    again = review(replace(well(), jobs=(later,), memory=first.memory))
    kept = next(one for one in again.findings if one.kind == "slow_job")
    assert kept.since_s == slow.since_s
    assert [one for one in review(replace(well(), memory=again.memory)).findings if one.kind == "slow_job"] == []


def test_missing_metrics_are_unknown_and_never_well() -> None:
    """What cannot be looked for is named with what it needs, for each job where that matters."""
    report = review(replace(Evidence(), jobs=(replace(well().jobs[0], steps=None),)))
    unknown = {one.kind: one for one in report.unjudged}
    assert {"slow_job", "straggling_rank", "xid", "throttled", "memory_errors"} <= set(unknown)
    assert unknown["straggling_rank"].scope == "slurm:7"
    assert unknown["xid"].missing == ("gpu_xid_last_code",)
    assert "straggling_gpu" not in unknown


def test_a_sign_that_fails_is_named_and_the_others_go_on() -> None:
    """One broken sign must not silence the others."""

    def broken(evidence: Evidence) -> list[object]:
        raise ValueError("no")

    report = review(sick(), signs={"broken": Sign((("steps",),), broken), "xid": BUILTIN["xid"]})  # type: ignore[arg-type]
    assert "ValueError" in report.failed["broken"]
    assert [one.kind for one in report.findings] == ["xid"]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_scores_are_in_0_to_1_and_fall_with_each_finding(seed: int) -> None:
    """Leaving a finding away never makes a thing sicker, and critical ones weigh most."""
    random = np.random.default_rng(seed)
    findings = review(sick()).findings
    some = tuple(one for one in findings if random.random() < 0.6)
    fewer, all_of = ({(s.thing, s.entity): s.score for s in scores_of(those, sick())} for those in (some, findings))
    assert all(0.0 <= score <= 1.0 for score in all_of.values())
    assert all(all_of[key] <= score + 1e-12 for key, score in fewer.items())
    assert review(sick()).findings[0].severity is Severity.CRITICAL


def test_a_young_job_is_unknown_and_not_well() -> None:
    """Metrics that are read but too few readings of them: the number there is and the number needed are told."""
    young = {one.kind: one.reason for one in review(well(points=10)).unjudged}
    assert "9 steps are too few, 25 are needed" in young["slow_job"]
    assert "10 steps are too few" in young["straggling_rank"]
    assert "10 readings every 5 s are too few" in young["straggling_gpu"]

"""What doctor says of GPUs, clocks and sampling."""

from __future__ import annotations

import pytest

from api.cli.doctor_sections import clock_lines, clocks, device_lines, field_lines, sampling, sampling_lines

ABSENT = {"absent": True, "why": "too_coarse", "reason": "too coarse"}


def _target(**more: object) -> dict[str, object]:
    return {"source": "http://a:9400/metrics", "refresh_s": None, "clock_offset_s": None, **more}


def _job(name: str, period_s: float) -> dict[str, object]:
    return {"id": name, "period": {"period_s": period_s}}


def _devices(**more: object) -> dict[str, object]:
    empty = {
        "total": 8,
        "without_job_total": 0,
        "without_job": [],
        "without_node": [],
        "twice_total": 0,
        "twice": [],
    }
    return empty | more


@pytest.mark.parametrize(("offset_s", "word"), [(12.0, "12 s behind"), (-300.0, "5.0 min ahead of")])
def test_a_clock_that_differs_is_told_with_its_side(offset_s, word):
    """Ours minus theirs: more than nothing means that theirs is behind."""
    found = clocks([_target(clock_offset_s=offset_s), _target(clock_offset_s=1.0), _target()])
    assert found == [{"source": "http://a:9400/metrics", "offset_s": offset_s}]
    assert f"{word} this host" in "\n".join(clock_lines(found))


def test_a_source_that_is_fine_is_not_told():
    assert clock_lines(clocks([_target(clock_offset_s=0.3)])) == []
    assert sampling_lines(sampling([_target(refresh_s=1.0)], [_job("slurm:1", 20.0)], {})) == []
    assert device_lines(_devices(total=0)) == []


def test_a_coarse_source_names_the_jobs_and_the_interval_that_would_do():
    """Eight values within the shortest iteration, in steps of 100 ms."""
    jobs = [_job("slurm:1", 6.2), _job("slurm:2", 300.0), {"id": "slurm:3", "period": ABSENT}]
    (found,) = sampling([_target(refresh_s=10.0)], jobs, {})
    assert found["jobs"] == ["slurm:1"]
    assert found["interval_ms"] == 700
    assert 8 * found["interval_ms"] / 1000 <= 6.2
    assert found["shortest_visible_s"] == 40.0
    text = "\n".join(sampling_lines([found]))
    assert "iterations shorter than 40 s stay invisible" in text
    assert "--collect-interval 700" in text
    assert "slurm:1" in text


def test_without_a_known_period_a_second_is_advised():
    (found,) = sampling([_target(refresh_s=30.0)], [], {})
    assert (found["interval_ms"], found["jobs"], found["shortest_period_s"]) == (1000, [], None)


def test_an_interval_is_never_nothing():
    (found,) = sampling([_target(refresh_s=1.0)], [_job("slurm:1", 0.2)], {})
    assert found["interval_ms"] == 100


def test_gpus_without_a_job_or_a_host_are_named_with_the_mend():
    lines = device_lines(
        _devices(without_job_total=7, without_job=[f"n:G{i}" for i in range(7)], without_node=["unknown:G"])
    )
    text = "\n".join(lines)
    assert "7 of them belong to no job that is known: n:G0, n:G1, n:G2, n:G3, n:G4 and 2 more" in text
    assert "1 have a host that no source names: unknown:G" in text
    assert "url=NODE" in text


def test_a_gpu_that_is_served_twice_names_both_sources():
    twice = [
        {"device": "GPU-1", "servers": [{"source": "a", "entity": "n:GPU-1"}, {"source": "b", "entity": "m:GPU-1"}]}
    ]
    text = "\n".join(device_lines(_devices(twice_total=9, twice=twice)))
    assert "9 are served by more than one source" in text
    assert "GPU-1: a as n:GPU-1 and b as m:GPU-1" in text
    assert "and 4 more" in text


def test_a_source_is_coarse_for_the_jobs_on_its_own_hosts():
    """One that serves more hosts than are named may serve any."""
    jobs = [_job("slurm:1", 6.0) | {"nodes": ["n1"]}, _job("slurm:2", 5.0) | {"nodes": ["n2"]}]
    target = _target(refresh_s=2.0)
    assert sampling([target], jobs, {target["source"]: ["n2", "n3"]})[0]["jobs"] == ["slurm:2"]
    assert sampling([target], jobs, {target["source"]: ["n4"]}) == []
    assert sampling([target], jobs, {target["source"]: [f"m{i}" for i in range(100)]})[0]["jobs"] == [
        "slurm:1",
        "slurm:2",
    ]


def test_absent_fields_tell_their_cost_and_the_rest_takes_one_line():
    """What is not the plain case keeps its own sentence."""
    plain = "no sample of {} came for this job's devices in the last 14 s"
    missing = {
        "gpu_b_ratio": plain.format("gpu_b_ratio") + "; phases are told late",
        "gpu_a_ratio": plain.format("gpu_a_ratio"),
        "gpu_c_ratio": "readings that stand still are left out: n:G: stood",
    }
    assert field_lines(missing)[2:] == [
        "  gpu_b_ratio  phases are told late",
        "  gpu_c_ratio  readings that stand still are left out: n:G: stood",
        "  without cost of their own: gpu_a_ratio",
    ]
    assert field_lines({}) == []

"""Reports of a job's own progress: idempotent, in any order, bounded, and never a made-up value."""

from __future__ import annotations

import json

import numpy as np
import pytest

from collectors import step_reports, steps
from collectors.step_reports import read_reports
from collectors.steps import StepBook, StepsTaken
from telemetry.errors import SchemaError
from telemetry.samples import Reason, validate_batch

AT = 1_767_225_600.0


def send(book: StepBook, *reports: dict, now_s: float = AT + 1000.0) -> StepsTaken:
    taken = book.take(*read_reports(json.dumps(list(reports)).encode(), now_s), now_s)
    for batch in taken.batches:
        validate_batch(batch)
        pairs = list(zip(batch.series.tolist(), batch.at_s.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))
    return taken


def step(number: int, at_s: float | None = None, **more: object) -> dict:
    return {"job": "slurm:7", "step": number, "at_s": AT + number if at_s is None else at_s, **more}


def stored(taken: StepsTaken, metric: str = "job_step_total") -> list[tuple[float, float]]:
    return [
        (float(at_s) - AT, float(value))
        for batch in taken.batches
        for series, at_s, value in zip(batch.series, batch.at_s, batch.value, strict=True)
        if batch.keys[series].metric == metric
    ]


@pytest.fixture
def book() -> StepBook:
    """One that knows no job."""
    return StepBook()


def test_a_report_becomes_series_of_its_job(book: StepBook):
    """In the catalogue's units; tokens over the step's duration."""
    full = step(3, step_s=2.0, loss=1.5, tokens=4096, data_wait_s=0.25, checkpoint="begin")
    batch = send(book, full).batches[0]
    found = {batch.keys[series].metric: value for series, value in zip(batch.series, batch.value, strict=True)}
    assert found == {
        "job_step_total": 3.0,
        "job_step_duration_s": 2.0,
        "job_loss": 1.5,
        "job_tokens_per_s": 2048.0,
        "job_checkpoint_flag": 1.0,
        "job_data_wait_s": 0.25,
    }
    assert {key.entity for key in batch.keys} == {"slurm:7"}
    assert set(batch.at_s) == {AT + 3}


def test_what_is_not_told_has_no_sample(book: StepBook):
    """No zero stands for it; tokens without a duration are no rate."""
    batch = send(book, step(3, tokens=10)).batches[0]
    assert [batch.keys[series].metric for series in batch.series] == ["job_step_total"]


@pytest.mark.parametrize(
    ("who", "job"),
    [
        ({"job": "kubernetes:team:train"}, "kubernetes:team:train"),
        ({"slurm_job_id": "812"}, "slurm:812"),
        ({"slurm_job_id": 812}, "slurm:812"),
        ({"pod": "train-worker-3", "namespace": "team"}, "kubernetes:team:train"),
        ({"pod": "train-worker-3"}, "kubernetes:default:train"),
    ],
)
def test_a_job_is_named_as_telemetry_names_it(book: StepBook, who: dict, job: str):
    """By the same rules that read pod labels, so that both meet."""
    batch = send(book, {"step": 1, **who}).batches[0]
    assert batch.keys[0].entity == job


@pytest.mark.parametrize("form", ["list", "lines", "one"])
def test_three_forms_of_a_body(form: str):
    items = [step(1), step(2)] if form != "one" else [step(1)]
    text = {
        "list": json.dumps(items),
        "lines": "\n".join(json.dumps(item) for item in items) + "\n\n",
        "one": json.dumps(items[0]),
    }
    found, faults = read_reports(text[form].encode(), AT + 10)
    assert ([report.step for report in found], faults) == ([item["step"] for item in items], [])


def test_sending_again_keeps_nothing_twice(book: StepBook):
    """Idempotent on job, rank and step, even where the second carries other numbers."""
    first = send(book, step(1, loss=1.0), step(2, loss=0.9))
    again = send(book, step(2, loss=5.0), step(1, loss=5.0), step(3))
    assert (first.accepted, first.duplicates) == (2, 0)
    assert (again.accepted, again.duplicates) == (1, 2)
    assert stored(again) == [(3.0, 3.0)]
    assert send(book, step(3, at_s=AT + 3.5)).duplicates == 1


def test_late_reports_are_taken_in_any_order(book: StepBook):
    """A queue that was blocked, a second connection."""
    assert stored(send(book, step(5), step(4))) == [(4.0, 4.0), (5.0, 5.0)]
    assert stored(send(book, step(2))) == [(2.0, 2.0)]
    assert send(book, step(2)).duplicates == 1


def test_a_restart_from_a_checkpoint_counts_anew(book: StepBook):
    """The same numbers at later times are new observations; told twice they are not."""
    send(book, *[step(number) for number in range(1, 11)])
    again = send(book, *[step(number, at_s=AT + 100 + number) for number in range(6, 9)])
    assert stored(again) == [(106.0, 6.0), (107.0, 7.0), (108.0, 8.0)]
    assert send(book, step(7, at_s=AT + 107)).duplicates == 1


def test_one_rank_speaks_for_the_job(book: StepBook):
    """Stamps of many ranks in one series would blur the pace; the lowest rank heard is kept."""
    taken = send(book, *[step(1, at_s=AT + 1 + rank / 100, rank=rank) for rank in (2, 0, 1)])
    assert (taken.accepted, taken.other_ranks) == (3, 2)
    assert stored(taken) == [(1.0, 1.0)]
    assert send(book, step(2, rank=1)).other_ranks == 1


def test_a_lower_rank_takes_over_without_a_false_restart(book: StepBook):
    """Rank 0 lags a little behind the rank that was heard first."""
    send(book, step(1, rank=3), step(2, rank=3))
    taken = send(book, step(1, at_s=AT + 2.5, rank=0), step(3, rank=0))
    assert (taken.duplicates, stored(taken)) == (1, [(3.0, 3.0)])


def test_another_rank_speaks_when_the_first_is_silent(book: StepBook):
    send(book, step(1))
    taken = send(book, step(900, at_s=AT + 900, rank=1), now_s=AT + 1000.0 + steps.LEAD_FOR_S + 1)
    assert stored(taken) == [(900.0, 900.0)]


def test_checkpoints_come_alone_and_once(book: StepBook):
    begin = {"job": "slurm:7", "checkpoint": "begin", "at_s": AT + 1}
    end = {"job": "slurm:7", "checkpoint": "end", "at_s": AT + 9}
    taken = send(book, begin, end, begin)
    assert (stored(taken, "job_checkpoint_flag"), taken.duplicates) == ([(1.0, 1.0), (9.0, 0.0)], 1)


def test_a_checkpoint_told_with_a_known_step_is_news_of_the_checkpoint_alone(book: StepBook):
    send(book, step(1))
    taken = send(book, step(1, at_s=AT + 1.5, checkpoint="begin"))
    assert (stored(taken), stored(taken, "job_checkpoint_flag")) == ([], [(1.5, 1.0)])
    assert send(book, step(1, at_s=AT + 1.5, checkpoint="begin")).duplicates == 1


@pytest.mark.parametrize("loss", ["nan", "NaN", "inf", "-Infinity"])
def test_a_loss_that_is_no_number_is_missing_with_a_reason(book: StepBook, loss: str):
    """It is news, but no value."""
    batch = send(book, step(1, loss=loss)).batches[0]
    assert np.isnan(batch.value).tolist() == [False, True]
    assert batch.reason.tolist() == [0, Reason.NOT_FINITE]


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"step": 1, "at_s": AT}, "names no job"),
        ({"job": "slurm:7", "at_s": AT}, "neither a step nor a checkpoint"),
        (step(1, speed=3), "unknown field 'speed'"),
        (step(-1), "step is not a whole number"),
        (step(1, rank=True), "rank is not a whole number"),
        (step(1, step_s="2"), "step_s is not a number"),
        (step(1, step_s=-2), "step_s is -2"),
        (step(1, at_s=AT * 1000), "not milliseconds"),
        (step(1, checkpoint="maybe"), "neither begin nor end"),
        (step(1, job="7"), "not a job id"),
        (step(1, job="slurm:" + "x" * 300), "256"),
        (step(1, job="slurm:\n"), "printable"),
        (step(1, loss="low"), "loss is not a number"),
        ({"job": "slurm:7", "step": 1}, "no at_s"),
        (17, "not a JSON object"),
    ],
)
def test_a_wrong_report_is_named_and_the_others_are_taken(book: StepBook, item: object, why: str):
    found, faults = read_reports(json.dumps([item, step(1)]).encode(), AT + 1000.0)
    assert len(found) == 1
    assert faults[0].startswith("report 1: ")
    assert why in faults[0]
    assert book.take(found, faults, AT).rejected == 1


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 5000, b'{"a": 1e999'])
def test_what_is_no_json_is_refused(body: bytes):
    with pytest.raises(SchemaError, match="JSON"):
        read_reports(body, AT)


def test_a_torn_line_among_lines_is_one_fault():
    found, faults = read_reports(json.dumps(step(1)).encode() + b'\n{"job": "sl', AT + 10)
    assert (len(found), faults) == (1, ["report 2: is not a JSON object"])


def test_requests_and_memory_are_bounded(monkeypatch: pytest.MonkeyPatch, book: StepBook):
    monkeypatch.setattr(step_reports, "MAX_REPORTS", 3)
    with pytest.raises(SchemaError, match="more than 3 reports"):
        read_reports(json.dumps([step(1)] * 4).encode(), AT)
    monkeypatch.setattr(steps, "MAX_JOBS", 5)
    monkeypatch.setattr(steps, "MAX_STEPS_KEPT", 5)
    for number in range(50):
        send(book, step(number), {"job": f"slurm:{number}", "step": 1, "at_s": AT})
    assert len(book._jobs) == 5
    assert all(len(job.seen) <= 5 for job in book._jobs.values())


def test_two_reports_of_one_instant_are_one_sample(book: StepBook):
    """A batch holds each series and instant once."""
    assert stored(send(book, step(1, at_s=AT), step(2, at_s=AT))) == [(0.0, 1.0)]

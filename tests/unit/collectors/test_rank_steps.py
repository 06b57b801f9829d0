"""Each rank's step times are kept, once each, and bounded."""

from __future__ import annotations

import json

import pytest

from collectors import rank_steps
from collectors.step_reports import read_reports
from collectors.steps import StepBook, StepsTaken
from telemetry.samples import validate_batch

AT = 1_767_225_600.0


def _send(book: StepBook, *reports: dict) -> StepsTaken:
    taken = book.take(*read_reports(json.dumps(list(reports)).encode(), AT + 1e6), AT + 1e6)
    for batch in taken.batches:
        validate_batch(batch)
    return taken


def _step(rank: int, number: int, at_s: float, step_s: float = 2.0, job: str = "slurm:7") -> dict:
    return {"job": job, "rank": rank, "step": number, "at_s": AT + at_s, "step_s": step_s}


def _times(taken: StepsTaken) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for batch in taken.batches:
        for series, at_s, value in zip(batch.series, batch.at_s, batch.value, strict=True):
            if batch.keys[series].metric == "rank_step_duration_s":
                found.setdefault(batch.keys[series].entity, []).append((float(at_s) - AT, float(value)))
    return {entity: sorted(rows) for entity, rows in found.items()}


def test_a_rank_that_lags_can_be_told_from_the_others():
    """The job's own series stay those of its lowest rank."""
    taken = _send(StepBook(), *(_step(rank, 1, 10.0, 3.5 if rank == 2 else 2.0) for rank in range(4)))
    assert {entity: rows[0][1] for entity, rows in _times(taken).items()} == {
        "slurm:7@0": 2.0,
        "slurm:7@1": 2.0,
        "slurm:7@2": 3.5,
        "slurm:7@3": 2.0,
    }
    assert taken.other_ranks == 3
    assert taken.accepted == 4
    assert sum(batch.keys[0].metric == "job_step_total" for batch in taken.batches) == 1


def test_what_is_sent_again_is_kept_once():
    book = StepBook()
    reports = [_step(rank, number, 2.0 * number) for rank in (0, 1) for number in range(5)]
    assert sum(len(rows) for rows in _times(_send(book, *reports)).values()) == 10
    assert _times(_send(book, *reports)) == {}


def test_what_could_not_be_stored_is_news_again():
    book = StepBook()
    taken = _send(book, _step(0, 1, 1.0), _step(1, 1, 1.0))
    book.forget(taken.news)
    assert set(_times(_send(book, _step(0, 1, 1.0), _step(1, 1, 1.0)))) == {"slurm:7@0", "slurm:7@1"}


def test_a_step_done_again_after_a_restart_is_kept():
    book = StepBook()
    _send(book, *(_step(1, number, float(number)) for number in range(10)))
    assert _times(_send(book, _step(1, 5, 60.0))) == {"slurm:7@1": [(60.0, 2.0)]}


def test_late_steps_are_kept():
    book = StepBook()
    _send(book, _step(1, 9, 9.0))
    assert _times(_send(book, _step(1, 3, 3.0))) == {"slurm:7@1": [(3.0, 2.0)]}


def test_without_a_duration_there_is_nothing_to_keep():
    assert _times(_send(StepBook(), {"job": "slurm:7", "rank": 1, "step": 1, "at_s": AT})) == {}


def test_ranks_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """Per job, and over all jobs by forgetting the one that was silent longest."""
    monkeypatch.setattr(rank_steps, "MAX_RANKS", 3)
    monkeypatch.setattr(rank_steps, "MAX_RANKS_IN_ALL", 4)
    book = StepBook()
    assert len(_times(_send(book, *(_step(rank, 1, 1.0) for rank in range(9))))) == 3
    _send(book, *(_step(rank, 1, 1.0, job="slurm:8") for rank in range(3)))
    assert len(_times(_send(book, _step(0, 1, 1.0)))) == 1  # forgotten, and so news
    assert len(book._ranks._jobs) <= 2


def test_no_job_of_a_request_is_forgotten_before_its_end(monkeypatch: pytest.MonkeyPatch):
    """What it told is kept, however full the memory is; the next request finds room again."""
    monkeypatch.setattr(rank_steps, "MAX_RANKS_IN_ALL", 2)
    book = StepBook()
    assert len(_times(_send(book, *(_step(0, 1, 1.0, job=f"slurm:{job}") for job in range(5))))) == 5
    assert len(_times(_send(book, _step(0, 2, 2.0, job="slurm:4")))) == 1
    assert len(book._ranks._jobs) == 2

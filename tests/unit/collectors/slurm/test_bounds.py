"""A short text that stands for endless work is bounded by counts, each named in a note."""

from __future__ import annotations

import pytest

from collectors import hostlists
from collectors.hostlists import MAX_HOSTS, expand_hosts
from collectors.slurm import notes as slurm_notes
from collectors.slurm.gres import MAX_DEVICES, parse_gres
from collectors.slurm.notes import MOST_DEVICES, MOST_NAMES, Notes
from collectors.slurm.records import SlurmJob, claims_of, job_record
from collectors.slurm.text import read_scontrol_jobs
from telemetry.errors import SchemaError


def _job(number: int, nodes: str, **more: object) -> SlurmJob:
    return SlurmJob(str(number), ("RUNNING",), nodes=nodes, **more)


def test_a_host_list_is_made_into_names_once_a_reading(monkeypatch):
    """A thousand jobs on the same hosts expand their list once."""
    made = []
    monkeypatch.setattr(slurm_notes, "expand_hosts", lambda text: made.append(text) or expand_hosts(text))
    notes = Notes()
    for number in range(1000):
        job_record(_job(number, "n[1-50]", per_node="gpu:1"), notes)
    assert made == ["n[1-50]"]


def test_names_of_one_reading_are_bounded():
    """Beyond the bound further lists are left out, in one note; they are not expanded any more."""
    notes = Notes()
    sizes = [len(job_record(_job(i, f"n{i}-[1-100000]"), notes).nodes) for i in range(10)]
    assert sum(sizes) == MOST_NAMES
    assert sizes[-1] == 0
    assert notes.counts == {f"the host lists name more than {MOST_NAMES} hosts in all; further ones are left out": 1}


def test_devices_of_one_reading_are_bounded():
    """Jobs that hold more devices than any cluster has give that many claims and one note."""
    notes = Notes()
    claims = [claim for i in range(10) for claim in claims_of(_job(i, "n[1-50000]", per_node="gpu:1"), notes)]
    assert len(claims) == MOST_DEVICES
    assert list(notes.counts) == [f"jobs hold more than {MOST_DEVICES} devices in all; further ones are left out"]


def test_devices_with_numbers_count_each():
    notes = Notes()
    job = _job(1, "n[1-5000]", detail=(("n[1-5000]", f"gpu:{MAX_DEVICES}(IDX:0-{MAX_DEVICES - 1})"),))
    assert len(claims_of(job, notes)) == MOST_DEVICES // MAX_DEVICES
    assert sum(notes.counts.values()) == 1


def test_an_entry_lists_no_more_devices_than_a_host_has():
    with pytest.raises(SchemaError, match="no proper range"):
        parse_gres(f"gpu:1(IDX:0-{MAX_DEVICES})")


@pytest.mark.parametrize(
    "text",
    ["n[1-999999999]", "n[1-150000,1-150000]", "n[1-150000],m[1-150000]", "n" + "[0-99]" * 40, "n[1-150000],m[2-1]"],
)
def test_a_list_that_is_refused_costs_no_name(text, monkeypatch):
    """Names are counted before any is made."""

    def make(_):
        raise AssertionError("a name was made")

    monkeypatch.setattr(hostlists, "_names", make)
    with pytest.raises(SchemaError, match=rf"{MAX_HOSTS} names|backwards"):
        expand_hosts(text)


def test_a_paragraph_that_tells_nothing_is_no_job():
    assert [job.id for job in read_scontrol_jobs("JobId=1\nJobId=2 JobState=RUNNING\nJobId=3\n")] == ["2"]

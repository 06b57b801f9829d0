"""Labels say GPU -> job, a scheduler says job -> host and number: one answer, and a finding for each conflict."""

from __future__ import annotations

import asyncio

import pytest

from collectors.nvml import NvmlCollector
from collectors.ownership import FRESH_S, GRACE_S, Ownership
from telemetry.ids import GpuId, JobId
from telemetry.roster import Claim, NodeGpus
from telemetry.samples import Finding, Problem, SampleBatch, Sighting, Window
from tests.kit.fake_nvml import FakeNvml, card

A, B, C = (JobId("slurm", number) for number in "123")
CARDS = [GpuId("gpu-01.example", f"GPU-{i}") for i in range(4)]
NODE = NodeGpus("gpu-01", 4, None)
T = 10_000.0


def _ownership() -> Ownership:
    ownership = Ownership()
    ownership.index.learn((card, i) for i, card in enumerate(CARDS))
    return ownership


def _claim(job, indices, **more):
    return Claim(job, "gpu-01", len(indices), "h100", tuple(indices), since_s=0.0, **more)


def _label(card, job, at_s, sharers=1):
    return Sighting(CARDS[card], at_s, job, "", True, sharers)


def _settle(ownership, *claims, at_s=T, nodes=(NODE,), whole=True):
    return ownership.from_scheduler(claims, nodes, at_s, source="slurm", whole=whole)


def _owners(settled):
    return {(s.gpu.uuid, s.job.name if s.job else "") for s in settled.sightings}


def test_without_labels_the_scheduler_tells():
    """Numbers become cards; those that nobody holds are free. A host may go by its short name."""
    settled = _settle(_ownership(), _claim(A, [0, 1]))
    assert _owners(settled) == {("GPU-0", "1"), ("GPU-1", "1"), ("GPU-2", ""), ("GPU-3", "")}
    assert all(s.gpu.node == "gpu-01.example" and s.at_s == T and s.known for s in settled.sightings)
    assert settled.findings == settled.shares == ()


def test_labels_that_name_nobody_do_not_end_what_the_scheduler_tells():
    """An exporter without job labels sees an idle GPU of a running job: that is not a free one."""
    ownership = _ownership()
    nobody = [_label(0, None, T + 1, 0), Sighting(CARDS[1], T + 1, None, "", False, 0)]
    assert ownership.from_labels(nobody) == tuple(nobody)
    _settle(ownership, _claim(A, [0, 1]))
    assert ownership.from_labels(nobody) == ()
    late = [_label(0, None, T + FRESH_S + 1, 0)]
    assert ownership.from_labels(late) == tuple(late), "a silent scheduler holds no more"
    early = [_label(0, None, T - 1, 0)]
    assert ownership.from_labels(early) == tuple(early), "history before the first list is the labels' own"


def test_a_batch_loses_the_finding_that_its_labels_name_nobody():
    """What the scheduler tells is not missing."""
    ownership = _ownership()
    _settle(ownership, _claim(A, [0]))
    lost = Finding(Problem.OWNER_UNKNOWN, "page", "busy GPUs without an owner in their labels", 1)
    empty = SampleBatch.empty(source="page", findings=(lost,))
    sightings = (Sighting(CARDS[0], T + 1, None, "", False, 0),)
    batch = SampleBatch((), empty.series, empty.at_s, empty.value, empty.reason, sightings, (lost,), "page", T)
    assert ownership.settle(batch).findings == ()
    assert ownership.settle(empty) is empty


def test_agreement_is_silent():
    """Both name the same job: its sightings stay, nothing is found."""
    ownership = _ownership()
    seen = [_label(0, A, T - 5), _label(0, A, T + 5)]
    ownership.from_labels(seen[:1])
    assert _settle(ownership, _claim(A, [0])).findings == ()
    assert ownership.from_labels(seen[1:]) == tuple(seen[1:])


def test_labels_left_over_from_an_earlier_job():
    """A job that does not run there any more: the scheduler holds, and it is said."""
    ownership = _ownership()
    for at_s in (T - GRACE_S - 10, T - 5):
        ownership.from_labels([_label(0, C, at_s)])
    settled = _settle(ownership, _claim(A, [0]))
    assert ("GPU-0", "1") in _owners(settled)
    (finding,) = settled.findings
    assert finding.problem is Problem.OWNER_CONFLICT
    assert "slurm:3 by its labels" in finding.detail
    assert "it says slurm:1" in finding.detail
    assert ownership.from_labels([_label(0, C, T + 1)]) == ()


def test_another_numbering_of_the_devices():
    """Both see the job on the host, on other cards: the labels hold for that host, and it is said."""
    ownership = _ownership()
    for at_s in (T - GRACE_S - 10, T - 5):
        ownership.from_labels([_label(3, A, at_s), _label(2, B, at_s)])
    settled = _settle(ownership, _claim(A, [0]), _claim(B, [1]))
    assert settled.sightings == ()
    assert {(share.job, share.count) for share in settled.shares} == {(A, 1), (B, 1)}
    (finding,) = settled.findings
    assert (finding.problem, finding.count) == (Problem.OWNER_CONFLICT, 2)
    assert "numbered differently" in finding.detail
    kept = [_label(3, A, T + 1), _label(0, None, T + 1, 0)]
    assert ownership.from_labels(kept) == tuple(kept)


def test_a_job_newer_than_the_list_is_believed_until_the_next():
    """It started after the poll; an old stranger is not believed."""
    ownership = _ownership()
    _settle(ownership, _claim(A, [0]))
    fresh = [_label(1, B, T + 5)]
    assert ownership.from_labels(fresh) == tuple(fresh)
    _settle(ownership, _claim(A, [0]), _claim(B, [1]), at_s=T + 15)
    again = [_label(1, B, T + 20)]
    assert ownership.from_labels(again) == tuple(again)


def test_labels_fill_what_the_scheduler_does_not_tell():
    """A count without numbers is a share of the host; where the labels tell as many cards, nothing is missing."""
    ownership = _ownership()
    vague = Claim(A, "gpu-01", 2)
    (share,) = _settle(ownership, vague).shares
    assert (share.job, share.node, share.count) == (A, "gpu-01", 2)
    assert "not which" in share.why
    seen = [_label(0, A, T + 1), _label(1, A, T + 1)]
    assert ownership.from_labels(seen) == tuple(seen)
    settled = _settle(ownership, vague, at_s=T + 10)
    assert settled.shares == settled.findings == ()
    assert _owners(settled) == {("GPU-2", ""), ("GPU-3", "")}


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (Claim(A, "gpu-09", 1, "", (0,)), "no exporter page"),
        (_claim(A, [0, 9]), "no whole card with the index 9"),
        (Claim(A, "gpu-01", 1, "1g.10gb", (0,), sliced=True), "MIG"),
    ],
)
def test_what_cannot_be_joined_is_counted_and_said(claim, why):
    """A host, a number or a slice that the telemetry does not know: never a guess."""
    settled = _settle(_ownership(), claim)
    (share,) = settled.shares
    assert why in share.why
    assert share.count == 1
    (finding,) = settled.findings
    assert finding.problem is Problem.DEVICE_UNKNOWN
    assert why in finding.detail
    assert not any(sighting.job is None for sighting in settled.sightings if sighting.gpu.node == claim.node)


def test_a_card_cut_into_slices_is_not_the_whole_card():
    """A number that is a card with MIG instances in the telemetry joins to nothing."""
    ownership = Ownership()
    ownership.index.learn([(GpuId("gpu-01", "GPU-0", "7"), 0), (GpuId("gpu-01", "GPU-0"), 0)])
    assert _settle(ownership, _claim(A, [0])).sightings == ()
    assert ownership.index.devices("gpu-01") == {GpuId("gpu-01", "GPU-0", "7")}


def _sliced(instances: int, profile: str = "3g.20gb") -> Ownership:
    ownership = Ownership()
    card = GpuId("gpu-01", "GPU-0")
    rows = [(card, 0), *((GpuId("gpu-01", "GPU-0", str(i + 1)), 0, profile) for i in range(instances))]
    ownership.index.learn(rows)
    return ownership


def _slices(job, count, kind="a100_3g.20gb"):
    return Claim(job, "gpu-01", count, kind, tuple(range(count)), sliced=True, since_s=0.0)


def test_all_instances_of_a_profile_are_known_whatever_their_numbers():
    """A scheduler numbers MIG instances in its own way; where a job has every one of a profile that is no matter."""
    node = NodeGpus("gpu-01", 2, 2, {"a100_3g.20gb": 2})
    settled = _settle(_sliced(2), _slices(A, 2), nodes=(node,))
    assert {(str(s.gpu), s.job) for s in settled.sightings} == {("gpu-01:GPU-0~1", A), ("gpu-01:GPU-0~2", A)}
    assert (settled.shares, settled.findings) == ((), ())


@pytest.mark.parametrize(
    ("seen", "listed", "claimed"),
    [(2, 2, 1), (2, 3, 2), (1, 2, 2)],
    ids=["some of them", "telemetry lacks one", "telemetry lacks one of the job's"],
)
def test_some_instances_of_a_profile_are_never_guessed(seen, listed, claimed):
    """Which of two equal ones, or whether all are seen, nothing tells: the count stays on the host with the reason."""
    node = NodeGpus("gpu-01", listed, claimed, {"3g.20gb": listed})
    settled = _settle(_sliced(seen), _slices(A, claimed), nodes=(node,))
    assert settled.sightings == ()
    (share,) = settled.shares
    assert share.count == claimed
    assert f"the job has {claimed} of {seen} 3g.20gb there" in share.why


def test_instances_of_another_profile_are_no_match():
    """1g.10gb and 1g.10gb+me differ too."""
    node = NodeGpus("gpu-01", 1, 1, {"1g.10gb+me": 1})
    settled = _settle(_sliced(1, "1g.10gb"), _slices(A, 1, "1g.10gb+me"), nodes=(node,))
    assert settled.sightings == ()


def test_shared_devices_count_their_jobs():
    """Two jobs with shares of one card: both are seen, each with two sharers. Whole claims of one card conflict."""
    shares = [_claim(A, [2], shared=True), _claim(B, [2], shared=True)]
    settled = _settle(_ownership(), *shares)
    assert {(s.job, s.sharers) for s in settled.sightings if s.job} == {(A, 2), (B, 2)}
    assert settled.findings == ()
    (finding,) = _settle(_ownership(), _claim(A, [2]), _claim(B, [2])).findings
    assert finding.problem is Problem.OWNER_CONFLICT


def test_hidden_jobs_make_no_free_gpus():
    """More in use than the listed jobs hold: others' jobs are hidden, so nothing is called free."""
    settled = _settle(_ownership(), _claim(A, [0]), nodes=(NodeGpus("gpu-01", 4, 2),))
    assert _owners(settled) == {("GPU-0", "1")}
    assert "hidden" in settled.findings[0].detail
    assert _owners(_settle(_ownership(), _claim(A, [0, 1]), whole=False)) == {("GPU-0", "1"), ("GPU-1", "1")}


def test_pods_get_their_jobs_name():
    """Labels know pods; the scheduler knows whose they are."""
    ownership = Ownership()
    card = CARDS[0]
    job = JobId("kubernetes", "ml:train")
    claim = Claim(job, card.node, 1, uuids=(card.uuid,), workload="ml/train-0/main")
    _settle(ownership, claim, nodes=(NodeGpus(card.node, 1, 1),))
    seen = Sighting(card, T + 1, JobId("kubernetes", "ml:train-worker"), "ml/train-0/main", True, 1)
    assert [s.job for s in ownership.from_labels([seen])] == [job]


def test_cards_that_change_places():
    """A card has one index; another card in its place makes the old one go."""
    ownership = _ownership()
    ownership.index.learn([(CARDS[0], 3)])
    assert ownership.index.card("gpu-01", 3) == CARDS[0]
    assert ownership.index.card("gpu-01", 0) is None
    assert CARDS[3] not in ownership.index.devices("gpu-01")


def test_short_names_of_two_hosts_match_nothing():
    """gpu-01.a and gpu-01.b: only the full name tells which."""
    ownership = Ownership()
    ownership.index.learn([(GpuId("gpu-01.a", "GPU-1"), 0), (GpuId("gpu-01.b", "GPU-2"), 0)])
    assert ownership.index.name_of("gpu-01") == ""
    assert ownership.index.name_of("gpu-01.b") == "gpu-01.b"


def test_indices_come_from_a_page_of_the_local_driver():
    """Where no dcgm-exporter runs, the driver's own page tells which card has which number."""
    ownership = Ownership()
    collector = NvmlCollector("gpu-01", library=FakeNvml([card("GPU-7")]), ownership=ownership)
    asyncio.run(collector.collect(Window(T, T)))
    collector.close()
    assert ownership.index.card("gpu-01", 0) == GpuId("gpu-01", "GPU-7")

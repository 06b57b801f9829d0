"""When the service looks for what is slow and sick."""

from __future__ import annotations

from api.sickness import EVERY_S, Sickness
from collectors.nccl.standing import CommunicatorState
from features.ring import Ring
from forecast.predict.health.types import HealthReport
from telemetry.ids import CommunicatorId, JobId

STATE = CommunicatorState(CommunicatorId("dp", "0x1"), JobId("slurm", "7"), rank_count=8, hosts=("n1",))


def test_a_look_is_due_every_so_often() -> None:
    """Rounds in between do not look; a clock that steps back does not stop the looks."""
    sickness = Sickness()

    def looks(now_s: float) -> bool:
        return sickness.evidence(Ring(60.0), (), now_s=now_s, as_of_s=now_s, window_s=60.0) is not None

    assert [looks(now_s) for now_s in (100.0, 102.0, 100.0 + EVERY_S, 50.0, 51.0)] == [True, False, True, True, False]


def test_what_was_known_is_handed_to_the_next_look() -> None:
    """The memory goes round; a round that did not look keeps the last report."""
    sickness = Sickness()
    report = HealthReport(at_s=5.0)
    sickness.take(report)
    sickness.take(None)
    assert sickness.report is report
    evidence = sickness.evidence(Ring(60.0), (STATE,), now_s=1.0, as_of_s=1.0, window_s=60.0)
    assert evidence is not None
    assert evidence.memory is report.memory
    assert evidence.communicators["dp:0x1"].rank_count == 8


def test_a_costly_look_is_taken_less_often() -> None:
    """A look of two seconds is repeated after forty: a twentieth of a core, whatever the fleet's size."""
    ticks = iter([0.0, 2.0, 10.0, 10.1])
    sickness = Sickness(lambda: next(ticks))

    def looks(now_s: float) -> bool:
        return sickness.evidence(Ring(60.0), (), now_s=now_s, as_of_s=now_s, window_s=60.0) is not None

    assert [looks(now_s) for now_s in (100.0, 139.0, 140.0, 149.0)] == [True, False, True, False]

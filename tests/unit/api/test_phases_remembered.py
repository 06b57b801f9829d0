"""What one round remembers of phases comes back in the next."""

from __future__ import annotations

from api.bench.phase_jobs import WINDOW, simulated
from forecast.predict.types import NextPhase, PhaseName
from forecast.predict.worker import PredictRequest, predict


def test_rounds_add_up_to_a_foreseen_checkpoint() -> None:
    """A job whose checkpoints are rarer than a window is long is first told nothing of, then the next one."""
    job = simulated(100, 0)
    past, answers = {}, []
    for column in range(WINDOW, 8 * WINDOW, WINDOW // 3):
        frame = job.frame(column, stamped=False)
        reply = predict(PredictRequest(frame.data_at_s, (frame,), phase_past=past))
        past = reply.phase_past
        answers.append(reply.jobs[0].next_phases[PhaseName.CHECKPOINT])
    assert isinstance(answers[-1], NextPhase)
    truth_s = job.start_s[PhaseName.CHECKPOINT]
    told = [one for one in answers if isinstance(one, NextPhase)]
    assert len(told) >= 3
    assert min(abs(truth_s - told[-1].start_s)) < 0.2 * (truth_s[1] - truth_s[0])

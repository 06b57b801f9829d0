"""One call, many jobs: what fails is named, and the rest goes on."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np

from forecast.predict.room_models import RoomModels, default_models
from forecast.predict.types import Absence, Period, Why
from forecast.predict.worker import PredictRequest, predict


class _Broken:
    """Fails on contexts that carry a poisoned job's level."""

    def __init__(self, inner):
        self._inner = inner
        self.calls = 0

    def predict_served(self, context, horizon):
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("boom")
        return self._inner.predict_served(context, horizon)


def test_nothing_in_nothing_out():
    """No frames give an empty reply."""
    reply = predict(PredictRequest(now_s=0.0))
    assert reply.jobs == ()
    assert reply.links == ()
    assert reply.errors == {}


def test_failure_in_one_job_becomes_its_absence_and_is_counted(frames):
    """The first job's model fails; the second job and the links are forecast all the same."""
    real = default_models()
    reply = predict(frames.two_jobs(), RoomModels(real.detect_periods, _Broken(real.served)))
    assert reply.errors == {"job": 1}
    assert "boom" in reply.messages[0]
    assert reply.jobs[0].period.why is Why.MODEL_ERROR
    assert all(part.why is Why.MODEL_ERROR for part in reply.jobs[0].metrics.values())
    assert isinstance(reply.jobs[1].period, Period)
    assert len(reply.links) == 3


def test_failure_in_the_links_leaves_the_jobs(frames):
    """Links that cannot be computed are absences with the error's words."""
    request = frames.two_jobs()
    torn = replace(request.links, tx=request.links.tx.rows(np.array([0, 1])))
    good = predict(request)
    reply = predict(replace(request, links=torn))
    assert reply.errors == {"links": 1}
    assert all(isinstance(link.probability, Absence) for link in reply.links)
    assert [str(job) for job in reply.jobs] == [str(job) for job in good.jobs]


def test_request_and_reply_cross_a_process_border(frames):
    """Both survive pickling."""
    request = pickle.loads(pickle.dumps(frames.two_jobs()))
    reply = pickle.loads(pickle.dumps(predict(request)))
    assert [job.job.name for job in reply.jobs] == ["1", "2"]
    assert set(reply.phases) == {job.job for job in reply.jobs}
    assert len(reply.links) == 3

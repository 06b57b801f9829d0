"""The simulated cluster as a scheduler: it obeys ``shift``, over the same HTTP as everything else."""

from __future__ import annotations

import http.client
import json
import re
import urllib.parse
from typing import Any

from forecast.advisor.types import Advice
from forecast.backends.base import Plan, Receipt
from telemetry.clock import Clock
from telemetry.errors import AdviceError, BackendConflict, BackendRefused, BackendUnreachable, ConfigError, SchemaError
from telemetry.ids import GpuId, JobId, LinkId
from telemetry.jobs import JobView
from telemetry.topology import ClusterSnapshot, Link, Topology

_TIMEOUT_S = 5.0
_REPLY_CAP_BYTES = 16 * 2**20
_MAX_SNAPSHOT_AGE_S = 120.0
"""A plan rests on who runs where; two minutes are longer than any advice waits and shorter than a job's life."""
_STEP = re.compile(r"POST /control/shift job=(?P<job>\S+) offset_s=(?P<offset_s>\S+)")


class SimulatedBackend:
    """Snapshot, plan and apply against ``forecast.simulator.server``.

    Args:
        base_url: ``http://127.0.0.1:PORT`` of the simulated cluster.
        clock: decides expiry and staleness.
        timeout_s: for each call.
        max_snapshot_age_s: a plan from an older snapshot is refused.

    Raises:
        ConfigError: no plain http address.
    """

    name = "simulated"

    def __init__(
        self,
        base_url: str,
        clock: Clock,
        *,
        timeout_s: float = _TIMEOUT_S,
        max_snapshot_age_s: float = _MAX_SNAPSHOT_AGE_S,
    ) -> None:
        parts = urllib.parse.urlsplit(base_url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme != "http" or not parts.hostname or port is None:
            raise ConfigError(f"{base_url!r} is no address of a simulated cluster", mend="Give http://127.0.0.1:PORT")
        self._host, self._port = parts.hostname, port
        self._clock, self._timeout_s, self._max_snapshot_age_s = clock, timeout_s, max_snapshot_age_s
        self._applied: dict[str, float] = {}

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is now.

        Raises:
            BackendUnreachable: no answer.
            BackendRefused: an answer that is no state.
        """
        state = self._call("GET", "/control/state")
        try:
            return _snapshot_of(state, self._clock.now())
        except (KeyError, TypeError, ValueError, SchemaError) as error:
            raise BackendRefused(f"the simulated cluster's state cannot be read: {error!r}") from error

    def plan(self, advice: Advice, snapshot: ClusterSnapshot) -> Plan:
        """One line per call; none for a ``hold``.

        Raises:
            AdviceError: another kind, a job that does not run, or an offset that is no pause.
        """
        steps = () if advice.kind == "hold" else (_shift_step(advice, snapshot),)
        return Plan(advice.id, self.name, steps, snapshot.at_s, advice.expires_at_s)

    def apply(self, plan: Plan) -> Receipt:
        """Post the steps; a second time nothing happens.

        Raises:
            BackendRefused: expired, from an old snapshot, made for another backend, or a step unknown here.
            BackendConflict: the job is gone.
            BackendUnreachable: no answer.
        """
        now_s = self._clock.now()
        if plan.advice_id in self._applied:
            return Receipt(plan.advice_id, False, "applied before; nothing done", now_s)
        self._check(plan, now_s)
        wishes = [_wish_of(step, plan.advice_id) for step in plan.steps]
        if not wishes:
            return Receipt(plan.advice_id, False, "the plan has no steps; nothing done", now_s)
        replies = [self._call("POST", "/control/shift", wish) for wish in wishes]
        self._applied[plan.advice_id] = now_s
        detail = "; ".join(str(reply.get("detail", "")) for reply in replies)
        return Receipt(plan.advice_id, any(bool(reply.get("applied")) for reply in replies), detail, now_s)

    def _check(self, plan: Plan, now_s: float) -> None:
        if plan.backend != self.name:
            raise BackendRefused(f"the plan was made for backend {plan.backend!r}, this is {self.name!r}")
        if now_s > plan.expires_at_s:
            raise BackendRefused(f"plan of advice {plan.advice_id} expired {now_s - plan.expires_at_s:.1f} s ago")
        age_s = now_s - plan.snapshot_at_s
        if age_s > self._max_snapshot_age_s:
            raise BackendRefused(
                f"the snapshot behind advice {plan.advice_id} is {age_s:.0f} s old",
                mend=f"Plan again; at most {self._max_snapshot_age_s:g} s are allowed",
            )

    def _call(self, verb: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request; foreign errors become ours."""
        where = f"http://{self._host}:{self._port}{path}"
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(verb, path, payload, {"Content-Type": "application/json"} if payload else {})
            reply = connection.getresponse()
            raw = reply.read(_REPLY_CAP_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise BackendUnreachable(f"no answer from {where}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        return _reply_of(where, reply.status, raw)


def _reply_of(where: str, status: int, raw: bytes) -> dict[str, Any]:
    if len(raw) > _REPLY_CAP_BYTES:
        raise BackendRefused(f"{where} answered more than {_REPLY_CAP_BYTES} bytes")
    try:
        data = json.loads(raw)
    except ValueError as error:
        raise BackendRefused(f"{where} answered {status} without JSON") from error
    if not isinstance(data, dict):
        raise BackendRefused(f"{where} answered {status} with JSON that is no object")
    if status in (404, 409):
        raise BackendConflict(f"{where} answered {status}: {data.get('detail', '')}")
    if status != 200:
        raise BackendRefused(f"{where} answered {status}: {data.get('detail', '')}")
    return data


def _shift_step(advice: Advice, snapshot: ClusterSnapshot) -> str:
    if advice.kind != "shift":
        raise AdviceError(f"the simulated cluster cannot carry out {advice.kind!r}", mend="It knows shift and hold")
    offset_s = advice.action.get("offset_s")
    if advice.job is None or not isinstance(offset_s, int | float) or not 0.0 < offset_s < float("inf"):
        raise AdviceError(f"advice {advice.id} shifts no job by a positive offset_s: {dict(advice.action)!r}")
    if advice.job not in {view.job for view in snapshot.jobs}:
        raise AdviceError(f"advice {advice.id} is about {advice.job}, which does not run here")
    return f"POST /control/shift job={urllib.parse.quote(str(advice.job), safe=':')} offset_s={float(offset_s)!r}"


def _wish_of(step: str, advice_id: str) -> dict[str, Any]:
    """The request that a step line stands for: what the administrator read is what is sent."""
    found = _STEP.fullmatch(step)
    try:
        offset_s = float(found["offset_s"]) if found else float("nan")
    except ValueError:
        offset_s = float("nan")
    if found is None or offset_s != offset_s:
        raise BackendRefused(f"the simulated cluster does not know the step {step!r}")
    return {"job": urllib.parse.unquote(found["job"]), "offset_s": offset_s, "advice_id": advice_id}


def _snapshot_of(state: dict[str, Any], now_s: float) -> ClusterSnapshot:
    jobs = tuple(
        JobView(
            job=JobId.parse(job["id"]),
            nodes=tuple(sorted(job["nodes"])),
            gpus=tuple(sorted(GpuId.parse(gpu) for gpu in job["gpus"])),
            first_seen_s=float(state["started_s"]),
            last_seen_s=float(state["now_s"]),
        )
        for job in state["jobs"]
    )
    links = tuple(
        Link(
            LinkId(link["device"], link["port"], link["tier"]),
            link["a"],
            link["b"],
            float(link["capacity_bytes_per_s"]),
        )
        for link in state["links"]
    )
    return ClusterSnapshot(now_s, jobs, Topology(dict(state["leaf_of"]), links, "the simulated cluster"))

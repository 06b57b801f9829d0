"""Tell gpucast what step a training job is at. Copy this file beside your training code; it needs Python alone.

    reporter = StepReporter()                      # off unless GPUCAST_URL is set, such as http://127.0.0.1:8470
    for step, batch in enumerate(loader):
        loss = train(batch)
        reporter.step(step, loss=loss, tokens=n)   # a float you have anyway: tensor.item() would wait for the GPU
        with reporter.checkpoint():                # optional, around saving
            save(model)

Training never waits for it: a step puts a small dictionary into a bounded queue, a daemon thread sends what is there, what
does not fit or cannot be sent is dropped, and no error leaves this file.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

QUEUE_SIZE = 1000
MOST_AT_ONCE = 100
TIMEOUT_S = 2.0
PAUSE_S = 1.0
"""Between two requests, so that short steps go out together."""
LONGEST_PAUSE_S = 60.0


class StepReporter:
    """Sends steps from a daemon thread.

    Args:
        url: of gpucast; ``GPUCAST_URL`` when not given, and nothing at all is done where that is not set either.
        job: id of the job as gpucast shows it; from ``SLURM_JOB_ID``, else from the pod's name, when not given.
        rank: of this process; from ``RANK`` or ``SLURM_PROCID`` when not given. Only rank 0 sends.
    """

    def __init__(self, url: str | None = None, *, job: str | None = None, rank: int | None = None) -> None:
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue(QUEUE_SIZE)
        self._newest_s = time.perf_counter()
        self.dropped = 0
        self.active = False
        with contextlib.suppress(Exception):
            url = url or os.environ.get("GPUCAST_URL", "")
            self._rank = int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or 0) if rank is None else rank
            self._who = {"job": job} if job else _who()
            if url and self._who and self._rank == 0:
                self._url = url.rstrip("/") + "/v1/steps"
                threading.Thread(target=self._send_for_ever, name="gpucast steps", daemon=True).start()
                self.active = True

    def step(self, step: int, *, loss: float | None = None, tokens: float | None = None, **more: Any) -> None:
        """Step number ``step`` has just ended; ``more`` may hold ``data_wait_s``."""
        if self.active:
            now = time.perf_counter()
            took_s, self._newest_s = now - self._newest_s, now
            self._put(step=step, step_s=took_s, loss=loss, tokens=tokens, **more)

    @contextlib.contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Around saving a checkpoint."""
        self._put(checkpoint="begin")
        try:
            yield
        finally:
            self._put(checkpoint="end")

    def _put(self, **report: Any) -> None:
        if not self.active:
            return
        try:
            self._queue.put_nowait({"at_s": time.time(), **report})
        except Exception:  # a full queue: gpucast is down or slow, and training goes on
            self.dropped += 1

    def _send_for_ever(self) -> None:
        # Straight to the address given, whatever proxies the environment names.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        pause_s = PAUSE_S
        while True:
            try:
                reports = [self._queue.get()]
                time.sleep(pause_s)
                with contextlib.suppress(queue.Empty):
                    while len(reports) < MOST_AT_ONCE:
                        reports.append(self._queue.get_nowait())
                body = json.dumps([self._plain(report) for report in reports]).encode()
                request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
                with opener.open(request, timeout=TIMEOUT_S) as reply:
                    reply.read(65536)
                pause_s = PAUSE_S
            except Exception:  # these reports are lost, and the next try comes later
                self.dropped += len(reports)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _plain(self, report: dict[str, Any]) -> dict[str, Any]:
        """A report that JSON can hold; numbers that are none go as text."""
        plain: dict[str, Any] = {**self._who, "rank": self._rank}
        for name, value in report.items():
            if value is not None and name not in ("step", "checkpoint"):
                number = float(value)
                plain[name] = number if abs(number) < float("inf") else str(number)
            elif value is not None:
                plain[name] = value if name == "checkpoint" else int(value)
        return plain


def _who() -> dict[str, str]:
    """The job, by what its scheduler tells it; empty when nothing does."""
    environment = os.environ
    if environment.get("SLURM_JOB_ID"):
        return {"slurm_job_id": environment["SLURM_JOB_ID"]}
    if environment.get("KUBERNETES_SERVICE_HOST"):
        pod = environment.get("POD_NAME") or environment.get("HOSTNAME", "")
        namespace = environment.get("POD_NAMESPACE", "")
        if not namespace:
            with contextlib.suppress(OSError), open("/var/run/secrets/kubernetes.io/serviceaccount/namespace") as file:
                namespace = file.read().strip()
        return {"pod": pod, "namespace": namespace or "default"} if pod else {}
    return {}

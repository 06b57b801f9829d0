"""Samples pushed by remote write whose number, time and value say which they are."""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass

import cramjam
import numpy as np
import orjson

from api.bench.remote_write import GPUS_PER_NODE, Labels, encode_v1, labels_of, sample_field
from api.bench.served import LOOPBACK
from api.push import WRITE_PATH
from telemetry.catalogue import BY_NAME
from telemetry.ids import SeriesKey

METRIC = "gpu_power_watts"
_HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
_AGAIN_S = 0.02
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service said to one request: status, the problem's sentence, and after how many seconds."""

    status: int
    detail: str
    seconds: float


class Fleet:
    """The power of many GPUs; instant ``number`` gives each of them one sample.

    Args:
        n_nodes: hosts of 8 GPUs.
        first_s: time of instant 0, Unix seconds.
    """

    def __init__(self, n_nodes: int, first_s: float) -> None:
        field = BY_NAME[METRIC].sources[0].field
        gpus = [labels for node in range(n_nodes) for labels in labels_of(node)[:GPUS_PER_NODE]]
        self._series: list[Labels] = [
            tuple((name, field if name == "__name__" else value) for name, value in labels) for labels in gpus
        ]
        self._first_ms = round(first_s * 1000)
        names = [dict(labels) for labels in self._series]
        self.keys = [SeriesKey(METRIC, f"{one['Hostname']}:{one['UUID']}") for one in names]

    def at_ms(self, number: int) -> int:
        """Milliseconds of an instant; one is 10 ms after the other."""
        return self._first_ms + 10 * number

    def value(self, number: int) -> float:
        """The value that all samples of an instant have, within what a GPU may draw."""
        return 50.0 + number * 2.0**-10

    def number(self, at_ms: int) -> int:
        """Which instant a time is."""
        return (at_ms - self._first_ms) // 10

    def body(self, number: int) -> bytes:
        """The request that carries an instant."""
        sample = sample_field(self.at_ms(number), np.float64(self.value(number)))
        return bytes(cramjam.snappy.compress_raw(encode_v1(self._series, [sample] * len(self._series))))


class Sender(threading.Thread):
    """Sends instant after instant, each again until it is acknowledged, at a steady pace where the service keeps up.

    Args:
        fleet: what is sent.
        port: of the service, on loopback.
        first: number of its first instant.
        step: from one of its instants to the next; senders share the numbers.
        every_s: seconds between two of its requests.
    """

    def __init__(self, fleet: Fleet, port: int, first: int, step: int, every_s: float) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[int] = []
        self.refusals: set[int] = set()
        self.over = threading.Event()
        self._fleet, self._port, self._every_s = fleet, port, every_s
        self._number, self._step = first, step

    def run(self) -> None:
        """Until told that it is over."""
        due_s = time.monotonic()
        while not self.over.wait(max(0.0, due_s - time.monotonic())):
            body = self._fleet.body(self._number)
            while not self._acknowledged(body):
                if self.over.wait(_AGAIN_S):
                    return
            self.acknowledged.append(self._number)
            self._number += self._step
            due_s = max(due_s + self._every_s, time.monotonic() - self._every_s)

    def _acknowledged(self, body: bytes) -> bool:
        try:
            answer = push(self._port, body)
        except (OSError, http.client.HTTPException):
            return False
        if answer.status != 204:
            self.refusals.add(answer.status)
        return answer.status == 204


def push(port: int, body: bytes) -> Answer:
    """Send one request.

    Raises:
        OSError: nobody listens, or the connection broke.
        http.client.HTTPException: the answer broke off.
    """
    began_s = time.perf_counter()
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", WRITE_PATH, body, _HEADERS)
        reply = connection.getresponse()
        text = reply.read()
    finally:
        connection.close()
    detail = str(orjson.loads(text).get("detail", "")) if text else ""
    return Answer(reply.status, detail, time.perf_counter() - began_s)

"""How many samples per CPU second come from a Prometheus range answer into columns, beside prometheus_api_client.

Both read the same bytes: an answer to a range query over an hour of hosts with 8 GPUs, 15 s apart, with the labels that
dcgm-exporter and Prometheus put on them. gpucast's columns are judged, in the catalogue's units and with the owners of each GPU
besides; prometheus_api_client's are a data frame of the labels, times and numbers as they were sent.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable

import numpy as np
import orjson

from api.bench.remote_write import GPUS_PER_NODE
from api.bench.result import Row
from collectors.answer import read_answer
from collectors.series_map import SeriesMapper
from telemetry.catalogue import METRICS, Level

TASK = "prometheus-backfill"
N_NODES = 4
_N_FAMILIES = 10
_N_POINTS = 240
_EVERY_S = 15.0
_FIRST_AT_S = 1_767_225_600.0
_N_REPEATS = 7


def rows(seed: int, progress: Callable[[str], None], *, n_nodes: int = N_NODES) -> list[Row]:
    """Models ``gpucast``, ``prometheus_api_client`` and ``prometheus_api_client with orjson``.

    The median over repeats, the interval its 2.5 and 97.5 percentiles; CPU time of this process, all threads. Each repeat of
    gpucast begins without any memory of earlier label sets, as a first back-fill does.
    """
    body = make_answer(seed, n_nodes)
    n_samples = n_nodes * GPUS_PER_NODE * _N_FAMILIES * _N_POINTS
    found: list[Row] = []
    for model, read in _READERS.items():
        progress(f"{n_samples} samples of a Prometheus range answer, {model}")
        rates = [_rate(read, body, n_samples) for _ in range(_N_REPEATS)]
        low, middle, high = np.quantile(rates, [0.025, 0.5, 0.975])
        found.append(Row(TASK, model, "samples_per_cpu_s", float(middle), float(low), float(high), len(rates)))
    return found


def make_answer(seed: int, n_nodes: int) -> bytes:
    """The body of an answer to a range query, as Prometheus prints it."""
    rng = np.random.default_rng(seed)
    fields = [
        m.sources[0].field
        for m in METRICS
        if m.level in (Level.GPU, Level.DEVICE) and m.sources and not m.sources[0].only
    ]
    at_s: list[float] = (_FIRST_AT_S + _EVERY_S * np.arange(_N_POINTS)).tolist()
    result: list[dict[str, object]] = []
    for node in range(n_nodes):
        for gpu in range(GPUS_PER_NODE):
            labels = _labels(node, gpu)
            for field in fields[:_N_FAMILIES]:
                values = [f"{value:.6g}" for value in rng.uniform(0.0, 100.0, _N_POINTS)]
                pairs = [list(pair) for pair in zip(at_s, values, strict=True)]
                result.append({"metric": {"__name__": field, **labels}, "values": pairs})
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def _labels(node: int, gpu: int) -> dict[str, str]:
    return {
        "Hostname": f"bench-{node:03d}",
        "UUID": f"GPU-b{node:07x}-0000-4000-8000-{gpu:012x}",
        "container": "main",
        "device": f"nvidia{gpu}",
        "exported_namespace": "team-a",
        "exported_pod": f"train-{node}",
        "gpu": str(gpu),
        "instance": f"10.0.0.{node}:9400",
        "job": "dcgm-exporter",
        "modelName": "NVIDIA H100 80GB HBM3",
    }


def _rate(read: Callable[[bytes], int], body: bytes, n_samples: int) -> float:
    before_s = time.process_time()
    count = read(body)
    spent_s = time.process_time() - before_s
    if count != n_samples:
        raise AssertionError(f"{count} samples came out of {n_samples}")
    return n_samples / max(spent_s, 1e-9)


def _gpucast(body: bytes) -> int:
    return len(SeriesMapper("bench").batch([read_answer(orjson.loads(body), "bench")], 0.0))


def _reference(body: bytes) -> int:
    """As the library does by itself: ``requests`` reads JSON with Python's own module."""
    return _data_frame(json.loads(body)["data"]["result"])


def _reference_orjson(body: bytes) -> int:
    return _data_frame(orjson.loads(body)["data"]["result"])


def _data_frame(result: list[object]) -> int:
    from prometheus_api_client import MetricRangeDataFrame

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it calls pandas in ways that newer versions warn of
        return len(MetricRangeDataFrame(result))


_READERS: dict[str, Callable[[bytes], int]] = {
    "gpucast": _gpucast,
    "prometheus_api_client": _reference,
    "prometheus_api_client with orjson": _reference_orjson,
}
MODELS = tuple(_READERS)

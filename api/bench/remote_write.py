"""How many samples per CPU second the way from a remote write body to the store takes.

The bodies are those of a Prometheus that scrapes 125 hosts with 8 GPUs and sends 2,000 samples at once, host by host, with
the labels that dcgm-exporter and Prometheus put on them. Values change from scrape to scrape, labels stay.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cramjam
import numpy as np

from api.bench.result import Row
from collectors.remote_write.receiver import Message, Receiver
from features.store.duck import DuckStore
from telemetry.catalogue import METRICS, Level
from telemetry.samples import SampleBatch

N_NODES = 125
N_SCRAPES = 24
GPUS_PER_NODE = 8
_N_FAMILIES = 20
_SAMPLES_PER_BODY = 2000
_BODIES_PER_APPEND = 10
"""Senders that come while the store writes share its next transaction; a Prometheus of this size has about 10 shards."""
_N_PARTS = 8
_EVERY_S = 15.0
_FIRST_AT_S = 1_767_225_600.0
_TASKS = {Message.V1: "remote-write", Message.V2: "remote-write-2"}

Labels = tuple[tuple[str, str], ...]


def rows(
    seed: int, progress: Callable[[str], None], *, n_nodes: int = N_NODES, n_scrapes: int = N_SCRAPES
) -> list[Row]:
    """Tasks ``remote-write`` (1.0) and ``remote-write-2``, model ``gpucast``: median over parts of the run.

    What a Prometheus sends first, whose labels have to be learned, is not counted: it comes once.
    """
    found: list[Row] = []
    for message, task in _TASKS.items():
        progress(f"{n_nodes} nodes by remote write, {message.value}, to the store")
        rates = _measure(message, list(_bodies(message, seed, n_nodes, n_scrapes)))
        low, middle, high = np.quantile(rates, [0.025, 0.5, 0.975])
        found.append(Row(task, "gpucast", "samples_per_cpu_s", float(middle), float(low), float(high), len(rates)))
    return found


def _measure(message: Message, scrapes: Sequence[Sequence[bytes]]) -> list[float]:
    """Samples per CPU second of each part, all threads of this process."""
    with tempfile.TemporaryDirectory(prefix="gpucast-bench-") as folder:
        store = DuckStore(Path(folder) / "bench.duckdb")
        receiver = Receiver("bench")

        def work(bodies: Sequence[bytes], now_s: float) -> int:
            count = 0
            for start in range(0, len(bodies), _BODIES_PER_APPEND):
                batches: list[SampleBatch] = []
                for body in bodies[start : start + _BODIES_PER_APPEND]:
                    received = receiver.take(body, message, now_s)
                    batches += received.batches
                    count += received.taken
                store.append(batches)
            return count

        try:
            work(scrapes[0], _FIRST_AT_S + _EVERY_S)
            rates: list[float] = []
            for part in np.array_split(np.arange(1, len(scrapes)), min(_N_PARTS, len(scrapes) - 1)):
                before_s = time.process_time()
                count = sum(work(scrapes[i], _FIRST_AT_S + (i + 1) * _EVERY_S) for i in part)
                rates.append(count / max(time.process_time() - before_s, 1e-9))
            return rates
        finally:
            store.close()


def _bodies(message: Message, seed: int, n_nodes: int, n_scrapes: int) -> Iterator[list[bytes]]:
    """Of each scrape, the requests that carry it."""
    dice = np.random.default_rng(seed)
    series = [labels for node in range(n_nodes) for labels in labels_of(node)]
    encode = encode_v1 if message is Message.V1 else _encode_v2
    offsets_ms = np.repeat(dice.integers(0, int(_EVERY_S * 1000), n_nodes), len(series) // n_nodes)
    for scrape in range(n_scrapes):
        at_ms = int((_FIRST_AT_S + scrape * _EVERY_S) * 1000) + offsets_ms
        values = dice.uniform(0.01, 1.0, len(series))
        samples = [sample_field(*one) for one in zip(at_ms.tolist(), values.astype("<f8"), strict=True)]
        yield [
            bytes(
                cramjam.snappy.compress_raw(
                    encode(series[i : i + _SAMPLES_PER_BODY], samples[i : i + _SAMPLES_PER_BODY])
                )
            )
            for i in range(0, len(series), _SAMPLES_PER_BODY)
        ]


def labels_of(node: int) -> list[Labels]:
    """The series of one host, labels sorted as senders do."""
    name = f"gpu-{node:04d}"
    fields = [
        metric.sources[0].field
        for metric in METRICS
        if metric.level in (Level.GPU, Level.DEVICE) and metric.sources and not metric.sources[0].only
    ][:_N_FAMILIES]
    return [
        (
            ("DCGM_FI_DRIVER_VERSION", "580.95.05"),
            ("Hostname", name),
            ("UUID", f"GPU-b{node:07x}-0000-4000-8000-{gpu:012x}"),
            ("__name__", field),
            ("container", "exporter"),
            ("device", f"nvidia{gpu}"),
            ("exported_container", "main"),
            ("exported_namespace", "team-a"),
            ("exported_pod", f"train-{node}"),
            ("gpu", str(gpu)),
            ("instance", f"{name}:9400"),
            ("job", "dcgm"),
            ("modelName", "NVIDIA H100 80GB HBM3"),
            ("namespace", "gpu-operator"),
            ("pci_bus_id", f"00000000:{0x1A + gpu:02X}:00.0"),
            ("pod", "dcgm-exporter-x2x7k"),
        )
        for field in fields
        for gpu in range(GPUS_PER_NODE)
    ]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def sample_field(at_ms: int, value: np.float64) -> bytes:
    """One sample as a field of a series, the same in both versions."""
    return _field(2, b"\x09" + value.tobytes() + b"\x10" + _varint(at_ms))


def encode_v1(series: Sequence[Labels], samples: Sequence[bytes]) -> bytes:
    """The message of 1.0 in which each series has one sample."""
    return b"".join(_field(1, _fields_v1(labels) + one) for labels, one in zip(series, samples, strict=True))


_KNOWN_V1: dict[Labels, bytes] = {}


def _fields_v1(labels: Labels) -> bytes:
    found = _KNOWN_V1.get(labels)
    if found is None:
        found = b"".join(_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in labels)
        _KNOWN_V1[labels] = found
    return found


def _encode_v2(series: Sequence[Labels], samples: Sequence[bytes]) -> bytes:
    symbols = {"": 0}
    messages: list[bytes] = []
    for labels, one in zip(series, samples, strict=True):
        refs = b"".join(_varint(symbols.setdefault(text, len(symbols))) for pair in labels for text in pair)
        messages.append(_field(5, _field(1, refs) + one + _field(5, b"\x08\x02")))
    return b"".join(_field(4, text.encode()) for text in symbols) + b"".join(messages)

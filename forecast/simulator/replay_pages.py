"""Exporter pages of one recorded host at any moment of the record."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from forecast.simulator.exposition import family, family_head, field_of, go_number, labels_text, metric_head
from forecast.simulator.recording import COLUMNS, NodeRecord
from telemetry.catalogue import BY_NAME, NODE_NAME_FIELD

Moved = Callable[[float], float]
"""Recorded Unix seconds -> the timestamp that a line gets, Unix seconds."""

_FLOATS = ("gpu_power_watts",)
"""Printed with six decimals, as are ratios of the profiling module; the rest are integers."""


class ReplayPages:
    """Pages of one host.

    Args:
        record: what it did.
        run: name of the run; its pods are ``run-0``, ``run-1`` in namespace ``replay``.
    """

    def __init__(self, record: NodeRecord, run: str) -> None:
        self._record, self._run = record, run
        self.host = f"replay-node{record.node}"
        self._heads: list[str] = []
        self._lines: list[list[str]] = []
        self._shape: list[tuple[float, str]] = []
        for metric, (_, scale) in COLUMNS.items():
            field, field_scale = field_of(metric)
            self._heads.append(metric_head(metric))
            self._lines.append([field + labels_text(self._labels(int(gpu))) for gpu in record.gpus])
            decimals = metric in _FLOATS or (BY_NAME[metric].unit == "ratio" and field_scale == 1.0)
            self._shape.append((scale / field_scale, "%.6f" if decimals else "%d"))
        self._cached: tuple[int, int, bytes] = (-1, 0, b"")

    def phase_at(self, recorded_s: float) -> str:
        """What the record calls this moment; empty before it began."""
        row = self._row(self._record.at_s, recorded_s)
        return str(self._record.phase[row]) if row >= 0 else ""

    def gpu_page(self, recorded_s: float, moved: Moved) -> bytes:
        """Newest sample at or before ``recorded_s``, with its own timestamp; a missing value has no line."""
        row = self._row(self._record.at_s, recorded_s)
        if row < 0:
            return b""
        stamp_ms = round(moved(float(self._record.at_s[row])) * 1000.0)
        if self._cached[:2] == (row, stamp_ms):
            return self._cached[2]
        parts: list[str] = []
        for head, lines, (scale, shape), values in zip(
            self._heads, self._lines, self._shape, self._record.value[row].tolist(), strict=True
        ):
            shown = [
                f"{line} {_shown(value * scale, shape)} {stamp_ms}\n"
                for line, value in zip(lines, values, strict=True)
                if value == value
            ]
            if shown:
                parts.append(head)
                parts += shown
        page = "".join(parts).encode()
        self._cached = (row, stamp_ms, page)
        return page

    def port_page(self, recorded_s: float, moved: Moved) -> bytes:
        """Byte counters of the host's InfiniBand ports, from the recorded rates."""
        name = labels_text({"nodename": self.host, "sysname": "Linux"})
        head = family_head(NODE_NAME_FIELD, "Names that the kernel gives the host.", counter=False)
        parts = [family(head, NODE_NAME_FIELD, [(name, 1.0)])]
        row = self._row(self._record.port_at_s, recorded_s)
        if row >= 0:
            stamp_ms = round(moved(float(self._record.port_at_s[row])) * 1000.0)
            counters = (
                ("port_tx_bytes_total", self._record.port_tx_bytes),
                ("port_rx_bytes_total", self._record.port_rx_bytes),
            )
            for metric, counter in counters:
                field, _ = field_of(metric)
                parts.append(metric_head(metric))
                for port, value in enumerate(counter[row].tolist()):
                    labels = labels_text({"device": f"mlx5_{port}", "port": "1"})
                    parts.append(f"{field}{labels} {go_number(value // 4.0 * 4.0)} {stamp_ms}\n")
        return "".join(parts).encode()

    def _row(self, at_s: np.ndarray[tuple[int, ...], np.dtype[np.float64]], recorded_s: float) -> int:
        return int(np.searchsorted(at_s, recorded_s, side="right")) - 1

    def _labels(self, gpu: int) -> dict[str, str]:
        # The record holds no UUID, PCI address or driver version; only the first is needed, so it alone is made up.
        digest = hashlib.sha256(f"{self._run}/{self._record.node}/{gpu}".encode()).hexdigest()
        return {
            "gpu": str(gpu),
            "UUID": f"GPU-{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}",
            "device": f"nvidia{gpu}",
            "modelName": self._record.gpu_model,
            "Hostname": self.host,
            "container": "main",
            "namespace": "replay",
            "pod": f"{self._run}-{self._record.node}",
        }


def _shown(value: float, shape: str) -> str:
    return shape % (value if shape != "%d" else round(value))

"""This host's GPUs as a page like dcgm-exporter's, from NVML; for hosts where no dcgm-exporter runs.

The page has the same families, labels and units as dcgm-exporter's, so the same parser reads it and the same dashboards
show it. A reading that a card does not give is absent, never 0.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any

from collectors.nvml_device import GpuGone, NvmlDevice, Unit
from telemetry.catalogue import BY_NAME, Kind
from telemetry.errors import ConfigError, SourceError, SourceUnreachable

MOST_GPUS = 64
"""More than any host has; a driver that says so is not believed."""
_INSTALL = 'Install it with: pip install "gpucast[nvml]"'


def load_library() -> Any:
    """The ``pynvml`` module of nvidia-ml-py.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module("pynvml")
    except ImportError as missing:
        raise ConfigError("reading GPUs through NVML needs the package nvidia-ml-py", mend=_INSTALL) from missing


class NvmlPage:
    """The cards of this host. Not for two threads at once; every call blocks for some milliseconds.

    Args:
        library: ``pynvml``, or something that speaks like it.
        node: this host's name, as its labels shall have it.
    """

    def __init__(self, library: Any, node: str) -> None:
        self._library = library
        self._node = node
        self._devices: list[NvmlDevice] | None = None
        self._events: Any = None
        self._absent: tuple[str, ...] = ()
        self.lost: tuple[str, ...] = ()
        """Cards that did not answer in the newest reading: UUID and what the driver said."""

    def render(self, at_s: float) -> bytes:
        """The page as it is now.

        Args:
            at_s: a monotonic time, for rates between two readings.

        Raises:
            SourceUnreachable: no driver, or it refuses.
            SourceError: it says something that cannot be.
        """
        devices = self._open()
        self._note_events(devices)
        families: dict[str, list[tuple[str, float]]] = {}
        lost = list(self._absent)
        for device in devices:
            lines: list[tuple[str, str, float]] = []
            try:
                for unit in device.units:
                    labels = self._labels(device, unit)
                    lines += [(name, labels, value) for name, value in device.read(unit, at_s).items()]
            except GpuGone as gone:
                lost.append(f"{device.uuid}: {gone}")
                continue
            for name, labels, value in lines:
                families.setdefault(name, []).append((labels, value))
        self.lost = tuple(lost)
        if lost:
            self.close()  # a card that was reset has a new handle
        return "".join(_family(name, rows) for name, rows in families.items()).encode()

    def close(self) -> None:
        """Release the driver; the next reading opens it again."""
        for device in self._devices or ():
            device.close()
        if self._devices is not None:
            self._quietly("nvmlShutdown")
        self._devices, self._events = None, None

    def _open(self) -> list[NvmlDevice]:
        if self._devices is not None:
            return self._devices
        try:
            self._library.nvmlInit()
            count = int(self._library.nvmlDeviceGetCount())
        except self._library.NVMLError as error:
            raise SourceUnreachable("NVML", f"the NVIDIA driver does not answer: {error}") from error
        if not 0 <= count <= MOST_GPUS:
            self._quietly("nvmlShutdown")
            raise SourceError("NVML", f"the driver speaks of {count} GPUs, which cannot be")
        devices: list[NvmlDevice] = []
        absent: list[str] = []
        for index in range(count):
            try:
                devices.append(NvmlDevice(self._library, index))
            except self._library.NVMLError as error:
                absent.append(f"GPU {index}: {error}")
        self._devices, self._absent = devices, tuple(absent)
        self._listen(devices)
        return devices

    def _listen(self, devices: list[NvmlDevice]) -> None:
        """Ask to be told of XID errors; a driver without events gives none."""
        lib = self._library
        try:
            self._events = lib.nvmlEventSetCreate()
            for device in devices:
                lib.nvmlDeviceRegisterEvents(device.handle, lib.nvmlEventTypeXidCriticalError, self._events)
        except (lib.NVMLError, AttributeError):
            self._events = None

    def _note_events(self, devices: list[NvmlDevice]) -> None:
        """Take what has happened since the reading before, without waiting."""
        for _ in range(100):
            if self._events is None:
                return
            try:
                event = self._library.nvmlEventSetWait_v2(self._events, 0)
            except self._library.NVMLError:
                return  # nothing more
            uuid = self._uuid_of(event.device)
            for device in devices:
                if device.uuid == uuid:
                    device.last_xid = int(event.eventData)

    def _uuid_of(self, handle: Any) -> str:
        try:
            uuid = self._library.nvmlDeviceGetUUID(handle)
        except self._library.NVMLError:
            return ""
        return uuid.decode() if isinstance(uuid, bytes) else str(uuid)

    def _labels(self, device: NvmlDevice, unit: Unit) -> str:
        labels: dict[str, str] = {
            "gpu": str(device.index),
            "UUID": device.uuid,
            "pci_bus_id": device.bus_id,
            "device": f"nvidia{device.index}",
            "modelName": device.model,
        }
        if unit.instance:
            labels |= {"GPU_I_PROFILE": unit.profile, "GPU_I_ID": unit.instance}
        return _label_text({**labels, "hostname": self._node})

    def _quietly(self, function: str) -> None:
        try:
            getattr(self._library, function)()
        except self._library.NVMLError:
            return


def _family(name: str, rows: list[tuple[str, float]]) -> str:
    """HELP, TYPE and lines of a metric under the exporter's name and in its unit."""
    metric = BY_NAME[name]
    source = metric.sources[0]
    kind = "counter" if metric.kind is Kind.COUNTER else "gauge"
    lines = "".join(f"{source.field}{{{labels}}} {_number(value / source.scale)}\n" for labels, value in rows)
    return f"# HELP {source.field} {metric.meaning}\n# TYPE {source.field} {kind}\n{lines}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN"
    return f"{value:.6f}" if abs(value) < 1e6 and not value.is_integer() else f"{value:.0f}"


def _label_text(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items() if value)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

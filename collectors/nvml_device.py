"""What NVML tells of one card and its MIG instances, in our words and units."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from collectors.nvml_gpm import Gpm
from telemetry.catalogue import KIB

_GONE = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED", "NVML_ERROR_UNINITIALIZED", "NVML_ERROR_GPU_NOT_FOUND")
_ALL_LINKS = 0xFFFFFFFF
"""Scope of an NVLink field that means every link together."""
_MOST_INSTANCES = 16
"""Ask no further, whatever a driver says; a card has at most 7 GPU instances today."""


class GpuGone(Exception):
    """The card no longer answers; nothing it said in this reading can be used."""


@dataclass(slots=True)
class Unit:
    """The card as a whole, or one MIG instance.

    Args:
        handle: of the card or the MIG device.
        instance: GPU instance id; empty for the card.
        profile: such as ``1g.10gb``; empty for the card.
        gpm: its performance counters; None where the card has none.
        deaf: names of readings that it does not give, not asked for again.
    """

    handle: Any
    instance: str = ""
    profile: str = ""
    gpm: Gpm | None = None
    deaf: set[str] = field(default_factory=set)


class NvmlDevice:
    """One card.

    Args:
        library: ``pynvml``.
        index: of the card on this host.

    Raises:
        library.NVMLError: there is no such card.
    """

    def __init__(self, library: Any, index: int) -> None:
        self._library = library
        self.index = index
        self.handle = library.nvmlDeviceGetHandleByIndex(index)
        self.uuid = _text(library.nvmlDeviceGetUUID(self.handle))
        self.model = self._optional(lambda: _text(library.nvmlDeviceGetName(self.handle)), "")
        self.bus_id = self._optional(lambda: _text(library.nvmlDeviceGetPciInfo(self.handle).busId), "")
        self.sliced = self._is_sliced()
        self.units = list(self._units())
        self.last_xid = 0

    def read(self, unit: Unit, at_s: float) -> dict[str, float]:
        """What a unit says now, by our names and units; what it cannot say is absent.

        Raises:
            GpuGone: the card fell off the bus or needs a reset.
        """
        found: dict[str, float] = {}
        for name, question in self._questions(unit, at_s).items():
            if name in unit.deaf:
                continue
            try:
                found |= question()
            except AttributeError:  # a library older than the reading
                unit.deaf.add(name)
            except self._library.NVMLError as error:
                self._note(unit, name, error)
        return found

    def close(self) -> None:
        """Release what the units hold."""
        for unit in self.units:
            if unit.gpm is not None:
                self._optional(unit.gpm.close, None)

    def _questions(self, unit: Unit, at_s: float) -> dict[str, Callable[[], dict[str, float]]]:
        """Name of a reading -> how to get it; one failing costs no other."""
        ours: dict[str, Callable[[], dict[str, float]]] = {"memory": lambda: self._memory(unit.handle)}
        gpm = unit.gpm
        if gpm is not None:
            ours["gpm"] = lambda: gpm.read(at_s)
        if unit.instance:
            return ours
        lib, card = self._library, self.handle
        ours |= {
            "power": lambda: {"gpu_power_watts": lib.nvmlDeviceGetPowerUsage(card) / 1e3},
            "energy": lambda: {"gpu_energy_joules_total": lib.nvmlDeviceGetTotalEnergyConsumption(card) / 1e3},
            "sm_clock": lambda: {"gpu_sm_clock_hertz": lib.nvmlDeviceGetClockInfo(card, lib.NVML_CLOCK_SM) * 1e6},
            "mem_clock": lambda: {"gpu_mem_clock_hertz": lib.nvmlDeviceGetClockInfo(card, lib.NVML_CLOCK_MEM) * 1e6},
            "heat": lambda: {"gpu_temperature_celsius": lib.nvmlDeviceGetTemperature(card, lib.NVML_TEMPERATURE_GPU)},
            "memory_heat": lambda: self._field("gpu_memory_temperature_celsius", lib.NVML_FI_DEV_MEMORY_TEMP),
            "replays": lambda: {"gpu_pcie_replay_total": lib.nvmlDeviceGetPcieReplayCounter(card)},
            "xid": lambda: {"gpu_xid_last_code": float(self.last_xid)},
        }
        if not self.sliced:  # a card in slices has no utilisation of its own
            ours |= {
                "util": self._utilisation,
                "encoder": lambda: {"gpu_enc_util_ratio": lib.nvmlDeviceGetEncoderUtilization(card)[0] / 100},
                "decoder": lambda: {"gpu_dec_util_ratio": lib.nvmlDeviceGetDecoderUtilization(card)[0] / 100},
            }
        if gpm is None:
            ours |= {
                "nvlink_tx": lambda: self._links(
                    "gpu_nvlink_tx_bytes_total", lib.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
                ),
                "nvlink_rx": lambda: self._links(
                    "gpu_nvlink_rx_bytes_total", lib.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX
                ),
                "pcie_tx": lambda: self._pcie("gpu_pcie_tx_bytes_per_s", lib.NVML_PCIE_UTIL_TX_BYTES),
                "pcie_rx": lambda: self._pcie("gpu_pcie_rx_bytes_per_s", lib.NVML_PCIE_UTIL_RX_BYTES),
            }
        return ours

    def _utilisation(self) -> dict[str, float]:
        rates = self._library.nvmlDeviceGetUtilizationRates(self.handle)
        return {"gpu_util_ratio": rates.gpu / 100, "gpu_mem_copy_util_ratio": rates.memory / 100}

    def _memory(self, handle: Any) -> dict[str, float]:
        """Version 2 tells what the driver holds; version 1 counts that as used."""
        try:
            seen = self._library.nvmlDeviceGetMemoryInfo(handle, self._library.nvmlMemory_v2)
            reserved = {"gpu_memory_reserved_bytes": float(seen.reserved)}
        except (self._library.NVMLError, AttributeError):
            seen, reserved = self._library.nvmlDeviceGetMemoryInfo(handle), {}
        return {
            "gpu_memory_used_bytes": float(seen.used),
            "gpu_memory_free_bytes": float(seen.free),
            "gpu_memory_total_bytes": float(seen.total),
            **reserved,
        }

    def _field(self, name: str, field_id: Any) -> dict[str, float]:
        (answer,) = self._library.nvmlDeviceGetFieldValues(self.handle, [field_id])
        if answer.nvmlReturn != 0:
            raise self._library.NVMLError(answer.nvmlReturn)
        return {name: float(answer.value.uiVal)}

    def _links(self, name: str, field_id: int) -> dict[str, float]:
        (answer,) = self._library.nvmlDeviceGetFieldValues(self.handle, [(field_id, _ALL_LINKS)])
        if answer.nvmlReturn != 0:
            raise self._library.NVMLError(answer.nvmlReturn)
        return {name: float(answer.value.ullVal) * KIB}

    def _pcie(self, name: str, way: int) -> dict[str, float]:
        return {name: self._library.nvmlDeviceGetPcieThroughput(self.handle, way) * KIB}

    def _note(self, unit: Unit, name: str, error: Any) -> None:
        """A card that is gone ends the reading; what is not supported is not asked for again."""
        value = getattr(error, "value", None)
        if value in [getattr(self._library, gone, None) for gone in _GONE]:
            raise GpuGone(str(error)) from error
        if value == getattr(self._library, "NVML_ERROR_NOT_SUPPORTED", 3):
            unit.deaf.add(name)

    def _is_sliced(self) -> bool:
        current, _ = self._optional(lambda: self._library.nvmlDeviceGetMigMode(self.handle), (0, 0))
        return bool(current)

    def _units(self) -> Iterator[Unit]:
        has_gpm = self._optional(lambda: self._library.nvmlGpmQueryDeviceSupport(self.handle).isSupportedDevice, 0)
        yield Unit(self.handle, gpm=Gpm(self._library, self.handle) if has_gpm and not self.sliced else None)
        if not self.sliced:
            return
        count = min(int(self._optional(lambda: self._library.nvmlDeviceGetMaxMigDeviceCount(self.handle), 0)), 64)
        lib = self._library
        seen: set[int] = set()
        for place in range(count):
            handle = self._optional(partial(lib.nvmlDeviceGetMigDeviceHandleByIndex, self.handle, place), None)
            instance = None if handle is None else self._optional(partial(lib.nvmlDeviceGetGpuInstanceId, handle), None)
            if instance is None or instance in seen or len(seen) >= _MOST_INSTANCES:
                continue  # an empty place, or a second compute instance of the same GPU instance
            seen.add(instance)
            name = _text(self._optional(partial(lib.nvmlDeviceGetName, handle), ""))
            gpm = Gpm(lib, self.handle, instance) if has_gpm else None
            yield Unit(handle, str(instance), name.rpartition("MIG ")[2] if "MIG " in name else "", gpm)

    def _optional(self, question: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return question()
        except (self._library.NVMLError, AttributeError, TypeError, ValueError):
            return otherwise


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

"""What tells that a card, a port or a rank is sick: counters that moved, codes, flags that stand, clocks and heat.

Of ten thousand cards nearly all counters stand still. What did not move is noted as read and left behind, so that a
round looks at little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from features.store.base import Reader, Series
from telemetry.catalogue import BY_NAME, Kind, Level

COUNTERS: tuple[str, ...] = (
    "gpu_power_throttle_seconds_total",
    "gpu_thermal_throttle_seconds_total",
    "gpu_board_limit_throttle_seconds_total",
    "gpu_reliability_throttle_seconds_total",
    "gpu_sync_boost_throttle_seconds_total",
    "gpu_uncorrectable_remapped_rows_total",
    "gpu_correctable_remapped_rows_total",
    "gpu_ecc_dbe_volatile_total",
    "gpu_ecc_sbe_volatile_total",
    "gpu_ecc_dbe_total",
    "gpu_ecc_sbe_total",
    "gpu_nvlink_crc_flit_error_total",
    "gpu_nvlink_crc_data_error_total",
    "gpu_nvlink_replay_total",
    "gpu_nvlink_recovery_total",
    "gpu_pcie_replay_total",
    "port_symbol_error_total",
    "port_errors_rx_total",
    "port_link_recovery_total",
    "port_link_downed_total",
    "port_discards_tx_total",
    "port_discards_rx_total",
    "port_local_ack_timeout_total",
    "port_packet_sequence_error_total",
    "port_out_of_sequence_total",
    "port_rnr_nak_total",
    "port_ecn_marked_packets_total",
)
WITNESSES: tuple[str, ...] = ("port_rx_packets_total",)
"""Read only for entities that one of the counters above moved on: what an error count is a share of."""
XID = "gpu_xid_last_code"
CODES: tuple[str, ...] = (XID, "gpu_xid_window_count", "gpu_clock_event_reasons_bits")
FLAGS: tuple[str, ...] = (
    "gpu_row_remap_failure_flag",
    "gpu_row_remap_pending_flag",
    "gpu_health_flag",
    "port_state_id",
)
GAUGES: tuple[str, ...] = (
    "gpu_sm_clock_hertz",
    "gpu_temperature_celsius",
    "gpu_memory_temperature_celsius",
    "rank_step_duration_s",
    "nccl_busbw_bytes_per_s",
    "nccl_message_bytes",
)
HEALTH_METRICS: tuple[str, ...] = (*COUNTERS, *CODES, *FLAGS, *GAUGES)
MOST_POINTS = 256
"""Newest readings of a gauge that are handed on."""
_WELL: dict[str, float] = {"gpu_health_flag": 1.0, "port_state_id": 4.0}
"""Where a flag stands when all is well; 0 for the others. 4 is InfiniBand's active port."""


@dataclass(frozen=True, slots=True, eq=False)
class HealthFrame:
    """What the signs of sickness are read from.

    Args:
        data_at_s: newest sample, in the source's clock; 0 when there is none.
        span_s: how far back it reaches.
        series: metric -> series of good readings, at least one each. Counters, codes and flags only where something moved or stands wrong.
        read_on: metric -> places (hosts, switches, jobs, communicators) that gave a good reading of it at all.
        read_count: metric -> how many entities did.
        xid_read: cards that gave a good reading of their XID, 0 or not.
    """

    data_at_s: float = 0.0
    span_s: float = 0.0
    series: Mapping[str, tuple[Series, ...]] = field(default_factory=dict)
    read_on: Mapping[str, frozenset[str]] = field(default_factory=dict)
    read_count: Mapping[str, int] = field(default_factory=dict)
    xid_read: frozenset[str] = frozenset()


def health_frame(
    reader: Reader, *, now_s: float, window_s: float, metrics: Sequence[str] = HEALTH_METRICS
) -> HealthFrame:
    """Everything the signs need, as known at ``now_s``; nothing later is used.

    Args:
        reader: ring or store.
        now_s: the cutoff, in the source's clock.
        window_s: how far back.
        metrics: which to read.
    """
    kept: dict[str, tuple[Series, ...]] = {}
    read_on: dict[str, frozenset[str]] = {}
    counts: dict[str, int] = {}
    newest_s = 0.0
    moved: set[str] = set()
    xid_read: set[str] = set()
    for metric in metrics:
        telling = _telling(metric)
        chosen: list[Series] = []
        places: set[str] = set()
        count = 0
        for one in reader.read(reader.keys((metric,)), now_s, window_s):
            good = one.reason == 0
            if not good.any():
                continue
            count += 1
            places.add(place_of(metric, one.key.entity))
            newest_s = max(newest_s, float(one.at_s[-1]))
            if metric == XID:
                xid_read.add(one.key.entity)
            clean = one if good.all() else _only(one, good)
            if telling(clean):
                chosen.append(_newest(clean) if metric in GAUGES else clean)
        if count:
            kept[metric], read_on[metric], counts[metric] = tuple(chosen), frozenset(places), count
        if metric in COUNTERS:
            moved.update(one.key.entity for one in chosen)
    for metric in WITNESSES:
        keys = [key for key in reader.keys((metric,)) if key.entity in moved]
        kept[metric] = tuple(one for one in reader.read(keys, now_s, window_s) if one.at_s.size)
    return HealthFrame(newest_s, window_s, kept, read_on, counts, frozenset(xid_read))


def place_of(metric: str, entity: str) -> str:
    """The host, switch, job or communicator that an entity belongs to."""
    level = BY_NAME[metric].level
    if level in (Level.GPU, Level.DEVICE, Level.LANE):
        return entity.rpartition(":")[0]
    if level is Level.PORT:
        device = entity.rpartition(":")[0]
        return device.partition(":")[0]
    if level is Level.RANK:
        return entity.rpartition("@")[0]
    if level in (Level.COLLECTIVE, Level.COMMUNICATOR):
        return ":".join(entity.split(":")[:2])
    return entity


def _telling(metric: str) -> Callable[[Series], bool]:
    kind = BY_NAME[metric].kind
    if metric in FLAGS:
        well = _WELL.get(metric, 0.0)
        return lambda one: bool((one.value != well).any())
    if kind is Kind.LAST_CODE:
        return lambda one: bool((one.value != 0).any())
    if kind in (Kind.COUNTER, Kind.WINDOW_COUNT):
        return lambda one: bool(one.value[-1] != one.value[0]) or bool((one.value != one.value[0]).any())
    return lambda _: True


def _only(one: Series, good: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Series:
    at_s, value, reason = one.at_s[good], one.value[good], one.reason[good]
    return Series(one.key, at_s, value, reason, one.received_s)


def _newest(one: Series) -> Series:
    n = one.at_s.shape[0]
    if n <= MOST_POINTS:
        return one
    return Series(one.key, one.at_s[-MOST_POINTS:], one.value[-MOST_POINTS:], one.reason[-MOST_POINTS:], one.received_s)

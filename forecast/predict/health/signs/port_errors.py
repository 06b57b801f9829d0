"""Network ports: bit errors, links that went down, losses and time-outs; and marks where a port has far more than its peers."""

from __future__ import annotations

import numpy as np

from features.transforms.counters import increase
from forecast.predict.health.moves import Move, move_of
from forecast.predict.health.types import Evidence, HealthFinding, Severity, Sign, Thing
from telemetry.catalogue import ACTIVE_PORT_STATE

KIND = "port_errors"
RX_PACKETS = "port_rx_packets_total"
ECN = "port_ecn_marked_packets_total"
STATE = "port_state_id"
_ALWAYS: tuple[tuple[str, str, float, float], ...] = (
    ("port_link_downed_total", "times the link went down", 1.0, 0.8),
    ("port_link_recovery_total", "times the link recovered by itself", 1.0, 0.6),
    ("port_symbol_error_total", "bit errors", 120.0, 0.5),
    ("port_errors_rx_total", "bad packets received", 60.0, 0.5),
    ("port_local_ack_timeout_total", "sends that were not acknowledged in time", 60.0, 0.6),
)
"""Metric, words, least count an hour, score. 120 symbol errors an hour is what InfiniBand allows at its bit error rate of
1e-12 (InfiniBand specification, volume 1, C17); the others have no excuse beyond a stray one."""
_SHARES: tuple[tuple[str, str, float], ...] = (
    ("port_packet_sequence_error_total", "answers that asked for packets again", 1e-4),
    ("port_out_of_sequence_total", "packets out of order", 1e-2),
    ("port_discards_tx_total", "packets dropped on sending", 1e-4),
    ("port_discards_rx_total", "packets dropped on receiving", 1e-4),
    ("port_rnr_nak_total", "answers that the receiver was not ready", 1e-3),
)
"""Metric, words, share of the packets received from which on it is told. Adaptive routing puts packets out of order by
design, so that share is high."""
ECN_SHARE = 0.02
ECN_OVER_PEERS = 5.0
PEERS = 4
CABLE = "Exchange or reseat the cable and its optics, and look at the error counters of the far end."
PATH = "Look at congestion and flow control on this port's path, and at the far end's counters."


def find(evidence: Evidence) -> list[HealthFinding]:
    """Ports with errors above what a sound cable has."""
    packets = {one.key.entity: increase(one) for one in evidence.series(RX_PACKETS)}
    found: list[HealthFinding] = []
    for metric, words, limit, score in _ALWAYS:
        for move in _moves(evidence, metric):
            if move.per_hour >= limit:
                text = f"{move.amount:.0f} {words} in {move.span_s:.0f} s"
                found.append(_finding(evidence, move, metric, words, score, text, CABLE))
    for metric, words, share in _SHARES:
        for move in _moves(evidence, metric):
            total = packets.get(move.entity, float("nan"))
            if total > 0 and move.amount / total >= share:
                text = f"{move.amount:.0f} {words} of {total:.0f} packets in {move.span_s:.0f} s ({move.amount / total:.2g})"
                found.append(_finding(evidence, move, metric, words, 0.4, text, PATH))
    return found + _marked(evidence, packets) + _down(evidence)


def _moves(evidence: Evidence, metric: str) -> list[Move]:
    return [move for one in evidence.series(metric) if (move := move_of(one)) is not None]


def _marked(evidence: Evidence, packets: dict[str, float]) -> list[HealthFinding]:
    """Congestion marks are usual; a port with many times its peers' is not."""
    moves = [move for move in _moves(evidence, ECN) if packets.get(move.entity, 0.0) > 0]
    if len(moves) < PEERS:
        return []
    share = np.array([move.amount / packets[move.entity] for move in moves])
    middle = float(np.median(share))
    return [
        _finding(
            evidence,
            move,
            ECN,
            "congestion marks",
            0.3,
            f"{100 * mine:.1f} % of its packets came with a congestion mark, against {100 * middle:.1f} % at the median port",
            PATH,
            Severity.INFO,
        )
        for move, mine in zip(moves, share, strict=True)
        if mine >= ECN_SHARE and mine >= ECN_OVER_PEERS * middle
    ]


def _down(evidence: Evidence) -> list[HealthFinding]:
    """Ports that were up in the window and are not now."""
    found: list[HealthFinding] = []
    for one in evidence.series(STATE):
        if one.value[-1] != ACTIVE_PORT_STATE and (one.value == ACTIVE_PORT_STATE).any():
            fell = int(np.flatnonzero(one.value == ACTIVE_PORT_STATE)[-1]) + 1
            move = Move(one.key.entity, 1.0, evidence.frame.span_s, float(one.at_s[fell]), float(one.at_s[-1]), 1)
            text = f"the port was active and is in state {one.value[-1]:.0f} now"
            found.append(_finding(evidence, move, STATE, "down", 0.9, text, CABLE, Severity.CRITICAL))
    return found


def _finding(
    evidence: Evidence,
    move: Move,
    metric: str,
    words: str,
    score: float,
    text: str,
    to_do: str,
    severity: Severity = Severity.WARNING,
) -> HealthFinding:
    device = move.entity.rpartition(":")[0]
    node = device.partition(":")[0] if ":" in device else ""
    return HealthFinding(
        KIND,
        Thing.LINK,
        move.entity,
        severity,
        score,
        move.since_s,
        text,
        to_do,
        (metric,),
        detail=words,
        node=node,
        jobs=evidence.jobs_of_node().get(node, ()),
        numbers={"count": move.amount, "span_s": move.span_s},
    )


SIGN = Sign((("port_symbol_error_total",), ("port_link_downed_total",), ("port_packet_sequence_error_total",)), find)

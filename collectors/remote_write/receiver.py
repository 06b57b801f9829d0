"""Bodies of remote write -> sample batches in the catalogue's words.

Each request holds some series of many scrape targets. What they mean is known from earlier requests
(``collectors.remote_write.label_sets``), so a request costs a few array operations, and the batches of a target hand
over the same ``keys`` tuple again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from collectors.attribution import BUSY_RATIO, OwnerRules
from collectors.custom_map import CustomMap
from collectors.device_index import IndexRow
from collectors.quality import PROBLEM_OF, judge
from collectors.remote_write.columns import Decoded
from collectors.remote_write.label_sets import INVALID, STATE_METRIC, UNKNOWN, LabelSets
from collectors.remote_write.protobuf import SymbolTable, decode_v1, decode_v2, labels_v1
from collectors.remote_write.snappy import unpack
from collectors.wiring import Wiring
from telemetry.catalogue import ACTIVE_PORT_STATE
from telemetry.ids import LinkId, SeriesKey
from telemetry.samples import CodeArray, Finding, FloatArray, Problem, Reason, SampleBatch, Sighting

MIB = 1024**2
MAX_UNPACKED_BYTES = 32 * MIB
"""vmagent's largest block is 8 MiB unpacked, Prometheus' about 1 MiB."""
MOST_AHEAD_S = 60.0
"""A time further ahead of ours than this cannot be used: nothing asks for it until then."""
STALE_BITS = 0x7FF0000000000002
"""The NaN that says: this series has ended (Prometheus model/value, StaleNaN)."""
_NEW_AFTER_S = 300.0
_MOST_FAULTS_TOLD = 5


class Message(Enum):
    """Which message a body holds, as ``Content-Type`` says."""

    V1 = "prometheus.WriteRequest"
    V2 = "io.prometheus.write.v2.Request"


@dataclass(frozen=True, slots=True)
class Received:
    """What one request gave.

    Args:
        batches: to be stored.
        samples: in the request, markers of ended series included.
        taken: of those, how many are in ``batches`` or repeat one that is.
        unknown: of series outside the catalogue; no error.
        invalid: refused, as ``faults`` says.
        ended: markers of ended series among those taken.
        histograms: native histogram samples, which are not kept.
        exemplars: likewise.
        faults: sentences that name the series, the first few.
        findings: what is wrong with values.
        over_limit: refused by the store, which has as many series as it may; not among ``taken``.
        series: (taken,) number of the series of each sample taken.
        numbers: series -> its number in ``series``.
    """

    batches: tuple[SampleBatch, ...]
    samples: int
    taken: int
    unknown: int
    invalid: int
    ended: int
    histograms: int
    exemplars: int
    faults: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    over_limit: int = 0
    series: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32), repr=False, compare=False)
    numbers: Mapping[SeriesKey, int] = field(default_factory=dict, repr=False, compare=False)

    def without(self, refused: Iterable[SeriesKey]) -> Received:
        """The same once the store has refused series; samples that were added up for one count each."""
        keys = sorted(set(refused) & self.numbers.keys(), key=str)
        count = int(np.isin(self.series, [self.numbers[key] for key in keys]).sum())
        named = ", ".join(str(key) for key in keys[:_MOST_FAULTS_TOLD])
        more = f" and {len(keys) - _MOST_FAULTS_TOLD} more" if len(keys) > _MOST_FAULTS_TOLD else ""
        fault = f"{count} samples are of new series, and the store has as many series as it may: {named}{more}"
        return replace(self, taken=self.taken - count, over_limit=count, faults=(*self.faults, fault))


@dataclass(slots=True)
class _Rows:
    """The samples of a request that are to be kept, as columns; ``facts`` is the table's row of each."""

    facts: NDArray[np.void]
    at_s: FloatArray
    value: FloatArray
    reason: CodeArray
    ended: NDArray[np.bool_]

    def pick(self, index: NDArray[np.intp]) -> _Rows:
        return _Rows(self.facts[index], self.at_s[index], self.value[index], self.reason[index], self.ended[index])


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the numbers that a series is the sum of: when it was first seen, and its newest sample."""

    first_s: float
    at_s: float
    value: float
    reason: int


@dataclass(slots=True)
class _State:
    """What has to be remembered of single series from one request to the next, by the label sets' numbers."""

    generation: int
    last_s: FloatArray = field(default_factory=lambda: np.empty(0))
    start_s: FloatArray = field(default_factory=lambda: np.empty(0))
    down: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    parts: dict[int, dict[int, _Part]] = field(default_factory=dict)

    def grow(self, n_keys: int, n_ports: int) -> None:
        if n_keys > self.last_s.shape[0]:
            unseen = np.full(2 * n_keys - self.last_s.shape[0], -np.inf)
            self.last_s = np.concatenate([self.last_s, unseen])
            self.start_s = np.concatenate([self.start_s, unseen])
        if n_ports > self.down.shape[0]:
            self.down = np.concatenate([self.down, np.zeros(2 * n_ports - self.down.shape[0], np.bool_)])


class Receiver:
    """Everything that is pushed to one address.

    Args:
        source: what findings and batches call it.
        rules: the site's naming of owners.
        custom: the site's own metrics.
        max_bytes: most bytes a body may unpack to.
    """

    def __init__(
        self,
        source: str,
        rules: OwnerRules | None = None,
        custom: CustomMap | None = None,
        *,
        max_bytes: int = MAX_UNPACKED_BYTES,
    ) -> None:
        self._source = source
        self._max_bytes = max_bytes
        self._sets = LabelSets(source, rules, custom)
        self._table = SymbolTable()
        self._symbols_of = 0
        self._state = _State(self._sets.generation)
        self.capacity_bytes_per_s: dict[str, float] = {}

    @property
    def wiring(self) -> tuple[Wiring, ...]:
        """Cables that the series told of."""
        return tuple(self._sets.wiring.values())

    @property
    def nics(self) -> set[LinkId]:
        """Host ports that have sent samples."""
        return self._sets.nics

    def take_indices(self) -> list[IndexRow]:
        """(device, index on its host) told by label sets that are seen for the first time since the last call."""
        return self._sets.take_indices()

    def take(self, body: bytes, message: Message, received_s: float) -> Received:
        """What a body holds.

        Args:
            body: as sent, packed by snappy.
            message: which message it is.
            received_s: when it arrived, Unix seconds.

        Raises:
            TooLarge: it unpacks to more than the limit.
            SchemaError: it is no such message; nothing of it is taken.
        """
        unpacked = unpack(body, self._max_bytes)
        if message is Message.V1:
            decoded = decode_v1(unpacked, self._sets.known)
            rows = self._sets.rows_of(decoded.labels, labels_v1, decoded.known)
        else:
            decoded = decode_v2(unpacked, self._table)
            if self._table.generation != self._symbols_of:
                self._symbols_of = self._table.generation
                self._sets.forget()  # its label bytes are numbers of the old table
            rows = self._sets.rows_of(decoded.labels, self._table.labels)
        return self._received(decoded, rows, received_s)

    def _received(self, decoded: Decoded, rows: NDArray[np.int32], received_s: float) -> Received:
        if self._sets.generation != self._state.generation:
            self._state = _State(self._sets.generation)
        self._state.grow(self._sets.n_keys, self._sets.n_ports)
        row = rows[decoded.series]
        at_s = decoded.at_ms / 1000.0
        ahead = (row >= 0) & (at_s > received_s + MOST_AHEAD_S)
        untimed = (row >= 0) & (decoded.at_ms <= 0)
        invalid = (row == INVALID) | ahead | untimed
        keep = np.flatnonzero((row >= 0) & ~invalid)
        kept = self._judged(decoded, row, at_s, keep)
        sightings = self._sightings(kept)
        findings = self._findings(kept)
        batches = self._batches(kept, sightings, received_s, findings)
        return Received(
            batches=batches,
            samples=int(row.shape[0]),
            taken=int(keep.shape[0]),
            unknown=int((row == UNKNOWN).sum()),
            invalid=int(invalid.sum()),
            ended=int(kept.ended.sum()),
            histograms=decoded.histograms,
            exemplars=decoded.exemplars,
            faults=self._faults(decoded, rows, ahead, untimed),
            findings=tuple(findings),
            series=self._sets.table["key"][row[keep]],
            numbers=self._sets.key_ids,
        )

    def _judged(self, decoded: Decoded, row: NDArray[np.int32], at_s: FloatArray, keep: NDArray[np.intp]) -> _Rows:
        """The samples to keep, in the catalogue's unit and with reasons where they are missing."""
        facts = self._sets.table[row[keep]]
        printed = decoded.value[keep]
        ended = printed.view(np.uint64) == STALE_BITS
        # The marker is a signalling NaN, which arithmetic complains about.
        value, reason = judge(np.where(ended, np.nan, printed), self._sets.rules_of(facts["kind"]))
        kept = _Rows(facts, at_s[keep], value, reason, ended)
        self._close_down_ports(kept)
        self._mark_first_readings(kept)
        reason[facts["never"] | (facts["zero_never"] & (printed == 0.0))] = Reason.NOT_MEASURED
        reason[ended] = Reason.NOT_OBSERVED
        value[reason != 0] = np.nan
        value[ended] = printed[ended]
        return self._add_parts(kept) if (facts["part"] >= 0).any() else kept

    def _close_down_ports(self, kept: _Rows) -> None:
        """A port that is not active has no traffic figures: they are missing, not 0."""
        facts, down = kept.facts, self._state.down
        is_port = facts["port"] >= 0
        if not is_port.any():
            return
        for place in np.flatnonzero(is_port & facts["state"] & np.isfinite(kept.value)).tolist():
            if self._sets.metrics[facts["kind"][place]] == STATE_METRIC:
                down[facts["port"][place]] = kept.value[place] != ACTIVE_PORT_STATE
        for place in np.flatnonzero(is_port & facts["capacity"] & (kept.value > 0)).tolist():
            entity = self._sets.entity_of_key[facts["key"][place]]
            self.capacity_bytes_per_s[entity] = float(kept.value[place])
        closed = is_port & ~facts["state"] & down[np.maximum(facts["port"], 0)]
        kept.reason[closed] = Reason.NOT_MEASURED

    def _mark_first_readings(self, kept: _Rows) -> None:
        """The first zero of a series that starts means "no earlier reading"."""
        first = kept.facts["zero_first"]
        if not first.any():
            return
        keys, at_s = kept.facts["key"][first], kept.at_s[first]
        is_new = at_s - self._state.last_s[keys] > _NEW_AFTER_S
        self._state.start_s[keys[is_new]] = at_s[is_new]
        # The start is remembered, so that the same request means the same when it is sent again.
        zero = (at_s == self._state.start_s[keys]) & (kept.value[first] == 0.0)
        kept.reason[np.flatnonzero(first)[zero]] = Reason.FIRST_READING
        np.maximum.at(self._state.last_s, keys, at_s)

    def _add_parts(self, kept: _Rows) -> _Rows:
        """The rows with numbers in parts replaced by their sums.

        Parts of one instant may come in several requests, and what is stored first stays: a sum is given only once
        every part that is known came for that instant, and never for the instant at which a part was first seen.
        """
        facts = kept.facts
        whole = facts["part"] < 0
        places = np.flatnonzero(~whole)
        for place in places[np.argsort(kept.at_s[places], kind="stable")].tolist():
            parts = self._state.parts.setdefault(int(facts["key"][place]), {})
            at_s, part = float(kept.at_s[place]), int(facts["part"][place])
            if kept.ended[place]:
                parts.pop(part, None)
                continue
            first_s = parts[part].first_s if part in parts else at_s
            parts[part] = _Part(first_s, at_s, float(kept.value[place]), int(kept.reason[place]))
            for gone in [number for number, one in parts.items() if one.at_s < at_s - _NEW_AFTER_S]:
                del parts[gone]
            if all(one.at_s == at_s > one.first_s for one in parts.values()):
                whole[place] = True
                kept.value[place] = sum(one.value for one in parts.values())
                kept.reason[place] = max(one.reason for one in parts.values())
        return kept.pick(np.flatnonzero(whole))

    def _sightings(self, kept: _Rows) -> tuple[Sighting, ...]:
        on_device = kept.facts["sight"] >= 0
        if not on_device.any():
            return ()
        facts = kept.facts[on_device]
        busy = facts["busy"] & (kept.value[on_device] > BUSY_RATIO)
        return self._sets.owners.note(facts["sight"], kept.at_s[on_device], kept.ended[on_device], busy)

    def _batches(
        self, kept: _Rows, sightings: tuple[Sighting, ...], received_s: float, findings: list[Finding]
    ) -> tuple[SampleBatch, ...]:
        """One batch per target, each series and instant once; sightings come last, in a batch of their own."""
        facts = kept.facts
        order = np.lexsort((facts["rank"], kept.reason != 0, kept.at_s, facts["column"], facts["target"]))
        rows = kept.pick(order)
        facts = rows.facts
        same = (
            (facts["column"][1:] == facts["column"][:-1])
            & (facts["target"][1:] == facts["target"][:-1])
            & (rows.at_s[1:] == rows.at_s[:-1])
        )
        clash = same & (rows.value[1:] != rows.value[:-1]) & (rows.reason[1:] == 0) & (rows.reason[:-1] == 0)
        for place in np.flatnonzero(clash)[:_MOST_FAULTS_TOLD].tolist():
            metric = self._sets.metrics[facts["kind"][place]]
            text = f"{metric} is given twice for one device and instant with different numbers; one is kept"
            findings.append(Finding(Problem.DUPLICATE_SERIES, self._source, text, 1))
        rows = rows.pick(np.flatnonzero(np.append(True, ~same))) if order.size else rows
        borders = np.flatnonzero(np.diff(rows.facts["target"])) + 1
        spans = np.split(np.arange(rows.at_s.shape[0]), borders) if rows.at_s.shape[0] else []
        batches = [self._batch(rows, span[0], span[-1] + 1, received_s) for span in spans]
        if sightings:
            empty = SampleBatch.empty(source=self._source, received_s=received_s)
            batches.append(replace(empty, sightings=sightings))
        return tuple(batches)

    def _batch(self, rows: _Rows, first: int, end: int, received_s: float) -> SampleBatch:
        facts = rows.facts[first:end]
        return SampleBatch(
            keys=self._sets.targets[facts["target"][0]].keys,
            series=facts["column"].astype(np.int32),
            at_s=rows.at_s[first:end],
            value=rows.value[first:end],
            reason=rows.reason[first:end],
            source=self._source,
            received_s=received_s,
        )

    def _findings(self, kept: _Rows) -> list[Finding]:
        """What is wrong with values, per metric and kind of fault."""
        counts: Counter[tuple[int, int]] = Counter()
        bad = np.flatnonzero((kept.reason != 0) & ~kept.ended)
        for kind, code in zip(kept.facts["kind"][bad].tolist(), kept.reason[bad].tolist(), strict=True):
            counts[kind, code] += 1
        found: list[Finding] = []
        for (kind, code), count in counts.items():
            why = Reason(code)
            if why in PROBLEM_OF:
                text = f"{self._sets.metrics[kind]} is missing: {why.name.lower().replace('_', ' ')}"
                found.append(Finding(PROBLEM_OF[why], self._source, text, count))
        return found

    def _faults(
        self, decoded: Decoded, rows: NDArray[np.int32], ahead: NDArray[np.bool_], untimed: NDArray[np.bool_]
    ) -> tuple[str, ...]:
        """Sentences about what was refused, the first few of each kind."""
        found = [
            self._sets.faults[decoded.labels[place]]
            for place in np.flatnonzero(rows == INVALID)[:_MOST_FAULTS_TOLD].tolist()
        ]
        if ahead.any():
            found.append(
                f"{int(ahead.sum())} samples lie more than {MOST_AHEAD_S:g} s ahead of this host's clock (NTP)"
            )
        if untimed.any():
            found.append(f"{int(untimed.sum())} samples have no time, or one before 1970")
        return tuple(found)

"""What label sets mean, worked out once each and kept as rows of a table that whole requests are looked up in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from collectors.attribution import BUSY_METRICS, OwnerRules
from collectors.custom_map import CustomMap
from collectors.device_index import IndexRow
from collectors.entities import host_of
from collectors.pieces import Meaning
from collectors.quality import Limits
from collectors.remote_write.owners import Owners
from collectors.remote_write.wire import Malformed
from collectors.series_map import SeriesMapper
from collectors.wiring import CAPACITY_METRIC, Wiring, wiring_of_labels
from telemetry.catalogue import NODE_NAME_FIELD, UPLINK_FIELD, Level, Metric, Source
from telemetry.errors import SchemaError
from telemetry.ids import LinkId, SeriesKey

MAX_LABEL_SETS = 300_000
MAX_UNKNOWN = 1_000_000
"""Pods come and go and leave label sets behind; beyond these the memory of them is dropped and built anew."""
MAX_COLUMNS = 4096
"""Series of one target in one layout; what a target has beyond it goes into another."""
MAX_LEARNED = 6000
"""Label sets that one request may bring for the first time; working each out takes a tenth of a millisecond."""
MAX_RENAMINGS = 16
"""Of hosts, in the middle of a request; each looks through all that is known, so the rest waits for its end."""
_MAX_FAULTS = 1000
_MOST_SHOWN = 200
STATE_METRIC = "port_state_id"
_STATES = (STATE_METRIC, "port_physical_state_id")

UNKNOWN, INVALID, TOLD = -1, -2, -3
"""In place of a row: outside the catalogue; labels that break the protocol's rules; names and wiring, already noted."""

ROW = np.dtype(
    [
        ("kind", np.int32),
        ("target", np.int32),
        ("column", np.int32),
        ("key", np.int32),
        ("port", np.int32),
        ("sight", np.int32),
        ("part", np.int16),
        ("rank", np.int8),
        ("zero_first", np.bool_),
        ("never", np.bool_),
        ("zero_never", np.bool_),
        ("state", np.bool_),
        ("busy", np.bool_),
        ("capacity", np.bool_),
    ]
)
"""One label set: rules (``kind``), where its samples go (``target``, ``column``), its series, its port or -1, who was
seen with which device or -1, which part of a sum it is or -1, its precedence, and what its value tells besides:
``state`` is that of a port, ``busy`` that of a device, ``capacity`` a port's speed."""

ReadLabels = Callable[[bytes], list[tuple[str, str]]]


class MuchIsNew(SchemaError):
    """A request with more unseen label sets than are learned at once; sent again, it is further on."""


class Target:
    """The series of one scrape target; the tuple stays the same object until a series is added."""

    def __init__(self) -> None:
        self.keys: tuple[SeriesKey, ...] = ()
        self._columns: dict[SeriesKey, int] = {}

    def __len__(self) -> int:
        return len(self._columns)

    def column(self, key: SeriesKey) -> int:
        """Where samples of a series go."""
        return self._columns.setdefault(key, len(self._columns))

    def settle(self) -> None:
        """Take new series into the tuple."""
        if len(self.keys) != len(self._columns):
            self.keys = tuple(self._columns)


class LabelSets:
    """Label bytes -> rows.

    Args:
        source: what findings call the sender.
        rules: the site's naming of owners.
        custom: the site's own metrics.
    """

    def __init__(self, source: str, rules: OwnerRules | None = None, custom: CustomMap | None = None) -> None:
        self._mapper = SeriesMapper(source, rules, custom)
        self.wiring: dict[LinkId, Wiring] = {}
        self.nics: set[LinkId] = set()
        self.nodenames: dict[str, str] = {}
        self.faults: dict[bytes, str] = {}
        self.key_ids: dict[SeriesKey, int] = {}
        """Series -> the table's ``key``; another dictionary after ``forget``."""
        self.generation = 0
        self.renamings = 0
        """How often what is known was looked through because hosts got names."""
        self._named = False
        self.forget()

    def forget(self) -> None:
        """Drop everything that can be learned again from the next requests."""
        self.known: dict[bytes, int] = {}
        self.table = np.empty(1024, ROW)
        self._n_rows = 0
        self.targets: list[Target] = []
        self.metrics: list[str] = []
        self.entity_of_key: list[str] = []
        self.limits = Limits.of([])
        self.owners = Owners()
        self._unknown: set[bytes] = set()
        self._kinds: dict[tuple[str, Source], int] = {}
        self._kind_rows: list[tuple[Metric, Source]] = []
        self._by_target: dict[tuple[str, str], int] = {}
        self.key_ids = {}
        self._ports: dict[str, int] = {}
        self._parts: dict[str, int] = {}
        self.faults.clear()
        self.generation += 1

    def take_indices(self) -> list[IndexRow]:
        """(device, index on its host) of the label sets seen for the first time since the last call."""
        return self._mapper.take_indices()

    @property
    def n_keys(self) -> int:
        """Series known so far."""
        return len(self.key_ids)

    @property
    def n_ports(self) -> int:
        """Ports known so far."""
        return len(self._ports)

    def rows_of(self, labels: Sequence[bytes], read: ReadLabels, found: Sequence[int | None] = ()) -> NDArray[np.int32]:
        """(n,) row of each label set, or one of ``UNKNOWN``, ``INVALID``, ``TOLD``.

        Args:
            labels: as decoded.
            read: takes label bytes apart.
            found: the row of each where it is known already, None where it is not; all or nothing.

        Raises:
            MuchIsNew: more than ``MAX_LEARNED`` were not met before; so many are learned.
        """
        if not found or None in found:
            known = self.known
            found = [known.get(label_bytes) for label_bytes in labels]
        if None in found:
            self._make_room(len(labels))
            try:
                found = self._learn(labels, read)
            finally:
                for target in self.targets:
                    target.settle()
                if len(self._kind_rows) != self.limits.low.shape[0]:
                    self.limits = Limits.of(self._kind_rows)
        return np.array(found, np.int32)

    def _learn(self, labels: Sequence[bytes], read: ReadLabels) -> list[int | None]:
        found: list[int | None] = []
        most, last = len(self.known) + MAX_LEARNED, self.renamings + MAX_RENAMINGS
        try:
            for label_bytes in labels:
                found.append(self._look_up(label_bytes, read, rename=self.renamings < last))
                if len(self.known) > most:
                    raise MuchIsNew(f"the request brings more than {MAX_LEARNED} new series", mend="Send it again")
        finally:
            self._rename()
        return found

    def _rename(self) -> None:
        """Take the names of hosts into use; what was learned under the instance's name is learned again."""
        if not self._named:
            return
        self._named = False
        self.renamings += 1
        self._mapper.name_nodes(self.nodenames)
        for data in [data for data, row in self.known.items() if self.table[row]["port"] >= 0]:
            del self.known[data]

    def rules_of(self, kinds: NDArray[np.int32]) -> Limits:
        """The catalogue's rules of each sample."""
        return Limits(*(getattr(self.limits, part.name)[kinds] for part in fields(self.limits)))

    def _make_room(self, more: int) -> None:
        if self._n_rows + more > MAX_LABEL_SETS:
            self.forget()
        if len(self._unknown) + more > MAX_UNKNOWN:
            self._unknown.clear()
        if len(self.faults) > _MAX_FAULTS:
            self.faults.clear()

    def _look_up(self, data: bytes, read: ReadLabels, *, rename: bool) -> int:
        """The row of a label set that is not known as one with samples, or the word for it.

        Args:
            data: its bytes.
            read: takes them apart.
            rename: whether names told just before are taken into use for it.
        """
        row = self.known.get(data)  # twice in one request
        if row is not None:
            return row
        if data in self.faults:
            return INVALID
        digest = blake2b(data, digest_size=16).digest()
        if digest in self._unknown:
            return UNKNOWN
        try:
            pairs = read(data)
            fault = fault_of(pairs)
        except Malformed as odd:
            pairs, fault = [], odd.message
        if fault:
            self.faults[data] = fault
            return INVALID
        labels = {name: value for name, value in pairs if value}
        if self._told(labels):
            return TOLD
        if rename:
            self._rename()
        meaning = self._mapper.meaning(labels)
        if isinstance(meaning, str):
            if len(self.known) - self._n_rows < MAX_LABEL_SETS:
                self.known[data] = UNKNOWN
            else:
                self._unknown.add(digest)
            return UNKNOWN
        row = self.known[data] = self._add(meaning, labels)
        return row

    def _told(self, labels: dict[str, str]) -> bool:
        """Note what names hosts and cables; True when that is all that the series is for."""
        name = labels["__name__"]
        if name == NODE_NAME_FIELD:
            instance, nodename = labels.get("instance", ""), labels.get("nodename", "")
            if instance and nodename and self.nodenames.get(instance) != nodename:
                self.nodenames[instance] = nodename
                self._named = True
            return True
        if name == UPLINK_FIELD:
            self.wiring |= {cable.link: cable for cable in wiring_of_labels([labels])}
            return True
        return False

    def _add(self, meaning: Meaning, labels: dict[str, str]) -> int:
        key, metric = meaning.key, meaning.metric
        row = self._next_row()
        target, column = self._place_of(key, labels)
        gpu = meaning.gpu
        sliced = gpu is not None and bool(gpu.mig)
        port = -1
        if metric.level is Level.PORT:
            port = self._port_of(key.entity)
        self.table[row] = (
            self._kind_of(metric, meaning.source),
            target,
            column,
            self._key_id(key),
            port,
            self.owners.sight(gpu, meaning.owner) if gpu is not None else -1,
            self._parts.setdefault(meaning.part, len(self._parts)) if meaning.part else -1,
            2 * sliced + (meaning.owner is not None),
            meaning.source.zero_first,
            sliced and metric.level is Level.GPU and metric.unit == "ratio",
            sliced and meaning.source.zero_on_slice,
            metric.name in _STATES,
            metric.name in BUSY_METRICS,
            metric.name == CAPACITY_METRIC,
        )
        return row

    def _port_of(self, entity: str) -> int:
        link = LinkId.parse(entity, "nic")
        if link.node:
            self.nics.add(link)
        return self._ports.setdefault(entity, len(self._ports))

    def _next_row(self) -> int:
        row, self._n_rows = self._n_rows, self._n_rows + 1
        if row == self.table.shape[0]:
            self.table = np.concatenate([self.table, np.empty(row, ROW)])
        return row

    def _kind_of(self, metric: Metric, source: Source) -> int:
        kind = self._kinds.setdefault((metric.name, source), len(self._kinds))
        if kind == len(self._kind_rows):
            self._kind_rows.append((metric, source))
            self.metrics.append(metric.name)
        return kind

    def _key_id(self, key: SeriesKey) -> int:
        number = self.key_ids.setdefault(key, len(self.key_ids))
        if number == len(self.entity_of_key):
            self.entity_of_key.append(key.entity)
        return number

    def _place_of(self, key: SeriesKey, labels: dict[str, str]) -> tuple[int, int]:
        """The target that a series was scraped from, and its column there."""
        instance = labels.get("instance") or host_of(key.entity)
        name = (labels.get("job", ""), instance)
        number = self._by_target.get(name)
        if number is None or len(self.targets[number]) >= MAX_COLUMNS:
            number = self._by_target[name] = len(self.targets)
            self.targets.append(Target())
        return number, self.targets[number].column(key)


def fault_of(pairs: Iterable[tuple[str, str]]) -> str:
    """What is wrong with a label set by the protocol's rules, as a sentence that names the series; empty when nothing.

    Labels are sorted by name, each name once and none empty, and one of them is ``__name__`` (Prometheus Remote-Write
    1.0 and 2.0 specifications, "Labels").
    """
    pairs = list(pairs)
    names = [name for name, _ in pairs]
    labels = dict(pairs)
    if not labels.get("__name__"):
        return f"{shown(pairs)} has no __name__"
    if "" in names:
        return f"{shown(pairs)} has a label without a name"
    if len(labels) != len(names):
        return f"{shown(pairs)} has a label twice"
    if names != sorted(names):
        return f"{shown(pairs)} has labels that are not sorted by name"
    return ""


def shown(pairs: Iterable[tuple[str, str]]) -> str:
    """A label set as people write it, cut where it is long."""
    pairs = list(pairs)
    name = next((value for label, value in pairs if label == "__name__"), "")
    inside = ", ".join(f'{label}="{value}"' for label, value in pairs if label != "__name__")
    text = f"{name}{{{inside}}}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."

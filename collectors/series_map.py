"""Prometheus answers -> sample batches: several label sets of one device become one series.

Every pod that starts or stops changes a GPU's label set, so Prometheus keeps several series of one GPU, which may
overlap for a moment. Time slicing keeps several side by side with the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from collectors.answer import Answer, AnswerSeries
from collectors.attribution import BUSY_METRICS, OwnerRules, owner_of
from collectors.custom_map import CustomMap
from collectors.device_index import PROFILE_LABEL, IndexRow, index_of
from collectors.entities import UNKNOWN_NODE, Place, clean_labels, entity_of, gpu_of, part_of, uuid_of
from collectors.owner_times import GpuTimes, sightings_of
from collectors.pieces import Columns, Meaning, Piece, close_down_ports, merge_pieces, workloads_own
from collectors.quality import PROBLEM_OF, Limits, judge
from telemetry.catalogue import Level, left_out, meaning_of
from telemetry.ids import GpuId, SeriesKey
from telemetry.samples import CodeArray, Finding, FloatArray, Problem, Reason, SampleBatch, Sighting

_NEW_AFTER_S = 300.0
"""After so long without a sample a series starts anew (Prometheus' own lookback)."""
_MOST_LABEL_SETS = 500_000
"""Pods come and go and leave label sets behind; beyond this the memory of them is dropped and built anew."""


class SeriesMapper:
    """Turns answers into batches; remembers what each label set means and when each series was last seen.

    Args:
        source: the server's URL, for findings.
        rules: the site's naming of owners.
        custom: the site's own metrics.
    """

    def __init__(self, source: str, rules: OwnerRules | None = None, custom: CustomMap | None = None) -> None:
        self._source = source
        self._rules = rules or OwnerRules()
        self._custom = custom or CustomMap()
        self._place = Place()
        self._meanings: dict[tuple[tuple[str, str], ...], Meaning | str] = {}
        self._hosts: dict[str, str] = {}
        self._last_at_s: dict[SeriesKey, float] = {}
        self._keys: tuple[SeriesKey, ...] = ()
        self._indices: dict[IndexRow, None] = {}

    def take_indices(self) -> list[IndexRow]:
        """Devices with the index of their card, of the label sets seen for the first time since the last call."""
        taken, self._indices = list(self._indices), {}
        return taken

    def name_nodes(self, nodenames: Mapping[str, str]) -> None:
        """Tell which host stands behind which ``instance``."""
        if dict(nodenames) != dict(self._place.nodenames):
            self._place = Place(nodenames=dict(nodenames))
            self._meanings.clear()

    def meaning(self, labels: dict[str, str]) -> Meaning | str:
        """What one label set stands for, or a sentence why it is left out; for readers that remember it themselves."""
        self._learn_host(labels)
        return self._work_out(labels, labels.get("__name__", ""))

    def batch(
        self,
        answers: Sequence[Answer],
        received_s: float,
        *,
        start_s: float = -np.inf,
        end_s: float = np.inf,
        field: str = "",
    ) -> SampleBatch:
        """Samples with ``start_s <= at_s <= end_s``.

        Args:
            answers: parts of one reading; order does not matter.
            received_s: when they arrived.
            start_s: first instant.
            end_s: last instant.
            field: family name for series that lost theirs to a function.
        """
        findings = [self._finding_of(answer) for answer in answers]
        notes: dict[tuple[Problem, str], int] = {}
        pieces: dict[SeriesKey, list[Piece]] = {}
        self._learn_hosts(answers)
        for series in (series for answer in answers for series in answer.series):
            meaning = self._meaning(series.labels, field)
            if isinstance(meaning, str):
                note = (Problem.UNKNOWN_METRIC, meaning)
                notes[note] = notes.get(note, 0) + 1
                continue
            piece = self._judge(series, meaning, start_s, end_s)
            if piece.at_s.size:
                pieces.setdefault(meaning.key, []).append(piece)
        for own in [own for group in pieces.values() if len(group) > 1 for own in workloads_own(group)]:
            pieces.setdefault(own.meaning.key, []).append(own)
        columns = {key: merge_pieces(group, notes) for key, group in sorted(pieces.items())}
        close_down_ports(columns)
        for key, (at_s, value, reason) in columns.items():
            self._mark_first_reading(pieces[key][0].meaning, at_s, value, reason)
            _note_reasons(key, reason, notes)
        sightings = _sightings(pieces)
        lost = sum(not sighting.known for sighting in sightings)
        if lost:
            notes[(Problem.OWNER_UNKNOWN, "busy GPUs without an owner in their labels")] = lost
        found = [finding for group in findings for finding in group]
        found += [Finding(problem, self._source, text, count) for (problem, text), count in notes.items()]
        return self._pack(columns, sightings, found, received_s)

    def _pack(
        self,
        columns: dict[SeriesKey, Columns],
        sightings: tuple[Sighting, ...],
        findings: list[Finding],
        received_s: float,
    ) -> SampleBatch:
        if not columns:
            if not any(f.problem in (Problem.EMPTY, Problem.QUERY_ERROR) for f in findings):
                findings.append(Finding(Problem.EMPTY, self._source, "no_data: no sample of a known metric"))
            return SampleBatch.empty(source=self._source, findings=findings, received_s=received_s)
        keys = tuple(columns)
        self._keys = self._keys if self._keys == keys else keys
        sizes = [at_s.size for at_s, _, _ in columns.values()]
        return SampleBatch(
            keys=self._keys,
            series=np.repeat(np.arange(len(keys), dtype=np.int32), sizes),
            at_s=np.concatenate([at_s for at_s, _, _ in columns.values()]),
            value=np.concatenate([value for _, value, _ in columns.values()]),
            reason=np.concatenate([reason for _, _, reason in columns.values()]),
            sightings=sightings,
            findings=tuple(findings),
            source=self._source,
            received_s=received_s,
        )

    def _finding_of(self, answer: Answer) -> list[Finding]:
        if answer.state == "error":
            return [Finding(Problem.QUERY_ERROR, self._source, f"{answer.error_type}: {answer.error}")]
        found = [Finding(Problem.PARTIAL, self._source, text) for text in answer.warnings]
        if answer.state == "no_data":
            found.append(Finding(Problem.EMPTY, self._source, "no_data: nothing matched the query"))
        return found

    def _meaning(self, labels: dict[str, str], field: str) -> Meaning | str:
        """What a label set stands for, or a sentence why it is left out."""
        identity = (*labels.items(), ("", field))
        meaning = self._meanings.get(identity)
        if meaning is None:
            if len(self._meanings) >= _MOST_LABEL_SETS:
                self._meanings.clear()
            meaning = self._meanings[identity] = self._work_out(labels, labels.get("__name__", field))
        return meaning

    def _work_out(self, raw: dict[str, str], name: str) -> Meaning | str:
        known = self._custom.meaning_of(name, raw) or meaning_of(name, raw)
        if known is None:
            return f"{name or 'a series without a name'} is not in the catalogue" + (
                " on purpose" if left_out(name) else ""
            )
        metric, source = known
        labels = clean_labels(raw)
        if metric.level is not Level.PORT and uuid_of(labels) and gpu_of(labels, self._place) is None:
            labels["hostname"] = self._hosts.get(uuid_of(labels), UNKNOWN_NODE)
        entity = entity_of(metric, labels, self._place, source)
        if not entity:
            return f"{name} does not tell which device it belongs to"
        gpu = gpu_of(labels, self._place) if metric.level in (Level.GPU, Level.DEVICE) else None
        index = index_of(labels)
        if gpu is not None and index is not None:
            self._indices[(gpu, index, labels.get(PROFILE_LABEL, ""))] = None
        return Meaning(
            key=SeriesKey(metric.name, entity),
            metric=metric,
            source=source,
            limits=Limits.of([known]),
            part=part_of(metric, name, labels),
            gpu=gpu,
            owner=owner_of(labels, self._rules) if gpu is not None else None,
        )

    def _learn_hosts(self, answers: Sequence[Answer]) -> None:
        """Old exporters print no host; another series of the same card may tell it."""
        for series in (series for answer in answers for series in answer.series):
            self._learn_host(series.labels)

    def _learn_host(self, labels: dict[str, str]) -> None:
        uuid = uuid_of(labels)
        if uuid and uuid not in self._hosts:
            gpu = gpu_of(clean_labels(labels), self._place)
            if gpu is not None:
                self._hosts[uuid] = gpu.node

    def _judge(self, series: AnswerSeries, meaning: Meaning, start_s: float, end_s: float) -> Piece:
        inside = (series.at_s >= start_s) & (series.at_s <= end_s)
        at_s, printed = series.at_s[inside], series.value[inside]
        value, reason = judge(printed, meaning.limits)
        sliced = meaning.gpu is not None and meaning.gpu.mig
        if sliced and meaning.metric.level is Level.GPU and meaning.metric.unit == "ratio":
            value[:], reason[:] = np.nan, Reason.NOT_MEASURED
        elif sliced and meaning.source.zero_on_slice:
            zero = printed == 0
            value[zero], reason[zero] = np.nan, Reason.NOT_MEASURED
        return Piece(meaning, at_s, value, reason)

    def _mark_first_reading(self, meaning: Meaning, at_s: FloatArray, value: FloatArray, reason: CodeArray) -> None:
        """The first zero of a series that starts means "no earlier reading"."""
        if not meaning.source.zero_first:
            return
        last_s = self._last_at_s.get(meaning.key, -np.inf)
        if at_s[0] - last_s > _NEW_AFTER_S and value[0] == 0.0:
            value[0], reason[0] = np.nan, Reason.FIRST_READING
        self._last_at_s[meaning.key] = max(last_s, float(at_s[-1]))


def _note_reasons(key: SeriesKey, reason: CodeArray, notes: dict[tuple[Problem, str], int]) -> None:
    for why, problem in PROBLEM_OF.items():
        count = int((reason == why).sum())
        if count:
            note = (problem, f"{key.metric} is missing: {why.name.lower().replace('_', ' ')}")
            notes[note] = notes.get(note, 0) + count


def _sightings(pieces: dict[SeriesKey, list[Piece]]) -> tuple[Sighting, ...]:
    times: dict[GpuId, GpuTimes] = {}
    for piece in (piece for group in pieces.values() for piece in group):
        gpu = piece.meaning.gpu
        if gpu is not None:
            busy = piece.value if piece.meaning.metric.name in BUSY_METRICS else None
            times.setdefault(gpu, GpuTimes()).add(piece.meaning.owner, piece.at_s, busy)
    sliced = {gpu.card for gpu in times if gpu.mig}
    found = [s for gpu, seen in sorted(times.items()) if gpu not in sliced for s in sightings_of(gpu, seen)]
    return tuple(found)

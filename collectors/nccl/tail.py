"""Reads NCCL Inspector's files as they grow; every record counts once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from collectors.aside import call_aside
from collectors.nccl.collectives import Collective, CollectiveLedger
from collectors.nccl.communicators import CommunicatorView, Roll
from collectors.nccl.inspector import InspectorRecord, parse_lines
from collectors.nccl.lines import MIB, FileLines, LineTail
from collectors.nccl.samples import PROVIDES, BatchMaker, Row, notes_of_records, rows_of_collective, rows_of_record
from collectors.nccl.sequences import SETTLE_S, Arrival, SequenceLedger
from telemetry.errors import ConfigError
from telemetry.ids import CollectiveId, CommunicatorId, SeriesKey
from telemetry.samples import Finding, Problem, SampleBatch, Window

STATE_VERSION = 1
_MOST_STATE_BYTES = 256 * MIB


class InspectorTail:
    """A collector of NCCL Inspector's JSON lines.

    A rank's record becomes a sample at once; a collective's when all of its ranks' records are there or no more have
    come for ``settle_s``. What a batch was made of is written to ``state_file`` with the next collection, when that
    batch has been taken: a crash in between gives the same samples once more, which a store keeps once.

    Args:
        roots: the plug-in's dump folder or folders (NCCL_INSPECTOR_DUMP_DIR), folders of such folders, or files.
        state_file: where the position in every file is kept over a restart; nowhere when None.
        settle_s: how long to wait for other ranks' records and for holes in the numbers to be filled.
        max_bytes_per_poll: read at most this much at once; the rest comes with the next collection.
        max_line_bytes: a longer line is left out and counted.
        max_files: more are left out and counted.

    Raises:
        ConfigError: no root given.
    """

    def __init__(
        self,
        roots: str | Path | Sequence[str | Path],
        *,
        state_file: Path | None = None,
        settle_s: float = SETTLE_S,
        max_bytes_per_poll: int = 16 * MIB,
        max_line_bytes: int = MIB,
        max_files: int = 10_000,
    ) -> None:
        given = [roots] if isinstance(roots, str | Path) else list(roots)
        if not given:
            raise ConfigError("no folder of NCCL Inspector is given", mend="Give NCCL_INSPECTOR_DUMP_DIR's value")
        self.name = "nccl-inspector:" + ",".join(str(root) for root in given)
        self.provides = PROVIDES
        self._settle_s = settle_s
        self._lines = LineTail(
            [Path(root) for root in given],
            max_bytes_per_poll=max_bytes_per_poll,
            max_line_bytes=max_line_bytes,
            max_files=max_files,
        )
        self._sequences = SequenceLedger()
        self._collectives = CollectiveLedger(settle_s)
        self._roll = Roll()
        self._maker = BatchMaker(self.name)
        self._missed: dict[tuple[str, str], int] = {}
        self._late_told = 0
        self._state_file = state_file
        self._unsaved = self._ever = False
        self._notes: list[Finding] = []
        self._shown: tuple[tuple[CommunicatorView, ...], dict[tuple[str, str], int]] = ((), {})
        """Whole and never changed afterwards: other threads look at it while records are read."""
        if state_file is not None:
            self._load(state_file)

    async def collect(self, window: Window) -> SampleBatch:
        """What was written since the last collection, as far as it lies in the window."""
        return await call_aside(self.collect_now, window)

    def collect_now(self, window: Window) -> SampleBatch:
        """``collect`` without a loop; blocks on the disk."""
        self.save()
        given, notes = self._lines.poll()
        findings = self._notes + [Finding(problem, self.name, text, count) for problem, text, count in notes]
        self._notes = []
        rows: list[Row] = []
        touched: dict[tuple[str, str], float] = {}
        for part in given:
            rows += self._take(part, window.end_s, findings, touched)
        rows += self._settle(window.end_s)
        rows += self._missed_rows(window.end_s, touched)
        if given or rows:
            self._shown = (self._roll.views(), dict(self._missed))
        self._unsaved = self._unsaved or bool(given) or bool(rows)
        self._ever = self._ever or bool(given)
        if not self._ever and not findings:
            text = f"no record yet, in {self._lines.n_files} files; is this NCCL_INSPECTOR_DUMP_DIR?"
            findings.append(Finding(Problem.EMPTY, self.name, text))
        return self._maker.batch(rows, window, tuple(_merged(findings)))

    def communicators(self) -> tuple[CommunicatorView, ...]:
        """Who takes part in what, as the records read so far tell."""
        return self._shown[0]

    def missed(self) -> dict[tuple[str, str], int]:
        """(communicator hash, operation) -> operations that no record describes, over all ranks read."""
        return self._shown[1]

    def state(self) -> dict[str, Any]:
        """Where every file and count stands, as JSON values; the next record read is the first one after it."""
        return {
            "version": STATE_VERSION,
            "lines": self._lines.state(),
            "sequences": self._sequences.state(),
            "collectives": self._collectives.state(),
            "names": self._roll.names(),
            "missed": [[*key, count] for key, count in self._missed.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was taken.

        Raises:
            ConfigError: not such a state.
        """
        try:
            if state["version"] != STATE_VERSION:
                raise ValueError(f"version {state['version']!r}")
            sequences, collectives = SequenceLedger(), CollectiveLedger(self._settle_s)
            sequences.restore(state["sequences"])
            collectives.restore(state["collectives"])
            names = {str(number): str(name) for number, name in state["names"].items()}
            missed = {(str(number), str(op)): int(count) for number, op, count in state["missed"]}
            self._lines.restore(state["lines"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ConfigError(f"this is no state of an Inspector reader ({error})", mend="Delete it") from error
        self._sequences, self._collectives, self._missed = sequences, collectives, missed
        self._roll.remember(names)
        self._ever = True

    def save(self) -> None:
        """Write the state file, when there is one and something was read since; a disk that refuses is told of."""
        if self._state_file is None or not self._unsaved:
            return
        beside = self._state_file.with_name(self._state_file.name + ".new")
        try:
            beside.write_bytes(orjson.dumps(self.state()))
            os.replace(beside, self._state_file)
        except OSError as error:
            text = f"the positions cannot be kept in {self._state_file}: {error.strerror or error}"
            self._notes.append(Finding(Problem.WARNING, self.name, text))
        else:
            self._unsaved = False

    def close(self) -> None:
        """Keep the state; call it when the last batch was taken."""
        self.save()

    def _take(
        self, part: FileLines, now_s: float, findings: list[Finding], touched: dict[tuple[str, str], float]
    ) -> list[Row]:
        dump = parse_lines(part.lines)
        findings += dump.findings(self.name)
        fresh: list[InspectorRecord] = []
        rows: list[Row] = []
        for record in dump.records:
            name = self._roll.note(record, part.path)
            if record.peer is None:
                arrival, epoch = self._sequences.add(record, part.stream, now_s)
                if arrival is Arrival.REPEATED:
                    findings.append(Finding(Problem.DUPLICATE_SERIES, self.name, "a record that was read before"))
                    continue
                kind = (record.communicator.hash, record.operation)
                touched[kind] = max(touched.get(kind, 0.0), record.written_s)
                done = self._collectives.add(record, epoch, now_s)
                rows += rows_of_collective(_named(done, name)) if done is not None else []
            fresh.append(record)
            rows += rows_of_record(record, name)
        findings += notes_of_records(fresh, self.name)
        late, self._late_told = self._collectives.late - self._late_told, self._collectives.late
        if late:
            text = "records of collectives that had been given away without them; their ranks' own times are kept"
            findings.append(Finding(Problem.PARTIAL, self.name, text, late))
        return rows

    def _settle(self, now_s: float) -> list[Row]:
        done = self._collectives.settle(now_s, self._roll.names())
        return [row for one in done for row in rows_of_collective(one)]

    def _missed_rows(self, now_s: float, touched: dict[tuple[str, str], float]) -> list[Row]:
        """The missed counts that are new or have grown."""
        names = self._roll.names()
        rows: list[Row] = []
        for kind, count in self._sequences.missed(now_s, self._settle_s).items():
            if self._missed.get(kind) == count:
                continue
            # Beside the newest record a first count begins its series; a hole that closes has no record's time.
            at_s = touched[kind] if kind in touched and kind not in self._missed else now_s
            self._missed[kind] = count
            entity = str(CollectiveId(CommunicatorId(names.get(kind[0], "unknown"), kind[0]), kind[1]))
            rows.append((SeriesKey("nccl_missed_total", entity), at_s, float(count)))
        return rows

    def _load(self, path: Path) -> None:
        try:
            if path.stat().st_size > _MOST_STATE_BYTES:
                raise ConfigError(f"larger than {_MOST_STATE_BYTES // MIB} MiB", mend="Delete it")
            self.restore(orjson.loads(path.read_bytes()))
        except FileNotFoundError:
            return
        except (OSError, ConfigError, orjson.JSONDecodeError) as error:
            text = f"the positions in {path} cannot be used, so that files are read from their beginning: {error}"
            self._notes.append(Finding(Problem.WARNING, self.name, text))


def _named(one: Collective, name: str) -> Collective:
    return replace(one, id=replace(one.id, communicator=CommunicatorId(name, one.id.communicator.hash)))


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with the counts of equal sentences added."""
    counts: dict[tuple[Problem, str, str], int] = {}
    for finding in findings:
        key = (finding.problem, finding.source, finding.detail)
        counts[key] = counts.get(key, 0) + finding.count
    return [Finding(problem, source, text, count) for (problem, source, text), count in counts.items()]

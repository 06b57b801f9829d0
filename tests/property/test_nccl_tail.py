"""Whatever is done to Inspector's files, in whatever order: each record once, also over restarts of the reader."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.nccl.tail import InspectorTail
from telemetry.samples import Problem, Window, validate_batch
from tests.kit.nccl import START_S, record

NOW = Window(START_S - 1e6, START_S + 1e6)
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "tear", "rename", "copy", "replace", "poll", "poll", "restart"]),
        st.integers(0, 1),
        st.integers(1, 4),
    ),
    max_size=40,
)


class World:
    """Two ranks' files, and a reader of their folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.next = 0
        self.turn = 0
        self.torn = [b"", b""]
        self.written: list[int] = []
        self.got: list[int] = []
        self.tail = InspectorTail(folder, max_bytes_per_poll=2_000, max_line_bytes=1_000)

    def path(self, rank: int) -> Path:
        return self.folder / f"n1-pid{rank}.log"

    def append(self, rank: int, count: int) -> None:
        """Whole records, after the rest of a torn one."""
        text, self.torn[rank] = self.torn[rank], b""
        for _ in range(count):
            text += self.fresh(rank)
        with self.path(rank).open("ab") as file:
            file.write(text)

    def tear(self, rank: int) -> None:
        """The beginning of a record; its rest comes with the next append."""
        if not self.torn[rank]:
            text = self.fresh(rank)
            with self.path(rank).open("ab") as file:
                file.write(text[: len(text) // 2])
            self.torn[rank] = text[len(text) // 2 :]

    def move_away(self, rank: int, how: str) -> None:
        """Rotation, once everything is whole and read: what a log rotation may lose is not ours to keep."""
        self.append(rank, 0)
        self.turn += 1
        away = self.folder / f"n1-pid{rank}.log.{self.turn}"
        if not self.path(rank).exists():
            return
        if how == "rename":
            self.path(rank).rename(away)
        elif how == "copy":
            away.write_bytes(self.path(rank).read_bytes())
            self.path(rank).write_bytes(b"")
        else:
            self.drain()
            fresh = self.folder / "fresh"
            fresh.write_bytes(self.fresh(rank))
            fresh.replace(self.path(rank))

    def poll(self) -> None:
        batch = self.tail.collect_now(NOW)
        validate_batch(batch)
        assert Problem.DUPLICATE_SERIES not in {finding.problem for finding in batch.findings}, "read twice"
        self.got += [
            round((at_s - START_S) * 1e3)
            for series, at_s in zip(batch.series, batch.at_s, strict=True)
            if batch.keys[series].metric == "nccl_rank_exec_time_s"
        ]

    def drain(self) -> None:
        for _ in range(60):
            before = len(self.got)
            self.poll()
            if len(self.got) == before and len(self.got) >= len(self.written):
                return

    def restart(self) -> None:
        state = json.loads(json.dumps(self.tail.state()))
        self.tail = InspectorTail(self.folder, max_bytes_per_poll=2_000, max_line_bytes=1_000)
        self.tail.restore(state)

    def fresh(self, rank: int) -> bytes:
        self.next += 1
        self.written.append(self.next)
        return record(self.next, rank=rank, n_ranks=2, pid=rank)


@given(ACTIONS)
@settings(max_examples=150, deadline=None)
def test_each_record_once(actions: list[tuple[str, int, int]]) -> None:
    """Appended, torn, rotated either way, replaced, read in small pieces, the reader restarted in between."""
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name))
        for what, rank, count in actions:
            if what == "append":
                world.append(rank, count)
            elif what == "tear":
                world.tear(rank)
            elif what == "poll":
                world.poll()
            elif what == "restart":
                world.restart()
            else:
                world.move_away(rank, what)
        world.append(0, 1)
        world.append(1, 1)
        world.drain()

        assert sorted(world.got) == world.written

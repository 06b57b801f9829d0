"""Topology sources of a running service: read when they change, kept when they fail, merged as one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from collectors.topology.files import ChangedFile
from collectors.topology.live import TopologyBook, TopologySource
from telemetry.samples import Problem, SampleBatch, Window

TREE = "SwitchName=leaf-1 Nodes=n[1-2]\nSwitchName=leaf-2 Nodes=n[3-4]\nSwitchName=spine Switches=leaf-[1-2]\n"
OTHER = TREE.replace("n[1-2]", "n1").replace("n[3-4]", "n[2-4]")


def _sources(paths: Sequence[Path], book: TopologyBook) -> list[TopologySource]:
    return [TopologySource(str(path), "", ChangedFile(str(path), 5.0), book, 5.0) for path in paths]


def _book(paths: Sequence[Path], keep: Path | None = None) -> TopologyBook:
    return TopologyBook([(str(path), "") for path in paths], keep)


async def _look(sources: Sequence[TopologySource], at_s: float) -> list[SampleBatch]:
    return [await source.collect(Window(at_s, at_s)) for source in sources]


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    """And what it tells then replaces what it told before."""
    path = tmp_path / "topology.conf"
    path.write_text(TREE)
    book = _book([path])

    async def run() -> None:
        sources = _sources([path], book)
        await _look(sources, 1.0)
        first = book.topology
        assert first.leaf_of == {"n1": "leaf-1", "n2": "leaf-1", "n3": "leaf-2", "n4": "leaf-2"}
        await _look(sources, 2.0)
        assert book.topology is first
        path.write_text(OTHER)
        os.utime(path, (9, 9))
        await _look(sources, 3.0)
        assert book.topology.leaf_of["n2"] == "leaf-2"

    asyncio.run(run())


def test_a_file_that_came_too_late_is_read_again(tmp_path: Path) -> None:
    """A slow disk once does not leave the file out until somebody changes it."""
    path = tmp_path / "topology.conf"
    path.write_text(TREE)
    changed = ChangedFile(str(path), 5.0)

    async def run() -> bytes | None:
        waiting = asyncio.ensure_future(changed())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0.05)  # the reading goes on, and its end is seen by nobody
        return await changed()

    assert asyncio.run(run()) == TREE.encode()


def test_a_source_that_fails_is_used_as_it_was_with_its_age(tmp_path: Path) -> None:
    """It is down in the meantime, with the sentence; a restart finds the last good content on disk."""
    path, keep = tmp_path / "topology.conf", tmp_path / "kept.json"
    path.write_text(TREE)

    async def run() -> None:
        book = _book([path], keep)
        sources = _sources([path], book)
        assert (await _look(sources, 10.0))[0].findings == ()
        path.unlink()
        for at_s in (20.0, 30.0):
            (batch,) = await _look(sources, at_s)
            assert batch.findings[0].problem is Problem.UNREACHABLE
            assert "cannot be read: No such file" in batch.findings[0].detail
        (state,) = book.states(40.0)
        assert (state.age_s, bool(state.error)) == (30.0, True)
        assert book.topology.leaf_of["n1"] == "leaf-1"

        again = _book([path], keep)
        await _look(_sources([path], again), 50.0)
        assert again.topology.leaf_of["n1"] == "leaf-1"
        assert again.states(60.0)[0].age_s == 50.0

    asyncio.run(run())


def test_content_that_is_no_topology_stays_a_finding_while_the_file_stays(tmp_path: Path) -> None:
    """A source that is looked at again without a change is no better than before."""
    path = tmp_path / "topology.conf"
    path.write_text("hello\n")

    async def run() -> None:
        sources = _sources([path], _book([path]))
        for at_s in (1.0, 2.0):
            (batch,) = await _look(sources, at_s)
            assert [finding.problem for finding in batch.findings] == [Problem.NOT_TEXT]
            assert "no topology format" in batch.findings[0].detail

    asyncio.run(run())


def test_the_first_source_is_trusted_and_the_other_is_a_conflict(tmp_path: Path) -> None:
    """Whichever was read first."""
    first, second = tmp_path / "first.conf", tmp_path / "second.conf"
    first.write_text(TREE)
    second.write_text(OTHER)

    async def run() -> None:
        book = _book([first, second])
        await _look(list(reversed(_sources([first, second], book))), 1.0)
        assert book.topology.leaf_of["n2"] == "leaf-1"
        assert any(conflict.subject == "n2" for conflict in book.topology.conflicts)

    asyncio.run(run())


def test_a_source_that_hangs_is_given_up(tmp_path: Path) -> None:
    """With the time that was waited."""

    async def never() -> bytes | None:
        await asyncio.sleep(60)
        return None

    async def run() -> None:
        source = TopologySource("slurm", "", never, TopologyBook([("slurm", "")]), 0.05)
        (batch,) = await _look([source], 1.0)
        assert batch.findings[0].problem is Problem.TIMEOUT

    asyncio.run(run())


def test_a_kept_file_of_something_else_is_said(tmp_path: Path) -> None:
    """And costs nothing but the memory of the last good contents."""
    keep = tmp_path / "kept.json"
    keep.write_text("[]")
    book = _book([], keep)
    assert "cannot be used" in book.problem

"""Growing Inspector files: whatever happens to them, each record counts once."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from collectors.nccl.tail import InspectorTail
from telemetry.errors import ConfigError
from telemetry.ids import JobId
from telemetry.samples import Problem, SampleBatch, Window, validate_batch
from tests.kit.nccl import START_S, p2p_record, record

LONG = Window(START_S - 60.0, START_S + 60.0)


class Reader:
    """An ``InspectorTail`` and all that it has given."""

    def __init__(self, tail: InspectorTail) -> None:
        self.tail = tail
        self.batches: list[SampleBatch] = []

    def poll(self, now_s: float = START_S + 60.0) -> list[int]:
        """Sequence numbers of the rank records that are new, told by their times."""
        batch = self.tail.collect_now(Window(START_S - 1e6, now_s))
        validate_batch(batch)
        self.batches.append(batch)
        return sorted(
            round((at_s - START_S) * 1e3)
            for series, at_s in zip(batch.series, batch.at_s, strict=True)
            if batch.keys[series].metric == "nccl_rank_exec_time_s"
        )

    @property
    def problems(self) -> list[Problem]:
        return [finding.problem for finding in self.batches[-1].findings]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nccl-inspector-8123").mkdir()
    return tmp_path / "nccl-inspector-8123"


@pytest.fixture
def reader(folder: Path) -> Reader:
    return Reader(InspectorTail(folder.parent))


def _lines(*sequences: int, **more: object) -> bytes:
    return b"".join(record(n, **more) for n in sequences)  # type: ignore[arg-type]


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_what_is_appended_comes_once(folder: Path, reader: Reader) -> None:
    """Records, then nothing, then the new ones."""
    _append(folder / "a.log", _lines(0, 1))
    assert reader.poll() == [0, 1]
    assert reader.poll() == []
    _append(folder / "a.log", _lines(2))
    assert reader.poll() == [2]


def test_a_torn_line_is_read_when_it_is_whole(folder: Path, reader: Reader) -> None:
    """Half a record is none yet; it is told of when it does not grow, and read when it does."""
    text = _lines(0, 1)
    _append(folder / "a.log", text[: len(text) - 90])
    assert reader.poll() == [0]
    assert reader.problems == []
    assert reader.poll() == []
    assert reader.problems == [Problem.TORN]
    assert reader.poll() == []
    assert reader.problems == []
    _append(folder / "a.log", text[len(text) - 90 :])
    assert reader.poll() == [1]


def test_a_last_line_without_an_end_is_whole_when_its_json_is(folder: Path, reader: Reader) -> None:
    """A writer that was killed between the brace and the newline lost nothing."""
    _append(folder / "a.log", _lines(0, 1).rstrip())
    assert reader.poll() == [0, 1]
    _append(folder / "a.log", b"\n" + _lines(2))
    assert reader.poll() == [2]


def test_rotation_by_rename(folder: Path, reader: Reader) -> None:
    """The old file goes on under its new name, the new one starts."""
    path = folder / "a.log"
    _append(path, _lines(0, 1))
    assert reader.poll() == [0, 1]
    _append(path, _lines(2))
    path.rename(folder / "a.log.1")
    _append(folder / "a.log.1", _lines(3))
    _append(path, _lines(4, 5))
    assert reader.poll() == [2, 3, 4, 5]
    assert reader.poll() == []


def test_rotation_by_copy_and_truncate(folder: Path, reader: Reader) -> None:
    """The copy goes on where the original stood; what is written after the cut is new."""
    path = folder / "a.log"
    _append(path, _lines(0, 1))
    assert reader.poll() == [0, 1]
    _append(path, _lines(2))
    shutil.copy(path, folder / "a.log.1")
    os.truncate(path, 0)
    assert reader.poll() == [2]
    _append(path, _lines(3))
    assert reader.poll() == [3]
    assert reader.poll() == []


def test_truncated_and_written_beyond_its_old_length(folder: Path, reader: Reader) -> None:
    """A file that is cut and grows past the old place between two polls is seen to be another."""
    path = folder / "a.log"
    _append(path, _lines(0, 1))
    assert reader.poll() == [0, 1]
    path.write_bytes(_lines(*range(10, 20)))
    assert reader.poll() == list(range(10, 20))


@pytest.mark.parametrize("count", [2, 9])
def test_a_job_that_starts_again_in_the_same_file(folder: Path, reader: Reader, count: int) -> None:
    """Numbers from 0 again, at later times: all are new, and no gap is counted."""
    path = folder / "a.log"
    _append(path, _lines(*range(5)))
    assert reader.poll() == list(range(5))
    path.write_bytes(b"".join(record(n, at_s=START_S + 20 + n * 1e-3) for n in range(count)))
    assert reader.poll() == [20_000 + n for n in range(count)]
    reader.poll(START_S + 500.0)
    assert _missed(reader) == 0


def test_a_first_line_that_stays_the_same(folder: Path, reader: Reader) -> None:
    """A file cut back to its first record and written on: the first is not repeated for nothing, the others come."""
    path = folder / "a.log"
    _append(path, _lines(0, 1, 2))
    assert reader.poll() == [0, 1, 2]
    path.write_bytes(
        _lines(0) + record(1, at_s=START_S + 20) + record(2, at_s=START_S + 21) + record(3, at_s=START_S + 22)
    )
    assert [n for n in reader.poll() if n > 0] == [20_000, 21_000, 22_000]


def test_a_replaced_file(folder: Path, reader: Reader) -> None:
    """Another inode at the same path, shorter or longer."""
    path = folder / "a.log"
    for start in (0, 10, 30):
        (folder / "fresh").write_bytes(_lines(*range(start, start + 3 + start // 2)))
        (folder / "fresh").replace(path)
        assert reader.poll() == list(range(start, start + 3 + start // 2))


def test_a_copy_is_no_news(folder: Path, reader: Reader) -> None:
    """A backup beside the file, whole or half, repeats nothing."""
    _append(folder / "a.log", _lines(0, 1, 2))
    assert reader.poll() == [0, 1, 2]
    (folder / "b.log").write_bytes(_lines(0, 1, 2))
    (folder / "c.log").write_bytes(_lines(0, 1))
    assert reader.poll() == []


def test_files_that_come_late_and_go(folder: Path, reader: Reader) -> None:
    """A host that starts late, a file that vanishes and comes back."""
    _append(folder / "a.log", _lines(0, 1, rank=0, n_ranks=2))
    assert reader.poll() == [0, 1]
    _append(folder / "b.log", _lines(0, 1, rank=1, n_ranks=2, host="n2"))
    assert reader.poll() == [0, 1]
    (folder / "a.log").rename(folder.parent / "aside")
    assert reader.poll() == []
    (folder.parent / "aside").rename(folder / "a.log")
    _append(folder / "a.log", _lines(2, rank=0, n_ranks=2))
    assert reader.poll() == [2]


def test_a_huge_file_is_read_in_pieces(folder: Path) -> None:
    """A bounded read per poll, the place kept, other files not starved, nothing lost."""
    reader = Reader(InspectorTail(folder, max_bytes_per_poll=100_000, max_line_bytes=2_000))
    (folder / "a.log").write_bytes(_lines(*range(2_000)))
    (folder / "b.log").write_bytes(_lines(5_000, rank=1, n_ranks=2))
    got: list[int] = []
    polls = 0
    while fresh := reader.poll():
        got += fresh
        polls += 1
        if polls == 2:
            assert 5_000 in got
    assert sorted(got) == [*range(2_000), 5_000]
    assert polls > 5


def test_a_line_without_an_end(folder: Path) -> None:
    """It is left out and counted once, however long it gets; the lines behind it are read."""
    reader = Reader(InspectorTail(folder, max_bytes_per_poll=100_000, max_line_bytes=10_000))
    _append(folder / "a.log", _lines(0) + b"x" * 500_000)
    got = reader.poll()
    told = list(reader.problems)
    for _ in range(8):
        got += reader.poll()
        told += reader.problems
    assert (got, told.count(Problem.TOO_LARGE)) == ([0], 1)
    _append(folder / "a.log", b"yyy\n" + _lines(1))
    assert reader.poll() == [1]


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_restart_of_the_reader_neither_repeats_nor_loses(folder: Path, cut: int) -> None:
    """State to JSON and back at any point of a file that grows by odd pieces."""
    text = _lines(*range(12), rank=0, n_ranks=2)
    path = folder / "a.log"
    step = 170 + 31 * cut
    got: list[int] = []
    reader = Reader(InspectorTail(folder))
    for start in range(0, len(text), step):
        _append(path, text[start : start + step])
        got += reader.poll()
        assert Problem.DUPLICATE_SERIES not in reader.problems
        if (start // step) % cut == 0:
            state = json.loads(json.dumps(reader.tail.state()))
            reader = Reader(InspectorTail(folder))
            reader.tail.restore(state)
    assert got == list(range(12))


def test_the_state_file_is_written_when_the_batch_was_taken(folder: Path, tmp_path: Path) -> None:
    """A crash before the next collection gives the same samples again; one after it gives none twice."""
    state = tmp_path / "state.json"
    _append(folder / "a.log", _lines(0, 1))
    first = Reader(InspectorTail(folder, state_file=state))
    assert first.poll() == [0, 1]
    again = Reader(InspectorTail(folder, state_file=state))
    assert again.poll() == [0, 1]
    np.testing.assert_array_equal(first.batches[0].at_s, again.batches[0].at_s)
    assert again.poll() == []
    assert Reader(InspectorTail(folder, state_file=state)).poll() == []


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"version":9}', b'{"version":1,"lines":[]}', b"\xff" * 50])
def test_a_state_that_is_none(folder: Path, tmp_path: Path, text: bytes) -> None:
    """A spoilt state file is told of, and the files are read from their beginning."""
    (tmp_path / "state.json").write_bytes(text)
    _append(folder / "a.log", _lines(0))
    reader = Reader(InspectorTail(folder, state_file=tmp_path / "state.json"))

    assert reader.poll() == [0]
    assert "read from their beginning" in reader.batches[0].findings[0].detail
    with pytest.raises(ConfigError, match="no state"):
        reader.tail.restore({"version": 2})


def test_missed_operations_become_a_counter(folder: Path, reader: Reader) -> None:
    """It begins at 0 and grows when a hole has stayed open."""
    _append(folder / "a.log", _lines(0, 4))
    reader.poll(START_S + 1.0)
    assert _missed(reader) == 0
    reader.poll(START_S + 40.0)
    assert _missed(reader) == 3


def test_a_collective_of_two_hosts(folder: Path, reader: Reader) -> None:
    """Its samples come when the second host's record is there, by the slower rank."""
    _append(folder / "a.log", _lines(0, rank=0, n_ranks=2, time_us=100))
    reader.poll()
    assert "nccl_exec_time_s" not in {key.metric for key in reader.batches[-1].keys}
    _append(folder / "b.log", _lines(0, rank=1, n_ranks=2, time_us=250, host="n2"))
    reader.poll()
    values = _values(reader.batches[-1])
    assert values["nccl_exec_time_s", "dp:0xabc:AllReduce"] == 250e-6
    assert values["nccl_straggler_lag_s", "dp:0xabc:AllReduce"] == pytest.approx(150e-6)
    assert values["nccl_busbw_bytes_per_s", "dp:0xabc:AllReduce"] == pytest.approx(4e9)
    assert values["nccl_rank_exec_time_s", "dp:0xabc:AllReduce:1"] == 250e-6


def test_a_name_told_later_or_not_at_all(folder: Path, reader: Reader) -> None:
    """Records of one communicator with and without its name are one series."""
    _append(folder / "a.log", _lines(0) + record(1, name=None))
    reader.poll()
    assert {key.entity for key in reader.batches[-1].keys if key.metric == "nccl_exec_time_s"} == {"dp:0xabc:AllReduce"}


def test_who_takes_part(folder: Path, reader: Reader) -> None:
    """The job from the folder's name; host and process for a join."""
    _append(folder / "a.log", _lines(0, n_ranks=2))
    _append(folder / "b.log", _lines(0, rank=1, n_ranks=2, host="n2", pid=9))
    reader.poll()
    (view,) = reader.tail.communicators()

    assert (str(view.id), view.n_ranks, view.job) == ("dp:0xabc", 2, JobId("slurm", "8123"))
    assert [(m.rank, m.host, m.pid) for m in view.members] == [(0, "n1", 7), (1, "n2", 9)]


def test_a_send_is_a_sample_of_its_rank(folder: Path, reader: Reader) -> None:
    """Point to point operations have no other rank to wait for."""
    _append(folder / "a.log", p2p_record(3))
    assert reader.poll() == [3]
    assert _values(reader.batches[-1])["nccl_busbw_bytes_per_s", "dp:0xabc:Send:0"] == pytest.approx(1e10)


def test_records_written_at_one_instant_are_apart(folder: Path, reader: Reader) -> None:
    """All of a ring is written at once at a job's end; none of it is lost for that."""
    _append(folder / "a.log", b"".join(record(n, at_s=START_S, time_us=100 + n) for n in range(50)))
    reader.poll()
    batch = reader.batches[-1]
    mine = [i for i, s in enumerate(batch.series) if batch.keys[s].metric == "nccl_rank_exec_time_s"]
    order = np.argsort(batch.at_s[mine])

    assert len(set(batch.at_s[mine].tolist())) == 50
    np.testing.assert_allclose(batch.value[mine][order], (100 + np.arange(50)) / 1e6)
    assert batch.at_s[mine].max() == START_S
    assert batch.at_s[mine].min() > START_S - 1e-3


def test_times_outside_of_the_window(folder: Path) -> None:
    """Too old is left out and counted; ahead of our clock gets the time of arrival."""
    _append(folder / "a.log", record(0, at_s=START_S - 500) + record(1) + record(2, at_s=START_S + 900))
    batch = InspectorTail(folder).collect_now(LONG)

    assert sorted({round(t - START_S) for t in batch.at_s}) == [0, 60]
    assert {f.problem for f in batch.findings} == {Problem.PARTIAL, Problem.CLOCK_AHEAD}


def test_files_that_are_none_of_the_plug_ins(folder: Path, reader: Reader) -> None:
    """Other names, pipes and links to nowhere are passed by; deeper folders are not searched for ever."""
    (folder / "nccl_inspector_metrics_1.prom").write_bytes(_lines(0))
    os.mkfifo(folder / "pipe.log")
    (folder / "gone.log").symlink_to(folder / "nowhere")
    (folder / "loop").symlink_to(folder)
    deep = folder / "1" / "2" / "3" / "4"
    deep.mkdir(parents=True)
    (deep / "a.log").write_bytes(_lines(1))
    assert reader.poll() == []
    assert reader.problems == [Problem.EMPTY]


def test_too_many_files(folder: Path) -> None:
    """Those above the limit are left out and told of."""
    for n in range(5):
        (folder / f"{n}.log").write_bytes(_lines(n, comm=hex(n + 1)))
    reader = Reader(InspectorTail(folder, max_files=3))

    assert len(reader.poll()) == 3
    assert Problem.TOO_LARGE in reader.problems


def test_a_file_as_the_root_and_a_root_that_is_missing(folder: Path) -> None:
    """A single file may be given; a folder that is not there is told of and may come later."""
    path = folder / "odd-name"
    path.write_bytes(_lines(0))
    reader = Reader(InspectorTail([path, folder.parent / "later"]))
    assert reader.poll() == [0]
    assert reader.problems == [Problem.UNREACHABLE]
    (folder.parent / "later").mkdir()
    _append(folder.parent / "later" / "b.log", _lines(1, rank=1, n_ranks=2))
    assert reader.poll() == [1]
    with pytest.raises(ConfigError, match="no folder"):
        InspectorTail([])


def test_collect_runs_beside_the_loop(folder: Path) -> None:
    """The seam's own method gives the same."""
    _append(folder / "a.log", _lines(0))

    assert len(asyncio.run(InspectorTail(folder).collect(LONG))) == 6


def _values(batch: SampleBatch) -> dict[tuple[str, str], float]:
    return {
        (batch.keys[series].metric, batch.keys[series].entity): float(value)
        for series, value in zip(batch.series, batch.value, strict=True)
    }


def _missed(reader: Reader) -> float:
    """The newest missed count."""
    for batch in reversed(reader.batches):
        values = _values(batch)
        if ("nccl_missed_total", "dp:0xabc:AllReduce") in values:
            return values["nccl_missed_total", "dp:0xabc:AllReduce"]
    raise AssertionError("no missed count was given")

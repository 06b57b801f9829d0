"""NCCL Inspector's text files on node_exporter's page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from telemetry.ids import CollectiveId
from telemetry.samples import Problem, Reason, SampleBatch, validate_batch

NOW_S = 1_767_225_600.0
LABELS = 'slurm_job_id="8123",node="n1",gpu="GPU0",comm_name="dp",n_nodes="2",nranks="16"'
BUSBW = f'nccl_bus_bandwidth_gbs{{{LABELS},collective="AllReduce",message_size="1-2GB",algo_proto="Ring_ll"}}'
TIME = BUSBW.replace("nccl_bus_bandwidth_gbs", "nccl_collective_exec_time_microseconds")
SEND = f'nccl_p2p_bus_bandwidth_gbs{{{LABELS},p2p_operation="Send",message_size="4-5MB"}}'
POWER = 'DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1",Hostname="n1"} 70'


def _mtime(name: str, age_s: float) -> str:
    return f'node_textfile_mtime_seconds{{file="/var/lib/node/{name}"}} {NOW_S - age_s}'


def _read(*lines: str, now_s: float = NOW_S) -> SampleBatch:
    page = "".join(f"{line}\n" for line in lines).encode()
    batch = FieldMapper("page", Place()).batch(PageParser().parse(page), now_s)
    validate_batch(batch)
    return batch


def _values(batch: SampleBatch) -> dict[tuple[str, str], float]:
    return {
        (batch.keys[s].metric, batch.keys[s].entity): float(v) for s, v in zip(batch.series, batch.value, strict=True)
    }


def test_units_and_names() -> None:
    """GB are 10^9 bytes; job, GPU, host, size and algorithm tell series apart."""
    batch = _read(f"{BUSBW} 178.2", f"{TIME} 11298.4", f"{SEND} 41.9")
    entity = "dp:slurm-8123:AllReduce:GPU0@n1:1-2GB.Ring_ll"

    assert _values(batch) == {
        ("nccl_busbw_bytes_per_s", entity): pytest.approx(178.2e9),
        ("nccl_exec_time_s", entity): pytest.approx(0.0112984),
        ("nccl_busbw_bytes_per_s", "dp:slurm-8123:Send:GPU0@n1:4-5MB"): pytest.approx(41.9e9),
    }
    assert CollectiveId.parse(entity).member == "GPU0@n1"
    assert batch.findings == ()


def test_sizes_are_series_of_their_own() -> None:
    """Two message sizes of one collective do not clash."""
    assert len(_read(f"{BUSBW} 1", f"{BUSBW.replace('1-2GB', '2-3GB')} 2").keys) == 2


def test_zero_is_no_bandwidth() -> None:
    """No time was measured."""
    batch = _read(f"{BUSBW} 0", f"{TIME} 0")

    assert batch.reason.tolist() == [Reason.BLANK, Reason.BLANK]


def test_a_file_that_nobody_writes_any_more() -> None:
    """Its numbers are not of now; other samples of the page are."""
    batch = _read(f"{BUSBW} 178.2", POWER, _mtime("nccl_inspector_metrics_u1.prom", 500.0))
    values = _values(batch)

    assert np.isnan(values["nccl_busbw_bytes_per_s", "dp:slurm-8123:AllReduce:GPU0@n1:1-2GB.Ring_ll"])
    assert values["gpu_power_watts", "n1:GPU-1"] == 70
    assert int((batch.reason == Reason.STALE).sum()) == 1
    assert [f.problem for f in batch.findings] == [Problem.WARNING]
    assert "nccl_inspector_metrics_u1.prom" in batch.findings[0].detail


@pytest.mark.parametrize("others", [[], [_mtime("other.prom", 1e6)], [_mtime("nccl_inspector_metrics_u2.prom", 500.0)]])
def test_fresh_files_are_kept(others: list[str]) -> None:
    """A line does not say which file it is from: while one is fresh all are kept, and the old one is named."""
    batch = _read(f"{BUSBW} 178.2", _mtime("nccl_inspector_metrics_u1.prom", 20.0), *others)
    old = sum("u2" in line for line in others)

    assert batch.reason.tolist() == [0]
    assert len(batch.findings) == old


def test_lines_that_tell_too_little() -> None:
    """No operation, or no host."""
    batch = _read(f"nccl_bus_bandwidth_gbs{{{LABELS}}} 1", 'nccl_bus_bandwidth_gbs{collective="AllReduce"} 1')

    assert len(batch) == 0
    assert {f.problem for f in batch.findings} == {Problem.MALFORMED_LINE, Problem.NO_NODE}


@pytest.mark.shared
def test_a_true_page(shared_dir: Path) -> None:
    """Four lines, four series."""
    data = (shared_dir / "formats" / "samples" / "nccl_inspector.prom").read_bytes()
    batch = FieldMapper("page").batch(PageParser().parse(data), NOW_S)

    assert sorted(batch.value.tolist()) == pytest.approx([6406.1e-6, 11298.4e-6, 41.9e9, 178.2e9])

"""The benchmark of the priors: no leaks, honest rivals, stated cleaning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from api.bench.mlperf import published
from api.bench.prior import _foresee, run
from api.bench.prior_rivals import RIVALS
from forecast.priors.efficiency import row_blocks
from forecast.priors.runs import Runs
from telemetry.errors import ConfigError


def runs(rates: list[float]) -> Runs:
    """Two workloads on three devices."""
    n = len(rates)
    return Runs(
        ("a", "a", "b", "b", "b")[:n],
        ("h100", "b200", "h100", "h200", "b200")[:n],
        np.full(n, 8.0),
        np.full(n, 32.0),
        np.array(rates),
        np.full(n, 1e15),
        np.full(n, 1e9),
    )


def test_each_row_is_held_out_once_and_never_with_its_twin() -> None:
    """Blocks part the rows; the rows of a name are on one side."""
    names = ("x", "y", "x", "z")
    blocks = row_blocks(names)
    assert sorted(np.concatenate([held for _, held in blocks])) == [0, 1, 2, 3]
    for others, held in blocks:
        assert not {names[i] for i in others} & {names[i] for i in held}


def test_rivals_do_what_they_say() -> None:
    """On five runs the answers can be counted by hand."""
    known, wanted = runs([8.0, 24.0, 80.0, 96.0]), runs([1.0] * 5).take([4]).blind()
    assert np.exp(RIVALS["overall-median"](known, wanted))[0] == pytest.approx(np.sqrt(10.0 * 12.0))
    assert np.exp(RIVALS["nearest-system"](known, wanted))[0] == pytest.approx(10.0)
    share = np.sqrt(10.0 * 12.0) / 989.0
    assert np.exp(RIVALS["peak-ratio"](known, wanted))[0] == pytest.approx(share * 2250.0)


def test_without_data_the_benchmark_says_what_to_give(tmp_path: Path) -> None:
    """A sentence that names the file."""
    with pytest.raises(ConfigError, match="--data"):
        run(None)
    with pytest.raises(ConfigError, match=r"runs\.parquet"):
        run(tmp_path)


@pytest.mark.shared
def test_published_entries_are_cleaned_as_stated(shared_dir: Path) -> None:
    """Two entries of one benchmark logged samples a device; epochs tell the truth. Twins share a system."""
    entries = published(shared_dir / "data")
    each = entries.runs.samples_per_s / entries.runs.gpus
    rows = [
        i for i, w in enumerate(entries.runs.workload) if w == "retinanet" and entries.runs.accelerator[i] == "h200"
    ]
    assert len(rows) == 4
    assert each[rows].max() / each[rows].min() < 1.05
    assert len(set(entries.system)) < len({(s, w) for s, w in zip(entries.system, entries.runs.workload, strict=True)})
    assert np.isfinite(entries.runs.samples_per_s).all()


@pytest.mark.shared
def test_what_is_held_out_does_not_change_its_own_forecast(shared_dir: Path) -> None:
    """The truth of a held-out system may be anything: its forecast stays."""
    entries = published(shared_dir / "data")
    block = row_blocks(entries.system)[:1]
    first = _foresee(entries, block, rounds=2)
    rates = entries.runs.samples_per_s.copy()
    rates[block[0][1]] *= 1000.0
    again = _foresee(replace(entries, runs=replace(entries.runs, samples_per_s=rates)), block, rounds=2)
    for name, foreseen in first.items():
        np.testing.assert_array_equal(foreseen.median, again[name].median)

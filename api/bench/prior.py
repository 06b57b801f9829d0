"""Throughput a GPU of published training runs, foreseen from their description alone.

``mlperf-system`` leaves one system out at a time: all entries of one submitter, device and size, whatever their names, so
that no twin of an entry is learnt from. ``mlperf-submitter`` leaves all systems of a submitter out. ``mlperf-benchmark``
leaves a whole transformer workload out; the other benchmarks have no FLOPs formula and cannot be foreseen unseen. Every
fold fits its own parts and its own calibration on the runs that are left; nothing is chosen on the rows that are scored.

Errors are |foreseen / measured - 1|; 95 % intervals come from a bootstrap over systems. ``served`` is what ``gpucast
estimate`` uses. Derived figures, not MLPerf results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import digest_of
from api.bench.mlperf import FILES, Published, published
from api.bench.prior_rivals import RIVALS
from api.bench.result import BenchResult, Row
from forecast.priors.efficiency import Z80, fit_efficiency, row_blocks
from forecast.priors.runs import Floats, Rows
from models.metrics import bootstrap_interval
from telemetry.errors import ConfigError

Progress = Callable[[str], None]
Mask = NDArray[np.bool_]
SERVED = "served"
REPEATS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class _Foreseen:
    """Log of samples a second and device of every entry; NaN where it was not asked. Both (n,)."""

    median: Floats
    sd: Floats


def run(data: Path | None, progress: Progress | None = None, *, quick: bool = False, seed: int = 0) -> BenchResult:
    """Score the prior and its rivals.

    Args:
        data: folder laid out as the recorded data.
        progress: told which task is running.
        quick: a shorter search for the sizes of the parts.
        seed: of the bootstrap.

    Raises:
        ConfigError: no folder, or one without the published results.
    """
    if data is None:
        raise ConfigError("bench prior has nothing to read", mend=f"Give --data FOLDER with {FILES[0]}")
    say = progress or (lambda _: None)
    entries = published(data)
    rounds = 4 if quick else 15
    rows: list[Row] = []
    known = entries.runs.known_work
    for task, blocks in _tasks(entries):
        say(f"{task}: {len(blocks)} folds")
        for model, foreseen in _foresee(entries, blocks, rounds).items():
            rows += _scored(task, model, entries, foreseen, known, seed)
    return BenchResult("prior", digest_of([data / name for name in FILES]), tuple(rows), entries.notes)


def _tasks(entries: Published) -> list[tuple[str, list[tuple[Rows, Rows]]]]:
    known = entries.runs.known_work
    return [
        ("mlperf-system", row_blocks(entries.system)),
        ("mlperf-submitter", row_blocks(entries.submitter)),
        ("mlperf-benchmark", [block for block in row_blocks(entries.runs.workload) if known[block[1]].all()]),
    ]


def _foresee(entries: Published, blocks: Sequence[tuple[Rows, Rows]], rounds: int) -> dict[str, _Foreseen]:
    n = len(entries.runs)
    found = {name: _Foreseen(np.full(n, np.nan), np.full(n, np.nan)) for name in (SERVED, *RIVALS)}
    for others, held in blocks:
        train, wanted = entries.runs.take(others), entries.runs.take(held).blind()
        fitted = fit_efficiency(train, [entries.system[i] for i in others], rounds)
        found[SERVED].median[held], found[SERVED].sd[held] = fitted.predict(wanted)
        for name, rival in RIVALS.items():
            # A rival that needs the same workload has nothing to say where a fold took all of it away.
            answerable = [
                i for i, w in enumerate(wanted.workload) if w in train.workload or np.isfinite(wanted.flops[i])
            ]
            found[name].median[held[answerable]] = rival(train, wanted.take(answerable))
    return found


def _scored(task: str, model: str, entries: Published, foreseen: _Foreseen, known: Mask, seed: int) -> list[Row]:
    runs = entries.runs
    llm = np.array([name.startswith("llama") for name in runs.workload])
    asked = np.isfinite(foreseen.median)
    parts = {
        task: asked,
        f"{task}/transformer": asked & known,
        f"{task}/llm": asked & llm,
        f"{task}/other": asked & ~known,
    }
    if task.endswith("benchmark"):
        parts = {task: asked, f"{task}/llm": asked & llm}
    miss = foreseen.median - np.log(runs.samples_per_s / runs.gpus)
    rows = []
    for name, part in parts.items():
        if not part.any():
            continue
        groups = np.unique(np.asarray(entries.system)[part], return_inverse=True)[1].astype(np.intp)
        error = np.abs(np.expm1(miss[part]))
        rows.append(_row(name, model, "median_error", error, groups, seed, lambda e: np.median(e, axis=-1)))
        rows.append(_row(name, model, "p90_error", error, groups, seed, lambda e: np.percentile(e, 90, axis=-1)))
        if model == SERVED:
            inside = (np.abs(miss[part]) <= Z80 * foreseen.sd[part]).astype(np.float64)
            rows.append(_row(name, model, "cov80", inside, groups, seed, lambda e: np.mean(e, axis=-1)))
            width = np.expm1(Z80 * foreseen.sd[part])
            rows.append(_row(name, model, "half_width80", width, groups, seed, lambda e: np.median(e, axis=-1)))
    return rows


def _row(
    task: str, model: str, metric: str, values: Floats, groups: Rows, seed: int, figure: Callable[[Floats], Floats]
) -> Row:
    """A figure with its 95 % interval: whole systems are drawn with replacement."""
    ends = bootstrap_interval(values, lambda drawn: float(figure(drawn)), blocks=groups, draws=REPEATS, seed=seed)
    return Row(task, model, metric, float(figure(values)), *ends, len(values))

"""Congestion before it hits: hot samples, lulls and overload on ports, beside everything simpler.

An origin is the end of a 5 s bin, from 315 s on. Time is cut 60/10/30: the first part teaches, the middle part chooses
each model's threshold, the last part is scored; no bin a forecast speaks of lies in another part than its origin. Asked
are the ports with an event in the training part, where every bin concerned is valid. ``lull-unseen`` knows the last five
minutes of a port only, and its models learn from ports of other jobs (ports grouped by correlated traffic).

``AP`` average precision, ``F1`` at the threshold of the middle part, ``brier_skill`` against the port's climatology,
``precision_at_recall_85`` the best precision at a recall of .85 or more, ``median_lead_s`` from the first alarm to the
start of the bin with the hot sample, a missed onset counting 0. ``lull-.../carrying`` are the same answers on ports whose
median use is 1 % of capacity or more, ``lull-.../busy`` 10 %: a quarter of almost nothing is noise. The 95 % intervals
draw ports with replacement. ``served`` needs no training and is how the service foresees links; ``blend`` and, of jobs
laid together, ``combined`` are this benchmark's alone.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.congestion_data import Fabric, read_fabric, simulated_fabric
from api.bench.congestion_rivals import climatology, rivals
from api.bench.congestion_scores import Scored, best_threshold, figures, leads_s
from api.bench.congestion_served import collect, trained
from api.bench.congestion_superposed import answers, read_superposed
from api.bench.congestion_tasks import BUSY_USE, CARRYING_USE, REGULAR, Task, median_use, own_period, tasks
from api.bench.datasets import FABRIC_FILE, ROCE_FILE, digest_of
from api.bench.result import BenchResult, Row
from models.metrics import bootstrap_interval

Floats = NDArray[np.float64]
Progress = Callable[[str], None]
TASKS: dict[str, str] = {
    "onset": "first hot sample of a quiet port within 30 s",
    "peak": "a hot sample in the next bin",
    "lull": "low traffic 5, 30, 60 and 300 s ahead, of known and unknown jobs",
    "superposed": "recorded jobs laid together on one link: overload within 5 s",
    "mean-use": "mean use of half the capacity in the next bin",
}
"""Start of a task's name -> what is asked; ``--task`` runs those only."""
NAN = float("nan")


def run(
    data: Path | None,
    progress: Progress | None = None,
    *,
    quick: bool = False,
    seed: int = 0,
    task: str = "",
    part: str = "scored",
) -> BenchResult:
    """Score every model on every question.

    Args:
        data: folder laid out as the recorded data; None for a seeded simulated fabric.
        progress: told what is being done and what is left out.
        quick: every eighth port only.
        seed: of the simulation and of training.
        task: run the tasks whose name starts with this.
        part: which part of time is scored; ``middle`` while models are being chosen.
    """
    say = progress or (lambda _: None)
    notes: list[str] = []
    rows: list[Row] = []
    if data is None or (data / ROCE_FILE).is_file():
        fabric = (simulated_fabric(seed) if data is None else read_fabric(data)).live()
        rows += _ports(
            fabric.rows(np.arange(0, len(fabric.names), 8)) if quick else fabric, seed, task, part, say, notes
        )
    else:
        notes.append(f"ports left out: no {ROCE_FILE} in {data}")
        say(notes[-1])
    rows += _superposed(data, seed, task, part, say, notes)
    return BenchResult("congestion", _digest(data, seed), tuple(rows), tuple(notes))


def _digest(data: Path | None, seed: int) -> str:
    if data is None:
        return hashlib.sha256(f"simulated ports {seed}".encode()).hexdigest()
    return digest_of([data / file for file in (ROCE_FILE, FABRIC_FILE) if (data / file).is_file()])


def _ports(fabric: Fabric, seed: int, task: str, part: str, say: Progress, notes: list[str]) -> list[Row]:
    """Every question about the ports of a fabric."""
    rows: list[Row] = []
    asked = []
    for one in tasks(fabric):
        if not one.name.startswith(task):
            continue
        if one.active.any():
            asked.append(one)
        else:
            notes.append(f"{one.name} left out: no port shows the event in the training part")
            say(notes[-1])
    if not asked:
        return rows
    began = time.process_time()
    examples = collect(fabric, asked, part, say)
    cost = 1000.0 * (time.process_time() - began) / (fabric.n_bins - fabric.first_origin) / len(fabric.names)
    for one in asked:
        say(one.name)
        said = {**rivals(fabric, one), **trained(fabric, one, examples.pop(one.name), seed)}
        rows += _scored(fabric, one, said, part)
    rows.append(Row("features", "blend", "cpu_ms", cost, NAN, NAN, fabric.n_bins - fabric.first_origin))
    notes.append(f"{len(fabric.names)} ports with traffic; {part} part")
    return rows


def _scored(fabric: Fabric, task: Task, said: dict[str, Floats], part: str) -> list[Row]:
    """Rows of every model, and for peaks of regular traffic alone."""
    rows: list[Row] = []
    everything = task.active
    parts = {task.name: everything}
    if task.name == "peak":
        height = own_period(fabric.traffic[:, fabric.first_origin : fabric.training_end])[1]
        parts["peak-regular"] = everything & (height >= REGULAR)
    if task.name.startswith("lull"):
        parts[f"{task.name}/carrying"] = everything & (median_use(fabric) >= CARRYING_USE)
        parts[f"{task.name}/busy"] = everything & (median_use(fabric) >= BUSY_USE)
    for name, active in parts.items():
        for model, chance in said.items():
            rows += _one(fabric, task, name, active, model, chance, part)
    return rows


def _one(
    fabric: Fabric, task: Task, name: str, active: NDArray[np.bool_], model: str, chance: Floats, part: str
) -> list[Row]:
    middle, scored = (_asked(fabric, task, active, which) for which in ("middle", part))
    if not scored[0].size:
        return []
    said = chance[scored]
    threshold = 0.5
    if model not in ("always_yes", "persistence", "seasonal_naive") and middle[0].size:
        threshold = best_threshold(task.truth[middle], chance[middle])
    base = climatology(fabric, task)[scored]
    found = figures(Scored(task.truth[scored], said, base, scored[0], threshold))
    n = int(scored[0].size)
    rows = [Row(name, model, metric, *ends, n) for metric, ends in found.items() if metric != "base_rate"]
    if model == "always_yes":
        rows.append(Row(name, model, "base_rate", *found["base_rate"], n))
    if task.name == "onset":
        asked = np.zeros(task.truth.shape, np.bool_)
        asked[scored] = True
        lead, port = leads_s(chance > threshold, asked, task.state, task.horizon, fabric.step_s)
        ends = bootstrap_interval(lead, lambda x: float(np.median(x)), blocks=port)
        rows.append(Row(name, model, "median_lead_s", float(np.median(lead)) if lead.size else NAN, *ends, lead.size))
    return rows


def _superposed(data: Path | None, seed: int, task: str, part: str, say: Progress, notes: list[str]) -> list[Row]:
    """Overload of links on which recorded jobs are laid together."""
    if data is None or not "superposed".startswith(task):
        return []
    links = read_superposed(data, seed)
    if links is None:
        notes.append(f"superposed left out: no {FABRIC_FILE} in {data}")
        say(notes[-1])
        return []
    say("superposed")
    truth, middle, origins = links.truth(), links.part("middle"), links.part(part)
    said = answers(links, seed, part)
    base = said["climatology"][:, origins].ravel()
    port = np.repeat(np.arange(truth.shape[0]), origins.size)
    rows = []
    for model, chance in said.items():
        threshold = best_threshold(truth[:, middle].ravel(), chance[:, middle].ravel())
        found = figures(Scored(truth[:, origins].ravel(), chance[:, origins].ravel(), base, port, threshold))
        rows += [Row("superposed", model, metric, *ends, port.size) for metric, ends in found.items()]
    return rows


def _asked(
    fabric: Fabric, task: Task, active: NDArray[np.bool_], part: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Ports and bins at which the question is asked in a part."""
    origins = fabric.origins(part, task.horizon)
    known = np.isfinite(task.truth[:, origins]) & active[:, None]
    row, place = np.nonzero(known)
    return row, origins[place]

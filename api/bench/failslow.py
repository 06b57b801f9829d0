"""Jobs that become slow: how soon a lasting tenth is called, and how often nothing was.

Real series are step times of a recorded 32-GPU training run and of recorded mini-batch jobs; simulated ones have
the noise, checkpoints, drift and lingering that a generator gives them. A jump is injected at a random step of an
otherwise untouched window: every step from there on is 10 % (or 20 %) longer. ``detected_10`` is the share called
within ten steps, ``delay_steps`` the median number of slow steps seen before the call, ``false_per_job_day`` the
number of calls of slowness per 86,400 s of the untouched series. Where a real series has changes of its own, a true
call counts as false there, so that figure is an upper end. ``api.bench.failslow_peers`` adds members of a group that fall
behind the others.

The rule's constants were set on simulated series of other seeds and never on the recorded ones.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import digest_of
from api.bench.failslow_peers import score_peers
from api.bench.failslow_rivals import persistence_alarms, three_in_a_row_alarms, z_score_alarms
from api.bench.intervals import count_interval, share_interval
from api.bench.result import BenchResult, Row
from models.step_jump import find_jumps

Floats = NDArray[np.float64]
Alarms = NDArray[np.bool_]
Progress = Callable[[str], None]
LLAMA = "zjlab_roce_2024/llama2_7b_32gpu_progress.csv"
MINI_BATCH = "alibaba_minibatch_2020/job_{}_norm.csv.gz"
WITHIN = 10
BEFORE = 150
"""Steps of history that the detector sees before an injected jump."""
DAY_S = 86400.0
SEED = 2026


@dataclass(frozen=True, slots=True)
class Steps:
    """Step times of some jobs.

    Args:
        name: the task.
        step_s: (n_jobs, n_steps).
        unit_s: seconds of one unit; NaN where the source scaled the times, so that no day can be counted.
    """

    name: str
    step_s: Floats
    unit_s: float = 1.0


def run(data: Path | None, progress: Progress | None = None, *, quick: bool = False) -> BenchResult:
    """Score the detector and the plainer rules.

    Args:
        data: folder laid out as the recorded data; without it only simulated series are scored.
        progress: told what is being done and what is left out.
        quick: fewer jobs and injections.
    """
    say = progress or (lambda _: None)
    notes: list[str] = []
    tasks = simulated(SEED, jobs=4 if quick else 40, steps=800 if quick else 20000)
    digest = hashlib.sha256(f"steps {SEED}".encode()).hexdigest()
    if data is not None:
        real, files = recorded(data, notes)
        tasks, digest = real + tasks, digest_of(files)
    rows: list[Row] = []
    for task in tasks:
        say(task.name)
        for model, alarms_of in RULES.items():
            rows += _score(task, model, alarms_of, 40 if quick else 600)
    peers, files_of_peers = score_peers(data, say, notes, quick=quick)
    if files_of_peers:
        digest = hashlib.sha256(f"{digest} {digest_of(files_of_peers)}".encode()).hexdigest()
    return BenchResult("failslow", digest, (*rows, *peers), tuple(notes))


def recorded(data: Path, notes: list[str]) -> tuple[list[Steps], list[Path]]:
    """The recorded series that the folder holds; what is absent is named in ``notes``."""
    tasks: list[Steps] = []
    files: list[Path] = []
    if (path := data / LLAMA).is_file():
        tasks.append(Steps("llama2-7b-32gpu", _llama(path)[None, :]))
        files.append(path)
    for job in (1, 2, 3, 4):
        if (path := data / MINI_BATCH.format(job)).is_file():
            tasks.append(Steps(f"mini-batch-{job}", _mini_batches(path)[None, :], float("nan")))
            files.append(path)
    if len(files) < 5:
        notes.append(f"{5 - len(files)} of 5 recorded series are not in {data}")
    return tasks, files


def _llama(path: Path) -> Floats:
    with path.open(encoding="utf-8", newline="") as text:
        stamps = [datetime.fromisoformat(row["time_utc_unverified"]).timestamp() for row in csv.DictReader(text)]
    return np.diff(np.asarray(stamps))


def _mini_batches(path: Path) -> Floats:
    """The median worker of each iteration: what a job that waits for most of its workers sees."""
    times: dict[int, list[float]] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            times.setdefault(int(row["time"]), []).append(float(row["batch_time_norm"]))
    return np.asarray([float(np.median(times[at])) for at in sorted(times)])


def simulated(seed: int, *, jobs: int, steps: int) -> list[Steps]:
    """Jobs of about 1 s a step: quiet, noisy, lingering noise, heavy tails, checkpoints, drift."""
    random = np.random.default_rng(seed)

    def white() -> Floats:
        return random.normal(size=(jobs, steps))

    kinds = {
        "noise-1": 0.01 * white(),
        "noise-3": 0.03 * white(),
        "noise-5": 0.05 * white(),
        "lingering": 0.02 * _lingering(white(), 0.5),
        "heavy-tails": 0.02 * random.standard_t(3, (jobs, steps)) / np.sqrt(3.0),
        "checkpoints": 0.01 * white() + _long_steps(random, jobs, steps, every=40),
        "drift": 0.01 * white() + np.linspace(0.0, 0.3, steps),
    }
    return [Steps(f"simulated-{name}", np.exp(logs)) for name, logs in kinds.items()]


def _lingering(noise: Floats, share: float) -> Floats:
    for at in range(1, noise.shape[1]):
        noise[:, at] = share * noise[:, at - 1] + np.sqrt(1 - share**2) * noise[:, at]
    return noise


def _long_steps(random: np.random.Generator, jobs: int, steps: int, *, every: int) -> Floats:
    logs = np.zeros((jobs, steps))
    for job in range(jobs):
        at = np.arange(int(random.integers(every)), steps, every)
        logs[job, at] = np.log(random.uniform(1.5, 6.0, at.size))
    return logs


def _found(step_s: Floats) -> Alarms:
    alarms = np.zeros(step_s.shape, dtype=np.bool_)
    for jump in find_jumps(step_s):
        alarms[jump.series, jump.called_at] |= jump.ratio > 1.0
    return alarms


RULES: dict[str, Callable[[Floats], Alarms]] = {
    "persistence": persistence_alarms,
    "three-in-a-row": three_in_a_row_alarms,
    "z-score": z_score_alarms,
    "served": _found,
}


def _score(task: Steps, model: str, alarms_of: Callable[[Floats], Alarms], draws: int) -> list[Row]:
    rows: list[Row] = []
    calm = alarms_of(task.step_s)
    days = float(task.step_s.sum()) * task.unit_s / DAY_S
    for percent in (10, 20):
        hit, delay = _injected(task, alarms_of, percent / 100, draws)
        name = f"{task.name}-{percent}pct"
        low, high = share_interval(int(hit.sum()), hit.size)
        rows.append(Row(name, model, "detected_10", float(hit.mean()), low, high, hit.size))
        if delay.size:
            low, high = (float(end) for end in np.percentile(delay, [2.5, 97.5]))
            rows.append(Row(name, model, "delay_steps", float(np.median(delay)), low, high, delay.size))
    count = int(calm.sum())
    low, high = count_interval(count)
    scale = 1e4 / calm.size
    rows.append(Row(task.name, model, "false_per_10k_steps", count * scale, low * scale, high * scale, calm.size))
    if np.isfinite(days):
        rows.append(Row(task.name, model, "false_per_job_day", count / days, low / days, high / days, round(days)))
    return rows


def _injected(task: Steps, alarms_of: Callable[[Floats], Alarms], ratio: float, draws: int) -> tuple[Alarms, Floats]:
    """Whether each injected jump was called in time, and after how many slow steps."""
    random = np.random.default_rng(SEED + 1)
    n_jobs, n_steps = task.step_s.shape
    job = random.integers(n_jobs, size=draws)
    before = min(BEFORE, n_steps - WITHIN - 1)
    at = random.integers(before, n_steps - WITHIN, size=draws)
    window = np.stack([task.step_s[j, a - before : a + WITHIN] for j, a in zip(job, at, strict=True)])
    window[:, before:] *= 1.0 + ratio
    called = alarms_of(window)[:, before:]
    hit = np.asarray(called.any(axis=1), dtype=np.bool_)
    return hit, 1.0 + np.argmax(called, axis=1)[hit].astype(np.float64)

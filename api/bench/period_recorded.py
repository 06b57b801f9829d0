"""Windows of recorded runs, and their periods by a way that shares nothing with the estimator.

The truth comes from the full rate of all rows of a run: around the fundamental that the run's log or its sharpest spectral
line names, each row is demodulated, and the turns of the summed phase over a window give its mean period. The windows
themselves are the same rows at a coarser step.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import FABRIC_FILE, H100_FILE, Recording, h100_recordings
from api.bench.period_windows import Window
from features.frame import Context

Floats = NDArray[np.float64]

FULL_S = 0.1
STEPS_S = (0.1, 0.2, 0.4, 0.5, 1.0, 2.0)
LENGTHS_S = (30.0, 60.0, 120.0)
TUNED_ON = ("t6", "t13", "t2", "b1")
"""Runs that were looked at while the estimator was made; their tasks end in ``-tuned``."""
LABELS: dict[str, float] = {"t2": 0.0379, "t3": 5.88, "t6": 3.62, "b1": float("nan")}
"""Seconds an optimiser step takes by the run's own log (t2 8,053 steps in 305 s, t3 52 in 306, t6 85 in 308); NaN where
no job runs. Other runs: the sharpest line of the spectrum at full rate."""
BAND_RATIO = 0.2
"""Half width of the band around the fundamental, as a share of it."""
LEAST_LINE = 3.0
"""A line counts when this many times higher than the median of the spectrum about it."""
FILES = (H100_FILE, FABRIC_FILE)


def recorded(folder: Path, quick: bool, notes: list[str]) -> Iterator[Window]:
    """Windows of every run and network file in the folder."""
    for recording in h100_recordings(folder, FULL_S, quick):
        run = recording.name.partition(".")[0]
        rough_s = LABELS.get(run, _sharpest_line(recording))
        if run not in LABELS:
            notes.append(f"{recording.name}: the sharpest line of its spectrum is at {rough_s:.3f} s")
        turns = _turns(recording, rough_s) if rough_s > 2 * FULL_S else None
        yield from _windows(recording, run, rough_s, turns, quick)


def _windows(recording: Recording, run: str, rough_s: float, turns: Floats | None, quick: bool) -> Iterator[Window]:
    full = recording.values.shape[1]
    for step_s in STEPS_S:
        every = round(step_s / FULL_S)
        for length_s in LENGTHS_S:
            n = round(length_s / FULL_S)
            # At a recording's ends the band holds what was not recorded.
            edge = round(2 * rough_s / FULL_S) if np.isfinite(rough_s) else 0
            count = (2 if quick else 5) if full >= n + 2 * edge else 0
            for place, start in enumerate(np.linspace(edge, full - n - edge, count).astype(int).tolist()):
                true_s = rough_s
                if turns is not None:
                    true_s = n * FULL_S / (turns[start + n - 1] - turns[start]) * (n - 1) / n
                part = recording.values[:, start : start + n]
                # Gauges as means and as single samples by turns: exporters give the one or the other. Ports count bytes,
                # and two reads of a counter always give the mean between them.
                means = place % 2 == 1 or recording.metric[0].startswith("port_")
                seen = _means(part, every) if means else part[:, every - 1 :: every]
                task = _task(run, true_s, step_s, length_s)
                if task is None or seen.shape[1] < 24:
                    continue
                wanted = true_s if not task.startswith("none") else float("nan")
                context = Context(
                    seen,
                    step_s,
                    recording.metric,
                    np.zeros(len(recording.metric), np.int32),
                    np.zeros(len(recording.metric)),
                    recording.high,
                )
                yield Window(task, f"{recording.name}-{start // 300}", context, wanted)


def _task(run: str, true_s: float, step_s: float, length_s: float) -> str | None:
    tail = "-tuned" if run in TUNED_ON else ""
    if not np.isfinite(true_s):
        return f"none-recorded-idle{tail}"
    samples, cycles = true_s / step_s, length_s / true_s
    if samples < 2.0:
        return f"none-recorded-aliased{tail}"
    if samples < 4.0:
        return f"recorded-2-to-4-samples{tail}"
    if cycles < 4.0:
        return None
    return f"recorded{tail}"


def _means(values: Floats, every: int) -> Floats:
    n, t = values.shape
    parts = values[:, : t - t % every].reshape(n, -1, every)
    known = np.isfinite(parts)
    count = known.sum(axis=2)
    total = np.where(known, parts, 0.0).sum(axis=2)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _standard(recording: Recording) -> Floats:
    """Rows that move, without gaps, in standard deviations."""
    known = np.isfinite(recording.values)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    mean = np.where(known, recording.values, 0.0).sum(axis=1, keepdims=True) / count
    y = np.where(known, recording.values - mean, 0.0)
    sd = np.sqrt((y**2).mean(axis=1, keepdims=True))
    moves = (sd > 1e-6 * np.abs(mean))[:, 0]
    return np.asarray(y[moves] / sd[moves])


def _sharpest_line(recording: Recording) -> float:
    """Seconds of the strongest line between 0.1 Hz and half the sampling rate; NaN where none stands out."""
    y = _standard(recording)
    power = (np.abs(np.fft.rfft(y * np.hanning(y.shape[1]), axis=1)) ** 2).mean(axis=0)
    frequency = np.fft.rfftfreq(y.shape[1], FULL_S)
    power[frequency < 0.1] = 0.0
    top = int(power.argmax())
    near = power[max(1, top - 100) : top + 100]
    return 1.0 / frequency[top] if power[top] > LEAST_LINE * float(np.median(near)) else float("nan")


def _turns(recording: Recording, rough_s: float) -> Floats:
    """(n_points,) turns since the start, from the phase of the band around the fundamental, summed over the rows."""
    y = _standard(recording)
    n = y.shape[1]
    spectrum = np.fft.fft(y, axis=1)
    frequency = np.fft.fftfreq(n, FULL_S)
    band = np.abs(frequency * rough_s - 1.0) <= BAND_RATIO
    narrow = np.fft.ifft(np.where(band, spectrum, 0.0), axis=1)
    # The rows' phases differ by a constant each: turned together, they add up.
    lead = narrow[np.argmax((np.abs(narrow) ** 2).sum(axis=1))]
    apart = (narrow * np.conj(lead)).sum(axis=1)
    together = (narrow * np.conj(apart / np.maximum(np.abs(apart), 1e-12))[:, None]).sum(axis=0)
    return np.asarray(np.unwrap(np.angle(together)) / (2 * np.pi))

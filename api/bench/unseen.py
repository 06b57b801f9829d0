"""The same forecasts for a job that no model was fitted on: one run is left out at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import Dataset
from models.base import Forecaster
from telemetry.errors import GpucastError

Floats = NDArray[np.float64]
TREES, ROWS, ORIGINS = 60, 20_000, 12
"""A model for each run left out: smaller than the one trained on all runs' first halves."""
LEARNS = ("gbdt",)
"""Models of the main task that were fitted; the others learn nothing and know every job only from its own context."""


def runs_of(dataset: Dataset) -> Iterator[tuple[str, list[int]]]:
    """Name of each run and the places of its recordings: nodes and ports of one run are one job."""
    names = [recording.name.partition(".")[0] for recording in dataset.recordings]
    for run in dict.fromkeys(names):
        yield run, [k for k, name in enumerate(names) if name == run]


def left_out(
    dataset: Dataset, score: Callable[[Dataset, Forecaster], Floats], seed: int, say: Callable[[str], None]
) -> Floats | None:
    """(n_tasks, n_series, n_fields) sums of ``gbdt``, each run forecast by the model of the other runs' first halves.

    Args:
        dataset: recordings named ``RUN.NODE``.
        score: sums of a model over the windows of a data set.
        seed: of the training.
        say: told what is being done.

    Returns:
        None where the others give too little to learn from.
    """
    from models.gbdt import Gbdt

    ends = np.cumsum([0, *(recording.values.shape[0] for recording in dataset.recordings)])
    whole: Floats | None = None
    for run, mine in runs_of(dataset):
        say(f"{dataset.name}: training gbdt without {run}")
        training = [context for k, context in enumerate(dataset.training()) if k not in mine]
        gbdt = Gbdt(trees=TREES, most_rows=ROWS, origins=ORIGINS, seed=seed)
        try:
            gbdt.fit(training, dataset.horizon)
        except GpucastError as error:
            say(f"{dataset.name}: gbdt left out for a job never seen, {error}")
            return None
        part = Dataset(
            dataset.name,
            tuple(dataset.recordings[k] for k in mine),
            dataset.context_points,
            dataset.horizon,
            dataset.leads,
            dataset.origins,
        )
        sums = score(part, gbdt)
        whole = np.zeros((sums.shape[0], int(ends[-1]), sums.shape[2])) if whole is None else whole
        whole[:, np.concatenate([np.arange(ends[k], ends[k + 1]) for k in mine])] = sums
    return whole

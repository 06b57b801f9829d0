"""Published training results as runs: throughput of each entry, cleaned by rules that are stated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from forecast.priors.hardware import find_accelerator
from forecast.priors.runs import Runs, known_workload
from telemetry.errors import ConfigError

FOLDER = "mlperf_training_v51"
FILES = (f"{FOLDER}/runs.parquet", f"{FOLDER}/systems.csv", f"{FOLDER}/events_run0.parquet")
KEY = ["benchmark", "submitter", "system"]


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """Entries with their throughput.

    Args:
        runs: one row an entry.
        system: group of the entry's machine: one submitter, device and number of devices, whatever its names.
        submitter: who published it.
        notes: what was left out or mended.
    """

    runs: Runs
    system: tuple[str, ...]
    submitter: tuple[str, ...]
    notes: tuple[str, ...]


def published(data: Path) -> Published:
    """Entries of ``data/mlperf_training_v51`` whose throughput was logged or follows from logged step times.

    Raises:
        ConfigError: the files are not there.
    """
    missing = [name for name in FILES if not (data / name).is_file()]
    if missing:
        raise ConfigError(f"{data} has no {missing[0]}", mend="Give the folder that holds the data sets")
    entries = _entries(data)
    kept = entries[np.isfinite(entries["samples_per_s"]) & entries["device"].notna()]
    runs = Runs(
        tuple(kept["benchmark"]),
        tuple(kept["device"]),
        kept["gpus"].to_numpy(np.float64),
        kept["batch"].to_numpy(np.float64),
        kept["samples_per_s"].to_numpy(np.float64),
        np.array([known_workload(name)[0] for name in kept["benchmark"]]),
        np.array([known_workload(name)[1] for name in kept["benchmark"]]),
    )
    # The same machine appears under several names (a release, a framework, a twin chassis); one size of one device of
    # one submitter is one system, so that no twin of a held-out entry is learnt from.
    system = tuple(f"{s} {d} {int(n)}" for s, d, n in zip(kept["submitter"], kept["device"], kept["gpus"], strict=True))
    notes = (
        f"{len(kept)} of {len(entries)} entries have a logged throughput or step time; the others are left out",
        f"{int(entries['timed'].sum())} entries of retinanet are timed by their epochs, since some logged samples a device",
        f"{len(set(system))} systems: one submitter, device and size is one system whatever its names",
    )
    return Published(runs, system, tuple(kept["submitter"]), notes)


def _entries(data: Path) -> pd.DataFrame:
    runs, systems, events = (data / name for name in FILES)
    with duckdb.connect() as connection:
        each, steps, epochs = _read(connection, runs, events)
    machines = pd.read_csv(systems)[
        ["submitter", "system", "number_of_nodes", "accelerators_per_node", "accelerator_model_name"]
    ]
    table = each.merge(steps, how="left", on=KEY).merge(epochs, how="left", on=KEY)
    table = table.merge(machines, how="left", on=["submitter", "system"])
    table["gpus"] = table["number_of_nodes"].map(_number) * table["accelerators_per_node"].map(_number)
    table["device"] = [_device(name) for name in table["accelerator_model_name"]]
    timed = table["batches"] * table["batch"] / table["epoch_s"]
    table["timed"] = timed.notna()
    table["samples_per_s"] = timed.fillna(table["logged"]).fillna(table["batch"] / table["step_s"])
    return table


def _read(
    connection: duckdb.DuckDBPyConnection, runs: Path, events: Path
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Entries, step times of entries that log them, and epoch times of retinanet."""
    each = connection.execute(
        f"""select benchmark, submitter, system, median(global_batch_size) as batch, median(train_samples) as batches,
        median(mean_throughput) as logged from '{runs}' group by all order by all"""
    ).df()
    steps = connection.execute(
        f"""select benchmark, submitter, system, median(step_time) as step_s from '{events}'
        where key = 'tracked_stats' and step_time > 0 group by all"""
    ).df()
    epochs = connection.execute(
        f"""select benchmark, submitter, system, median(seconds) as epoch_s from (
            select benchmark, submitter, system, value, (max(time_ms) - min(time_ms)) / 1000.0 as seconds, count(*) as marks
            from '{events}' where benchmark = 'retinanet' and key in ('epoch_start', 'epoch_stop') group by all)
        where marks = 2 and seconds > 0 group by all"""
    ).df()
    return each, steps, epochs


def _device(name: object) -> str | None:
    found = find_accelerator(name) if isinstance(name, str) else None
    return None if found is None else found.name


def _number(value: object) -> float:
    found = re.search(r"\d+", str(value))
    return float(found[0]) if found else float("nan")

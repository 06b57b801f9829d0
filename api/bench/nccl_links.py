"""How much of a link's bandwidth collectives reach, from published nccl-tests runs of H100 servers."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from forecast.priors.hardware import ACCELERATORS
from forecast.priors.links import LinkFit
from telemetry.errors import ConfigError

FILE = "nccl_collectives/nccl_tests.parquet"
SOURCE = (
    "Link bandwidths are fitted on nccl-tests logs of H100 servers with eight 400 Gb/s adapters "
    "(github.com/xxrjun/nccl-tests-cluster, Apache-2.0)."
)
OPERATIONS = ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf")
Floats = NDArray[np.float64]


def fit_links(data: Path) -> LinkFit:
    """The fit: bus bandwidth = reached share x nominal x size / (size + half), all operations of 8-GPU nodes together.

    Raises:
        ConfigError: the file is not there.
    """
    path = data / FILE
    if not path.is_file():
        raise ConfigError(f"{data} has no {FILE}", mend="Give the folder that holds the data sets")
    # Only the clusters whose repository has a licence; rank counts in the logs are not needed, bus bandwidth is.
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"""select mode = 'multi-node' as many, op, size_b::double as size, median(busbw_oop) * 1e9 as rate
        from '{path}' where cluster = 'example-cluster01' and mode in ('single-node', 'multi-node')
        and file similar to '.*G8.*' and op in {OPERATIONS} group by all order by all"""
        ).fetchnumpy()
    many = np.asarray(rows["many"], dtype=bool)
    size, rate = np.asarray(rows["size"], dtype=np.float64), np.asarray(rows["rate"], dtype=np.float64)
    device = ACCELERATORS["h100"]
    inside, inside_half = _saturation(size[~many], rate[~many])
    outside, outside_half = _saturation(size[many], rate[many])
    return LinkFit(
        scale_up_ratio=round(inside / device.scale_up_bytes_per_s, 4),
        # Eight adapters carry one ring each.
        network_ratio=round(outside / (8 * device.nic_bytes_per_s), 4),
        half_bytes=float(f"{min(inside_half, outside_half):.3g}"),
        source=SOURCE,
    )


def _saturation(size: Floats, rate: Floats) -> tuple[float, float]:
    """Bandwidth of endless messages and the size at which half of it is reached."""

    def misfit(logs: Floats) -> Floats:
        return np.asarray(np.log(rate) - logs[0] - np.log(size / (size + np.exp(logs[1]))))

    found = least_squares(misfit, [np.log(rate.max()), np.log(1e7)], loss="soft_l1", f_scale=0.1)
    return float(np.exp(found.x[0])), float(np.exp(found.x[1]))

"""What ``bench congestion`` reads: the ports of a fabric on one grid, and how its time is cut."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from api.bench.datasets import ROCE_FILE, ROCE_STEP_S
from models.port_features import PortPast, mean_known

Floats = NDArray[np.float64]
PORT_BYTES_PER_S = {"TwoHundredGigE": 25e9, "FourHundredGigE": 50e9}
"""Start of a port's name -> bytes per second of one direction."""
LIVE_BYTES_PER_S = 1e6
"""A port with less than this on average in the training part carries nothing worth foreseeing."""
FIRST_ORIGIN_S = 315.0
TRAINING_SHARE, MIDDLE_SHARE = 0.6, 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """Ports observed together.

    Args:
        names: (n,) switch and port.
        traffic: (n, t) bytes per second in both directions, NaN in gaps.
        use: (n, t) mean use of the busier direction, a ratio of its capacity, NaN in gaps.
        peak: (n, t) greatest single sample of the busier direction, a ratio, NaN in gaps.
        switch: (n,) number of the port's switch.
        step_s: length of a bin.
    """

    names: tuple[str, ...]
    traffic: Floats
    use: Floats
    peak: Floats
    switch: NDArray[np.int32]
    step_s: float

    @property
    def n_bins(self) -> int:
        """Columns."""
        return int(self.traffic.shape[1])

    @property
    def first_origin(self) -> int:
        """The first bin whose end is an origin."""
        return round(FIRST_ORIGIN_S / self.step_s) - 1

    @property
    def training_end(self) -> int:
        """Bins before this one are the training part."""
        return round(TRAINING_SHARE * self.n_bins)

    @property
    def middle_end(self) -> int:
        """Bins from here on are scored."""
        return round((TRAINING_SHARE + MIDDLE_SHARE) * self.n_bins)

    def origins(self, part: str, horizon: int) -> NDArray[np.intp]:
        """Bins at whose end a forecast is made, such that every bin it speaks of lies in the same part.

        So no bin is a truth of two parts, and origins of neighbouring parts lie at least the horizon apart.
        """
        first, end = {
            "training": (self.first_origin, self.training_end),
            "middle": (self.training_end, self.middle_end),
            "scored": (self.middle_end, self.n_bins),
        }[part]
        return np.arange(first, end - horizon, dtype=np.intp)

    def past(self) -> PortPast:
        """All of it, for the models to cut."""
        return PortPast(self.traffic, self.peak, self.switch)

    def live(self) -> Fabric:
        """Ports that carry traffic in the training part."""
        return self.rows(np.flatnonzero(mean_known(self.traffic[:, : self.training_end]) >= LIVE_BYTES_PER_S))

    def rows(self, chosen: NDArray[np.intp]) -> Fabric:
        """Some ports only."""
        names = tuple(self.names[int(k)] for k in chosen)
        return Fabric(
            names, self.traffic[chosen], self.use[chosen], self.peak[chosen], self.switch[chosen], self.step_s
        )


def read_fabric(folder: Path) -> Fabric:
    """The recorded fabric; bins with a hole in the counters are missing."""
    import duckdb

    found = duckdb.execute(
        "select leaf, port, ts, in_bytes, out_bytes, in_ratio_max, out_ratio_max, gap from read_parquet(?)",
        [str(folder / ROCE_FILE)],
    ).fetchnumpy()
    port = found["port"].astype(str)
    names, row = np.unique(np.char.add(np.char.add(found["leaf"].astype(str), " "), port), return_inverse=True)
    column = np.round((found["ts"] - found["ts"].min()) / ROCE_STEP_S).astype(int)
    gap = np.ma.filled(found["gap"], True)

    def grid(values: NDArray[np.generic]) -> Floats:
        out = np.full((names.size, int(column.max()) + 1), np.nan)
        out[row, column] = np.where(gap, np.nan, np.ma.filled(values.astype(np.float64), np.nan))
        return out

    into, out_of = grid(found["in_bytes"]) / ROCE_STEP_S, grid(found["out_bytes"]) / ROCE_STEP_S
    peak = np.fmax(grid(found["in_ratio_max"]), grid(found["out_ratio_max"])) / 100.0
    capacity = np.array([_capacity(str(name)) for name in names])
    switch = np.unique([str(name).partition(" ")[0] for name in names], return_inverse=True)[1].astype(np.int32)
    use = np.fmax(into, out_of) / capacity[:, None]
    return Fabric(tuple(str(name) for name in names), into + out_of, use, peak, switch, ROCE_STEP_S)


def _capacity(name: str) -> float:
    port = name.partition(" ")[2]
    return next((rate for start, rate in PORT_BYTES_PER_S.items() if port.startswith(start)), float("nan"))


def simulated_fabric(seed: int, bins: int = 720) -> Fabric:
    """Seeded ports of eight jobs that send in bursts, each with a period, a duty and jitter of its own; 5 s bins."""
    random = np.random.default_rng(seed)
    step_s, fine = 5.0, 10
    traffic, peak, switch, names = [], [], [], []
    at_s = (np.arange(bins * fine) + 0.5) * step_s / fine
    for job in range(8):
        period_s = float(random.uniform(20, 140))
        duty, level = float(random.uniform(0.15, 0.8)), float(random.uniform(0.3, 0.95))
        length = np.maximum(period_s * (1 + random.normal(0, 0.01, bins)), 10.0)
        start_s = np.cumsum(length) - random.uniform(0, period_s)
        place = np.clip(np.searchsorted(start_s, at_s) - 1, 0, bins - 1)
        sending = ((at_s - start_s[place]) / period_s) % 1.0 < duty
        for port in range(10):
            use = np.where(sending, level, 0.002) * random.uniform(0.9, 1.05, at_s.size)
            per_bin = use.reshape(bins, fine)
            names.append(f"leaf{port % 4} job{job}-{port}")
            traffic.append(per_bin.mean(axis=1) * 25e9)
            peak.append(per_bin.max(axis=1))
            switch.append(port % 4)
    whole = np.stack(traffic)
    hole = random.random(whole.shape) < 0.02
    whole = np.where(hole, np.nan, whole)
    crest = np.where(hole, np.nan, np.stack(peak))
    return Fabric(tuple(names), whole, whole / 25e9, crest, np.array(switch, np.int32), step_s)

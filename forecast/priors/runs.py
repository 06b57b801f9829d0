"""Measured training runs that the efficiency is fitted on, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forecast.priors.hardware import ACCELERATORS
from forecast.priors.shapes import PUBLISHED
from forecast.priors.work import flops_per_token

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Runs, one row each; every array is (n,).

    Args:
        workload: what was trained.
        accelerator: a name of ``ACCELERATORS``.
        gpus: devices.
        batch: samples of one optimiser step.
        samples_per_s: measured throughput of all devices; NaN for rows to be predicted.
        flops: of one sample; NaN where no formula is at hand (then the workload's own level is learnt).
        trained: weights whose gradients are exchanged in a step; NaN where not known.
    """

    workload: tuple[str, ...]
    accelerator: tuple[str, ...]
    gpus: Floats
    batch: Floats
    samples_per_s: Floats
    flops: Floats
    trained: Floats

    def take(self, rows: Rows | Sequence[int]) -> Runs:
        """Some rows, in that order."""
        index = np.asarray(rows, dtype=np.intp)
        return Runs(
            tuple(self.workload[i] for i in index),
            tuple(self.accelerator[i] for i in index),
            self.gpus[index],
            self.batch[index],
            self.samples_per_s[index],
            self.flops[index],
            self.trained[index],
        )

    def blind(self) -> Runs:
        """The same without the measured throughput: what may be asked of a fit."""
        return replace(self, samples_per_s=np.full(len(self), np.nan))

    def __len__(self) -> int:
        return len(self.workload)

    @property
    def known_work(self) -> NDArray[np.bool_]:
        """Rows whose FLOPs a sample are known."""
        return np.isfinite(self.flops)

    @property
    def ideal_log(self) -> Floats:
        """Logarithm of samples a second and device at the 16-bit peak; without known FLOPs, of the peak alone."""
        peak = np.array([ACCELERATORS[name].peak("bf16") for name in self.accelerator])
        return np.asarray(np.log(peak / 1e12) - np.log(np.where(self.known_work, self.flops, 1e12) / 1e12))

    @property
    def strain(self) -> Floats:
        """Log of (1 + exchange / compute) in a step: 4 bytes a trained weight over the slower of both links.

        A domain of k devices sends 1 / k of the bytes over each network interface. Zero where work is not known.
        """
        devices = [ACCELERATORS[name] for name in self.accelerator]
        domain = np.array([device.scale_up_gpus for device in devices], dtype=np.float64)
        inside = np.array([device.scale_up_bytes_per_s for device in devices])
        outside = np.array([device.nic_bytes_per_s for device in devices]) * domain
        size = 4.0 * np.where(self.known_work, self.trained, 0.0)
        exchange = np.maximum(size / inside, np.where(self.gpus > domain, size / outside, 0.0))
        compute = self.batch / self.gpus / np.exp(self.ideal_log)
        return np.asarray(np.where(self.known_work, np.log1p(exchange / compute), 0.0))

    @property
    def split(self) -> Floats:
        """Log of how many devices share one sample of the batch; zero where each has at least one."""
        return np.asarray(np.log(np.maximum(1.0, self.gpus / self.batch)))

    @property
    def efficiency_log(self) -> Floats:
        """Logarithm of the measured throughput a device over the ideal one."""
        return np.asarray(np.log(self.samples_per_s / self.gpus) - self.ideal_log)


def stack(first: Runs, second: Runs) -> Runs:
    """Rows of both."""
    return Runs(
        first.workload + second.workload,
        first.accelerator + second.accelerator,
        np.concatenate([first.gpus, second.gpus]),
        np.concatenate([first.batch, second.batch]),
        np.concatenate([first.samples_per_s, second.samples_per_s]),
        np.concatenate([first.flops, second.flops]),
        np.concatenate([first.trained, second.trained]),
    )


def known_workload(workload: str) -> tuple[float, float]:
    """FLOPs of one sample and trained weights of a public training benchmark; NaN where no transformer formula fits."""
    if workload == "flux1":
        # 11.9 B weights; 256 image tokens (32 x 32 latents in patches of 2 x 2) and 256 text tokens.
        return 6.0 * 11.9e9 * 512.0, 11.9e9
    known = {"llama2_70b_lora": "llama2 70b", "llama31_8b": "llama3 8b", "llama31_405b": "llama3 405b"}
    if workload not in known:
        return float("nan"), float("nan")
    shape, lora = PUBLISHED[known[workload]], workload.endswith("lora")
    flops = 8192.0 * flops_per_token(shape, shape.parameters, 8192, lora=lora)
    # Adapters of rank 16 are some 0.06 % of the weights.
    return flops, shape.parameters * (6e-4 if lora else 1.0)

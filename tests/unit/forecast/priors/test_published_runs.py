"""Published runs that no fit has seen: on devices, sizes and software outside of the fitted ones."""

from __future__ import annotations

import numpy as np
import pytest

from api.estimates import shipped
from forecast.priors.estimate import estimate
from forecast.priors.types import Estimate, Intent

A100_PEAK, H100_PEAK = 312.0, 989.0
MEGATRON = (
    (36, 4096, 32, 4, 1, 128, 512, 142),
    (40, 6144, 48, 8, 1, 256, 1024, 135),
    (48, 8192, 64, 8, 2, 512, 1536, 138),
    (60, 10240, 80, 8, 4, 1024, 1792, 140),
    (80, 12288, 96, 8, 8, 1536, 2304, 148),
    (96, 16384, 128, 8, 16, 1920, 2160, 155),
    (105, 20480, 128, 8, 35, 2520, 2520, 163),
    (128, 25600, 160, 8, 64, 3072, 3072, 163),
)
"""layers, hidden, heads, tensor, pipeline, A100 80 GB, batch, TFLOP/s a GPU with recomputation: Narayanan et al. 2021, table 1."""
LLAMA = ((8192, 1, 8192, 430), (16384, 1, 8192, 400), (16384, 16, 131072, 380))
"""H100, context parallel, sequence, TFLOP/s a GPU in bf16: "The Llama 3 Herd of Models" (2024), table 4; 16 M tokens a step."""


def megatron(row: tuple[int, ...]) -> Estimate:
    """One run of GPT by Megatron-LM: fp16, full recomputation, no flash attention."""
    layers, hidden, heads, tensor, pipeline, gpus, batch, _ = row
    return estimate(
        Intent(
            layers=layers, hidden=hidden, heads=heads, vocabulary=51200, tensor_parallel=tensor, pipeline_parallel=pipeline,
            gpu_count=gpus, batch_sequences=batch, sequence_length=2048, accelerator="a100", precision="fp16",
            recompute="full", flash_attention=False, zero_stage=0, sequence_parallel=False,
        ),
        shipped(),
    )  # fmt: skip


def llama(row: tuple[int, ...]) -> Estimate:
    """One stage of the pre-training of Llama 3 405B."""
    gpus, context, sequence, _ = row
    return estimate(
        Intent(
            model="llama3 405b", gpu_count=gpus, accelerator="h100", tensor_parallel=8, pipeline_parallel=16,
            context_parallel=context, sequence_length=sequence, batch_tokens=2**24, zero_stage=2, precision="bf16",
        ),
        shipped(),
    )  # fmt: skip


def test_step_times_of_published_runs_lie_in_their_intervals() -> None:
    """Of eleven runs at least nine; the median error is under a quarter."""
    # The first paper counts recomputed work: three quarters of it are the model's own.
    foreseen = [(megatron(row), row[-1] * 0.75 / A100_PEAK) for row in MEGATRON]
    foreseen += [(llama(row), row[-1] / H100_PEAK) for row in LLAMA]
    shares = [(made.figures["peak_share"], measured) for made, measured in foreseen]
    inside = [figure.low <= measured <= figure.high for figure, measured in shares]
    assert sum(inside) >= 9
    assert np.median([abs(figure.middle / measured - 1) for figure, measured in shares]) < 0.25


@pytest.mark.parametrize("row", MEGATRON, ids=lambda row: f"{row[1]}")
def test_what_ran_was_foreseen_to_fit(row: tuple[int, ...]) -> None:
    """These ran on A100s of 80 GB, so a warning would have been wrong."""
    assert megatron(row).figures["out_of_memory"].middle < 0.1

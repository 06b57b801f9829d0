"""Memory of one device: weights, gradients, optimiser, activations, buffers.

Model states follow Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (2020),
section 3; activations follow Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022),
section 4, with grouped-query attention and gated feed-forward blocks counted matrix by matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from forecast.priors.types import Figure, Plan

OPTIMIZERS: Mapping[str, float] = MappingProxyType(
    {"adam": 12.0, "adam8bit": 6.0, "lion": 8.0, "momentum": 8.0, "sgd": 4.0, "adafactor": 4.1, "muon": 8.5}
)
"""Optimiser -> bytes a trained weight, its fp32 master copy included (Adam: 4 + 4 + 4)."""

WEIGHT_BYTES = 2.0
"""Weights of mixed-precision training; fp8 and fp4 keep them in 16 bits and cast for the products."""
GRADIENT_BYTES = 2.0
CONTEXT_BYTES = 0.9e9
"""CUDA or HIP context, kernels and cuBLAS workspace of one process; 0.5 to 1.5 GB are seen."""
COMMUNICATOR_BYTES = 0.35e9
"""Buffers of one NCCL communicator with its channels; a job has about one per parallel dimension."""
BUCKET_BYTES = 1.0e9
"""Gradient buckets and gathered layers waiting for their collective."""
SLACK = 0.06
"""Share of activations and temporaries that the caching allocator loses to fragments."""


def weights_by_kind(plan: Plan) -> tuple[float, float]:
    """Weights on the fullest device (the first or last stage) before sharding over replicas: shared, and experts'."""
    shape = plan.shape
    scale = plan.parameters / shape.parameters / plan.tensor
    layers = math.ceil(shape.layers / plan.pipeline)
    embeddings = shape.embedding_parameters / (1.0 if plan.pipeline == 1 or shape.tied else 2.0)
    feed = layers * shape.experts / plan.expert * shape.expert_parameters
    if shape.experts == 1:
        return scale * (layers * shape.attention_parameters + embeddings + feed), 0.0
    return scale * (layers * shape.attention_parameters + embeddings), scale * feed


def weights_per_device(plan: Plan) -> float:
    """All of them."""
    return sum(weights_by_kind(plan))


def sharded_weights(plan: Plan) -> float:
    """What is left of them on a device when replicas share them."""
    shared, experts = weights_by_kind(plan)
    whole = plan.data * plan.context
    # An expert exists once in each expert-parallel group, so only the groups can share it.
    return shared / whole + experts / max(1.0, whole / plan.expert)


def state_bytes(plan: Plan) -> tuple[float, float, float]:
    """Bytes of weights, gradients and optimiser on one device."""
    everything, sharded = weights_per_device(plan), sharded_weights(plan)
    trained = plan.trained_parameters / plan.parameters
    wide = plan.precision == "fp32"
    optimizer = max(0.0, OPTIMIZERS[plan.optimizer] - (4.0 if wide else 0.0))
    return (
        (4.0 if wide else WEIGHT_BYTES) * (sharded if plan.zero_stage >= 3 else everything),
        (4.0 if wide else GRADIENT_BYTES) * trained * (sharded if plan.zero_stage >= 2 else everything),
        optimizer * trained * (sharded if plan.zero_stage >= 1 else everything),
    )


def activation_bytes(plan: Plan) -> float:
    """Bytes kept for the backward pass on the fullest device (the first pipeline stage)."""
    layers = math.ceil(plan.shape.layers / plan.pipeline)
    waiting = min(plan.pipeline, plan.micro_batches)
    kept = layers * waiting * layer_activation_bytes(plan, plan.recompute)
    if plan.recompute == "full":
        kept += layer_activation_bytes(plan, "none")
    return kept + _logit_bytes(plan)


def layer_activation_bytes(plan: Plan, recompute: str) -> float:
    """Bytes one layer keeps of one micro-batch on one device."""
    shape, wide = plan.shape, 4.0 if plan.precision == "fp32" else 2.0
    tokens = plan.sequence_length * plan.micro_batch / plan.context
    split = plan.tensor if plan.sequence_parallel else 1
    if recompute == "full":
        return wide * tokens * shape.hidden / split
    # Inputs of both norms and of both blocks' first matrices are whole on each device without sequence parallel.
    whole = 4.0 * shape.hidden
    attention = shape.hidden * (2.0 + 2.0 * shape.kv_heads / shape.heads)
    feed = (4.0 if shape.gated else 2.0) * shape.feed_forward * shape.experts_active
    kept = wide * tokens * (whole / split + (attention + feed) / plan.tensor)
    if not plan.flash_attention and recompute == "none":
        # Softmax, its dropout mask (one byte) and its output: 5 a s bytes a token.
        kept += 5.0 * tokens * shape.heads * plan.sequence_length / plan.tensor
    return kept


def _logit_bytes(plan: Plan) -> float:
    tokens = plan.sequence_length * plan.micro_batch / plan.context
    # Logits in 16 bits and their softmax in 32.
    return tokens * plan.shape.vocabulary * 6.0 / plan.tensor if plan.pipeline == 1 else 0.0


def buffer_bytes(plan: Plan) -> float:
    """Context, communicators and gradient buckets of one device."""
    groups = sum(size > 1 for size in (plan.tensor, plan.pipeline, plan.context, plan.expert, plan.data))
    local = weights_per_device(plan)
    buckets = min(BUCKET_BYTES, GRADIENT_BYTES * local) if plan.data > 1 else 0.0
    # ZeRO-3 holds the layer in use and the next one, gathered; never more than what other replicas keep.
    layers = max(1, math.ceil(plan.shape.layers / plan.pipeline))
    gathered = WEIGHT_BYTES * min(2.0 * local / layers, local - sharded_weights(plan))
    return CONTEXT_BYTES + groups * COMMUNICATOR_BYTES + buckets + (gathered if plan.zero_stage >= 3 else 0.0)


def memory_figures(plan: Plan) -> dict[str, Figure]:
    """Memory of the fullest device, part by part, in total, and the chance that it does not fit."""
    weights, gradients, optimizer = state_bytes(plan)
    kept, buffers = activation_bytes(plan), buffer_bytes(plan)
    slack = SLACK * (kept + gradients)
    total = weights + gradients + optimizer + kept + buffers + slack
    # Model states are exact; activations vary with the implementation, buffers and slack with versions.
    low = weights + gradients + optimizer + 0.8 * kept + 0.6 * buffers
    high = weights + gradients + optimizer + 1.35 * kept + 1.6 * buffers + 2.5 * slack
    n = weights_per_device(plan)
    sharded = plan.data * plan.context
    exact = Figure.exact
    figures = [
        exact("memory_weights", "bytes", weights, f"{n:.3g} weights on a device before sharding, x {WEIGHT_BYTES:g} bytes" + _over(plan, 3, sharded)),
        exact("memory_gradients", "bytes", gradients, f"{GRADIENT_BYTES:g} bytes a trained weight" + _over(plan, 2, sharded)),
        exact("memory_optimizer", "bytes", optimizer, f"{OPTIMIZERS[plan.optimizer]:g} bytes a trained weight for {plan.optimizer}" + _over(plan, 1, sharded)),
        Figure("memory_activations", "bytes", 0.8 * kept, kept, 1.35 * kept, _activation_reason(plan)),
        Figure("memory_buffers", "bytes", 0.6 * buffers, buffers, 1.6 * buffers, "context, one communicator a parallel dimension, gradient buckets" + (", two gathered layers" if plan.zero_stage >= 3 else "")),
        Figure("memory_slack", "bytes", 0.0, slack, 2.5 * slack, f"{SLACK:.0%} of activations and gradients lost to fragments"),
        Figure("memory_total", "bytes", low, total, high, "sum of the parts"),
    ]  # fmt: skip
    return {figure.name: figure for figure in [*figures, _out_of_memory(plan, low, total, high)]}


def _out_of_memory(plan: Plan, low: float, total: float, high: float) -> Figure:
    # The 80 % interval of the total spans 2 x 1.2816 standard deviations of its logarithm; a floor keeps it honest.
    spread = max(0.04, (math.log(high) - math.log(low)) / (2 * 1.2816))
    chance = 0.5 * math.erfc((math.log(plan.memory_bytes) - math.log(total)) / (spread * math.sqrt(2.0)))
    return Figure.exact(
        "out_of_memory",
        "ratio",
        chance,
        f"{total / 1e9:.1f} GB (80 %: {low / 1e9:.1f} to {high / 1e9:.1f}) against {plan.memory_bytes / 1e9:.0f} GB of a {plan.device.name}",
    )


def _over(plan: Plan, stage: int, shards: int) -> str:
    return f", over {shards} replicas (ZeRO-{plan.zero_stage})" if plan.zero_stage >= stage and shards > 1 else ""


def _activation_reason(plan: Plan) -> str:
    layers = math.ceil(plan.shape.layers / plan.pipeline)
    waiting = min(plan.pipeline, plan.micro_batches)
    return (
        f"{layers} layers x {waiting} micro-batch(es) of {plan.micro_batch} x {plan.sequence_length} tokens, "
        f"recompute {plan.recompute}, {'flash' if plan.flash_attention else 'stored'} attention"
    )

"""Bytes of every collective of one optimiser step, by group and link.

Megatron-LM (Narayanan et al. 2021; Korthikanti et al. 2022) for tensor, sequence and pipeline parallel; ZeRO (Rajbhandari
et al. 2020) and its PyTorch and DeepSpeed implementations for data parallel; messages are counted as NCCL counts them.
"""

from __future__ import annotations

from collections.abc import Iterator

from forecast.priors.links import LinkFit, bus_factor, call_seconds, link_of
from forecast.priors.memory import GRADIENT_BYTES, WEIGHT_BYTES, weights_per_device
from forecast.priors.types import Exchange, Plan

BUCKET_WEIGHTS = 2.5e8
"""Weights of one gradient bucket: 500 MB of 16-bit gradients, DeepSpeed's default; PyTorch's is 25 MB."""


def exchanges(plan: Plan, fit: LinkFit) -> tuple[Exchange, ...]:
    """Traffic of one step as one device sees it, in the order of its weight on the step."""
    found = [*_tensor(plan), *_pipeline(plan), *_context(plan), *_expert(plan), *_data(plan)]
    return tuple(_timed(plan, fit, *parts) for parts in found)


_Parts = tuple[str, str, str, int, int, float, float, str, str]
"""purpose, collective, group, size, inner, count, bytes a call, hidden, because"""


def _timed(
    plan: Plan, fit: LinkFit, purpose: str, collective: str, group: str, size: int, inner: int, count: float,
    message: float, hidden: str, because: str,
) -> Exchange:  # fmt: skip
    link = link_of(plan, group)
    seconds = count * call_seconds(plan, collective, size, message, link, inner, fit)
    wire = count * message * bus_factor(collective, size)
    return Exchange(purpose, collective, group, size, count, message, wire, link, seconds, hidden, because)


def _layers(plan: Plan) -> float:
    return plan.shape.layers / plan.pipeline


def _slab(plan: Plan) -> float:
    """Bytes of one micro-batch's residual stream on one context-parallel rank."""
    return 2.0 * plan.micro_batch * plan.sequence_length / plan.context * plan.shape.hidden


def _tensor(plan: Plan) -> Iterator[_Parts]:
    if plan.tensor == 1:
        return
    passes = 2 + (plan.recompute == "full")
    calls = 2.0 * _layers(plan) * passes * plan.micro_batches
    why = f"2 a layer and pass, {_layers(plan):g} layers, {passes} passes, {plan.micro_batches} micro-batches of {_slab(plan):.4g} bytes"
    if plan.sequence_parallel:
        # The backward pass gathers the input once more for the weight gradients.
        gathers = calls + 2.0 * _layers(plan) * plan.micro_batches
        yield (
            "layer inputs",
            "all_gather",
            "tensor",
            plan.tensor,
            1,
            gathers,
            _slab(plan),
            "partly",
            f"{why}; once more for weight gradients",
        )
        yield "layer outputs", "reduce_scatter", "tensor", plan.tensor, 1, calls, _slab(plan), "partly", why
    else:
        yield "layer outputs", "all_reduce", "tensor", plan.tensor, 1, calls, _slab(plan), "no", why


def _pipeline(plan: Plan) -> Iterator[_Parts]:
    if plan.pipeline == 1:
        return
    message = _slab(plan) / plan.tensor
    why = f"activations forward and gradients backward of {plan.micro_batches} micro-batches, split over tensor {plan.tensor}"
    yield (
        "stage boundaries",
        "send",
        "pipeline",
        plan.pipeline,
        plan.gpu_count // plan.pipeline,
        2.0 * plan.micro_batches,
        message,
        "partly",
        why,
    )


def _context(plan: Plan) -> Iterator[_Parts]:
    if plan.context == 1:
        return
    kv = 2.0 * _slab(plan) * plan.shape.kv_heads / plan.shape.heads / plan.tensor
    hops = plan.context - 1
    calls = 3.0 * _layers(plan) * plan.micro_batches * hops
    yield (
        "keys and values",
        "send",
        "context",
        plan.context,
        plan.tensor,
        calls,
        kv,
        "mostly",
        f"ring attention: {hops} hops a layer, forward once, backward twice",
    )


def _expert(plan: Plan) -> Iterator[_Parts]:
    if plan.expert == 1:
        return
    message = _slab(plan) / plan.tensor * plan.shape.experts_active
    calls = 4.0 * _layers(plan) * plan.micro_batches
    why = f"to the experts and back, forward and backward: 4 a layer; each token goes to {plan.shape.experts_active} of {plan.shape.experts}"
    yield (
        "tokens to experts",
        "all_to_all",
        "expert",
        plan.expert,
        plan.tensor * plan.context,
        calls,
        message,
        "no",
        why,
    )


def _data(plan: Plan) -> Iterator[_Parts]:
    size = plan.data * plan.context
    if size == 1:
        return
    inner = plan.tensor
    local = weights_per_device(plan)
    trained = local * plan.trained_parameters / plan.parameters
    buckets = max(1.0, round(trained / BUCKET_WEIGHTS))
    gradient = GRADIENT_BYTES * trained / buckets
    what = f"{trained:.4g} trained weights x {GRADIENT_BYTES:g} bytes in {buckets:g} bucket(s)"
    if plan.zero_stage == 0:
        yield "gradients", "all_reduce", "data", size, inner, buckets, gradient, "mostly", what
        return
    # Sharded gradients leave no room to add up: they are reduced after each micro-batch.
    times = plan.micro_batches if plan.zero_stage >= 2 else 1
    after = f"{what}, after each of {times} micro-batches" if times > 1 else what
    yield "gradients", "reduce_scatter", "data", size, inner, buckets * times, gradient, "mostly", after
    if plan.zero_stage < 3:
        why = "updated weights, once a step"
        yield "weights", "all_gather", "data", size, inner, buckets, WEIGHT_BYTES * trained / buckets, "partly", why
        return
    layers = max(1.0, _layers(plan))
    calls = 2.0 * layers * plan.micro_batches
    why = f"{layers:g} layers, forward and backward, {plan.micro_batches} micro-batches"
    yield "weights", "all_gather", "data", size, inner, calls, WEIGHT_BYTES * local / layers, "mostly", why

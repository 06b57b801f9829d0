"""Laws of the priors over random jobs and random words."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from api.estimates import answer_intent, shipped
from api.http.schemas import IntentIn
from forecast.priors.blend import blend
from forecast.priors.complete import complete
from forecast.priors.estimate import estimate
from forecast.priors.hardware import ACCELERATORS
from forecast.priors.links import LinkFit
from forecast.priors.memory import memory_figures
from forecast.priors.read_text import read_text
from forecast.priors.traffic import exchanges
from forecast.priors.types import Figure, Intent, Plan
from telemetry.errors import ConfigError

POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def intents(draw: st.DrawFn) -> Intent:
    """Jobs that can be."""
    tensor, pipeline = draw(POWERS), draw(st.sampled_from([1, 2, 4]))
    data = draw(st.sampled_from([1, 2, 3, 8, 64]))
    return Intent(
        parameters=10.0 ** draw(st.floats(7.5, 12.5)),
        accelerator=draw(st.sampled_from(sorted(ACCELERATORS))),
        gpu_count=tensor * pipeline * data,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        zero_stage=draw(st.integers(0, 3)),
        sequence_length=draw(st.sampled_from([128, 2048, 8192, 131072])),
        batch_sequences=draw(st.integers(1, 4096)) * data,
        micro_batch=draw(st.sampled_from([None, 1])),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        precision=draw(st.sampled_from(["fp32", "fp16", "bf16", "fp8", "fp4"])),
        optimizer=draw(st.sampled_from(["adam", "sgd", "lion", "adam8bit"])),
        method=draw(st.sampled_from(["full", "lora"])),
        sequence_parallel=draw(st.booleans()),
        flash_attention=draw(st.booleans()),
        experts=draw(st.sampled_from([None, None, 4, 8])),
        token_budget=draw(st.sampled_from([None, 1e9])),
    )


def total(plan: Plan) -> float:
    """Memory of the fullest device."""
    return memory_figures(plan)["memory_total"].middle


@given(intents())
@settings(max_examples=60, deadline=None)
def test_every_figure_is_finite_ordered_and_explained(intent: Intent) -> None:
    """Any job that can be has an answer; intervals are in order; each figure says why."""
    made = estimate(intent, shipped())
    for figure in made.figures.values():
        assert math.isfinite(figure.high), figure
        assert 0.0 <= figure.low <= figure.middle <= figure.high, figure
        assert figure.because
    for exchange in made.exchanges:
        assert exchange.seconds > 0
        assert exchange.wire_bytes > 0
    assert 0 <= made.figures["out_of_memory"].middle <= 1


@given(intents())
@settings(max_examples=60, deadline=None)
def test_memory_grows_with_the_batch_and_never_with_sharding(intent: Intent) -> None:
    """A larger micro-batch needs more, a higher ZeRO stage never does, recomputation keeps no more layers."""
    plan = complete(intent)
    assert total(replace(plan, micro_batch=2 * plan.micro_batch)) > total(plan)
    assert total(replace(plan, sequence_length=2 * plan.sequence_length)) > total(plan)
    stages = [total(replace(plan, zero_stage=stage)) for stage in range(4)]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(stages))
    kept = [
        memory_figures(replace(plan, recompute=word))["memory_activations"].middle for word in ("none", "selective")
    ]
    assert kept[1] <= kept[0]


@given(intents())
@settings(max_examples=60, deadline=None)
def test_bytes_scale_with_what_is_sent(intent: Intent) -> None:
    """Twice the micro-batches: twice the activations sent; gradients of ZeRO 0 and 1 are sent once all the same."""
    plan = complete(intent)
    more = replace(plan, micro_batches=2 * plan.micro_batches)
    pairs = zip(exchanges(plan, LinkFit()), exchanges(more, LinkFit()), strict=True)
    for once, twice in pairs:
        per_micro_batch = once.group != "data" or (
            plan.zero_stage >= 2 and not (plan.zero_stage == 2 and once.purpose == "weights")
        )
        assert twice.wire_bytes == once.wire_bytes * (2 if per_micro_batch else 1)


@given(intents())
@settings(max_examples=30, deadline=None)
def test_a_slower_network_never_makes_a_step_faster(intent: Intent) -> None:
    """The floor of the step time rises with what the network needs."""
    fast = estimate(intent, shipped()).figures["step_time"]
    slow = estimate(replace(intent, nic_bytes_per_s=1e7), shipped()).figures["step_time"]
    assert slow.middle >= fast.middle
    assert slow.low >= fast.low


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    """Nothing else than a ConfigError comes out, and what comes out can be answered or is refused as well."""
    with suppress(ConfigError):
        estimate(read_text(text).intent, shipped())


WORDS = """train a 10 B 7b 64 H100 8xB200 GPUs ZeRO-2 fsdp zero 9 tensor parallel 4 tp=8 pp 3 sequence 8k batch 4 M tokens size 0 1e9
micro-batch for 200 B llama 3.1 8b mixtral 8x7b adam fp8 lora experts top-2 layers hidden of nodes -5 0.5 400 Gb/s infiniband"""


@given(st.lists(st.sampled_from(sorted(set(WORDS.split()))), max_size=25))
@settings(max_examples=300, deadline=None)
def test_jumbled_phrases_are_answered_or_refused(words: list[str]) -> None:
    """Every answer is finite JSON; every refusal is a sentence."""
    try:
        answer = answer_intent(IntentIn(text=" ".join(words)))
    except ConfigError:
        return
    json.dumps(answer.model_dump(), allow_nan=False)


@given(st.floats(0.01, 100), st.floats(1.01, 3), st.lists(st.floats(0.001, 1000), max_size=50), st.floats(1, 20))
@settings(max_examples=200, deadline=None)
def test_blending_lies_between_prior_and_telemetry(
    middle: float, spread: float, seen: list[float], each: float
) -> None:
    """The median never leaves the span of both; without telemetry it is the prior; order is kept."""
    prior = Figure("step_time", "seconds", middle / spread, middle, middle * spread, "")
    mixed = blend(prior, np.array(seen, dtype=np.float64), values_per_independent=each)
    assert mixed.low <= mixed.middle <= mixed.high
    centre = float(np.exp(np.median(np.log(seen)))) if seen else middle
    assert min(centre, middle) * (1 - 1e-9) <= mixed.middle <= max(centre, middle) * (1 + 1e-9)
    assert 0 <= mixed.prior_weight <= 1
    if not seen:
        assert (mixed.low, mixed.high) == (prior.low, prior.high)

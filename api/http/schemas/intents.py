"""What is asked and answered about a job that has not run yet."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from api.http.schemas.base import Answer

_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


def _amount(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is wanted, not yes or no")
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([kKmMbBtT]?)\s*", value)
    if found is None:
        raise ValueError("a number is wanted, such as 4096, 4e6, '4M' or '10B'")
    return float(found[1]) * _SCALES[found[2].lower()]


Amount = Annotated[
    float,
    BeforeValidator(_amount, json_schema_input_type=float | str),
    Field(gt=0, allow_inf_nan=False, examples=[1e10]),
]
Count = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)]


class IntentIn(BaseModel):
    """A job as its user describes it: in words, field by field, or both; what is left out is assumed and named."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str | None = Field(
        None,
        max_length=2000,
        description="The job in plain words.",
        examples=["train a 10 B transformer with Adam on 64 H100, ZeRO-2, tensor parallel 4, sequence 4096"],
    )
    model: str | None = Field(None, max_length=200, description="A published model's name, such as `llama3 8b`.")
    parameters: Amount | None = Field(None, description="Weights of the model; `10B` is read too.")
    active_parameters: Amount | None = Field(None, description="Weights a token passes, for a mixture of experts.")
    layers: Count | None = None
    hidden: Count | None = None
    heads: Count | None = None
    kv_heads: Count | None = None
    feed_forward: Count | None = None
    vocabulary: Count | None = None
    experts: Count | None = None
    experts_active: Count | None = None
    method: Literal["full", "lora"] | None = None
    accelerator: str | None = Field(None, max_length=100, examples=["h100"])
    gpu_count: Count | None = None
    gpus_per_node: Count | None = None
    precision: Literal["fp32", "fp16", "bf16", "fp8", "fp4"] | None = None
    optimizer: Literal["adam", "adam8bit", "lion", "momentum", "sgd", "adafactor", "muon"] | None = None
    zero_stage: int | None = Field(None, ge=0, le=3, strict=True, description="Fully sharded data parallel is 3.")
    tensor_parallel: Count | None = None
    pipeline_parallel: Count | None = None
    context_parallel: Count | None = None
    expert_parallel: Count | None = None
    sequence_parallel: bool | None = None
    sequence_length: Count | None = Field(None, description="Tokens of one sequence.")
    batch_tokens: Amount | None = Field(None, description="Tokens of one optimiser step over all GPUs.")
    batch_sequences: Count | None = Field(None, description="The same as sequences.")
    micro_batch: Count | None = Field(None, description="Sequences in one pass of one replica.")
    recompute: Literal["none", "selective", "full"] | None = None
    flash_attention: bool | None = None
    token_budget: Amount | None = Field(None, description="Tokens to train on.")
    nic_bytes_per_s: Amount | None = Field(None, description="Network of one GPU and direction.")
    memory_bytes: Amount | None = Field(None, description="Memory of one GPU, where it is not the data sheet's.")


class UnderstoodOut(Answer):
    """A phrase of the description and what it was taken for."""

    phrase: str
    meaning: str


class AssumptionOut(Answer):
    """Something that was not said, and what was taken instead."""

    name: str
    value: str
    why: str


class FigureOut(Answer):
    """One figure with its 80 % interval and the reasoning."""

    unit: str
    low: float
    middle: float
    high: float
    because: str = Field(description="The formula and the numbers used.")


class ExchangeOut(Answer):
    """One kind of collective in one optimiser step, as one GPU sees it."""

    purpose: str
    collective: Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send"]
    group: Literal["data", "tensor", "pipeline", "context", "expert"]
    group_size: int
    count: float = Field(description="Calls in one step.")
    bytes_per_call: float = Field(description="Size of the message, as NCCL counts it.")
    wire_bytes: float = Field(description="Bytes that one GPU sends in one step, all calls.")
    link: Literal["scale_up", "network"]
    seconds: float = Field(description="Time of all calls when nothing else uses the link.")
    hidden: Literal["mostly", "partly", "no"] = Field(description="How it usually overlaps with computing.")
    because: str


class EstimateOut(Answer):
    """What to expect of a job before it has run."""

    understood: list[UnderstoodOut] = Field(description="Of `text`, phrase by phrase.")
    unread: list[str] = Field(description="Words of `text` that changed nothing.")
    assumed: list[AssumptionOut]
    figures: dict[str, FigureOut]
    exchanges: list[ExchangeOut]
    warnings: list[str]
    basis: str = Field(description="What step times and bandwidths are fitted on.")

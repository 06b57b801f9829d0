"""Descriptions in plain words: what is understood, what is not, what is refused."""

from __future__ import annotations

from dataclasses import fields

import pytest

from forecast.priors.complete import complete
from forecast.priors.read_text import read_text
from forecast.priors.types import Intent
from telemetry.errors import ConfigError

SENTENCE = "train a 10 B transformer with Adam on 64 H100, ZeRO-2, tensor parallel 4, sequence 4096, batch 4 M tokens"


def said(intent: Intent) -> dict[str, object]:
    """The fields that were said."""
    return {f.name: getattr(intent, f.name) for f in fields(intent) if getattr(intent, f.name) not in (None, "")}


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (SENTENCE, {"parameters": 1e10, "optimizer": "adam", "gpu_count": 64, "accelerator": "h100", "zero_stage": 2, "tensor_parallel": 4, "sequence_length": 4096, "batch_tokens": 4e6}),
        ("Llama 3.1 8B on 8xB200, fp8, FSDP, 8k context, batch size 16, for 15T tokens", {"model": "llama3 8b", "gpu_count": 8, "accelerator": "b200", "precision": "fp8", "zero_stage": 3, "sequence_length": 8192, "batch_sequences": 16, "token_budget": 15e12}),
        ("llama-2-70b with LoRA on 2 nodes of 8 MI300X, flash attention, gradient checkpointing", {"model": "llama2 70b", "method": "lora", "gpu_count": 16, "gpus_per_node": 8, "accelerator": "mi300x", "flash_attention": True, "recompute": "full"}),
        ("mixtral 8x7b 128 A100-40GB TP=2 PP=4 ep 8 micro-batch 2 400 Gb/s infiniband", {"model": "mixtral 8x7b", "gpu_count": 128, "accelerator": "a100-40gb", "tensor_parallel": 2, "pipeline_parallel": 4, "expert_parallel": 8, "micro_batch": 2, "nic_bytes_per_s": 5e10}),
        ("1.3b params, 8 H200 GPUs, 8-way tensor parallel, without recomputation, 2048-token sequences", {"parameters": 1.3e9, "gpu_count": 8, "accelerator": "h200", "tensor_parallel": 8, "recompute": "none", "sequence_length": 2048}),
        ("24 layers, hidden size 2048, 16 heads, 8 experts, top-2 on 16 gpus without sequence parallel", {"layers": 24, "hidden": 2048, "heads": 16, "experts": 8, "experts_active": 2, "gpu_count": 16, "sequence_parallel": False}),
        ("0.5 B on 1 GPU", {"parameters": 5e8, "gpu_count": 1}),
    ],
)  # fmt: skip
def test_phrases_are_understood(text: str, meaning: dict[str, object]) -> None:
    """Each phrase sets its fields and nothing else."""
    assert said(read_text(text).intent) == meaning


def test_every_phrase_is_told_and_nothing_is_left() -> None:
    """The reading names the phrases in the order of the text."""
    reading = read_text(SENTENCE)
    assert [item.phrase for item in reading.understood] == ["10 b", "adam", "64 h100", "zero-2", "tensor parallel 4", "sequence 4096", "batch 4 m tokens"]  # fmt: skip
    assert reading.unread == ()


def test_what_is_not_understood_is_told() -> None:
    """Words without a meaning here are listed, not guessed at."""
    reading = read_text("a 7 B model on 8 H100 with curriculum learning by friday under 900 dollars")
    assert set(reading.unread) >= {"curriculum", "learning", "friday", "900", "dollars"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("cook a soup", "nothing"),
        ("7b on 64 H100 and 128 H100", "gpu_count"),
        ("7b on -5 gpus", "negative"),
        ("7b 13b on 8 gpus", "parameters"),
        ("llama 2 7b or llama 2 13b on 8 gpus", "model"),
        ("x" * 2001, "2001 characters"),
    ],
)
def test_what_contradicts_itself_is_refused(text: str, names: str) -> None:
    """The sentence names the thing."""
    with pytest.raises(ConfigError, match=names):
        read_text(text)


@pytest.mark.parametrize(
    ("intent", "names"),
    [
        (Intent(gpu_count=8), "size of the model"),
        (Intent(parameters=7e9), "number of GPUs"),
        (Intent(parameters=7e9, gpu_count=8, tensor_parallel=3), "cannot be split"),
        (Intent(parameters=7e9, gpu_count=8, tensor_parallel=16), "cannot be split"),
        (Intent(parameters=7e9, gpu_count=8, accelerator="abacus"), "abacus"),
        (Intent(parameters=7e9, gpu_count=8, precision="int3"), "int3"),
        (Intent(parameters=7e9, gpu_count=8, optimizer="magic"), "magic"),
        (Intent(parameters=7e9, gpu_count=8, zero_stage=4), "zero_stage is 4"),
        (Intent(parameters=1.0, gpu_count=8), "parameters is 1"),
        (Intent(parameters=float("nan"), gpu_count=8), "parameters is nan"),
        (Intent(parameters=7e9, gpu_count=8, expert_parallel=8), "without experts"),
        (Intent(parameters=7e9, gpu_count=8, experts=4, expert_parallel=3), "does not divide"),
        (Intent(parameters=7e9, gpu_count=8, experts=2, experts_active=4), "active experts"),
        (Intent(parameters=7e9, gpu_count=512, pipeline_parallel=512), "more stages"),
        (Intent(parameters=7e9, gpu_count=8, batch_sequences=2, micro_batch=4), "larger than the batch"),
        (Intent(model="llama3 8b", parameters=70e9, gpu_count=8), "contradict"),
        (Intent(model="llama3 8b", gpu_count=8, heads=4, kv_heads=8), "kv_heads"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(intent: Intent, names: str) -> None:
    """The sentence names the field; nothing is mended silently."""
    with pytest.raises(ConfigError, match=names):
        complete(intent)


def test_everything_assumed_is_told() -> None:
    """What was not said is in the list with its reason, and what was said is not."""
    plan = complete(read_text("a 7 B model on 64 H100").intent)
    names = {item.name for item in plan.assumptions}
    assert names >= {"shape", "gpus_per_node", "parallelism", "sequence_length", "batch_tokens", "micro_batch", "precision", "optimizer", "zero_stage", "recompute", "flash_attention", "nic_bytes_per_s"}  # fmt: skip
    assert all(item.why for item in plan.assumptions)
    full = complete(read_text(SENTENCE + " bf16 with recompute flash attention micro-batch 1").intent)
    assert not {"sequence_length", "precision", "optimizer", "zero_stage", "recompute", "micro_batch"} & {a.name for a in full.assumptions}  # fmt: skip


def test_a_number_with_too_many_digits_is_not_cut():
    """What no rule can take whole is left unread; its last groups are no number of their own."""
    reading = read_text("a 10 B model on 999,999,999 H100")
    assert reading.intent.gpu_count is None
    assert "999,999,999" in reading.unread

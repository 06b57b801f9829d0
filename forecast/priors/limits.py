"""What values an intent may have."""

from __future__ import annotations

from forecast.priors.memory import OPTIMIZERS
from forecast.priors.types import Intent
from telemetry.errors import ConfigError

PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "fp4")
RECOMPUTES = ("none", "selective", "full")
LIMITS: dict[str, tuple[float, float]] = {
    "parameters": (1e7, 1e13),
    "active_parameters": (1e6, 1e13),
    "layers": (1, 2000),
    "hidden": (16, 262_144),
    "heads": (1, 4096),
    "kv_heads": (1, 4096),
    "feed_forward": (16, 2_097_152),
    "vocabulary": (100, 10_000_000),
    "experts": (1, 4096),
    "experts_active": (1, 4096),
    "gpu_count": (1, 1_000_000),
    "gpus_per_node": (1, 128),
    "zero_stage": (0, 3),
    "tensor_parallel": (1, 1024),
    "pipeline_parallel": (1, 2000),
    "context_parallel": (1, 1024),
    "expert_parallel": (1, 4096),
    "sequence_length": (1, 10_000_000),
    "batch_tokens": (1, 1e12),
    "batch_sequences": (1, 100_000_000),
    "micro_batch": (1, 65_536),
    "token_budget": (1, 1e16),
    "nic_bytes_per_s": (1e6, 1e13),
    "memory_bytes": (1e9, 1e13),
}
"""Field -> smallest and largest value that makes sense."""


def check_ranges(intent: Intent) -> None:
    """Refuse what cannot be.

    Raises:
        ConfigError: names the field, its value and what is allowed.
    """
    for name, (low, high) in LIMITS.items():
        value = getattr(intent, name)
        if value is not None and not low <= value <= high:
            raise ConfigError(f"{name} is {value:g}", mend=f"Give a number from {low:g} to {high:g}")
    for name, allowed in (("precision", PRECISIONS), ("recompute", RECOMPUTES), ("optimizer", tuple(OPTIMIZERS))):
        value = getattr(intent, name)
        if value is not None and value not in allowed:
            raise ConfigError(f"{name} {value!r} is not known", mend=f"Known are {', '.join(allowed)}")
    if intent.method not in (None, "full", "lora"):
        raise ConfigError(f"method {intent.method!r} is not known", mend="Known are full and lora")

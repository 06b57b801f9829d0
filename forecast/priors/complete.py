"""Fills in what a description leaves open, and says each time what was taken and why; refuses what cannot be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace

from forecast.priors.hardware import ACCELERATORS, Accelerator, find_accelerator
from forecast.priors.limits import check_ranges
from forecast.priors.shapes import ModelShape, published_shape, shape_of_size
from forecast.priors.types import Assumption, Intent, Plan
from telemetry.errors import ConfigError


@dataclass(slots=True)
class _Notes:
    taken: list[Assumption] = field(default_factory=list)

    def take(self, name: str, value: object, why: str) -> None:
        self.taken.append(Assumption(name, str(value), why))


def complete(intent: Intent) -> Plan:
    """The plan behind an intent.

    Raises:
        ConfigError: a value is out of range, contradicts another, or the model's size or GPU count is missing.
    """
    check_ranges(intent)
    notes = _Notes()
    shape, parameters = _shape(intent, notes)
    device = _device(intent, notes)
    gpus = _gpu_count(intent)
    per_node = intent.gpus_per_node or _per_node(device, gpus, notes)
    tensor, pipeline, context, data = _grid(intent, gpus, notes)
    expert = _expert(intent, shape, data, notes)
    sequence = _sequence(intent, notes)
    batch = _batch(intent, sequence, data, notes)
    micro = _micro(intent, batch, data, notes)
    lora = (intent.method or "full") == "lora"
    active = intent.active_parameters or parameters * shape.active_parameters / shape.parameters
    trained = parameters if not lora else _adapter_parameters(shape, notes)
    return Plan(
        shape=shape,
        parameters=parameters,
        active_parameters=min(active, parameters),
        trained_parameters=trained,
        device=device,
        gpu_count=gpus,
        gpus_per_node=min(per_node, gpus),
        precision=intent.precision or _default(notes, "precision", "bf16", "the usual choice for training"),
        optimizer=intent.optimizer or _default(notes, "optimizer", "adam", "the usual choice for transformers"),
        zero_stage=_zero(intent, notes),
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        data=data,
        sequence_parallel=_sequence_parallel(intent, tensor, notes),
        sequence_length=sequence,
        batch_sequences=batch,
        micro_batch=micro,
        micro_batches=max(1, math.ceil(batch / (data * micro))),
        recompute=intent.recompute or _default(notes, "recompute", "none", "nothing was said about it"),
        flash_attention=_flash(intent, notes),
        lora=lora,
        token_budget=intent.token_budget,
        nic_bytes_per_s=intent.nic_bytes_per_s
        or _default_number(notes, "nic_bytes_per_s", device.nic_bytes_per_s, f"a reference server with {device.name}"),
        memory_bytes=intent.memory_bytes or device.hbm_bytes,
        assumptions=tuple(notes.taken),
    )


def _default(notes: _Notes, name: str, value: str, why: str) -> str:
    notes.take(name, value, why)
    return value


def _default_number(notes: _Notes, name: str, value: float, why: str) -> float:
    notes.take(name, f"{value:.4g}", why)
    return value


def _shape(intent: Intent, notes: _Notes) -> tuple[ModelShape, float]:
    named = published_shape(intent.model) if intent.model else None
    said = {part.name: getattr(intent, part.name) for part in fields(ModelShape) if hasattr(intent, part.name)}
    said = {name: value for name, value in said.items() if value is not None}
    if named is not None:
        name, shape = named
        if intent.parameters is not None and not 0.5 < intent.parameters / shape.parameters < 2.0:
            raise ConfigError(
                f"{intent.parameters:.3g} parameters and {name}, which has {shape.parameters:.3g}, contradict each other",
                mend="Leave out one of them",
            )
        notes.take("shape", f"{name}: {shape.layers} layers of {shape.hidden}", "the published shape of that name")
    elif intent.layers and intent.hidden:
        shape = ModelShape(
            intent.layers, intent.hidden, max(1, intent.hidden // 128), max(1, intent.hidden // 128),
            4 * intent.hidden, 50_000, gated=False, tied=True,
        )  # fmt: skip
    elif intent.parameters is not None:
        # Most weights of a mixture of experts are in the experts; the rest is shared.
        shape = shape_of_size(max(1e7, intent.parameters / (intent.experts or 1) ** 0.9))
        notes.take(
            "shape",
            f"{shape.layers} layers of {shape.hidden}",
            "a usual shape for this size; give layers and hidden for a better one",
        )
    else:
        raise ConfigError(
            "the size of the model is missing",
            mend="Give its parameters (10 B), its layers and hidden, or a published name such as Llama 3 8B",
        )
    if "heads" in said and "kv_heads" not in said:
        said["kv_heads"] = said["heads"] if named is None else min(said["heads"], shape.kv_heads)
    if said.get("experts", 1) > 1 and "experts_active" not in said and shape.experts_active == 1:
        said["experts_active"] = min(2, said["experts"])
        notes.take("experts_active", said["experts_active"], "the usual number of experts per token")
    shape = replace(shape, **said)
    _check_shape(shape, intent)
    return shape, intent.parameters or shape.parameters


def _check_shape(shape: ModelShape, intent: Intent) -> None:
    if shape.experts_active > shape.experts:
        raise ConfigError(
            f"{shape.experts_active} active experts of {shape.experts}", mend="Give at least as many experts"
        )
    if (intent.pipeline_parallel or 1) > shape.layers:
        raise ConfigError(
            f"pipeline_parallel {intent.pipeline_parallel} has more stages than the {shape.layers} layers",
            mend=f"Give at most {shape.layers}",
        )
    if shape.kv_heads > shape.heads:
        raise ConfigError(f"{shape.kv_heads} kv_heads and {shape.heads} heads", mend="Give at least as many heads")


def _device(intent: Intent, notes: _Notes) -> Accelerator:
    if intent.accelerator is None:
        notes.take("accelerator", "h100", "none was named")
        return ACCELERATORS["h100"]
    device = find_accelerator(intent.accelerator)
    if device is None:
        raise ConfigError(
            f"accelerator {intent.accelerator!r} is not known", mend=f"Known are {', '.join(sorted(ACCELERATORS))}"
        )
    return device


def _gpu_count(intent: Intent) -> int:
    if intent.gpu_count is None:
        raise ConfigError("the number of GPUs is missing", mend="Give it, such as 'on 64 H100' or gpu_count: 64")
    return intent.gpu_count


def _per_node(device: Accelerator, gpus: int, notes: _Notes) -> int:
    usual = 4 if device.scale_up_gpus > 8 else 8
    if gpus > usual:
        notes.take("gpus_per_node", usual, f"a reference server with {device.name}")
    return usual


def _grid(intent: Intent, gpus: int, notes: _Notes) -> tuple[int, int, int, int]:
    said = (intent.tensor_parallel, intent.pipeline_parallel, intent.context_parallel)
    tensor, pipeline, context = (value or 1 for value in said)
    if tensor * pipeline * context > gpus or gpus % (tensor * pipeline * context):
        raise ConfigError(
            f"{gpus} GPUs cannot be split into tensor {tensor} x pipeline {pipeline} x context {context} parts",
            mend="Their product must divide the number of GPUs",
        )
    data = gpus // (tensor * pipeline * context)
    if any(value is None for value in said[:2]):
        notes.take(
            "parallelism",
            f"tensor {tensor}, pipeline {pipeline}, data {data}",
            "what is not said is 1; data is the rest",
        )
    return tensor, pipeline, context, data


def _expert(intent: Intent, shape: ModelShape, data: int, notes: _Notes) -> int:
    if shape.experts <= 1:
        if (intent.expert_parallel or 1) > 1:
            raise ConfigError(
                f"expert_parallel {intent.expert_parallel} without experts", mend="Give experts: N as well"
            )
        return 1
    size = intent.expert_parallel
    if size is None:
        size = math.gcd(shape.experts, data)
        notes.take("expert_parallel", size, "the largest that divides both the experts and the data-parallel size")
    elif shape.experts % size or data % size:
        raise ConfigError(
            f"expert_parallel {size} does not divide {shape.experts} experts and {data} data-parallel replicas",
            mend=f"Give a divisor of {math.gcd(shape.experts, data)}",
        )
    return size


def _sequence(intent: Intent, notes: _Notes) -> int:
    if intent.sequence_length is None:
        notes.take("sequence_length", 4096, "none was given")
    return intent.sequence_length or 4096


def _batch(intent: Intent, sequence: int, data: int, notes: _Notes) -> int:
    if intent.batch_sequences is not None:
        batch = intent.batch_sequences
    elif intent.batch_tokens is not None:
        batch = max(1, round(intent.batch_tokens / sequence))
    else:
        batch = data * max(1, round(4e6 / sequence / data))
        notes.take("batch_tokens", f"{batch * sequence:.3g}", "none was given; about 4 million tokens a step are usual")
    return batch


def _micro(intent: Intent, batch: int, data: int, notes: _Notes) -> int:
    if intent.micro_batch is None:
        notes.take("micro_batch", 1, "none was given; larger ones need more memory")
    micro = intent.micro_batch or 1
    if micro > batch:
        raise ConfigError(
            f"micro_batch {micro} is larger than the batch of {batch} sequences", mend="Give a smaller one"
        )
    if batch < data:
        notes.take("batch", f"{data - batch} of {data} replicas idle", f"{batch} sequences do not fill {data} replicas")
    return micro


def _zero(intent: Intent, notes: _Notes) -> int:
    if intent.zero_stage is None:
        notes.take("zero_stage", 0, "nothing was said; plain data parallel keeps the optimiser whole on each replica")
    return intent.zero_stage or 0


def _sequence_parallel(intent: Intent, tensor: int, notes: _Notes) -> bool:
    if tensor == 1:
        return False
    if intent.sequence_parallel is None:
        notes.take("sequence_parallel", "yes", "the usual companion of tensor parallel")
        return True
    return intent.sequence_parallel


def _flash(intent: Intent, notes: _Notes) -> bool:
    if intent.flash_attention is None:
        notes.take("flash_attention", "yes", "the usual choice today; without it the attention matrix is stored")
        return True
    return intent.flash_attention


def _adapter_parameters(shape: ModelShape, notes: _Notes) -> float:
    rank = 16
    notes.take("lora_rank", rank, "none was given; adapters on the four attention matrices")
    kv = shape.hidden * shape.kv_heads / shape.heads
    return float(shape.layers * rank * (2 * 2 * shape.hidden + 2 * (shape.hidden + kv)))

"""What a user says about a job, what is made of it, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass

from forecast.priors.hardware import Accelerator
from forecast.priors.shapes import ModelShape


@dataclass(frozen=True, slots=True)
class Intent:
    """A training job as its user describes it; None means not said.

    Args:
        model: a published model's name or the user's words.
        parameters: weights of the model.
        active_parameters: weights that one token passes, for a mixture of experts.
        layers: transformer blocks.
        hidden: width of the residual stream.
        heads: attention heads.
        kv_heads: key and value heads.
        feed_forward: inner width of a feed-forward block.
        vocabulary: tokens of the vocabulary.
        experts: feed-forward blocks to choose from in a layer.
        experts_active: how many a token passes.
        method: ``full`` or ``lora``.
        accelerator: name of the device.
        gpu_count: devices.
        gpus_per_node: devices in one host.
        precision: ``fp32``, ``fp16``, ``bf16``, ``fp8`` or ``fp4`` of the matrix products.
        optimizer: a word of ``forecast.priors.memory.OPTIMIZERS``.
        zero_stage: 0 to 3; fully sharded data parallel is 3.
        tensor_parallel: devices that share one layer.
        pipeline_parallel: stages.
        context_parallel: devices that share one sequence.
        expert_parallel: devices that share one layer's experts.
        sequence_parallel: norms and dropout split over the tensor-parallel group.
        sequence_length: tokens of one sequence.
        batch_tokens: tokens of one optimiser step over all devices.
        batch_sequences: the same as sequences.
        micro_batch: sequences in one pass of one model replica.
        recompute: ``none``, ``selective`` (attention only) or ``full``.
        flash_attention: the attention matrix is never stored.
        token_budget: tokens to train on.
        nic_bytes_per_s: network of one device and direction, where it is not the reference server's.
        memory_bytes: device memory, where it is not the data sheet's.
    """

    model: str = ""
    parameters: float | None = None
    active_parameters: float | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    feed_forward: int | None = None
    vocabulary: int | None = None
    experts: int | None = None
    experts_active: int | None = None
    method: str | None = None
    accelerator: str | None = None
    gpu_count: int | None = None
    gpus_per_node: int | None = None
    precision: str | None = None
    optimizer: str | None = None
    zero_stage: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    context_parallel: int | None = None
    expert_parallel: int | None = None
    sequence_parallel: bool | None = None
    sequence_length: int | None = None
    batch_tokens: float | None = None
    batch_sequences: int | None = None
    micro_batch: int | None = None
    recompute: str | None = None
    flash_attention: bool | None = None
    token_budget: float | None = None
    nic_bytes_per_s: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something the user did not say and what was taken instead.

    Args:
        name: field of the intent.
        value: what was taken, in words.
        why: the rule that chose it.
    """

    name: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """An intent with nothing left open.

    Args:
        shape: the transformer.
        parameters: weights, as the user gave them or as the shape has them.
        active_parameters: weights that one token passes.
        trained_parameters: weights that the optimiser changes; few with LoRA.
        device: the accelerator.
        gpu_count: devices.
        gpus_per_node: devices in one host.
        precision: of the matrix products.
        optimizer: its name.
        zero_stage: 0 to 3.
        tensor: tensor-parallel size.
        pipeline: stages.
        context: context-parallel size.
        expert: expert-parallel size.
        data: model replicas.
        sequence_parallel: as in ``Intent``.
        sequence_length: tokens.
        batch_sequences: sequences of one optimiser step.
        micro_batch: sequences in one pass of one replica.
        micro_batches: passes of one replica in one step.
        recompute: as in ``Intent``.
        flash_attention: as in ``Intent``.
        lora: only small adapters are trained.
        token_budget: tokens to train on, None when not said.
        nic_bytes_per_s: network of one device and direction.
        memory_bytes: memory of one device.
        assumptions: everything that the user did not say.
    """

    shape: ModelShape
    parameters: float
    active_parameters: float
    trained_parameters: float
    device: Accelerator
    gpu_count: int
    gpus_per_node: int
    precision: str
    optimizer: str
    zero_stage: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    data: int
    sequence_parallel: bool
    sequence_length: int
    batch_sequences: int
    micro_batch: int
    micro_batches: int
    recompute: str
    flash_attention: bool
    lora: bool
    token_budget: float | None
    nic_bytes_per_s: float
    memory_bytes: float
    assumptions: tuple[Assumption, ...] = ()

    @property
    def tokens_per_step(self) -> float:
        """Tokens of one optimiser step."""
        return float(self.batch_sequences) * self.sequence_length


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its 80 % interval and the reasoning.

    Args:
        name: which, such as ``step_time``.
        unit: ``seconds``, ``bytes``, ``flops``, ``ratio``, ``watts``, ``tokens_per_second``.
        low: lower end of the 80 % interval; equal to ``middle`` where the figure follows from the description alone.
        middle: median.
        high: upper end.
        because: a sentence with the formula and the numbers used.
    """

    name: str
    unit: str
    low: float
    middle: float
    high: float
    because: str

    @staticmethod
    def exact(name: str, unit: str, value: float, because: str) -> Figure:
        """A figure that follows from the description."""
        return Figure(name, unit, value, value, value, because)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One kind of collective in one optimiser step, as one device sees it.

    Args:
        purpose: what is exchanged, such as ``gradients``.
        collective: ``all_reduce``, ``reduce_scatter``, ``all_gather``, ``all_to_all`` or ``send``.
        group: ``data``, ``tensor``, ``pipeline``, ``context`` or ``expert``.
        group_size: devices that take part.
        count: calls in one step.
        bytes_per_call: size of the message as NCCL counts it.
        wire_bytes: bytes that one device sends in one step, all calls.
        link: ``scale_up`` or ``network``.
        seconds: time of all calls when nothing else uses the link.
        hidden: how it usually overlaps with computing: ``mostly``, ``partly`` or ``no``.
        because: a sentence with the formula.
    """

    purpose: str
    collective: str
    group: str
    group_size: int
    count: float
    bytes_per_call: float
    wire_bytes: float
    link: str
    seconds: float
    hidden: str
    because: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """Everything foreseen for a job from its description.

    Args:
        plan: what was estimated.
        figures: by name.
        exchanges: traffic of one step.
        warnings: sentences about what does not fit or is outside of what the fit has seen.
        basis: a sentence naming the fit behind step times.
    """

    plan: Plan
    figures: dict[str, Figure]
    exchanges: tuple[Exchange, ...]
    warnings: tuple[str, ...]
    basis: str

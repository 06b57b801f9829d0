"""Floating-point work of a transformer, a token and a step.

Kaplan et al., "Scaling Laws for Neural Language Models" (2020), appendix B: 2 FLOPs a weight a token forward, twice that
backward; attention adds 2 s h a layer forward for scores and values together where the mask is causal.
"""

from __future__ import annotations

from forecast.priors.shapes import ModelShape
from forecast.priors.types import Figure, Plan


def flops_per_token(shape: ModelShape, active_parameters: float, sequence_length: int, *, lora: bool = False) -> float:
    """FLOPs of forward and backward for one token; nothing is counted twice for recomputation.

    Args:
        shape: the transformer.
        active_parameters: weights that a token passes; the input embedding is a look-up and costs nothing.
        sequence_length: tokens of one sequence.
        lora: the weights are frozen: their gradients are not computed, so 4 instead of 6 FLOPs a weight.
    """
    looked_up = 0.0 if shape.tied else shape.vocabulary * shape.hidden
    multiplied = max(0.0, active_parameters - looked_up)
    attention = 2.0 * sequence_length * shape.hidden * shape.layers
    return (4.0 if lora else 6.0) * multiplied + 3.0 * attention


def work_figures(plan: Plan) -> dict[str, Figure]:
    """FLOPs of a token and of a step, without recomputation (model FLOPs) and with it (hardware FLOPs)."""
    token = flops_per_token(plan.shape, plan.active_parameters, plan.sequence_length, lora=plan.lora)
    step = token * plan.tokens_per_step
    again = recomputed_share(plan)
    figures = (
        Figure.exact(
            "flops_per_token",
            "flops",
            token,
            f"{4 if plan.lora else 6} x {plan.active_parameters:.4g} weights (without the input embedding) + "
            f"6 x {plan.sequence_length} x {plan.shape.hidden} x {plan.shape.layers} for causal attention",
        ),
        Figure.exact("flops_per_step", "flops", step, f"x {plan.tokens_per_step:.4g} tokens a step"),
        Figure.exact(
            "hardware_flops_per_step", "flops", step * (1.0 + again), f"{again:.0%} more for recompute {plan.recompute}"
        ),
    )
    return {figure.name: figure for figure in figures}


def recomputed_share(plan: Plan) -> float:
    """Work done again in the backward pass as a share of the model's own."""
    if plan.recompute == "full":
        return 0.5 if plan.lora else 1.0 / 3.0
    if plan.recompute == "selective":
        token = flops_per_token(plan.shape, plan.active_parameters, plan.sequence_length, lora=plan.lora)
        return 2.0 * plan.sequence_length * plan.shape.hidden * plan.shape.layers / token
    return 0.0

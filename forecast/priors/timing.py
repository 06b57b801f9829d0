"""Step time of a plan: the fitted share of the peak, corrected for what the fit has not seen, split into its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forecast.priors.coefficients import Coefficients
from forecast.priors.efficiency import Z80
from forecast.priors.runs import Runs, known_workload
from forecast.priors.types import Exchange, Figure, Plan
from forecast.priors.work import flops_per_token, recomputed_share

EXPOSED = {"no": (1.0, 1.0, 1.0), "partly": (0.2, 0.5, 0.8), "mostly": (0.0, 0.1, 0.4)}
"""How an exchange overlaps -> low, usual and high share of its time that the step waits for it."""
NARROW_GAIN = (1.15, 1.35, 1.6)
"""Low, usual and high gain of fp8 over 16 bits in whole training steps; the fitted runs used the narrower one."""
BEST_SHARE = 0.85
"""Nothing reaches more of the peak than this in a whole step."""
WORKLOADS = ("llama2_70b_lora", "llama31_8b", "llama31_405b")


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step.

    Args:
        log_median: logarithm of the median.
        log_sd: standard deviation of the logarithm.
        floor_s: seconds that physics asks for: all work at the best share of the peak and what cannot overlap.
        known: name of the fitted workload that this is, empty when it is none of them.
        reasons: sentences, in the order of the corrections.
    """

    log_median: float
    log_sd: float
    floor_s: float
    known: str
    reasons: tuple[str, ...]

    def quantile(self, z: float) -> float:
        """Seconds at ``z`` standard deviations, never under the floor."""
        return max(self.floor_s, math.exp(self.log_median + z * self.log_sd))


def step_time(plan: Plan, traffic: tuple[Exchange, ...], fitted: Coefficients) -> StepTime:
    """Step time from the fit, corrected for recomputation, precision and pipeline bubbles."""
    token = flops_per_token(plan.shape, plan.active_parameters, plan.sequence_length, lora=plan.lora)
    sample = token * plan.sequence_length
    known = _known(plan, sample)
    wanted = Runs(
        (known or "this job",),
        (plan.device.name,),
        np.array([float(plan.gpu_count)]),
        np.array([float(plan.batch_sequences)]),
        np.array([math.nan]),
        np.array([sample]),
        np.array([plan.trained_parameters]),
    )
    rate, spread = fitted.efficiency.predict(wanted)
    log_median = math.log(plan.batch_sequences / plan.gpu_count) - float(rate[0])
    share = math.exp(float(rate[0] - wanted.ideal_log[0]))
    reasons = [f"a fit on published runs expects {share:.0%} of the 16-bit peak of a {plan.device.name}"]
    reasons.append(
        f"as in runs of {known}" if known else "this model is none of the fitted workloads, so the interval is wide"
    )
    gain, extra_sd, why = _corrections(plan)
    floor = _floor(plan, token, traffic)
    return StepTime(log_median + gain, math.hypot(float(spread[0]), extra_sd), floor, known, (*reasons, *why))


def _known(plan: Plan, sample: float) -> str:
    for name in WORKLOADS:
        flops, trained = known_workload(name)
        same_kind = plan.lora == name.endswith("lora") and plan.sequence_length == 8192 and plan.shape.experts == 1
        if (
            same_kind
            and abs(math.log(sample / flops)) < 0.03
            and (plan.lora or abs(math.log(plan.trained_parameters / trained)) < 0.03)
        ):
            return name
    return ""


def _corrections(plan: Plan) -> tuple[float, float, tuple[str, ...]]:
    gain, variance, why = 0.0, 0.0, []
    again = recomputed_share(plan)
    if again > 0:
        gain += math.log1p(again)
        why.append(f"x {1 + again:.2f} for recompute {plan.recompute}")
    if plan.precision in ("bf16", "fp16"):
        low, usual, high = NARROW_GAIN
        gain += math.log(usual)
        variance += (math.log(high / low) / (2 * Z80)) ** 2
        why.append(f"x {usual} (1.15 to 1.6) for {plan.precision}, since the fitted runs used fp8 or narrower")
    if plan.precision == "fp32":
        gain += math.log(plan.device.peak("bf16") / plan.device.peak("fp32"))
        why.append("slower by the ratio of the 16-bit peak to the fp32 one")
    bubble = (plan.pipeline - 1) / plan.micro_batches
    if bubble > 0:
        gain += math.log1p(bubble)
        variance += (0.3 * math.log1p(bubble)) ** 2
        why.append(
            f"x {1 + bubble:.2f} for the pipeline's bubble: {plan.pipeline - 1} of {plan.micro_batches} micro-batches"
        )
    if plan.batch_sequences < plan.data:
        gain += math.log(plan.data / plan.batch_sequences)
        why.append(f"only {plan.batch_sequences} of {plan.data} replicas have work")
    return gain, math.sqrt(variance), tuple(why)


def _floor(plan: Plan, token: float, traffic: tuple[Exchange, ...]) -> float:
    busy = min(plan.data, plan.batch_sequences) / plan.data * plan.gpu_count
    work = token * plan.tokens_per_step * (1.0 + recomputed_share(plan))
    compute = work / (busy * plan.device.peak(plan.precision) * BEST_SHARE)
    waits = sum(exchange.seconds for exchange in traffic if exchange.hidden == "no")
    overlapped = sum(exchange.seconds * EXPOSED[exchange.hidden][0] for exchange in traffic if exchange.hidden != "no")
    # Links and cores work side by side at best; what cannot overlap comes on top.
    busiest = max(compute, *(exchange.seconds for exchange in traffic), 0.0) if traffic else compute
    return max(busiest, compute + waits + overlapped)


def time_figures(plan: Plan, traffic: tuple[Exchange, ...], step: StepTime) -> dict[str, Figure]:
    """Step time, throughput, share of the peak, split, and the whole run where a token budget is given."""
    low, middle, high = step.quantile(-Z80), step.quantile(0.0), step.quantile(Z80)
    token = flops_per_token(plan.shape, plan.active_parameters, plan.sequence_length, lora=plan.lora)
    reached = token * plan.tokens_per_step / (plan.gpu_count * plan.device.peak("bf16"))
    tokens = plan.tokens_per_step
    waits = [sum(EXPOSED[e.hidden][i] * e.seconds for e in traffic) for i in range(3)]
    figures = [
        Figure("step_time", "seconds", low, middle, high, "; ".join(step.reasons) + _floor_note(step, low)),
        Figure("throughput", "tokens_per_second", tokens / high, tokens / middle, tokens / low, f"{tokens:.4g} tokens a step over the step time"),
        Figure("peak_share", "ratio", reached / high, reached / middle, reached / low, "model FLOPs over the dense 16-bit peak of all devices (MFU)"),
        Figure("communication_time", "seconds", waits[0], waits[1], waits[2], "time of the exchanges below that the step waits for"),
        Figure("communication_share", "ratio", min(1.0, waits[0] / middle), min(1.0, waits[1] / middle), min(1.0, waits[2] / middle), "of the median step time; the rest is computing, bubbles and everything else"),
    ]  # fmt: skip
    if plan.token_budget is not None:
        steps = math.ceil(plan.token_budget / tokens)
        figures.append(
            Figure(
                "training_time", "seconds", steps * low, steps * middle * 1.04, steps * high * 1.1,
                f"{steps:,} steps; 4 % (0 to 10 %) for checkpoints, evaluation and restarts",
            )
        )  # fmt: skip
    return {figure.name: figure for figure in figures}


def _floor_note(step: StepTime, low: float) -> str:
    return f"; not under {step.floor_s:.3g} s, which the work and the exchanges need" if low <= step.floor_s else ""

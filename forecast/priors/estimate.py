"""The whole estimate of a job from its description. Pure: the same intent and coefficients give the same answer."""

from __future__ import annotations

from forecast.priors.coefficients import Coefficients
from forecast.priors.complete import complete
from forecast.priors.memory import OPTIMIZERS, memory_figures
from forecast.priors.timing import step_time, time_figures
from forecast.priors.traffic import exchanges
from forecast.priors.types import Estimate, Exchange, Figure, Intent, Plan
from forecast.priors.work import work_figures

WRITE_BYTES_PER_S = (0.5e9, 2.0e9, 6.0e9)
"""Slow, usual and fast writing of one node to shared storage."""
BOARD_SHARE = (0.55, 0.8, 0.98)
"""Low, usual and high share of its power limit that a training device draws."""
HOST_SHARE = (1.1, 1.25, 1.45)
"""Power of the whole server over that of its devices."""


def estimate(intent: Intent, fitted: Coefficients) -> Estimate:
    """What to expect of a job.

    Raises:
        ConfigError: the intent cannot be: a sentence names the field and the mend.
    """
    plan = complete(intent)
    traffic = exchanges(plan, fitted.links)
    step = step_time(plan, traffic, fitted)
    figures = work_figures(plan) | memory_figures(plan) | time_figures(plan, traffic, step) | _traffic_figures(traffic)
    figures |= _checkpoint_figures(plan) | _power_figures(plan, figures.get("training_time"))
    return Estimate(plan, figures, traffic, _warnings(plan, figures, fitted), f"{fitted.source} {fitted.links.source}")


def _traffic_figures(traffic: tuple[Exchange, ...]) -> dict[str, Figure]:
    figures = {}
    for link, words in (("scale_up", "NVLink, xGMI or PCIe"), ("network", "the network")):
        crossing = [exchange for exchange in traffic if exchange.link == link]
        parts = ", ".join(f"{exchange.purpose} by {exchange.collective}" for exchange in crossing) or "nothing"
        name = f"{link}_bytes_per_step"
        figures[name] = Figure.exact(
            name, "bytes", sum(exchange.wire_bytes for exchange in crossing), f"sent by one device; groups that reach over {words}: {parts}"
        )  # fmt: skip
    return figures


def _checkpoint_figures(plan: Plan) -> dict[str, Figure]:
    optimizer = OPTIMIZERS[plan.optimizer]
    kept = plan.trained_parameters if plan.lora else plan.parameters
    size = 2.0 * kept + optimizer * plan.trained_parameters
    nodes = max(1, plan.gpu_count // plan.gpus_per_node)
    slow, usual, fast = (size / (rate * nodes) for rate in WRITE_BYTES_PER_S)
    figures = (
        Figure.exact("checkpoint_size", "bytes", size, f"2 bytes a weight and {optimizer:g} of optimiser a trained one" + (" (adapters only)" if plan.lora else "")),
        Figure("checkpoint_time", "seconds", fast, usual, slow, f"written by {nodes} node(s) at 2 GB/s each (0.5 to 6); an assumption about storage"),
    )  # fmt: skip
    return {figure.name: figure for figure in figures}


def _power_figures(plan: Plan, training: Figure | None) -> dict[str, Figure]:
    watts = [plan.gpu_count * plan.device.board_watts * b * h for b, h in zip(BOARD_SHARE, HOST_SHARE, strict=True)]
    why = f"{plan.gpu_count} x {plan.device.board_watts:g} W board limit, 80 % drawn (55 to 98), x 1.25 for the servers (1.1 to 1.45)"
    figures = {"power": Figure("power", "watts", watts[0], watts[1], watts[2], why)}
    if training is not None:
        parts = (training.low, training.middle, training.high)
        energy = [power * seconds for power, seconds in zip(watts, parts, strict=True)]
        figures["energy"] = Figure("energy", "joules", energy[0], energy[1], energy[2], "power over the training time")
    return figures


def _warnings(plan: Plan, figures: dict[str, Figure], fitted: Coefficients) -> tuple[str, ...]:
    found = []
    chance = figures["out_of_memory"]
    if chance.middle >= 0.1:
        found.append(f"It may not fit: chance of running out of memory {chance.middle:.0%}; {chance.because}.")
    seen = fitted.efficiency.runs
    if plan.device.name not in seen.accelerator:
        found.append(
            f"No {plan.device.name} is among the fitted runs; its step time rests on its peak and on like devices."
        )
    if plan.gpu_count < min(seen.gpus) or plan.gpu_count > max(seen.gpus):
        found.append(
            f"The fitted runs have {min(seen.gpus):g} to {max(seen.gpus):g} GPUs; {plan.gpu_count} lies outside."
        )
    if plan.shape.experts > 1:
        found.append("No mixture of experts is among the fitted runs; its step time is the least certain figure here.")
    share = figures["communication_share"]
    if share.middle > 0.4:
        found.append(
            f"About {share.middle:.0%} of a step waits for communication; another split of the GPUs may be faster."
        )
    return tuple(found)

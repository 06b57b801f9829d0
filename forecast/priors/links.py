"""Time of a collective: a fixed part and bytes over the bandwidth that NCCL reaches.

Bus factors are those of nccl-tests (PERFORMANCE.md). The share of the nominal bandwidth that is reached, and the size at
which half of it is, come from a fit on published nccl-tests runs of H100 servers; see ``LinkFit``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from forecast.priors.types import Plan


@dataclass(frozen=True, slots=True)
class LinkFit:
    """What of the nominal bandwidth a collective reaches.

    Args:
        scale_up_ratio: bus bandwidth of large messages over NVLink's nominal one (in-switch reduction may exceed 1).
        network_ratio: the same over the network interfaces of the node.
        half_bytes: message size at which half of it is reached, on a few devices.
        latency_s: fixed time of one call.
        source: sentence naming the measurement.
    """

    scale_up_ratio: float = 0.80
    network_ratio: float = 0.85
    half_bytes: float = 8e6
    latency_s: float = 20e-6
    source: str = "typical of nccl-tests on H100; not fitted"


def bus_factor(collective: str, size: int) -> float:
    """Bytes that one device sends for each byte of the message, as nccl-tests counts them."""
    if size <= 1:
        return 0.0
    rest = (size - 1) / size
    return {"all_reduce": 2.0 * rest, "reduce_scatter": rest, "all_gather": rest, "all_to_all": rest, "send": 1.0}[
        collective
    ]


def link_of(plan: Plan, group: str) -> str:
    """Which links a group's traffic crosses: the slowest on its way.

    Ranks are laid out with tensor parallel innermost, then context, expert, data and pipeline outermost.
    """
    span = {
        "tensor": plan.tensor,
        "context": plan.tensor * plan.context,
        "expert": plan.tensor * plan.context * plan.expert,
        "data": plan.tensor * plan.context * plan.data,
        "pipeline": plan.gpu_count,
    }[group]
    return "scale_up" if span <= scale_up_reach(plan) else "network"


def scale_up_reach(plan: Plan) -> int:
    """Devices that one scale-up domain joins in this job."""
    domain = plan.device.scale_up_gpus
    return domain if domain > plan.gpus_per_node and plan.device.scale_up_gpus > 8 else min(domain, plan.gpus_per_node)


def bandwidth(plan: Plan, link: str, fit: LinkFit) -> float:
    """Bytes a second and device that large messages reach."""
    if link == "scale_up":
        return plan.device.scale_up_bytes_per_s * fit.scale_up_ratio
    return plan.nic_bytes_per_s * fit.network_ratio


def network_share(plan: Plan, size: int, inner: int) -> float:
    """Share of a ring's bytes that cross the network when neighbours inside a node take part too.

    A hierarchical ring over ``size`` members, of which ``k`` sit in one domain, sends 1 / k of its bytes per network
    interface; NCCL spreads the rings over the interfaces of all ``k`` members.
    """
    members = max(1, min(size, scale_up_reach(plan) // max(1, inner)))
    return 1.0 / members


def call_seconds(plan: Plan, collective: str, size: int, message: float, link: str, inner: int, fit: LinkFit) -> float:
    """Seconds of one call when nothing else uses the link.

    Args:
        plan: the job.
        collective: which.
        size: members of the group.
        message: bytes as NCCL counts them.
        link: ``scale_up`` or ``network``.
        inner: devices between two neighbours of the group in rank order.
        fit: what of the nominal bandwidth is reached.
    """
    if size <= 1 or message <= 0:
        return 0.0
    wire = bus_factor(collective, size) * message
    rate = bandwidth(plan, link, fit)
    if link == "network" and collective in ("all_reduce", "reduce_scatter", "all_gather"):
        wire *= network_share(plan, size, inner)
        inside = bus_factor(collective, size) * message / bandwidth(plan, "scale_up", fit)
        rate_bound = max(wire / rate, inside)
    else:
        rate_bound = wire / rate
    hops = math.log2(size) if collective != "send" else 1.0
    return fit.latency_s * max(1.0, hops) + rate_bound * (1.0 + fit.half_bytes / max(message, fit.half_bytes / 100.0))


def fit_from(document: Mapping[str, object]) -> LinkFit:
    """The fit as a document holds it.

    Raises:
        KeyError, TypeError, ValueError: a field is missing or no number.
    """
    numbers = {name: float(document[name]) for name in ("scale_up_ratio", "network_ratio", "half_bytes", "latency_s")}  # type: ignore[arg-type]
    return LinkFit(**numbers, source=str(document["source"]))

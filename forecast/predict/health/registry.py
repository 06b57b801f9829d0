"""The built-in signs. A new one is a file in ``signs`` and a line here; the contract checks then run on it."""

from __future__ import annotations

from forecast.predict.health.signs import (
    bus_errors,
    frozen,
    memory_errors,
    port_errors,
    slow_collective,
    slow_gpu,
    slow_job,
    slow_rank,
    throttled,
    xid,
)
from forecast.predict.health.types import Sign

BUILTIN: dict[str, Sign] = {
    "slow_job": slow_job.SIGN,
    "straggling_rank": slow_rank.SIGN,
    "straggling_gpu": slow_gpu.SIGN,
    "slow_collective": slow_collective.SIGN,
    "port_errors": port_errors.SIGN,
    "throttled": throttled.SIGN,
    "xid": xid.SIGN,
    "memory_errors": memory_errors.SIGN,
    "bus_errors": bus_errors.SIGN,
    "frozen": frozen.SIGN,
}

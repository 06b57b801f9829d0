"""What GPU feature discovery's labels say about the GPUs of one node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from telemetry.machine import Machine, MigSlice

_MIG_COUNT = re.compile(r"nvidia\.com/mig-([0-9a-z.+\-]{3,40})\.count")
_MIG_PRODUCT = re.compile(r"(.+)-MIG-([0-9]+[gc]\.[0-9a-z.+\-]+)")
_SHARED = "-SHARED"
_MIB = 2.0**20


def machine_of(host: str, labels: Mapping[str, Any], source: str) -> tuple[Machine | None, tuple[str, ...]]:
    """The GPUs of a node and sentences on what its labels leave open; no machine where it has no GPU label.

    With MIG's single strategy count, memory and product describe slices: then the number and memory of whole GPUs are
    unknown. With the mixed strategy the count of whole GPUs is unknown as soon as a slice is counted beside it.
    """
    count, memory_mib = _number(labels, "gpu.count"), _number(labels, "gpu.memory")
    product, strategy = _text(labels, "gpu.product"), _text(labels, "mig.strategy")
    slices = [
        MigSlice("", match[1], number)
        for key in labels
        if (match := _MIG_COUNT.fullmatch(str(key))) and (number := _number(labels, str(key).partition("/")[2]))
    ]
    if count is None and not product and not slices:
        return None, ()
    product = product.removesuffix(_SHARED)
    cut = _MIG_PRODUCT.fullmatch(product)
    notes: tuple[str, ...] = ()
    if cut is not None:
        product, profile = cut[1], cut[2]
        slices = [MigSlice("", profile, count)] if count else slices
        notes = (f"{host}: its labels count {count or 'some'} slices of {profile}, not GPUs",)
    elif slices:
        notes = (f"{host}: whole GPUs are not counted beside MIG slices",)
    whole = cut is None and not slices
    return Machine(
        host=host,
        gpu_count=count if whole else None,
        product=product,
        memory_bytes=memory_mib * _MIB if whole and memory_mib is not None else None,
        mig=tuple(sorted(slices, key=lambda piece: piece.profile)),
        mig_strategy=strategy,
        replicas=_number(labels, "gpu.replicas"),
        source=source,
    ), notes


def _text(labels: Mapping[str, Any], name: str) -> str:
    value = labels.get(f"nvidia.com/{name}")
    return value.strip() if isinstance(value, str) else ""


def _number(labels: Mapping[str, Any], name: str) -> int | None:
    text = _text(labels, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None

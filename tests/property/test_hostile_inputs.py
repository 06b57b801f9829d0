"""The worst shapes of input: work grows no faster than the input, counted in calls, and never past what the limits allow."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from collectors.inspect import FORMATS
from collectors.registry import BUILTIN
from tests.kit.fuzz_targets import GROUPS
from tests.kit.hostile_inputs import BODIES, SHAPES

SIZE = 3_000
SLACK_CALLS = 4_000
"""What a reader does whatever its input is, and what one item more or less of a few makes."""
BOUNDED = {"xml, pci": 500_000}
"""Shapes whose work is a square of few things: at most 256 devices, each pair of which has a distance. Most calls allowed."""
READERS = [(group, name) for group, readers in GROUPS.items() for name in readers]


def _calls(read: Callable[[bytes], None], data: bytes) -> int:
    """How many functions were entered, those written in C too."""
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        read(data)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(("group", "name"), READERS, ids=[f"{group}-{name}" for group, name in READERS])
def test_work_grows_no_faster_than_the_input(group: str, name: str) -> None:
    """Four times the input makes at most about four times the calls; a square would make sixteen."""
    read = GROUPS[group][name]
    read(b"")  # what is loaded at first use is not counted
    shapes = BODIES if group == "remote-write" else SHAPES
    steep = {}
    for shape, make in shapes.items():
        if shape in BOUNDED:
            continue
        small, large = make(SIZE), make(4 * SIZE)
        before, after = _calls(read, small), _calls(read, large)
        if after > 6 * before + SLACK_CALLS:
            steep[shape] = (before, after)
    assert steep == {}


@pytest.mark.parametrize("shape", [name for name in SHAPES if name.startswith(("host list", "scontrol", "squeue"))])
def test_a_short_scheduler_text_is_no_endless_work(shape: str) -> None:
    """Whatever a text of 20 kB stands for, its records cost no more calls than the named limits allow."""
    assert _calls(GROUPS["slurm"]["records"], SHAPES[shape](20_000)) < 3_000_000


@pytest.mark.parametrize("shape", BOUNDED)
def test_a_square_of_few_things_is_bounded(shape: str) -> None:
    """However long the input is."""
    for size in (4 * SIZE, 32 * SIZE, 256 * SIZE):
        assert _calls(GROUPS["topology"]["any"], SHAPES[shape](size)) < BOUNDED[shape]


def test_every_format_and_every_source_is_a_target() -> None:
    """A new format is among the targets by itself; a new collector has to say which targets read its bytes."""
    assert {f"inspect: {name}" for name in FORMATS} == set(GROUPS["inspect"])
    readers_of = {
        "exporter": ["exposition", "http-reply"],
        "nvml": ["exposition"],
        "prometheus": ["prometheus"],
        "nccl_inspector": ["nccl"],
        "nccl_ras": ["nccl"],
        "slurm": ["slurm"],
        "kubernetes": ["kubernetes"],
    }
    assert set(readers_of) == set(BUILTIN)
    assert {group for groups in readers_of.values() for group in groups} <= set(GROUPS)

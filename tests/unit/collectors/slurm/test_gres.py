"""GRES and TRES text."""

from __future__ import annotations

import pytest

from collectors.slurm.gres import (
    Gres,
    asks_for_shares,
    count_gpus,
    count_tres_gpus,
    parse_gres,
    parse_tres,
)
from telemetry.errors import SchemaError


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("gpu:4", [Gres("gpu", "", 4)]),
        ("gpu", [Gres("gpu", "", 1)]),
        ("gpu:tesla", [Gres("gpu", "tesla", 1)]),
        ("gpu:h100:8(S:0-1)", [Gres("gpu", "h100", 8)]),
        ("gpu:tesla:3(IDX:0,2-3)", [Gres("gpu", "tesla", 3, (0, 2, 3))]),
        ("gpu:tesla:0(IDX:N/A)", [Gres("gpu", "tesla", 0, ())]),
        ("gres:gpu:4", [Gres("gpu", "", 4)]),
        ("gres/gpu:h100:2", [Gres("gpu", "h100", 2)]),
        ("gpu:no_consume:4", [Gres("gpu", "", 4)]),
        ("bandwidth:lustre:4G", [Gres("bandwidth", "lustre", 4 * 2**30)]),
        ("shard:h100:2(IDX:7)", [Gres("shard", "h100", 2, (7,))]),
        ("shard:4(1/4,0/4,3/4)", [Gres("shard", "", 4, (0, 2))]),
        ("gpu:a:1(IDX:0,2),gpu:b:2(S:0,1)", [Gres("gpu", "a", 1, (0, 2)), Gres("gpu", "b", 2)]),
        ("(null)", []),
        ("N/A", []),
        ("", []),
    ],
)
def test_entries(text, entries):
    """Name, type, count and device numbers of every form that versions print."""
    assert list(parse_gres(text)) == entries


@pytest.mark.parametrize(
    "text",
    [
        "gpu:h100:8(S:0-1",
        "gpu)",
        "gpu:((4))",
        "gpu:a:b:c:1",
        "gpu:h100:many",
        "gpu:1(IDX:3-1)",
        "gpu:1(IDX:0-999999)",
        "gpu:1(IDX:x)",
        ":4",
        "x" * 200_000,
    ],
)
def test_malformed(text):
    """What cannot be read is named; nothing is guessed and no list grows without bound."""
    with pytest.raises(SchemaError):
        parse_gres(text)


def test_slices_are_known_by_their_type():
    """A MIG profile in the type makes an entry a slice; a model's name does not."""
    assert [gres.sliced for gres in parse_gres("gpu:a100_3g.20gb:1,gpu:1g.10gb:2,gpu:h100:1,gpu:gb200:1")] == [
        True,
        True,
        False,
        False,
    ]


def test_shares_are_no_gpus():
    """Shards and MPS percentages do not count as GPUs."""
    assert count_gpus(parse_gres("gpu:h100:2,shard:h100:8,mps:100")).total == 2
    assert [asks_for_shares(text) for text in ("gres:shard:2", "gres/mps=50", "gpu:sharded:1", "gpu:4")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "total", "types"),
    [
        ("cpu=64,mem=900G,node=1,billing=64,gres/gpu=8,gres/gpu:h100=8", 8, {"h100": 8}),
        ("gres/gpu=3,gres/gpu:a100=2,gres/gpu:a100_3g.20gb=1", 3, {"a100": 2, "a100_3g.20gb": 1}),
        ("gres/gpu=4,gres/gpu:h100=1", 4, {"h100": 1, "": 3}),
        ("gres/gpu:h100=4", 4, {"h100": 4}),
        ("gres/gpu=2", 2, {"": 2}),
        ("cpu=4,gres/gpuutil=30,gres/gpumem=2G", None, {}),
        ("", None, {}),
    ],
)
def test_tres(text, total, types):
    """The untyped number is the total; typed ones never add to it; use figures are no devices."""
    tally = count_tres_gpus(parse_tres(text))
    assert (tally.total, dict(tally.types), tally.contradicts) == (total, types, False)


def test_tres_that_contradicts_itself():
    """More by type than in total: the larger number is kept and marked."""
    tally = count_tres_gpus(parse_tres("gres/gpu=2,gres/gpu:h100=4"))
    assert (tally.total, tally.contradicts) == (4, True)

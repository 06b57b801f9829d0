"""Slurm host list expressions."""

from __future__ import annotations

import pytest

from collectors.hostlists import expand_hosts, fold_hosts
from telemetry.errors import SchemaError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-01", ["gpu-01"]),
        ("gpu-[001-003,010]", ["gpu-001", "gpu-002", "gpu-003", "gpu-010"]),
        ("b04-[09-10]", ["b04-09", "b04-10"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[9-10]", ["n9", "n10"]),
        ("nodeA,nodeB[001,003],nodeC", ["nodeA", "nodeB001", "nodeB003", "nodeC"]),
        ("rack[0-1]_blade[0-1]", ["rack0_blade0", "rack0_blade1", "rack1_blade0", "rack1_blade1"]),
        ("(null)", []),
        ("", []),
        ("None assigned", []),
    ],
)
def test_an_expression_stands_for_its_names(text: str, names: list[str]) -> None:
    """In its order, padded as the first number of each range."""
    assert names == list(expand_hosts(text))


@pytest.mark.parametrize("text", ["n[1", "n1]", "n[]", "n[a]", "n[3-1]", "n[[1]]", "n[1-999999999999]", "[1-999]" * 9])
def test_a_broken_or_endless_expression_is_named(text: str) -> None:
    """Nothing is half expanded."""
    with pytest.raises(SchemaError, match="host list"):
        expand_hosts(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["gpu008", "gpu005", "gpu006"], "gpu[005-006,008]"),
        (["gpu1"], "gpu1"),
        (["n099", "n100", "n101", "n1000"], "n[099-101],n1000"),
        (["login", "n9", "n10"], "login,n[9-10]"),
        ([], ""),
    ],
)
def test_names_fold_into_an_expression(names: list[str], text: str) -> None:
    """And that gives the names back."""
    assert text == fold_hosts(names)
    assert sorted(names) == sorted(expand_hosts(text))

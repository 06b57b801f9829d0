"""LightGBM text, checked before LightGBM reads it: its own reader trusts counts and indices."""

from __future__ import annotations

from pathlib import Path

from telemetry.errors import IncompatibleModel

MOST_TREES, MOST_LEAVES, MOST_FEATURES = 5000, 1024, 512
_PER_SPLIT = ("split_feature", "threshold", "decision_type", "left_child", "right_child")


def check_trees(path: Path) -> None:
    """Refuse a text whose trees point outside of themselves or go round.

    Raises:
        IncompatibleModel: says what is wrong.
    """
    try:
        header, *trees = path.read_text(encoding="utf-8").split("\nTree=")
        _check(_fields(header), [_fields("index=" + tree) for tree in trees])
    except (ValueError, KeyError, OSError) as error:
        raise IncompatibleModel(f"{path} is no sound LightGBM text ({error})", mend="Train the model again") from error


def _fields(block: str) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in block.split("\n\n")[0].splitlines() if "=" in line)
    return {key: value for key, value in pairs}


def _check(header: dict[str, str], trees: list[dict[str, str]]) -> None:
    features = int(header["max_feature_idx"]) + 1
    if header["num_class"] != "1" or header["num_tree_per_iteration"] != "1":
        raise ValueError("it has more than one class")
    if not 0 < features <= MOST_FEATURES or not 0 < len(trees) <= MOST_TREES:
        raise ValueError(f"{features} features, {len(trees)} trees")
    if len(header["tree_sizes"].split()) != len(trees):
        raise ValueError("the number of trees is not what the header says")
    for tree in trees:
        _check_tree(tree, features)


def _check_tree(tree: dict[str, str], features: int) -> None:
    leaves = int(tree["num_leaves"])
    if tree["num_cat"] != "0" or tree.get("is_linear", "0") != "0" or not 1 <= leaves <= MOST_LEAVES:
        raise ValueError(f"tree {tree['index']} is of a kind that is not ours")
    if len([float(value) for value in tree["leaf_value"].split()]) != leaves:
        raise ValueError(f"tree {tree['index']} lacks leaves")
    if leaves == 1:
        return
    lists = {key: [float(value) for value in tree[key].split()] for key in _PER_SPLIT}
    if any(len(values) != leaves - 1 for values in lists.values()):
        raise ValueError(f"tree {tree['index']} lacks splits")
    if any(not 0 <= feature < features or feature % 1 for feature in lists["split_feature"]):
        raise ValueError(f"tree {tree['index']} asks for a feature that does not exist")
    for side in ("left_child", "right_child"):
        for node, child in enumerate(lists[side]):
            # Splits are numbered as they are made: a child stands behind its parent. Leaves count from -1 down.
            if child % 1 or not (-leaves <= child < 0 or node < child < leaves - 1):
                raise ValueError(f"tree {tree['index']} goes round or outside of itself")

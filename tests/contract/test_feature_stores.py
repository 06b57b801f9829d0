"""Every feature store keeps the contract."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from features.store.base import FeatureStore, Reader
from features.store.checks import Check, yield_checks
from features.store.duck import DuckStore


def _in_memory(_folder: Path) -> FeatureStore:
    return DuckStore(None)


def _in_file(folder: Path) -> FeatureStore:
    return DuckStore(next(folder / f"{i}.duckdb" for i in itertools.count() if not (folder / f"{i}.duckdb").exists()))


STORES: dict[str, Callable[[Path], FeatureStore]] = {"duckdb-memory": _in_memory, "duckdb-file": _in_file}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("check", list(yield_checks()), ids=lambda check: check.__name__)
def test_store_keeps_the_contract(kind: str, check: Check, tmp_path: Path):
    """Each check of the seam holds for each built-in store."""
    check(lambda: STORES[kind](tmp_path))


@pytest.mark.parametrize("kind", STORES)
def test_store_has_the_seams_methods(kind: str, tmp_path: Path):
    """A store is a FeatureStore, and transforms can read from it."""
    store = STORES[kind](tmp_path)
    assert isinstance(store, FeatureStore)
    assert isinstance(store, Reader)
    store.close()

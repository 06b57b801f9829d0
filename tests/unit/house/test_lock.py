"""The lock files install the same everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
LOCKS = ("requirements.lock", "deploy/requirements.lock")
PINNED = re.compile(r"^([a-z0-9._-]+)(?:\[[a-z0-9,_-]+\])?==(\S+)", re.MULTILINE)
NAMED = re.compile(r"^([A-Za-z0-9._-]+)")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _declared(*extras: str) -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return {_normal(found.group(1)) for line in lines if (found := NAMED.match(line))}


def _pins(lock: str) -> dict[str, set[str]]:
    pins: dict[str, set[str]] = {}
    for name, version in PINNED.findall((REPOSITORY / lock).read_text(encoding="utf-8")):
        pins.setdefault(_normal(name), set()).add(version)
    return pins


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index_and_no_machine(lock: str) -> None:
    """No address, no option and no path: where packages come from is the reader's own set-up."""
    text = (REPOSITORY / lock).read_text(encoding="utf-8")

    assert re.findall(r"\S*://\S*", text) == []
    assert re.findall(r"^\s*-(?!-hash=).*", text, re.MULTILINE) == []
    assert re.findall(r"(?<![\w.])/\w+", text) == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash(lock: str) -> None:
    """pip refuses a file where one pin lacks its hash, so each has at least one."""
    blocks = re.split(r"^(?=[a-z0-9])", (REPOSITORY / lock).read_text(encoding="utf-8"), flags=re.MULTILINE)
    pinned = [block for block in blocks if PINNED.match(block)]

    assert len(pinned) > 20
    assert [block.split("\n")[0] for block in pinned if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize(
    ("lock", "extras"), [("requirements.lock", ("dev",)), ("deploy/requirements.lock", ("build",))]
)
def test_everything_declared_is_locked(lock: str, extras: tuple[str, ...]) -> None:
    """A dependency added to pyproject.toml without `make lock` is found here."""
    assert set() == _declared(*extras) - set(_pins(lock))


def test_the_image_gets_what_was_tested() -> None:
    """Both locks pin the same versions, and the image's has no test tools."""
    everything, service = (_pins(lock) for lock in LOCKS)

    assert {name: versions for name, versions in service.items() if everything.get(name) != versions} == {}
    assert set() == {"pytest", "ruff", "mypy", "playwright", "uv"} & set(service)

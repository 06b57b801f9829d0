"""Every reader of foreign bytes takes any bytes; scripts/fuzz drives the same functions for longer."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from collectors.entities import host_of
from tests.kit.fuzz_targets import TARGETS

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fuzz"
WORDS = (
    b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",hostname="n"} ',
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"Content-Length: ",
    b"JobId=1 JobState=RUNNING NodeList=n[1-2] ",
    b"NodeName=n1 Gres=gpu:8 ",
    b"SwitchName=s Nodes=n[1-2]\n",
    b"NCCL INFO ",
    b'{"header":{"rank":0},"coll_perf":{',
    b"\x0a\x05\x0a\x03\x0a\x01",
    b"\n",
    b"{",
    b"[",
    b'"',
    b"|",
    b"\xff\xfe\x00",
    b"1e999",
    b"9" * 400,
)
MIXED = st.lists(st.sampled_from(WORDS) | st.binary(max_size=30), max_size=20).map(b"".join)


@pytest.mark.parametrize("name", TARGETS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=MIXED)
@example(data=b"")
@example(data=b"[" * 20_000)
@example(data=b'{"a":' * 5_000)
def test_any_bytes_are_taken(name, data):
    """No exception but those that the reader promises."""
    TARGETS[name](data)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("arguments", [(), ("nothing", "1"), ("slurm",), ("slurm", "long"), ("slurm", "0")])
def test_a_wrong_command_is_answered_with_the_parsers(arguments):
    result = _run(*arguments)
    assert result.returncode == 2
    assert "usage: scripts/fuzz PARSER SECONDS" in result.stderr
    assert all(name in result.stderr for name in TARGETS)


@pytest.mark.skipif(importlib.util.find_spec("atheris") is not None, reason="atheris is installed")
def test_without_atheris_the_mend_is_told():
    result = _run("slurm", "1")
    assert result.returncode == 3
    assert "pip install atheris" in result.stderr


@pytest.mark.parametrize("instance", ["[", "//[", "[::1", "http://]/", "a:b:c", "[v1.x]", "\u2100:1", "//[1]:99999"])
def test_an_address_that_is_none_is_a_name(instance):
    """Whatever stands in ``instance``, a host comes out, and it has no colon."""
    assert ":" not in host_of(instance)

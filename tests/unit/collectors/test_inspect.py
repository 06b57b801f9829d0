"""What ``inspect`` says about a piece of text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.inspect import inspect_source
from telemetry.samples import Problem

PAGE = b"""DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",hostname="n1",pod="train-0",namespace="a"} 98
DCGM_FI_DEV_MEMORY_TEMP{UUID="GPU-1",hostname="n1"} 2147483632
"""
MATRIX = (
    b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL",'
    b'"UUID":"GPU-1","instance":"n1:9400"},"values":[[1767225600,"50"],[1767225660,"NaN"]]}]}}'
)


def test_a_page_shows_units_owners_and_what_is_missing():
    found = inspect_source(PAGE, "page.prom")
    util, heat = found.rows
    assert (util.metric, util.entity, util.value, util.unit, util.owner, util.at_s) == (
        "gpu_util_ratio",
        "n1:GPU-1",
        0.98,
        "ratio",
        "a/train-0",
        None,
    )
    assert heat.value is None
    assert "no value" in heat.why_missing
    assert found.missing == (heat,)


def test_an_answer_shows_times():
    found = inspect_source(MATRIX, "answer.json")
    assert [(row.value, row.at_s) for row in found.rows] == [(0.5, 1767225600.0), (None, 1767225660.0)]


def test_a_refusal_is_told_with_what_may_help():
    found = inspect_source(b'{"status":"error","errorType":"execution","error":"too many samples"}', "x")
    assert "execution" in found.summary
    assert "smaller" in found.summary
    assert found.findings[0].problem is Problem.QUERY_ERROR


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"<html>", b"\xff\xfe\x00", b'{"status":"success","data":[1]}', b"word word"]
)
def test_other_things_get_a_clear_sentence(data):
    found = inspect_source(data, "thing")
    assert found.rows == ()
    assert found.summary


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_never_raises(data):
    assert inspect_source(data, "x").summary

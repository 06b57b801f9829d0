"""The back-fill comparison reads the same samples on both sides."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from prometheus_api_client import MetricRangeDataFrame

from api.bench.prometheus_backfill import make_answer, rows
from collectors.answer import read_answer
from collectors.series_map import SeriesMapper


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_both_sides_hold_the_same_numbers():
    """gpucast's columns are the data frame's numbers in the catalogue's units, none lost."""
    body = make_answer(1, 1)
    result = orjson.loads(body)["data"]["result"]
    answer = read_answer(orjson.loads(body), "t")
    assert np.concatenate([one.value for one in answer.series]).tolist() == (
        MetricRangeDataFrame(result)["value"].astype(float).tolist()
    )
    batch = SeriesMapper("t").batch([answer], 0.0)
    assert len(batch) == sum(len(one["values"]) for one in result)
    assert len(batch.keys) == len(result)


def test_rows_name_every_model_once():
    found = rows(1, lambda _: None, n_nodes=1)
    assert [row.model for row in found] == [
        "gpucast",
        "prometheus_api_client",
        "prometheus_api_client with orjson",
    ]
    assert all(row.task == "prometheus-backfill" and row.value > 0 for row in found)

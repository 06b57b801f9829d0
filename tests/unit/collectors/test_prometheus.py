"""Reading a Prometheus server that is not at its best."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from aiohttp import web

from collectors.answer import read_answer
from collectors.prometheus import PrometheusCollector
from collectors.series_map import SeriesMapper
from telemetry.errors import BadReply, ConfigError
from telemetry.samples import Problem, Reason, SampleBatch, Window, validate_batch
from tests.kit.page_server import serve, slow_page

NAMES = ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL"]


class Server:
    """Holds one sample a second of each family; refuses spans above ``most_s``."""

    def __init__(self, most_s: float = float("inf"), warning: str = "", refuse: str = "") -> None:
        self.most_s, self.warning, self.refuse = most_s, warning, refuse
        self.queries: list[dict[str, str]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if "label" in request.path:
            return web.json_response({"status": "success", "data": NAMES})
        query = dict(request.query)
        self.queries.append(query)
        names = [name for name in NAMES if name in query["query"]]
        if request.path.endswith("query_range"):
            start_s, end_s, step_s = (float(query[key]) for key in ("start", "end", "step"))
        else:
            end_s, step_s = float(query["time"]), 1.0
            found = re.search(r"\[(\d+)ms]", query["query"])
            assert found
            start_s = end_s - int(found[1]) / 1000
        if end_s - start_s > self.most_s + 0.01:
            error = {"status": "error", "errorType": "execution", "error": "would load too many samples into memory"}
            return web.json_response(error, status=422)
        if self.refuse and self.refuse in query["query"]:
            return web.json_response({"status": "error", "errorType": "bad_data", "error": "no"}, status=400)
        first = int(-(-start_s // step_s))
        values = [[i * step_s, "50"] for i in range(first, int(end_s // step_s) + 1)]
        metric = {"UUID": "GPU-1", "Hostname": "n1"}
        result = [{"metric": metric | {"__name__": name}, "values": values} for name in names]
        answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        return web.json_response(answer | ({"warnings": [self.warning]} if self.warning else {}))


async def never_ending(request: web.Request) -> web.StreamResponse:
    """An answer that comes a byte at a time."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(200):
        await response.write(b" ")
        await asyncio.sleep(0.05)
    return response


async def read(server, window: Window, **settings) -> SampleBatch:
    async with serve(server) as url:
        collector = PrometheusCollector(url, timeout_s=2, **settings)
        batch = await collector.collect(window)
        collector.close()
    validate_batch(batch)
    return batch


def problems(batch: SampleBatch) -> dict[Problem, str]:
    return {finding.problem: finding.detail for finding in batch.findings if finding.problem != Problem.OWNER_UNKNOWN}


@pytest.mark.asyncio
async def test_a_long_window_is_read_in_chunks_without_loss_or_repeat():
    server = Server()
    batch = await read(server, Window(1000, 1500), chunk_s=100, metrics=["gpu_power_watts"])
    assert batch.at_s.tolist() == [float(t) for t in range(1000, 1501)]
    assert len(server.queries) == 5


@pytest.mark.asyncio
async def test_a_span_that_is_too_much_is_halved_and_not_asked_again():
    server = Server(most_s=130)
    batch = await read(server, Window(1000, 1500), metrics=["gpu_power_watts"])
    assert batch.at_s.tolist() == [float(t) for t in range(1000, 1501)]
    assert problems(batch) == {}
    asked = [(query["time"], query["query"]) for query in server.queries]
    assert len(set(asked)) == len(asked)


@pytest.mark.asyncio
async def test_a_server_that_always_refuses_is_told_of_and_asked_finitely():
    server = Server(most_s=0)
    batch = await read(server, Window(1000, 1500))
    assert len(batch) == 0
    assert "too many samples" in problems(batch)[Problem.QUERY_ERROR]
    assert len(server.queries) < 100


@pytest.mark.asyncio
async def test_steps_keep_below_eleven_thousand_points():
    server = Server()
    batch = await read(server, Window(0, 30_000), step_s=1.0, chunk_s=1e9, metrics=["gpu_power_watts"])
    assert len(server.queries) == 3
    assert all(float(q["end"]) - float(q["start"]) < 11_000 for q in server.queries)
    assert len(batch) == 30_001


@pytest.mark.asyncio
async def test_warnings_are_kept_and_mean_partial():
    batch = await read(Server(warning="store-2 timed out"), Window(1000, 1010))
    assert problems(batch) == {Problem.PARTIAL: "store-2 timed out"}
    assert len(batch) == 22


@pytest.mark.asyncio
async def test_a_plain_refusal_is_told_with_the_servers_words():
    batch = await read(Server(refuse="POWER"), Window(1000, 1010), metrics=["gpu_power_watts"])
    assert problems(batch) == {Problem.QUERY_ERROR: "bad_data: no"}


@pytest.mark.asyncio
async def test_a_server_that_hangs_is_given_up():
    async with serve(slow_page(5.0)) as url:
        collector = PrometheusCollector(url, timeout_s=0.2)
        batch = await collector.collect(Window(0, 10))
        collector.close()
    assert set(problems(batch)) == {Problem.TIMEOUT}


@pytest.mark.asyncio
async def test_another_kind_of_server_is_told():
    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>hello", status=404, content_type="text/html")

    batch = await read(page, Window(0, 10))
    assert "404" in problems(batch)[Problem.QUERY_ERROR]


def test_bad_settings_are_named():
    with pytest.raises(ConfigError, match="nonsense"):
        PrometheusCollector("http://x", metrics=["nonsense"])
    with pytest.raises(ConfigError, match="above 0"):
        PrometheusCollector("http://x", step_s=0)


@pytest.mark.parametrize(
    "document", [None, [], {}, {"status": "success", "data": {"resultType": "matrix", "result": 3}}]
)
def test_what_is_no_answer_is_refused_with_a_sentence(document):
    with pytest.raises(BadReply, match="Prometheus"):
        read_answer(document, "server")


def _matrix(*series: tuple[dict[str, str], list[tuple[float, float]]]) -> dict[str, object]:
    result = [{"metric": labels, "values": [[t, str(v)] for t, v in points]} for labels, points in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def test_two_pods_on_one_gpu_for_long_are_sharers():
    base = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "G", "Hostname": "n", "namespace": "a"}
    points = [(float(t), 50.0) for t in range(0, 90, 30)]
    document = _matrix((base | {"pod": "x-0"}, points), (base | {"pod": "y-0"}, points))
    batch = SeriesMapper("s").batch([read_answer(document, "s")], 0.0)
    assert len(batch) == 3
    assert {s.sharers for s in batch.sightings} == {2}


def test_a_port_that_is_down_for_a_while_has_no_numbers_then():
    port = {"device": "m", "port": "1", "instance": "n:9100"}
    state = port | {"__name__": "node_infiniband_state_id"}
    sent = port | {"__name__": "node_infiniband_port_data_transmitted_bytes_total"}
    document = _matrix((state, [(0, 4), (10, 1), (20, 4)]), (sent, [(0, 5), (10, 5), (20, 6)]))
    batch = SeriesMapper("s").batch([read_answer(document, "s")], 0.0)
    rows = batch.series == [key.metric for key in batch.keys].index("port_tx_bytes_total")
    assert batch.reason[rows].tolist() == [Reason.OK, Reason.NOT_MEASURED, Reason.OK]


def test_the_devices_own_series_wins_where_it_stays_beside_its_pods():
    base = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "G", "Hostname": "n"}
    own = (base, [(0.0, 80.0), (30.0, 80.0), (60.0, 80.0)])
    pod = (base | {"pod": "x-0", "namespace": "a"}, [(30.0, 20.0), (60.0, 20.0)])
    batch = SeriesMapper("s").batch([read_answer(_matrix(own, pod), "s")], 0.0)
    mine = batch.series == [key.metric for key in batch.keys].index("gpu_util_ratio")
    assert batch.value[mine].tolist() == [0.8, 0.8, 0.8]
    (other,) = [key for key in batch.keys if key.metric == "workload_gpu_util_ratio"]
    assert other.entity == "n:G@a/x-0"
    assert batch.value[~mine].tolist() == [0.2, 0.2]
    assert Problem.DUPLICATE_SERIES not in {f.problem for f in batch.findings}


def test_the_keys_are_one_object_while_the_series_stay():
    mapper = SeriesMapper("s")
    line = ({"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "G", "Hostname": "n"}, [(0.0, 1.0)])
    answers = [read_answer(json.loads(json.dumps(_matrix(line))), "s")]
    assert mapper.batch(answers, 0.0).keys is mapper.batch(answers, 1.0).keys


@pytest.mark.asyncio
async def test_an_answer_that_never_ends_is_given_up_after_the_timeout():
    """Each byte in time does not make the whole in time; the server is told as one that does not answer."""
    async with serve(never_ending) as url:
        collector = PrometheusCollector(url, timeout_s=0.5)
        batch = await collector.collect(Window(0.0, 60.0))
        collector.close()
    assert [(finding.problem, finding.detail) for finding in batch.findings] == [
        (Problem.TIMEOUT, "no answer within 0.5 s")
    ]


@pytest.mark.asyncio
async def test_an_answer_beyond_the_cap_is_asked_for_in_smaller_pieces(monkeypatch: pytest.MonkeyPatch):
    """The whole window still comes, in answers each below the cap."""
    monkeypatch.setattr("collectors.prometheus.MAX_BYTES", 3000)
    server = Server()
    batch = await read(server, Window(0.0, 119.0))
    assert len(set(batch.at_s.tolist())) == 120
    assert len(server.queries) > 2
    monkeypatch.setattr("collectors.prometheus.MAX_BYTES", 100)
    starved = await read(Server(), Window(0.0, 119.0))
    assert {finding.problem for finding in starved.findings} == {Problem.QUERY_ERROR}
    assert any("larger than" in finding.detail for finding in starved.findings)


@pytest.mark.asyncio
async def test_a_server_that_refuses_everything_is_not_asked_for_ever():
    """The pieces stop getting smaller; one finding tells what the server said."""
    server = Server(most_s=-1.0)
    batch = await read(server, Window(0.0, 36_000.0))
    assert len(server.queries) < 200
    assert len(batch) == 0
    assert any("too many samples" in finding.detail for finding in batch.findings)


def test_time_slicing_gives_no_numbers_of_pods():
    """The device's number is repeated for each pod, and none of it is a pod's own."""
    base = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-1", "Hostname": "n1"}
    pods = [(base | {"pod": f"x-{i}", "namespace": "a"}, [(30.0, 20.0), (60.0, 20.0)]) for i in range(2)]
    batch = SeriesMapper("s").batch([read_answer(_matrix(*pods), "s")], 0.0)
    assert {key.metric for key in batch.keys} == {"gpu_util_ratio"}


class Cores:
    """A server of hosts alone: sums over cores as Prometheus does, and refuses to hand out every core."""

    def __init__(self) -> None:
        self.queries: list[dict[str, str]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if "label" in request.path:
            return web.json_response({"status": "success", "data": ["node_cpu_seconds_total"]})
        query = dict(request.query)
        self.queries.append(query)
        assert query["query"] == "sum without (cpu) (node_cpu_seconds_total)"
        start_s, end_s, step_s = (float(query[key]) for key in ("start", "end", "step"))
        n = int((end_s - start_s) // step_s) + 1
        result = [
            {
                "metric": {"instance": "n1:9100", "mode": mode},
                "values": [[start_s + i * step_s, str((start_s + i * step_s) * share)] for i in range(n)],
            }
            for mode, share in (("user", 3.0), ("system", 1.0), ("idle", 4.0), ("iowait", 0.5))
        ]
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})


@pytest.mark.asyncio
async def test_processor_time_is_summed_over_cores_by_the_server():
    """Busy is the sum of its modes; the grid does not move with the window."""
    cores = Cores()
    batch = await read(cores, Window(1003.0, 1063.0))
    found = {key.metric: batch.value[batch.series == i] for i, key in enumerate(batch.keys)}
    times = batch.at_s[batch.series == 0].tolist()
    assert times == [1005.0, 1020.0, 1035.0, 1050.0]
    assert found["node_cpu_busy_seconds_total"].tolist() == [4.0 * at_s for at_s in times]
    assert found["node_cpu_idle_seconds_total"].tolist() == [4.0 * at_s for at_s in times]
    assert found["node_cpu_iowait_seconds_total"].tolist() == [0.5 * at_s for at_s in times]
    assert {key.entity for key in batch.keys} == {"n1"}
    assert len(cores.queries) == 1


@pytest.mark.asyncio
async def test_a_window_without_a_step_of_the_grid_asks_for_no_cores():
    cores = Cores()
    await read(cores, Window(1006.0, 1014.0))
    assert cores.queries == []

"""A site's own metrics: checked when loaded, told of when a line cannot be used."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from api.settings import load_settings
from collectors.answer import read_answer
from collectors.custom_map import MOST_ENTRIES, UNITS, CustomEntry, CustomMap
from collectors.entities import Place
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.prometheus import PrometheusCollector
from collectors.scrape import ExporterCollector
from collectors.series_map import SeriesMapper
from features.ring import Ring
from features.transforms.links import link_frame
from telemetry.errors import ConfigError
from telemetry.samples import Problem, SampleBatch, Window, validate_batch
from tests.kit.page_server import serve, text_page

LATENCY = CustomEntry("rdma_rtt_ms", "link_latency_seconds", "milliseconds", "link", "{node}:{device}:{peer}")
OCTETS = CustomEntry("ifHCOutOctets", "port_tx_bytes_total", "bytes", "link", "{sysName}:{ifName}")
SPEED = CustomEntry("ifHighSpeed", "port_capacity_bytes_per_s", "megabits per second", "link", "{sysName}:{ifName}")
FANS = CustomEntry("ipmi_fan", "site_fan_ratio", "percent", "node", "{node}", only={"fan": "[0-9]"}, add_over=("fan",))


def read(text: str, *entries: CustomEntry) -> SampleBatch:
    mapper = FieldMapper("page", Place(fallback="n1"), custom=CustomMap(entries))
    batch = mapper.batch(PageParser().parse(text.encode()), 100.0)
    validate_batch(batch)
    return batch


def values(batch: SampleBatch) -> dict[tuple[str, str], float]:
    pairs = zip(batch.series.tolist(), batch.value.tolist(), strict=True)
    return {(batch.keys[i].metric, batch.keys[i].entity): v for i, v in pairs}


def test_a_connections_latency_becomes_a_links():
    """Labels fill the template; colons in their values give way."""
    batch = read('rdma_rtt_ms{device="mlx5_0",peer="10.0.0.2:4791"} 1.5\n', LATENCY)
    assert values(batch) == {("link_latency_seconds", "n1:mlx5_0:10.0.0.2_4791"): 0.0015}
    assert batch.findings == ()


def test_a_line_without_a_label_of_its_template_is_left_out_and_told_of():
    batch = read('rdma_rtt_ms{device="mlx5_0"} 1\nrdma_rtt_ms{device="mlx5_0",peer="b"} 2\n', LATENCY)
    assert list(values(batch).values()) == [0.002]
    (finding,) = batch.findings
    assert (finding.problem, finding.count) == (Problem.MALFORMED_LINE, 1)
    assert "{node}:{device}:{peer}" in finding.detail


def test_parts_are_added_and_other_lines_passed_over():
    text = "".join(f'ipmi_fan{{fan="{fan}"}} {n}\n' for fan, n in (("1", 20), ("2", 30), ("psu", 99)))
    assert values(read(text, FANS)) == {("site_fan_ratio", "n1"): 0.5}


def test_a_family_of_ours_may_be_read_anew():
    """What the site says about a family wins where its filter matches; elsewhere the catalogue's meaning stays."""
    entry = CustomEntry("node_load1", "site_load_count", "count", "node", "{host}", only={"host": ".+"})
    batch = read('node_load1{host="h9"} 3\nnode_load1 4\n', entry)
    assert values(batch) == {("site_load_count", "h9"): 3.0, ("node_load_count", "n1"): 4.0}


def test_blank_and_impossible_numbers_are_missing():
    batch = read('rdma_rtt_ms{device="a",peer="b"} -1\nipmi_fan{fan="1"} 300\n', LATENCY, FANS)
    assert np.isnan(batch.value).all()
    assert {f.problem for f in batch.findings} == {Problem.OUT_OF_RANGE}


def test_snmp_counters_of_a_switch_make_a_link_that_can_be_foreseen():
    """Octets and speed by SNMP are all that a link's frame needs."""
    ring = Ring(1e4)
    mapper = FieldMapper("snmp", Place(), custom=CustomMap([OCTETS, SPEED]))
    parser = PageParser()
    for i in range(5):
        labels = '{sysName="leaf-1",ifName="Ethernet1/1"}'
        text = f"ifHCOutOctets{labels} {i * 5e9}\nifHighSpeed{labels} 200000\n"
        ring.append(mapper.batch(parser.parse(text.encode()), 100.0 + i))
    frame = link_frame(ring, now_s=104.0, window_s=10.0)
    assert frame.links == ("leaf-1:Ethernet1/1",)
    assert frame.capacity_bytes_per_s.tolist() == [25e9]
    assert frame.tx.values[0, -1] == pytest.approx(5e9)


def test_a_prometheus_answer_is_mapped_alike():
    result = [{"metric": {"__name__": "ifHCOutOctets", "sysName": "l", "ifName": "e"}, "values": [[10, "8"]]}]
    document = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    batch = SeriesMapper("server", custom=CustomMap([OCTETS])).batch([read_answer(document, "server")], 20.0)
    assert values(batch) == {("port_tx_bytes_total", "l:e"): 8.0}


def test_exporters_and_servers_read_what_the_site_configured():
    page = b'rdma_rtt_ms{device="mlx5_0",peer="b"} 2\n'
    asked: list[str] = []

    async def server(request: web.Request) -> web.StreamResponse:
        if "label" in request.path:
            return web.json_response({"status": "success", "data": ["rdma_rtt_ms", "unrelated"]})
        asked.append(str((await request.post()).get("query") or request.query.get("query")))
        metric = {"__name__": "rdma_rtt_ms", "device": "mlx5_0", "peer": "b", "instance": "n1:9100"}
        series = [{"metric": metric, "values": [[1000, "2"]]}]
        body = {"status": "success", "data": {"resultType": "matrix", "result": series}}
        return web.Response(body=json.dumps(body), content_type="application/json")

    async def both() -> None:
        custom = CustomMap([LATENCY])
        async with serve(text_page(page)) as url:
            exporter = ExporterCollector(f"{url}/metrics", node="n1", custom=custom)
            batch = await exporter.collect(Window(1000.0, 1000.0))
            await exporter.close()
            assert values(batch) == {("link_latency_seconds", "n1:mlx5_0:b"): 0.002}
        async with serve(server) as url:
            prometheus = PrometheusCollector(url, custom=custom)
            batch = await prometheus.collect(Window(900.0, 1100.0))
            prometheus.close()
            assert values(batch) == {("link_latency_seconds", "n1:mlx5_0:b"): 0.002}
            assert "link_latency_seconds" in prometheus.provides
        assert any("rdma_rtt_ms" in query for query in asked)
        assert not any("unrelated" in query for query in asked)

    asyncio.run(both())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"unit": "furlongs"}, "unit 'furlongs' is not known.*milliseconds"),
        ({"unit": "bytes"}, "link_latency_seconds is in seconds, and bytes cannot become that"),
        ({"level": "rack"}, "level 'rack' is not known.*link, node, gpu"),
        ({"level": "node", "entity": "{node}"}, "link_latency_seconds belongs to a port, not to a node"),
        ({"kind": "counter"}, "is a gauge, not a counter"),
        ({"kind": "magic"}, "kind 'magic' is not known"),
        ({"metric": "latency"}, "'latency' is not a metric of the catalogue.*site_"),
        ({"metric": "site_Latency"}, "is not a metric of the catalogue"),
        ({"entity": "fixed:port"}, "names no label"),
        ({"entity": "{device}"}, "does not name a link.*{switch}:{ifName}"),
        ({"entity": "{device.upper}:{port}"}, "device.upper is not a label's name"),
        ({"entity": "{device[0]}:{port}"}, "not a label's name"),
        ({"entity": "{device!r}:{port}"}, "not a label's name"),
        ({"entity": "{device:>99999999}:{port}"}, "not a label's name"),
        ({"entity": "{}:{port}"}, "an empty place"),
        ({"entity": "{device:{port}"}, "entity"),
        ({"entity": "{device"}, "is no template"),
        ({"field": "not a name"}, "is not the name of a Prometheus metric"),
        ({"only": {"a b": "x"}}, "'a b' is not a label's name"),
        ({"only": {"a": "("}}, "cannot be read"),
        ({"only": {"a": "(x+)+"}}, "repeats a repeat"),
    ],
)
def test_an_entry_that_cannot_work_is_refused_with_its_mend(change, says):
    """The sentence names the entry and the thing at fault."""
    with pytest.raises(ConfigError, match=f"(?s)custom entry 2.*{says}"):
        CustomMap([LATENCY, replace(LATENCY, **change)])


def test_entries_agree_about_a_metric_and_are_not_endless():
    ours = replace(LATENCY, metric="site_wait", unit="seconds")
    with pytest.raises(ConfigError, match="another unit, kind or level"):
        CustomMap([ours, replace(ours, unit="bytes")])
    with pytest.raises(ConfigError, match=f"more than {MOST_ENTRIES}"):
        CustomMap([LATENCY] * (MOST_ENTRIES + 1))


def test_gpus_and_every_unit_of_ours():
    entry = CustomEntry("my_power", "gpu_power_watts", "milliwatts", "gpu", "{node}:{id}")
    assert values(read('my_power{id="GPU-1"} 70000\n', entry)) == {("gpu_power_watts", "n1:GPU-1"): 70.0}
    assert {base for base, _ in UNITS.values()} >= {"seconds", "bytes", "bytes per second", "ratio", "count"}
    assert all(scale > 0 for _, scale in UNITS.values())


def test_the_configuration_file_is_checked_at_once(tmp_path):
    file = tmp_path / "gpucast.toml"
    good = '[[custom]]\nfield="rtt"\nmetric="link_latency_seconds"\nunit="{}"\nlevel="link"\nentity="{{a}}:{{b}}"\n'
    file.write_text(good.format("microseconds"), encoding="utf-8")
    assert load_settings(file, {}).custom[0].field == "rtt"
    file.write_text(good.format("miles"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"custom.*entry 1 \(rtt\): unit 'miles'"):
        load_settings(file, {})


@settings(max_examples=150, deadline=None)
@given(
    st.builds(
        CustomEntry,
        st.sampled_from(["rtt", "", "a b"]) | st.text(max_size=8),
        st.sampled_from(["link_latency_seconds", "site_x", "port_tx_bytes_total"]) | st.text(max_size=12),
        st.sampled_from(list(UNITS)) | st.text(max_size=5),
        st.sampled_from(["link", "node", "gpu"]),
        st.sampled_from(["{a}:{b}", "{node}", "{a"]) | st.text(alphabet="{}:ab!.[]", max_size=12),
    ),
    st.dictionaries(st.sampled_from(["a", "b", "node"]), st.text(max_size=8), max_size=3),
)
def test_any_entry_is_refused_or_works(entry, labels):
    """Whatever is configured, reading never fails and gives lawful batches."""
    try:
        custom = CustomMap([entry])
    except ConfigError:
        return
    text = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items() if value.isalnum())
    mapper = FieldMapper("page", Place(fallback="n1"), custom=custom)
    validate_batch(mapper.batch(PageParser().parse(f"{entry.field}{{{text}}} 1\n".encode()), 1.0))

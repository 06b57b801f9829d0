"""Which source serves which GPU."""

from __future__ import annotations

from dataclasses import replace

from collectors.served import ServedDevices, Twice
from telemetry.ids import SeriesKey
from telemetry.samples import SampleBatch


def _batch(source: str, *entities: str, metric: str = "gpu_util_ratio") -> SampleBatch:
    return replace(SampleBatch.of([(SeriesKey(metric, entity), 1.0, 0.5) for entity in entities]), source=source)


def test_two_exporters_of_one_gpu_are_found_whatever_they_call_its_host():
    served = ServedDevices()
    served.note(_batch("a", "n:GPU-1", "n:GPU-2"))
    assert served.twice == ()
    served.note(_batch("b", "pod-7:GPU-1"))
    assert served.twice == (Twice("GPU-1", (("a", "n:GPU-1"), ("b", "pod-7:GPU-1"))),)
    assert served.twice_total == 1
    assert served.entities == ["n:GPU-1", "n:GPU-2", "pod-7:GPU-1"]


def test_the_same_source_again_is_no_second_one():
    """Nor are hosts and links GPUs."""
    served = ServedDevices()
    for batch in (
        _batch("a", "n:GPU-1"),
        _batch("a", "n:GPU-1"),
        _batch("b", "n:mlx5_0:1", metric="port_rx_bytes_total"),
    ):
        served.note(batch)
    assert served.twice_total == 0
    assert served.entities == ["n:GPU-1"]


def test_gpus_without_a_host_are_told():
    served = ServedDevices()
    served.note(_batch("a", "unknown:GPU-1", "n:GPU-2"))
    assert served.without_node == ("unknown:GPU-1",)

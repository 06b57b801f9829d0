"""Job frames: one job's recent past on one grid, from ring or store alike."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from features.frame import Context, JobFrame
from features.ring import Ring
from features.store.duck import DuckStore
from features.transforms.jobs import host_shares, job_frame, job_views, link_frame
from telemetry.ids import GpuId, JobId, SeriesKey
from telemetry.jobs import Allocation, JobView
from telemetry.samples import Reason, SampleBatch, Sighting

START_S = 1_767_225_600.0
JOB, OTHER = JobId("slurm", "8123"), JobId("slurm", "8124")
GPUS = [GpuId(f"node-{n}", f"GPU-{g}") for n in range(2) for g in range(2)]
METRICS = ("gpu_gr_engine_active_ratio", "gpu_power_watts", "gpu_memory_used_bytes", "gpu_sm_clock_hertz")
VIEW = JobView(JOB, ("node-0", "node-1"), tuple(GPUS), START_S, START_S + 1e6)


def _row(keys: tuple[SeriesKey, ...], at_s: float, value: np.ndarray, sightings=()) -> SampleBatch:
    reason = np.where(np.isnan(value), Reason.BLANK, 0).astype(np.uint8)
    index = np.arange(len(keys), dtype=np.int32)
    return SampleBatch(keys, index, np.full(len(keys), at_s), value, reason, tuple(sightings), received_s=at_s + 0.2)


def _batches(seconds: int = 60, ports: bool = True, seed: int = 0) -> list[SampleBatch]:
    """Two hosts of two GPUs, scraped a little apart; NIC counters every other second."""
    rng = np.random.default_rng(seed)
    pages, counters = [], []
    for n in range(2):
        mine = [gpu for gpu in GPUS if gpu.node == f"node-{n}"]
        pages.append((mine, tuple(SeriesKey(metric, str(gpu)) for metric in METRICS for gpu in mine)))
        names = ("port_tx_bytes_total", "port_rx_bytes_total")
        counters.append(tuple(SeriesKey(name, f"node-{n}:mlx5_0:1") for name in names))
    total = np.zeros((2, 2))
    batches = []
    for i in range(seconds):
        for n, (mine, keys) in enumerate(pages):
            at_s = START_S + i + 0.3 * n
            value = rng.random(len(keys))
            value[2:4] += 300.0
            batches.append(_row(keys, at_s, value, [Sighting(gpu, at_s, JOB, sharers=1) for gpu in mine]))
            total[n] += [1e9 * (n + 1), 5e8]
            if ports and i % 2 == 0:
                batches.append(_row(counters[n], at_s, total[n].copy()))
    return batches


def _ring(batches: list[SampleBatch]) -> Ring:
    ring = Ring(3600.0)
    for batch in batches:
        ring.append(batch)
    return ring


def _assert_equal_context(one: Context, other: Context) -> None:
    np.testing.assert_array_equal(one.values, other.values)
    assert (one.step_s, one.metric) == (other.step_s, other.metric)
    for name in ("group", "low", "high"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def _assert_equal_frame(one: JobFrame, other: JobFrame) -> None:
    for field in fields(JobFrame):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, Context):
            _assert_equal_context(mine, theirs)
        else:
            assert mine == theirs, field.name


def test_a_frame_ends_at_the_newest_sample_and_not_at_now():
    """The last column stands at the source's newest time, however long ago that is."""
    frame = job_frame(_ring(_batches()), VIEW, now_s=START_S + 300, window_s=600)
    assert frame.data_at_s == START_S + 59.3
    assert frame.received_s == START_S + 59.5
    assert frame.devices.step_s == 1.0
    assert frame.devices.n_points == 60


def test_totals_are_means_of_ratios_and_sums_of_the_rest():
    """A job's ratio is the mean over its devices; watts and bytes add up."""
    frame = job_frame(_ring(_batches()), VIEW, now_s=START_S + 60, window_s=30)
    metric = np.array(frame.devices.metric)
    for row, name in enumerate(frame.totals.metric):
        if name.startswith("gpu_"):
            block = frame.devices.values[metric == name]
            expected = block.mean(axis=0) if name.endswith("_ratio") else block.sum(axis=0)
            np.testing.assert_allclose(frame.totals.values[row], expected)
    assert "gpu_sm_clock_hertz" not in frame.totals.metric
    assert (frame.totals.high[frame.totals.metric.index("gpu_gr_engine_active_ratio")]) == 1.0
    assert len(frame.device_keys) == frame.devices.n_series == 12


def test_fabric_is_the_sum_over_the_hosts_ports():
    """What the job sends is what its hosts' ports send, as a rate on the same grid, up to the last column."""
    frame = job_frame(_ring(_batches()), VIEW, now_s=START_S + 60, window_s=600)
    tx = frame.totals.values[frame.totals.metric.index("job_fabric_tx_bytes_per_s")]
    rx = frame.totals.values[frame.totals.metric.index("job_fabric_rx_bytes_per_s")]
    np.testing.assert_allclose(tx[2:], 3e9, rtol=1e-6)
    np.testing.assert_allclose(rx[2:], 1e9, rtol=1e-6)


def test_a_job_gets_its_share_of_a_shared_hosts_fabric():
    """On hosts with other jobs the traffic is split by GPUs in use, and the view is marked shared."""
    batches = _batches()
    guest = GpuId("node-0", "GPU-7")
    seen = [Sighting(guest, START_S + i, OTHER, sharers=1) for i in range(60)]
    batches.append(SampleBatch.of([], received_s=START_S))
    batches[-1] = _row((), START_S, np.empty(0), seen)
    ring = _ring(batches)
    view, other = job_views(ring.allocations(START_S + 60, 600), START_S + 60)
    assert view.shared
    assert other.shared
    shares = host_shares(ring.allocations(START_S + 60, 600))
    assert shares[JOB] == {"node-0": pytest.approx(2 / 3), "node-1": 1.0}
    frame = job_frame(ring, view, now_s=START_S + 60, window_s=600)
    tx = frame.totals.values[frame.totals.metric.index("job_fabric_tx_bytes_per_s")]
    assert tx[-2] == pytest.approx(2e9 + 1e9 * 2 / 3)


def test_ring_and_store_give_the_same_frame():
    """Online and offline are one code path and one answer."""
    batches = _batches(90)
    ring, store = _ring(batches), DuckStore(None)
    store.append(batches)
    for now_s, window_s in ((START_S + 90, 600), (START_S + 45, 20), (START_S + 45.29, 600)):
        views = [job_views(reader.allocations(now_s, window_s), now_s) for reader in (ring, store)]
        assert views[0] == views[1]
        frames = [job_frame(reader, views[0][0], now_s=now_s, window_s=window_s) for reader in (ring, store)]
        _assert_equal_frame(frames[0], frames[1])
        links = [link_frame(reader, now_s=now_s, window_s=window_s) for reader in (ring, store)]
        _assert_equal_context(links[0].tx, links[1].tx)
        assert (links[0].data_at_s, links[0].received_s) == (links[1].data_at_s, links[1].received_s)


@pytest.mark.parametrize("cut_s", [3.0, 20.0, 30.1, 44.7])
def test_a_frame_never_looks_ahead(cut_s: float):
    """A frame at a moment is the same whether later data exist or not."""
    batches = _batches(60)
    now_s = START_S + cut_s
    known = [batch for batch in batches if batch.at_s[0] <= now_s]
    whole, cut = (job_frame(_ring(some), VIEW, now_s=now_s, window_s=600) for some in (batches, known))
    _assert_equal_frame(whole, cut)
    whole_links, cut_links = (link_frame(_ring(some), now_s=now_s, window_s=600) for some in (batches, known))
    _assert_equal_context(whole_links.tx, cut_links.tx)


def test_samples_from_before_the_job_belong_to_others():
    """A GPU's past under another job is not the job's past."""
    late = JobView(JOB, VIEW.nodes, VIEW.gpus, START_S + 40, START_S + 60)
    frame = job_frame(_ring(_batches()), late, now_s=START_S + 60, window_s=600)
    assert frame.devices.n_points == 20


def test_a_job_that_is_over_ends_when_it_ended():
    """Later samples of its GPUs are not used once the job is gone."""
    over = JobView(JOB, VIEW.nodes, VIEW.gpus, START_S, START_S + 20)
    frame = job_frame(_ring(_batches(200)), over, now_s=START_S + 200, window_s=600)
    assert frame.data_at_s == START_S + 20


def test_max_points_keeps_the_newest():
    """A frame is cut at its old end."""
    ring = _ring(_batches())
    frame = job_frame(ring, VIEW, now_s=START_S + 60, window_s=600, max_points=10)
    whole = job_frame(ring, VIEW, now_s=START_S + 60, window_s=600)
    np.testing.assert_array_equal(frame.devices.values, whole.devices.values[:, -10:])


def test_missing_metrics_say_why():
    """Each metric without a row has a sentence: never came, or came without a value."""
    blank = (SeriesKey("gpu_dram_active_ratio", str(GPUS[0])),)
    batches = [*_batches(20), *(_row(blank, START_S + i, np.array([np.nan])) for i in range(20))]
    frame = job_frame(_ring(batches), VIEW, now_s=START_S + 20, window_s=600)
    assert "no sample" in frame.missing["gpu_tensor_active_ratio"]
    assert "'no value'" in frame.missing["gpu_dram_active_ratio"]
    assert not set(frame.missing) & set(frame.totals.metric)


def test_a_job_without_data_has_an_empty_frame():
    """Nothing is known, and the frame says so without a crash."""
    frame = job_frame(Ring(60.0), VIEW, now_s=START_S, window_s=600)
    assert (frame.devices.values.shape, frame.totals.values.shape) == ((0, 0), (0, 0))
    assert (frame.data_at_s, frame.received_s) == (0.0, 0.0)
    assert "no NIC counters" in frame.missing["job_fabric_tx_bytes_per_s"]
    one = job_frame(_ring(_batches(1)), VIEW, now_s=START_S, window_s=600)
    assert one.devices.n_points == 0


def test_too_few_devices_make_no_total():
    """With one of four devices reporting there is no job total, and the reason counts them."""
    keys = (SeriesKey("gpu_power_watts", str(GPUS[0])),)
    ring = _ring([_row(keys, START_S + i, np.array([300.0 + i])) for i in range(20)])
    frame = job_frame(ring, VIEW, now_s=START_S + 20, window_s=600)
    assert frame.totals.metric == ()
    assert "1 of the job's 4 devices" in frame.missing["gpu_power_watts"]
    assert frame.devices.n_series == 1


def test_a_slice_has_no_power_of_its_own():
    """A job on MIG slices only is told that power is measured per card."""
    slices = (GpuId("node-0", "GPU-0", "7"), GpuId("node-0", "GPU-0", "9"))
    view = JobView(JOB, ("node-0",), slices, START_S, START_S + 60)
    keys = tuple(SeriesKey("gpu_gr_engine_active_ratio", str(gpu)) for gpu in slices)
    ring = _ring([_row(keys, START_S + i, np.array([0.5, 0.7])) for i in range(20)])
    frame = job_frame(ring, view, now_s=START_S + 20, window_s=600)
    assert "per card" in frame.missing["gpu_power_watts"]
    np.testing.assert_allclose(frame.totals.values, 0.6)


def test_views_group_by_job_and_keep_what_is_over():
    """A job is its current GPUs; one that is over keeps its last ones and its last moment."""
    allocations = [
        Allocation(JOB, GPUS[0], START_S, START_S + 50),
        Allocation(JOB, GPUS[1], START_S + 60, None),
        Allocation(OTHER, GPUS[3], START_S, START_S + 30, sharers=2),
    ]
    view, over = job_views(allocations, START_S + 100)
    assert (view.gpus, view.nodes, view.first_seen_s, view.last_seen_s, view.shared) == (
        (GPUS[1],),
        ("node-0",),
        START_S + 60,
        START_S + 100,
        False,
    )
    assert (over.gpus, over.last_seen_s, over.shared) == ((GPUS[3],), START_S + 30, True)
    assert job_views([], START_S) == []

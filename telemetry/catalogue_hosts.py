"""Rows of the metric catalogue for hosts: processors, memory, disks, network shares, interfaces.

They tell whether a job waits for its data or writes a checkpoint, and what its network adapters were told to pause.
Sources: node_exporter's collectors (cpu, loadavg, meminfo, diskstats, filesystem, mountstats, netdev, ethtool); the
statistics of the mlx5 and bnxt_en drivers behind ``ethtool -S``; DCGM's CPU entities.
"""

from __future__ import annotations

from telemetry.metric import Kind, Level, Metric, Source

_DISKS = (("device", r"(?!dm-|md\d|loop|ram|zram|sr\d|fd\d).+"),)
"""Stacked devices (dm, md) repeat the bytes of the disks below; the others are no storage of a job."""
_INTERFACES = (
    (
        "device",
        r"(?!lo$|veth|cali|cni|docker|br-|virbr|flannel|tunl|kube-|lxc|cilium|nerdctl|vxlan|bond\d|team\d|dummy).+(?<!\.\d)(?<!\.\d\d)(?<!\.\d\d\d)(?<!\.\d\d\d\d)",
    ),
)
"""Interfaces of the hardware: bridges, bonds, tunnels, VLANs and the ends of pods repeat their bytes."""
_MOUNTS = (
    ("fstype", r"(?!tmpfs|overlay|squashfs|rootfs|proc|sysfs|cgroup|nsfs|ramfs|devtmpfs).+"),
    ("mountpoint", r"(?!/var/lib/(kubelet|docker|containerd)/|/run/).+"),
)
_PRIORITIES = range(8)


def _modes(pattern: str) -> tuple[Source, ...]:
    return (Source("node_cpu_seconds_total", only=(("mode", pattern),)),)


def _cpu(name: str, pattern: str, meaning: str) -> Metric:
    return Metric(name, "seconds", Kind.COUNTER, Level.NODE, _modes(pattern), meaning=meaning, parts=("cpu", "mode"))


def _node(name: str, field: str, unit: str, meaning: str) -> Metric:
    return Metric(name, unit, Kind.GAUGE, Level.NODE, (Source(field),), meaning=meaning)


def _disk(name: str, field: str, unit: str, meaning: str) -> Metric:
    source = Source(field, only=_DISKS, device="{device}")
    return Metric(name, unit, Kind.COUNTER, Level.HOST_DEVICE, (source,), meaning=meaning)


def _share(name: str, field: str, meaning: str) -> Metric:
    source = Source(field, device="{export}")
    parts = ("protocol", "mountaddr")
    return Metric(name, "bytes", Kind.COUNTER, Level.HOST_DEVICE, (source,), meaning=meaning, parts=parts)


def _mount(name: str, field: str, meaning: str) -> Metric:
    source = Source(field, only=_MOUNTS, device="{mountpoint}")
    return Metric(name, "bytes", Kind.GAUGE, Level.HOST_DEVICE, (source,), meaning=meaning)


def _interface(name: str, *fields: str, unit: str = "count", meaning: str, parts: tuple[str, ...] = ()) -> Metric:
    sources = tuple(Source(field, only=_INTERFACES, device="{device}") for field in fields)
    return Metric(name, unit, Kind.COUNTER, Level.HOST_DEVICE, sources, meaning=meaning, parts=parts)


def _per_priority(*patterns: str) -> tuple[str, ...]:
    return tuple(pattern.format(priority) for pattern in patterns for priority in _PRIORITIES)


HOST_METRICS: tuple[Metric, ...] = (
    _cpu("node_cpu_busy_seconds_total", "user|nice|system|irq|softirq|steal", "processor time at work, all cores"),
    _cpu("node_cpu_idle_seconds_total", "idle", "processor time with nothing to do, all cores"),
    _cpu("node_cpu_iowait_seconds_total", "iowait", "idle processor time with reads or writes under way, all cores"),
    _node("node_load_count", "node_load1", "processes", "runnable or waiting processes, mean of 1 min"),
    _node("node_memory_total_bytes", "node_memory_MemTotal_bytes", "bytes", "memory of the host"),
    _node(
        "node_memory_available_bytes", "node_memory_MemAvailable_bytes", "bytes", "memory that programs can still get"
    ),
    _node("node_memory_dirty_bytes", "node_memory_Dirty_bytes", "bytes", "written by programs, not yet by the disks"),
    _node("node_memory_writeback_bytes", "node_memory_Writeback_bytes", "bytes", "on its way to the disks now"),
    _disk("host_disk_read_bytes_total", "node_disk_read_bytes_total", "bytes", "read from one disk"),
    _disk("host_disk_write_bytes_total", "node_disk_written_bytes_total", "bytes", "written to one disk"),
    _disk("host_disk_busy_seconds_total", "node_disk_io_time_seconds_total", "seconds", "time with requests under way"),
    _share("host_share_read_bytes_total", "node_mountstats_nfs_total_read_bytes_total", "read from an NFS server"),
    _share("host_share_write_bytes_total", "node_mountstats_nfs_total_write_bytes_total", "written to an NFS server"),
    _mount("host_filesystem_available_bytes", "node_filesystem_avail_bytes", "room left on one mount"),
    _mount("host_filesystem_size_bytes", "node_filesystem_size_bytes", "size of one mount"),
    _interface(
        "host_net_tx_bytes_total",
        "node_network_transmit_bytes_total",
        unit="bytes",
        meaning="sent by the kernel; RDMA traffic is not in it",
    ),
    _interface(
        "host_net_rx_bytes_total",
        "node_network_receive_bytes_total",
        unit="bytes",
        meaning="received by the kernel; RDMA traffic is not in it",
    ),
    _interface("host_net_rx_drop_total", "node_network_receive_drop_total", meaning="packets dropped by the kernel"),
    # Priority flow control: a receiver tells its sender to stop for a moment. Families of one interface are added.
    _interface(
        "host_net_pause_rx_total",
        *_per_priority("node_ethtool_received_prio{}_pause", "node_ethtool_received_pfc_ena_frames_pri{}"),
        meaning="pause frames received: the fabric told this adapter to stop sending",
        parts=("__name__",),
    ),
    _interface(
        "host_net_pause_tx_total",
        *_per_priority("node_ethtool_transmitted_prio{}_pause", "node_ethtool_transmitted_pfc_ena_frames_pri{}"),
        meaning="pause frames sent: this host could not keep up",
        parts=("__name__",),
    ),
    _interface(
        "host_net_ecn_marked_total",
        *_per_priority("node_ethtool_received_prio{}_marked"),
        meaning="packets that arrived with a congestion mark",
        parts=("__name__",),
    ),
    _interface(
        "host_net_discards_rx_total",
        "node_ethtool_received_discards_phy",
        meaning="packets dropped for want of buffer on the port",
    ),
    _interface(
        "host_net_out_of_buffer_total",
        "node_ethtool_received_out_of_buffer",
        meaning="packets dropped because the host had no receive buffer ready",
    ),
    Metric(
        "host_socket_util_ratio",
        "ratio",
        Kind.GAUGE,
        Level.HOST_DEVICE,
        (Source("DCGM_FI_DEV_CPU_UTIL_TOTAL", device="socket{cpu}"),),
        high=1.0,
        tolerance=0.05,
        meaning="use of one processor socket, from DCGM on Grace hosts",
    ),
    Metric(
        "host_socket_power_watts",
        "watts",
        Kind.GAUGE,
        Level.HOST_DEVICE,
        (
            Source("DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT", device="socket{cpu}"),
            Source("DCGM_FI_DEV_CPU_POWER_WATTS", device="socket{cpu}"),
        ),
        high=5000.0,
        meaning="power of one processor socket, from DCGM on Grace hosts",
    ),
)
"""Rows that ``telemetry.catalogue`` takes over."""

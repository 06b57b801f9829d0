"""What an NCCL debug log (NCCL_DEBUG=INFO) tells of the network: paths, NICs, channels, and signs of a slow path.

Every line is read by itself, so that lines of many processes may be mixed, cut or prefixed by a launcher.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_MOST_LINE = 2_000
_MOST_DISTINCT = 200_000
_LINE = re.compile(
    r"([A-Za-z0-9._-]{1,255}):(\d{1,10}):(\d{1,10}) \[(-?\d{1,4})\] (NCCL|RCCL) (INFO|WARN|TRACE|ABORT|VERSION) (.*)"
)
_CHANNEL = re.compile(
    r"Channel (\d{1,4})(?:/(-?\d{1,4}))? ?: (\d{1,8})\[[^\]]{1,20}\] -> (\d{1,8})\[[^\]]{1,20}\]"
    r"(?: \[(send|receive)\])? via (\S{1,80})"
)
_COMM = re.compile(r"comm (0x[0-9a-fA-F]{1,16}) rank (\d{1,8}) nRanks (\d{1,8})(?: nNodes (\d{1,8}))?")
_COMPLETE = re.compile(
    r"comm (0x[0-9a-fA-F]{1,16}) rank (\d{1,8}) nranks (\d{1,8}) .{0,120}?busId ([0-9a-fA-F]{1,16}) commId (0x[0-9a-fA-F]{1,16})"
)
_COUNTS = re.compile(
    r"(\d{1,4}) coll channels, (?:(\d{1,4}) collnet channels, )?(?:(\d{1,4}) nvls channels, )?(\d{1,4}) p2p channels"
)
_PATTERN = re.compile(
    r"Pattern (\d{1,3}), crossNic (\d{1,3}), nChannels (\d{1,4}), bw ([\d.]{1,12})/([\d.]{1,12}), type (\S{1,12})/(\w{1,12})"
)
_NETWORK = re.compile(r"Using network (.{1,60})")
_NO_GDR = re.compile(r"GPU Direct RDMA Disabled for HCA (\d{1,4}) '([^']{1,64})'")
_NIC = re.compile(r"^NET/([^/(]{1,40})(?:/(\d{1,4}))?(?:\((\d{1,8})\))?(.{0,40})$")


@dataclass(frozen=True, slots=True, order=True)
class Connection:
    """A path between two ranks, as one of them tells it.

    Args:
        host: that wrote the line.
        from_rank: sender.
        to_rank: receiver.
        transport: ``P2P/CUMEM``, ``SHM/direct``, ``NET/IB``, ``NET/Socket`` and so on.
        nic: index of the network device; None within a host.
        proxy_rank: rank whose NIC is used instead of the own (PXN); None when the own one is.
        gdr: whether the NIC reads GPU memory itself; None within a host.
    """

    host: str
    from_rank: int
    to_rank: int
    transport: str
    nic: int | None = None
    proxy_rank: int | None = None
    gdr: bool | None = None


@dataclass(frozen=True, slots=True, order=True)
class DebugCommunicator:
    """A rank of a communicator as its process names it.

    Args:
        host: of the process.
        pid: of the process.
        address: of the communicator in that process; not the same on another rank.
        rank: its number.
        n_ranks: in all.
        n_nodes: hosts; 0 when not told.
        commid: the same on all ranks, ``0x...``; empty before initialisation has ended.
        bus_id: of the GPU, without colons; empty before initialisation has ended.
    """

    host: str
    pid: int
    address: str
    rank: int
    n_ranks: int
    n_nodes: int = 0
    commid: str = ""
    bus_id: str = ""


@dataclass(frozen=True, slots=True)
class DebugFacts:
    """All that a log tells.

    Args:
        n_lines: of NCCL.
        connections: path -> channels that use it.
        communicators: ranks, sorted.
        channels: most channels that a line tells, by kind: ``coll``, ``collnet``, ``nvls``, ``p2p``.
        patterns: (intra-host path type, inter-host path type, bandwidth per channel in bytes/s within a host, between
            hosts) -> lines.
        networks: ``IB``, ``Socket`` and so on -> lines that choose it.
        no_gdr: (host, HCA) whose GPU Direct RDMA is off.
        nvls_hosts: hosts with NVLink multicast.
        warnings: first words of warnings -> count.
        cut: how many distinct facts were left out because there were too many.
    """

    n_lines: int
    connections: dict[Connection, int]
    communicators: tuple[DebugCommunicator, ...]
    channels: dict[str, int]
    patterns: dict[tuple[str, str, float, float], int]
    networks: dict[str, int]
    no_gdr: tuple[tuple[str, str], ...]
    nvls_hosts: tuple[str, ...]
    warnings: dict[str, int]
    cut: int = 0

    def transports(self) -> dict[str, int]:
        """Transport -> channels over it."""
        counts: Counter[str] = Counter()
        for connection, channels in self.connections.items():
            counts[connection.transport] += channels
        return dict(counts.most_common())

    def nics(self) -> dict[tuple[str, int], int]:
        """(host, network device index) -> channels over it."""
        counts: Counter[tuple[str, int]] = Counter()
        for connection, channels in self.connections.items():
            if connection.nic is not None:
                counts[connection.host, connection.nic] += channels
        return dict(sorted(counts.items()))

    def slow_signs(self) -> list[str]:
        """Sentences on what makes transfers slower than they need be."""
        signs = [
            f"GPU Direct RDMA is off for {hca} on {host}: traffic goes through host memory" for host, hca in self.no_gdr
        ]
        sockets = sum(n for c, n in self.connections.items() if c.transport == "NET/Socket")
        if sockets:
            signs.append(f"{sockets} channels use TCP sockets (NET/Socket) instead of RDMA")
        staged = sum(n for c, n in self.connections.items() if c.transport.startswith("NET/IB") and c.gdr is False)
        if staged:
            signs.append(f"{staged} InfiniBand channels go through host memory (no GDRDMA)")
        shared = sum(n for c, n in self.connections.items() if c.transport.startswith("SHM"))
        if shared:
            signs.append(f"{shared} channels within a host go through shared memory (SHM) instead of peer to peer")
        return signs


class _Log:
    """Facts as they gather."""

    def __init__(self) -> None:
        self.n_lines = self.cut = 0
        self.connections: Counter[Connection] = Counter()
        self.communicators: dict[tuple[str, int, str], DebugCommunicator] = {}
        self.channels: dict[str, int] = {}
        self.patterns: Counter[tuple[str, str, float, float]] = Counter()
        self.networks: Counter[str] = Counter()
        self.no_gdr: set[tuple[str, str]] = set()
        self.nvls: set[str] = set()
        self.warnings: Counter[str] = Counter()

    def room(self, known: bool) -> bool:
        """Whether another fact may be kept."""
        n = len(self.connections) + len(self.communicators) + len(self.patterns) + len(self.warnings)
        if known or n + len(self.networks) + len(self.no_gdr) + len(self.nvls) < _MOST_DISTINCT:
            return True
        self.cut += 1
        return False

    def take(self, host: str, pid: int, level: str, text: str) -> None:
        """Take in a line's text."""
        self.n_lines += 1
        if level == "WARN":
            words = text.strip()[:120]
            if self.room(words in self.warnings):
                self.warnings[words] += 1
        elif channel := _CHANNEL.search(text):
            connection = _connection(host, channel)
            if self.room(connection in self.connections):
                self.connections[connection] += 1
        elif done := (_COMPLETE.search(text) or _COMM.search(text)):
            self._communicator(host, pid, done)
        elif counts := _COUNTS.search(text):
            for kind, count in zip(("coll", "collnet", "nvls", "p2p"), counts.groups(), strict=True):
                self.channels[kind] = max(self.channels.get(kind, 0), int(count or 0))
        elif pattern := _PATTERN.search(text):
            self._pattern(pattern)
        elif network := _NETWORK.search(text):
            name = network[1].strip()
            if self.room(name in self.networks):
                self.networks[name] += 1
        elif (off := _NO_GDR.search(text)) and self.room((host, off[2]) in self.no_gdr):
            self.no_gdr.add((host, off[2]))
        elif "NVLS multicast support is available" in text and self.room(host in self.nvls):
            self.nvls.add(host)

    def _communicator(self, host: str, pid: int, found: re.Match[str]) -> None:
        key = (host, pid, found[1])
        before = self.communicators.get(key)
        if not self.room(before is not None):
            return
        if found.re is _COMPLETE:
            nodes = before.n_nodes if before else 0
            fresh = DebugCommunicator(host, pid, found[1], int(found[2]), int(found[3]), nodes, found[5], found[4])
        else:
            late = before or DebugCommunicator(host, pid, found[1], 0, 0)
            nodes = int(found[4] or 0)
            fresh = DebugCommunicator(
                host, pid, found[1], int(found[2]), int(found[3]), nodes, late.commid, late.bus_id
            )
        self.communicators[key] = fresh

    def _pattern(self, found: re.Match[str]) -> None:
        try:
            key = (found[6], found[7], float(found[4]) * 1e9, float(found[5]) * 1e9)
        except ValueError:  # such as 1.2.3
            return
        if self.room(key in self.patterns):
            self.patterns[key] += 1


def parse_debug_log(data: bytes) -> DebugFacts:
    """What a log tells; never raises on any bytes."""
    log = _Log()
    for line in _lines(data):
        found = _LINE.search(line)
        if found is not None:
            log.take(found[1], int(found[2]), found[6], found[7])
    return DebugFacts(
        n_lines=log.n_lines,
        connections=dict(log.connections),
        communicators=tuple(sorted(log.communicators.values())),
        channels=log.channels,
        patterns=dict(log.patterns),
        networks=dict(log.networks),
        no_gdr=tuple(sorted(log.no_gdr)),
        nvls_hosts=tuple(sorted(log.nvls)),
        warnings=dict(log.warnings),
        cut=log.cut,
    )


def _lines(data: bytes) -> Iterator[str]:
    for raw in data.split(b"\n"):
        if b"CCL " in raw:
            yield raw[:_MOST_LINE].decode("utf-8", "replace").rstrip()


def _connection(host: str, found: re.Match[str]) -> Connection:
    from_rank, to_rank, via = int(found[3]), int(found[4]), found[6].rstrip(",")
    net = _NIC.match(via)
    if net is None:
        return Connection(host, from_rank, to_rank, via)
    return Connection(
        host=host,
        from_rank=from_rank,
        to_rank=to_rank,
        transport=f"NET/{net[1]}",
        nic=None if net[2] is None else int(net[2]),
        proxy_rank=None if net[3] is None else int(net[3]),
        gdr="GDRDMA" in net[4],
    )

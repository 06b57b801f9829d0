"""Names of things that stay the same over reboots, restarts and scrapes.

Each id has one text form, used as ``SeriesKey.entity``, in URLs and in JSON. The text forms need no
percent-encoding in a URL path except where a site's own names do.
"""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.errors import SchemaError


@dataclass(frozen=True, slots=True, order=True)
class NodeId:
    """A host by name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, order=True)
class GpuId:
    """A schedulable GPU device: a whole card, or one MIG instance of it.

    Never the bare index: it changes over reboots and repeats on every host.

    Args:
        node: host name.
        uuid: ``GPU-...`` of the card.
        mig: GPU instance id such as ``7``; empty for a whole card.
    """

    node: str
    uuid: str
    mig: str = ""

    def __str__(self) -> str:
        tail = f"~{self.mig}" if self.mig else ""
        return f"{self.node}:{self.uuid}{tail}"

    @property
    def card(self) -> GpuId:
        """The card this device is, or is a slice of."""
        return GpuId(self.node, self.uuid) if self.mig else self

    @classmethod
    def parse(cls, text: str) -> GpuId:
        """Read the text form back.

        Raises:
            SchemaError: no ``node:uuid`` in the text.
        """
        node, colon, rest = text.rpartition(":")
        if not colon or not rest:
            raise SchemaError(f"{text!r} is not a GPU id", mend="Write it as node:uuid or node:uuid~mig")
        uuid, _, mig = rest.partition("~")
        return cls(node, uuid, mig)


@dataclass(frozen=True, slots=True, order=True)
class LinkId:
    """One direction-less port of a device: a host's NIC port or a switch port.

    Args:
        device: ``node:mlx5_0`` for a NIC, the switch's name for a switch.
        port: port name on that device.
        tier: ``nic``, ``leaf``, ``spine`` or empty when unknown; not part of the text form.
    """

    device: str
    port: str
    tier: str = ""

    def __str__(self) -> str:
        return f"{self.device}:{self.port}"

    @classmethod
    def parse(cls, text: str, tier: str = "") -> LinkId:
        """Read the text form back.

        Raises:
            SchemaError: no ``device:port`` in the text.
        """
        device, colon, port = text.rpartition(":")
        if not colon or not device or not port:
            raise SchemaError(f"{text!r} is not a link id", mend="Write it as device:port")
        return cls(device, port, tier)

    @property
    def node(self) -> str:
        """Host name for a NIC; empty for a switch port."""
        return self.device.partition(":")[0] if ":" in self.device else ""


@dataclass(frozen=True, slots=True, order=True)
class JobId:
    """A training job as its scheduler names it.

    Args:
        backend: ``kubernetes`` or ``slurm``.
        name: ``namespace:name`` under Kubernetes, the job number under Slurm.
    """

    backend: str
    name: str

    def __str__(self) -> str:
        return f"{self.backend}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> JobId:
        """Read the text form back.

        Raises:
            SchemaError: no ``backend:name`` in the text.
        """
        backend, colon, name = text.partition(":")
        if not colon or not backend or not name:
            raise SchemaError(f"{text!r} is not a job id", mend="Write it as backend:name, such as slurm:8123")
        return cls(backend, name)


@dataclass(frozen=True, slots=True, order=True)
class CommunicatorId:
    """A group of ranks that NCCL or RCCL moves data between.

    Args:
        name: what the program called it; ``unknown`` when nothing tells. Colons become ``_``.
        hash: NCCL's own hash such as ``0x7f8c496ae9f661``, or what stands for it where a source prints none.
    """

    name: str
    hash: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name.replace(":", "_") or "unknown")
        object.__setattr__(self, "hash", self.hash.replace(":", "_"))

    def __str__(self) -> str:
        return f"{self.name}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> CommunicatorId:
        """Read the text form back.

        Raises:
            SchemaError: not two parts.
        """
        parts = text.split(":")
        if len(parts) != 2 or not all(parts):
            raise SchemaError(f"{text!r} is not a communicator id", mend="Write it as name:hash")
        return cls(*parts)


@dataclass(frozen=True, slots=True, order=True)
class CollectiveId:
    """One operation of a communicator, over all of its ranks or as one member saw it.

    Args:
        communicator: whose.
        operation: ``AllReduce``, ``Send`` and so on.
        member: the rank, or ``GPU0@node`` where a source tells no rank; empty for all ranks together.
        detail: message size and algorithm where a source splits by them; empty otherwise.
    """

    communicator: CommunicatorId
    operation: str
    member: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        for name in ("operation", "member", "detail"):
            object.__setattr__(self, name, getattr(self, name).replace(":", "_"))

    def __str__(self) -> str:
        tail = f":{self.member}:{self.detail}" if self.detail else f":{self.member}" if self.member else ""
        return f"{self.communicator}:{self.operation}{tail}"

    @classmethod
    def parse(cls, text: str) -> CollectiveId:
        """Read the text form back.

        Raises:
            SchemaError: not three to five parts.
        """
        parts = text.split(":")
        if not 3 <= len(parts) <= 5 or not all(parts[:3]):
            mend = "Write it as name:hash:operation, with :member and :detail behind where there are such"
            raise SchemaError(f"{text!r} is not a collective id", mend=mend)
        return cls(CommunicatorId(parts[0], parts[1]), *parts[2:])


@dataclass(frozen=True, slots=True, order=True)
class SeriesKey:
    """One time series: a catalogue metric of one entity.

    Args:
        metric: ``Metric.name`` from the catalogue.
        entity: text form of a GpuId, LinkId, NodeId, JobId, CommunicatorId or CollectiveId, as the metric's level says.
    """

    metric: str
    entity: str

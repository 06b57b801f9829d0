"""A topology as one JSON document, for programs. Unknown is null, never 0 or empty text."""

from __future__ import annotations

from typing import Any

from telemetry.machine import Device, Machine
from telemetry.topology import Topology


def as_document(topology: Topology) -> dict[str, Any]:
    """The whole topology in JSON's types."""
    return {
        "hosts": {host: _host(host, topology) for host in topology.hosts},
        "links": [
            {
                "port": str(link.id),
                "tier": link.id.tier or None,
                "a": link.a,
                "b": link.b or None,
                "capacity_bytes_per_s": link.capacity_bytes_per_s,
            }
            for link in topology.links
        ],
        "domains": {
            kind: {name: sorted(hosts) for name, hosts in topology.domains(kind).items()} for kind in topology.domain_of
        },
        "nvlink_domains": [sorted(places) for places in topology.nvlink_sets()],
        "aliases": dict(topology.aliases),
        "said_by": {fact: list(sources) for fact, sources in topology.said_by.items()},
        "conflicts": [
            {
                "subject": conflict.subject,
                "what": conflict.what,
                "says": [{"source": source, "value": value} for source, value in conflict.says],
                "kept": conflict.kept or None,
            }
            for conflict in topology.conflicts
        ],
        "unknowns": list(topology.unknowns),
    }


def _host(host: str, topology: Topology) -> dict[str, Any]:
    machine = topology.machines.get(host)
    return {
        "switches": list(topology.path(host)),
        "leaf": topology.leaf_of.get(host),
        "domains": {kind: homes[host] for kind, homes in topology.domain_of.items() if host in homes},
        "inside": inside_of(machine) if machine is not None else None,
    }


def inside_of(machine: Machine) -> dict[str, Any]:
    """The inside of a host in JSON's types."""
    return {
        "gpu_count": machine.gpu_count,
        "product": machine.product or None,
        "memory_bytes": machine.memory_bytes,
        "mig_strategy": machine.mig_strategy or None,
        "mig": [
            {
                "gpu": piece.gpu or None,
                "profile": piece.profile,
                "count": piece.count,
                "instance": piece.instance or None,
                "uuid": piece.uuid or None,
                "start": piece.start,
                "size": piece.size,
            }
            for piece in machine.mig
        ],
        "replicas": machine.replicas,
        "gpus": [_gpu(gpu, machine) for gpu in machine.gpus],
        "nics": [_device(nic) for nic in machine.nics],
        "distances": [{"a": a, "b": b, "distance": str(way)} for (a, b), way in sorted(machine.between.items())],
    }


def _gpu(gpu: Device, machine: Machine) -> dict[str, Any]:
    nics = machine.best_nics(gpu.name)
    return _device(gpu) | {
        "nearest_nics": [nic.name for nic, _ in nics],
        "nearest_nic_distance": str(nics[0][1]) if nics else None,
    }


def _device(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "uuid": device.uuid or None,
        "bus_id": device.bus_id or None,
        "numa": device.numa_node,
        "cpus": device.cpu_count,
        "gpu_numa": device.gpu_numa,
        "capacity_bytes_per_s": device.capacity_bytes_per_s,
        "pcie_bytes_per_s": device.pcie_bytes_per_s,
    }

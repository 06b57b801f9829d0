"""Any topology source, recognised by its content; several sources made into one topology."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import orjson

from collectors.topology import (
    hypernodes,
    kueue_levels,
    mig_layout,
    node_labels,
    nvidia_smi_topo,
    slurm_yaml,
    topograph,
)
from collectors.topology.merge_machines import checked_machine
from collectors.topology.nccl_xml import read_nccl_xml
from collectors.topology.reading import NotTopology, Reading, counted, decoded
from collectors.topology.slurm_block import read_blocks
from collectors.topology.slurm_ring import read_rings
from collectors.topology.slurm_tree import read_tree
from collectors.topology.yaml_text import read_yaml
from telemetry.errors import BadReply
from telemetry.topology import Topology

FORMATS = (
    "Slurm topology.conf and topology.yaml, scontrol show topology, Topograph's graph, Kubernetes nodes as JSON, "
    "Kueue topologies, Volcano HyperNodes, nvidia-smi topo -m, nvidia-smi -L, nvidia-smi mig -lgi, NCCL's topology XML"
)

MAX_TEXT_BYTES = 8 * 2**20
"""Largest source that is not JSON: Slurm's tree of 10,000 hosts, each named in full at every level, takes 1 MB."""

_SLURM = re.compile(r"(?im)^[ \t]*(SwitchName|BlockName|BlockSizes|RingName)=")
_YAML = re.compile(r"(?m)^(?:-[ \t]+)?(?:topology|kind):")
_XML_STARTS = ("<?xml", "<system", "<!")


@dataclass(frozen=True, slots=True)
class SourceText:
    """The content of one source.

    Args:
        data: all of it.
        source: path or URL.
        host: whose inside it shows, for sources that do not say; empty when not told.
    """

    data: bytes
    source: str
    host: str = ""


def read_source(text: SourceText, levels: Sequence[str] = ()) -> Reading:
    """What one source tells.

    Args:
        text: its content.
        levels: node labels that a site names as levels above a host, nearest first.

    Raises:
        BadReply: nothing can be taken from it.
    """
    is_json = text.data[:64].lstrip()[:1] in (b"{", b"[")
    if not is_json and len(text.data) > MAX_TEXT_BYTES:
        raise NotTopology(text.source, f"larger than {MAX_TEXT_BYTES // 2**20} MiB of text")
    content = decoded(text.data, text.source)
    start = content.lstrip()[:8]
    if start.startswith(("{", "[")):
        reading = _json(content, text.source, levels)
        if reading is not None:
            return reading
    if start.startswith(_XML_STARTS):
        return _about_host(text, read_nccl_xml(content, text.source, host_of(text)))
    if nvidia_smi_topo.failed(content) or nvidia_smi_topo.header_of(content):
        return _about_host(text, nvidia_smi_topo.read_matrix(content, text.source, host_of(text)))
    if mig_layout.is_list(content):
        return _about_host(text, mig_layout.read_list(content, text.source, host_of(text)))
    if mig_layout.is_instances(content):
        return _about_host(text, mig_layout.read_instances(content, text.source, host_of(text)))
    kinds = {match[1].lower() for match in _SLURM.finditer(content)}
    if kinds:
        read = read_tree if "switchname" in kinds else read_rings if kinds == {"ringname"} else read_blocks
        return read(content, text.source)
    if _YAML.search(content):
        return _yaml(content, text.source, levels)
    raise NotTopology(text.source, "is in no topology format that gpucast reads", mend=f"It reads: {FORMATS}")


def labels_of(sources: Sequence[SourceText]) -> tuple[str, ...]:
    """Node labels that any of the sources names as levels above a host, nearest first."""
    return tuple(dict.fromkeys(label for text in sources for label in _levels(text)))


def finished(topology: Topology) -> Topology:
    """A merged topology with its machines checked and what is still unknown put into sentences."""
    machines, conflicts = {}, list(topology.conflicts)
    for host, machine in topology.machines.items():
        machines[host], wrong = checked_machine(machine)
        conflicts += wrong
    hosts = topology.hosts
    loose = [host for host in hosts if host not in topology.leaf_of]
    closed = [host for host in hosts if host not in machines or not machines[host].between]
    unknowns = list(topology.unknowns)
    if loose:
        unknowns.append(f"leaf switch of {counted(len(loose), 'host')}, such as {loose[0]}: no source tells it")
    if closed:
        what = f"inside of {counted(len(closed), 'host')}, such as {closed[0]}: no source tells it"
        unknowns.append(f"{what} (nvidia-smi topo -m on it would)")
    return replace(topology, machines=machines, conflicts=tuple(conflicts), unknowns=tuple(unknowns))


def host_of(text: SourceText) -> str:
    """The host that a source without a host name is about: the name given with it, else the name of its file."""
    name = text.host or PurePath(text.source.rstrip("/").rpartition("/")[2]).stem or "host"
    return name.replace(":", "-")


def _about_host(text: SourceText, reading: Reading) -> Reading:
    if text.host:
        return reading
    note = f"{text.source} does not name its host; it is called {host_of(text)} here (add =HOST to its address)"
    topology = replace(reading.topology, unknowns=(*reading.topology.unknowns, note))
    return replace(reading, topology=topology)


def _json(content: str, source: str, levels: Sequence[str]) -> Reading | None:
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as odd:
        if content.lstrip().startswith("["):
            return None
        raise NotTopology(source, f"is no JSON ({odd})", mend="Was the file cut?") from odd
    if topograph.is_graph(document):
        return topograph.read_graph(document, source)
    if hypernodes.hypernodes_in(document):
        return hypernodes.read_hypernodes([document], source)
    if node_labels.is_nodes(document):
        return node_labels.read_nodes(document, source, levels)
    if kueue_levels.is_levels(document):
        return kueue_levels.read_levels([document], source)
    raise NotTopology(source, "is JSON of another kind", mend=f"gpucast reads: {FORMATS}")


def _yaml(content: str, source: str, levels: Sequence[str]) -> Reading:
    documents = read_yaml(content, source)
    if any(slurm_yaml.is_slurm_yaml(document) for document in documents):
        return slurm_yaml.read_slurm_yaml(content, source)
    if any(kueue_levels.is_levels(document) for document in documents):
        return kueue_levels.read_levels(documents, source)
    if any(hypernodes.hypernodes_in(document) for document in documents):
        return hypernodes.read_hypernodes(documents, source)
    nodes = next((document for document in documents if node_labels.is_nodes(document)), None)
    if nodes is not None:
        return node_labels.read_nodes(nodes, source, levels)
    raise NotTopology(source, "is YAML of another kind", mend=f"gpucast reads: {FORMATS}")


def _levels(text: SourceText) -> tuple[str, ...]:
    """Labels that a source names as levels; only small objects do."""
    if len(text.data) > 2**20 or b"nodeLabel" not in text.data:
        return ()
    try:
        return read_source(text).levels
    except BadReply:
        return ()

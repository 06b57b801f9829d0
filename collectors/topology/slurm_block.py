"""Slurm's blocks: ``topology.conf`` (BlockName=, BlockSizes=) and ``scontrol show topology``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collectors.topology.reading import Reading, short
from collectors.topology.slurm_lines import HostLists, aliases, config_lines, unread
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem
from telemetry.topology import BLOCK, Conflict, Topology

FORMAT = "Slurm blocks"


@dataclass(frozen=True, slots=True)
class Block:
    """A block and its hosts."""

    name: str
    hosts: tuple[str, ...]


def read_blocks(text: str, source: str) -> Reading:
    """The blocks that the lines tell.

    Raises:
        BadReply: no block can be read, or the file is too large.
    """
    lists, findings, blocks = HostLists(source), [], []
    sizes: tuple[int, ...] = ()
    for number, keys in config_lines(text):
        if "blocksizes" in keys:
            sizes, odd = block_sizes(keys["blocksizes"].split(","), source)
            findings += odd
        if "blockname" not in keys:
            continue
        if not keys["blockname"] or not keys.get("nodes"):
            findings.append(unread(source, number, keys, "a block needs a name and Nodes="))
            continue
        blocks.append(Block(keys["blockname"], lists.expand(keys["nodes"], f"line {number}, Nodes")))
    topology, wrong = block_topology(blocks, sizes, source, aliases(text))
    return Reading(FORMAT, topology, (*lists.findings, *findings, *wrong))


def block_sizes(texts: Iterable[str], source: str) -> tuple[tuple[int, ...], list[Finding]]:
    """Planning sizes, the base first; each must be a power of two times the base."""
    words = [text.strip() for text in texts]
    if not all(word.isascii() and word.isdigit() and 0 < len(word) <= 9 and int(word) > 0 for word in words):
        detail = f"BlockSizes {short(','.join(words))} is not a list of numbers"
        return (), [Finding(Problem.MALFORMED_LINE, source, detail)]
    sizes = tuple(int(word) for word in words)
    odd = [size for size in sizes[1:] if size % sizes[0] or (size // sizes[0]).bit_count() != 1]
    detail = f"BlockSizes {odd[0]} is no power of two times the base size {sizes[0]}" if odd else ""
    return sizes, [Finding(Problem.OUT_OF_RANGE, source, detail, len(odd))] if odd else []


def block_topology(
    blocks: Iterable[Block], sizes: tuple[int, ...], source: str, real_names: Mapping[str, str]
) -> tuple[Topology, tuple[Finding, ...]]:
    """A topology from blocks, and what is wrong with them.

    Raises:
        BadReply: there is no block.
    """
    homes: dict[str, str] = {}
    conflicts: list[Conflict] = []
    findings: list[Finding] = []
    names: set[str] = set()
    for block in blocks:
        if block.name in names:
            findings.append(Finding(Problem.DUPLICATE_SERIES, source, f"the block {short(block.name)} is told twice"))
        names.add(block.name)
        if sizes and len(block.hosts) < sizes[0]:
            detail = f"{block.name} has {len(block.hosts)} hosts, fewer than the base size {sizes[0]}"
            findings.append(Finding(Problem.OUT_OF_RANGE, source, detail))
        for host in block.hosts:
            kept = homes.setdefault(host, block.name)
            if kept != block.name:
                conflicts.append(Conflict(host, "block", ((source, kept), (source, block.name)), kept))
    if not names:
        raise BadReply(source, "names no block", mend="Blocks need BlockName= lines with Nodes=")
    real = {other: name for name, other in real_names.items() if name in names}
    return Topology(source=source, domain_of={BLOCK: homes}, aliases=real, conflicts=tuple(conflicts)), tuple(findings)

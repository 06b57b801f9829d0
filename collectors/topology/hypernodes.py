"""Volcano's ``HyperNode`` objects: a tree of switches over a cluster's hosts, by exact names.

Members may also be chosen by a pattern or by labels. Which hosts those are only the cluster can tell, so they are named
among what is unknown; a pattern of somebody else's making is never run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from collectors.topology.reading import Reading, counted, short
from collectors.topology.slurm_tree import Switch, tree_topology
from telemetry.errors import BadReply
from telemetry.samples import Finding, Problem

FORMAT = "Volcano HyperNodes"
_KIND = "HyperNode"


def hypernodes_in(document: Any) -> list[dict[str, Any]]:
    """The objects of that kind in a document: itself, or those of a list."""
    if not isinstance(document, dict):
        return []
    items = document.get("items")
    listed = items if isinstance(items, list) else [document]
    kind = str(document.get("kind", "")).removesuffix("List")
    return [
        item
        for item in listed
        if isinstance(item, dict)
        and item.get("kind", kind if items is listed else "") == _KIND
        and isinstance(item.get("spec"), dict)
    ]


def read_hypernodes(documents: list[Any], source: str) -> Reading:
    """The tree that they make.

    Raises:
        BadReply: there is none with a name, or they are above each other.
    """
    switches: list[Switch] = []
    findings: list[Finding] = []
    unread: dict[str, int] = {}
    for item in (item for document in documents for item in hypernodes_in(document)):
        about = item.get("metadata")
        name = about.get("name") if isinstance(about, dict) else None
        if not isinstance(name, str) or not name:
            findings.append(Finding(Problem.MALFORMED_LINE, source, "a HyperNode has no name"))
            continue
        members = item["spec"].get("members")
        below: dict[str, list[str]] = {"Node": [], _KIND: []}
        for member in members if isinstance(members, list) else []:
            kind, member_name, other = _member(member)
            if member_name and kind in below:
                below[kind].append(member_name)
            elif other:
                unread[other] = unread.get(other, 0) + 1
            else:
                findings.append(Finding(Problem.MALFORMED_LINE, source, f"{short(name)} has a member of no known kind"))
        switches.append(Switch(name, tuple(below[_KIND]), tuple(below["Node"])))
    if not switches:
        raise BadReply(source, "names no HyperNode", mend="Each needs metadata.name and spec.members")
    topology, wrong = tree_topology(switches, source, {})
    notes = tuple(
        f"{source} chooses {counted(count, 'member')} by {other}, which only the cluster can resolve"
        for other, count in unread.items()
    )
    whole = replace(topology, unknowns=(*topology.unknowns, *notes))
    return Reading(FORMAT, whole, (*findings, *wrong))


def _member(member: Any) -> tuple[str, str, str]:
    """Kind, exact name, and by what else it is chosen."""
    if not isinstance(member, dict):
        return "", "", ""
    selector = member.get("selector")
    if not isinstance(selector, dict):
        return "", "", ""
    exact = selector.get("exactMatch")
    name = exact.get("name") if isinstance(exact, dict) else None
    other = next((text for word, text in _OTHERS.items() if word in selector), "")
    return str(member.get("type", "Node")), name if isinstance(name, str) else "", other


_OTHERS = {"regexMatch": "a pattern", "labelMatch": "labels"}

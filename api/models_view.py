"""The model store as JSON, the same for the command line and the API."""

from __future__ import annotations

from typing import Any

from models.store_manifest import Manifest
from models.store_records import Shelf

EVENTS_SHOWN = 50
"""The newest events of each model."""


def shelf_as_dict(shelf: Shelf) -> dict[str, Any]:
    """One model: champion, versions with their lineage, what was done and why."""
    champion = shelf.champion
    return {
        "name": shelf.name,
        "champion": champion.version if champion and champion.version else None,
        "since_s": champion.since_s if champion else None,
        "why": champion.why if champion else "Nothing was promoted yet; the built-in models serve.",
        "before": list(champion.before) if champion else [],
        "versions": [_version(shelf, manifest) for manifest in shelf.versions],
        "unreadable": dict(shelf.unreadable),
        "events": [
            {"at_s": event.at_s, "kind": event.kind, "version": event.version, "reason": event.reason, "by": event.by}
            for event in shelf.events[-EVENTS_SHOWN:]
        ],
    }


def _version(shelf: Shelf, manifest: Manifest) -> dict[str, Any]:
    state = "champion" if shelf.champion and shelf.champion.version == manifest.version else "challenger"
    told = manifest.as_dict()
    return {
        "version": manifest.version,
        "state": "quarantined" if manifest.version in shelf.quarantined else state,
        "quarantine": shelf.quarantined.get(manifest.version),
        **{key: told[key] for key in ("recipe", "parameters", "seed", "code", "data", "figures", "judged", "tried")},
        "created_s": manifest.created_s,
    }

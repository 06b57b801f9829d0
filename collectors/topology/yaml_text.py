"""YAML as plain strings, lists and mappings: no types are made up, no object is built, sizes and depth are bounded."""

from __future__ import annotations

from typing import Any

import yaml

from telemetry.errors import BadReply

MAX_BYTES = 4 * 2**20
MAX_BYTES_SLOW = 128 * 2**10
"""Without libyaml, PyYAML reads about 200 kB/s, and nested brackets far slower."""


def read_yaml(text: str, source: str) -> list[Any]:
    """Every document of a YAML text; scalars stay text, so that a host called ``001`` or ``no`` keeps its name.

    Raises:
        BadReply: it is no YAML, or too large.
    """
    fast = getattr(yaml, "CBaseLoader", None)
    limit = MAX_BYTES if fast is not None else MAX_BYTES_SLOW
    if len(text) > limit:
        raise BadReply(source, f"larger than {limit // 2**10} KiB of YAML")
    try:
        return list(yaml.load_all(text, Loader=fast or yaml.BaseLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as odd:
        where = getattr(odd, "problem_mark", None)
        line = f" (line {where.line + 1})" if where is not None else ""
        reason = getattr(odd, "problem", None) or "nested too deep"
        raise BadReply(source, f"is no YAML: {reason}{line}") from odd

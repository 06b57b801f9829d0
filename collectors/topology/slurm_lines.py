"""Lines of a Slurm topology file, or of ``scontrol show topology``: keys and values, aliases in comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collectors.hostlists import MAX_HOSTS, expand_hosts
from collectors.topology.reading import short
from telemetry.errors import BadReply, SchemaError
from telemetry.samples import Finding, Problem

_PAIR = re.compile(r'([A-Za-z][A-Za-z0-9_]*)=("[^"]*"|\S*)')
_ALIAS = re.compile(r"\s*#\s*([^\s=#,\[\]]+)=([^\s=#,\[\]]+)\s*")


@dataclass(slots=True)
class HostLists:
    """Expands host lists of one source, with one bound over all of them.

    Args:
        source: path or URL, for errors.
        left: how many more names it may give.
        findings: what could not be expanded.
    """

    source: str
    left: int = MAX_HOSTS
    findings: list[Finding] = field(default_factory=list)

    def expand(self, text: str, where: str) -> tuple[str, ...]:
        """The names; none, with a finding, where the list is broken.

        Raises:
            BadReply: all lists of the source together stand for too many names.
        """
        try:
            names = expand_hosts(text)
        except SchemaError as odd:
            self.findings.append(Finding(Problem.MALFORMED_LINE, self.source, f"{where}: {odd.message}"))
            return ()
        self.left -= len(names)
        if self.left < 0:
            raise BadReply(self.source, f"its host lists stand for more than {MAX_HOSTS} names")
        return names


def config_lines(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Line number and its keys, in lower case; comments and empty lines are left out."""
    for number, line in _joined(text):
        keys = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line.partition("#")[0])}
        if keys:
            yield number, keys


def aliases(text: str) -> dict[str, str]:
    """Names in comments such as ``# switch.1.1=leaf-1-1``: name in the file -> real name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _ALIAS.fullmatch(line) if "#" in line else None
        if match is not None:
            found.setdefault(match[1], match[2])
    return found


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines with a backslash at their end joined to the next."""
    pieces: list[str] = []
    first = 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first if pieces else number
        if line.endswith("\\"):
            pieces.append(line[:-1])
            continue
        yield first, " ".join([*pieces, line])
        pieces = []
    if pieces:
        yield first, " ".join(pieces)


def unread(source: str, number: int, keys: Mapping[str, str], why: str) -> Finding:
    """A finding about a line that is left out."""
    return Finding(Problem.MALFORMED_LINE, source, f"line {number} ({short(' '.join(keys))}): {why}")

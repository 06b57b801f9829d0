"""Prometheus text pages, read fast: the layout of a page is remembered, only the values are parsed again.

An exporter prints the same lines in the same order scrape after scrape; only the numbers change, and with them the
length of each line. ``PageParser`` keeps, for each line of the last page, the bytes before the value. While they all
match, the labels need no parsing and the layout object stays the same, so that later steps can cache by identity.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collectors.line import BadLine, Head, read_head, read_number, read_tail
from telemetry.samples import FloatArray, Problem

Note = tuple[Problem, str, int]
"""A problem, a sentence, and how many lines it touched."""

_LATEST_S = 253_402_300_799.0
"""End of the year 9999; a timestamp beyond is garbage."""

_PLAIN = b"0123456789.+-eE "


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Which sample lines a page has, in page order.

    Args:
        names: (n,) family names.
        labels: (n,) label dictionaries, empty values included.
    """

    names: tuple[str, ...]
    labels: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ParsedPage:
    """One page.

    Args:
        layout: the same object as on the page before while the lines' names and labels stay.
        value: (n,) as printed; NaN where the page says NaN or where the value could not be read.
        at_s: (n,) explicit timestamps in Unix seconds, NaN on lines without one; None when no line has one.
        unreadable: (n,) True where the text after the labels is not a value; None when all were read.
        notes: what was wrong, counted.
    """

    layout: Layout
    value: FloatArray
    at_s: FloatArray | None
    unreadable: NDArray[np.bool_] | None
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    """What has to match for a page to have the known layout."""

    layout: Layout
    n_lines: int
    pick_samples: Callable[[Sequence[bytes]], tuple[bytes, ...]]
    prefixes: tuple[bytes, ...]
    n_fixed_bytes: int
    pick_others: Callable[[Sequence[bytes]], tuple[bytes, ...]]
    others: tuple[bytes, ...]
    broken: tuple[tuple[int, bytes], ...]
    notes: tuple[Note, ...]
    stamped: bool
    stamp_unit_s: float


class PageParser:
    """Parser of one target's pages. Not for use from two threads at once.

    A page whose last line has no newline was cut on the way: that line is counted as torn and not given back.
    """

    def __init__(self) -> None:
        self._template: _Template | None = None
        self._heads: dict[bytes, Head] = {}
        self._page = b""
        self._parsed: ParsedPage | None = None

    def parse(self, page: bytes) -> ParsedPage:
        """The page's samples; never raises on any bytes."""
        if self._parsed is not None and page == self._page:
            return self._parsed
        body, torn = _cut_torn(page)
        parsed = self._parse_known(body) or self._parse_cold(body)
        if torn:
            notes = (*parsed.notes, (Problem.TORN, "the last line has no end; the page was cut", 1))
            parsed = ParsedPage(parsed.layout, parsed.value, parsed.at_s, parsed.unreadable, notes)
        self._page, self._parsed = page, parsed
        return parsed

    def _parse_known(self, body: bytes) -> ParsedPage | None:
        """The page, when it has the remembered layout; None otherwise."""
        template = self._template
        if template is None:
            return None
        lines = body.split(b"\n")
        if len(lines) != template.n_lines or template.pick_others(lines) != template.others:
            return None
        tails = tuple(map(bytes.removeprefix, template.pick_samples(lines), template.prefixes))
        # A line with another beginning was left whole: then there is more text than the remembered beginnings leave.
        joined = b" ".join(tails)
        n_open_bytes = len(joined) - max(len(tails) - 1, 0) + sum(len(lines[index]) for index, _ in template.broken)
        if n_open_bytes != len(body) - template.n_fixed_bytes:
            return None
        for index, prefix in template.broken:
            if not lines[index].startswith(prefix) or read_number(lines[index][len(prefix) :]) is None:
                return None
        return _read_tails(template, tails, joined)

    def _parse_cold(self, body: bytes) -> ParsedPage:
        template, heads = _learn(body, self._template.layout if self._template else None, self._heads)
        self._template, self._heads = template, heads
        lines = body.split(b"\n")
        tails = tuple(map(bytes.removeprefix, template.pick_samples(lines), template.prefixes))
        return _read_tails(template, tails, b" ".join(tails))


def _cut_torn(page: bytes) -> tuple[bytes, bool]:
    """The whole lines of a page, and whether something was left over after them."""
    if page.endswith(b"\n"):
        return page, False
    cut = page.rfind(b"\n") + 1
    rest = page[cut:].strip()
    if rest == b"# EOF":
        return page + b"\n", False
    return page[:cut], bool(rest)


def _learn(body: bytes, old: Layout | None, heads: dict[bytes, Head]) -> tuple[_Template, dict[bytes, Head]]:
    """Read every line's name and labels; lines seen on the page before are looked up instead."""
    lines = body.split(b"\n")
    samples: list[int] = []
    found: list[Head] = []
    others: list[int] = []
    broken: list[tuple[int, bytes]] = []
    notes: dict[Problem, str] = {}
    counts: Counter[Problem] = Counter()
    known_bad: dict[bytes, BadLine] = {}
    stamped = open_metrics = False
    for index, line in enumerate(lines):
        if not line or line.isspace() or line.lstrip()[:1] == b"#":
            others.append(index)
            open_metrics = open_metrics or line.strip() == b"# EOF"
            continue
        space = line.rfind(b" ") + 1
        head = heads.get(line[:space])
        if head is None:
            if (bad := known_bad.get(line)) is None:
                try:
                    head = read_head(line)
                except BadLine as found_bad:
                    bad = known_bad[line] = found_bad.with_traceback(None)
            if bad is not None:
                counts[bad.problem] += 1
                if counts[bad.problem] == 1:
                    notes[bad.problem] = f"line {index + 1}: {bad}"
                if space and read_number(line[space:]) is not None and bad.problem is Problem.MALFORMED_LINE:
                    broken.append((index, line[:space]))
                else:
                    others.append(index)
                continue
        assert head is not None, "a line is read or bad"
        samples.append(index)
        found.append(head)
        stamped = stamped or len(line[len(head.prefix) :].split()) > 1
    names = tuple(head.name for head in found)
    labels = tuple(head.labels for head in found)
    if old is None or old.names != names or old.labels != labels:
        old = Layout(names, labels)
    template = _Template(
        layout=old,
        n_lines=len(lines),
        pick_samples=_picker(samples),
        prefixes=tuple(head.prefix for head in found),
        n_fixed_bytes=sum(len(head.prefix) for head in found) + sum(len(lines[i]) for i in others) + len(lines) - 1,
        pick_others=_picker(others),
        others=_picker(others)(lines),
        broken=tuple(broken),
        notes=tuple((problem, text, counts[problem]) for problem, text in notes.items()),
        stamped=stamped,
        stamp_unit_s=1.0 if open_metrics else 1e-3,
    )
    return template, {head.prefix: head for head in found}


def _picker(indices: Sequence[int]) -> Callable[[Sequence[bytes]], tuple[bytes, ...]]:
    """Gives the lines at these places as a tuple; ``itemgetter`` alone gives no tuple for one place."""
    if len(indices) > 1:
        return operator.itemgetter(*indices)
    return lambda lines: tuple(lines[i] for i in indices)


def _read_tails(template: _Template, tails: tuple[bytes, ...], joined: bytes) -> ParsedPage:
    """Values and timestamps from what follows the labels; one odd line sends the page down the slow way.

    Args:
        template: of the page.
        tails: what follows the labels, by line.
        joined: the same with a space between each two.
    """
    if not template.stamped:
        value = _numbers(tails, joined)
        if value is not None:
            return ParsedPage(template.layout, value, None, None, template.notes)
    return _read_tails_one_by_one(template, tails)


def _numbers(tails: tuple[bytes, ...], joined: bytes) -> FloatArray | None:
    """One number a line, None where some line has something else."""
    n = len(tails)
    try:
        if joined.count(b" ") == n - 1 and not joined.translate(None, _PLAIN):
            # No line holds a space, so that n numbers are one of each; both ways of reading round correctly.
            value = np.fromstring(joined, np.float64, sep=" ")
            return value if value.shape[0] == n else None
        if b"_" not in joined:  # float() takes 1_000, Prometheus does not
            return np.fromiter(map(float, tails), np.float64, n)
    except (ValueError, DeprecationWarning):  # numpy before 2.3 only warns of what it cannot read
        pass
    return None


def _read_tails_one_by_one(template: _Template, tails: tuple[bytes, ...]) -> ParsedPage:
    n = len(tails)
    value, at_s = np.full(n, np.nan), np.full(n, np.nan)
    unreadable = np.zeros(n, np.bool_)
    for index, tail in enumerate(tails):
        pair = read_tail(tail)
        if pair is None or abs(pair[1]) * template.stamp_unit_s > _LATEST_S:
            unreadable[index] = True
        else:
            value[index], at_s[index] = pair
    notes = template.notes
    if unreadable.any():
        first = int(np.argmax(unreadable))
        text = tails[first].strip()[:60].decode("utf-8", "replace")
        sentence = f"{template.layout.names[first]} has {text!r} where a number belongs"
        notes = (*notes, (Problem.MALFORMED_LINE, sentence, int(unreadable.sum())))
    return ParsedPage(
        template.layout,
        value,
        None if np.isnan(at_s).all() else at_s * template.stamp_unit_s,
        unreadable if unreadable.any() else None,
        notes,
    )

"""The page parser: what it reads, what it counts, and that it agrees with prometheus_client."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from collectors.exposition import PageParser, ParsedPage
from collectors.line import read_tail
from telemetry.samples import Problem


def rows(page: ParsedPage) -> list[tuple[str, dict[str, str], float]]:
    return list(zip(page.layout.names, page.layout.labels, page.value.tolist(), strict=True))


def problems(page: ParsedPage) -> dict[Problem, int]:
    return {problem: count for problem, _, count in page.notes}


def reference(text: str) -> list[tuple[str, dict[str, str], float, float | None]]:
    # Without TYPE lines prometheus_client leaves the names of counters as they are.
    families = text_string_to_metric_families(text.replace("# TYPE", "# NOTE"))
    return [(s.name, s.labels, float(s.value), s.timestamp) for family in families for s in family.samples]


def assert_agrees(text: str, parser: PageParser | None = None) -> None:
    page = (parser or PageParser()).parse(text.encode())
    stamps = [None] * len(page.value) if page.at_s is None else [None if math.isnan(t) else t for t in page.at_s]
    ours = [(*row, stamp) for row, stamp in zip(rows(page), stamps, strict=True)]
    theirs = reference(text)
    assert [(n, ls) for n, ls, _, _ in ours] == [(n, ls) for n, ls, _, _ in theirs]
    np.testing.assert_array_equal([v for _, _, v, _ in ours], [v for _, _, v, _ in theirs])
    assert [t for *_, t in ours] == pytest.approx([t for *_, t in theirs])


def test_labels_may_hold_anything_that_is_escaped():
    text = 'm{a="x,y",b="{}",c="say \\"hi\\"",d="a\\\\b",e="two\\nlines",f="\\q"} 1\n'
    (row,) = rows(PageParser().parse(text.encode()))
    assert row[1] == {"a": "x,y", "b": "{}", "c": 'say "hi"', "d": "a\\b", "e": "two\nlines", "f": "\\q"}


@pytest.mark.parametrize(
    ("written", "value"),
    [("1", 1.0), ("-2.5e-3", -0.0025), ("+Inf", math.inf), ("-Inf", -math.inf), ("1e+12", 1e12), ("0x", None)],
)
def test_numbers_as_prometheus_writes_them(written, value):
    page = PageParser().parse(f"m {written}\n".encode())
    if value is None:
        assert problems(page) == {Problem.MALFORMED_LINE: 1}
        assert page.unreadable is not None
        assert page.unreadable.all()
    else:
        assert rows(page) == [("m", {}, value)]


def test_a_number_with_underscores_is_none():
    assert problems(PageParser().parse(b"m 1_000\n")) == {Problem.MALFORMED_LINE: 1}


def test_white_space_comments_and_carriage_returns_do_no_harm():
    text = '# HELP m helps\n# TYPE m gauge\n\n  # a note\nm\t{ a = "1" , }\t 2\r\nm{a="2"}3\n'
    assert rows(PageParser().parse(text.encode())) == [("m", {"a": "1"}, 2.0), ("m", {"a": "2"}, 3.0)]


def test_timestamps_are_milliseconds_and_openmetrics_seconds():
    assert PageParser().parse(b"m 1 1767225600500\n").at_s.tolist() == [1767225600.5]
    assert PageParser().parse(b"m 1 1767225600.5\n# EOF\n").at_s.tolist() == [1767225600.5]
    mixed = PageParser().parse(b"m 1 1767225600500\nn 2\n").at_s
    assert mixed[0] == 1767225600.5
    assert math.isnan(mixed[1])


def test_exemplars_are_read_over():
    page = PageParser().parse(b'm_total{a="1"} 5 # {trace_id="x"} 0.67\n# EOF\n')
    assert rows(page) == [("m_total", {"a": "1"}, 5.0)]
    assert page.notes == ()


def test_a_line_without_an_end_is_torn_and_not_stored():
    page = PageParser().parse(b"m 1\nn 12")
    assert rows(page) == [("m", {}, 1.0)]
    assert problems(page) == {Problem.TORN: 1}


def test_openmetrics_end_without_newline_is_not_torn():
    assert PageParser().parse(b"m 1\n# EOF").notes == ()


@pytest.mark.parametrize(
    "line",
    [b'm{a="b"c"} 1', b'm{a="b} 1', b"m{a=b} 1", b'm{a="1",a="2"} 1', b"m", b"1m 2", b'{a="1"} 2', b"m{", b"m 1 2 3"],
)
def test_a_bad_line_is_counted_and_loses_nothing_else(line):
    page = PageParser().parse(b"before 1\n" + line + b"\nafter 2\n")
    kept = [row for row, bad in zip(rows(page), _unreadable(page), strict=True) if not bad]
    assert [(name, value) for name, _, value in kept] == [("before", 1.0), ("after", 2.0)]
    assert problems(page) == {Problem.MALFORMED_LINE: 1}


def _unreadable(page: ParsedPage) -> list[bool]:
    return [False] * len(page.value) if page.unreadable is None else page.unreadable.tolist()


def test_bytes_that_are_not_text_cost_their_line_only():
    page = PageParser().parse(b'm{a="\xff\xfe"} 1\nn 2\n')
    assert rows(page) == [("n", {}, 2.0)]
    assert problems(page) == {Problem.NOT_TEXT: 1}


def test_the_layout_stays_one_object_while_only_values_change():
    parser = PageParser()
    first = parser.parse(b'# TYPE m gauge\nm{a="1"} 1\nm{a="2"} 2\n')
    second = parser.parse(b'# TYPE m gauge\nm{a="1"} 123.456\nm{a="2"} NaN\n')
    assert second.layout is first.layout
    assert second.value[0] == 123.456
    third = parser.parse(b'# TYPE m gauge\nm{a="1"} 1\nm{a="3"} 2\n')
    assert third.layout is not first.layout


def test_a_changed_help_text_keeps_the_layout_object():
    parser = PageParser()
    first = parser.parse(b"# HELP m one\nm 1\n")
    assert parser.parse(b"# HELP m two\nm 2\n").layout is first.layout


def test_a_sample_where_a_blank_line_stood_is_seen():
    parser = PageParser()
    parser.parse(b"m 1\n\n")
    assert rows(parser.parse(b"m 1\nn 2\n")) == [("m", {}, 1.0), ("n", {}, 2.0)]


def test_a_broken_line_that_is_mended_is_seen():
    parser = PageParser()
    assert problems(parser.parse(b'm{a="b"c"} 1\nn 2\n')) == {Problem.MALFORMED_LINE: 1}
    again = parser.parse(b'm{a="b"c"} 7\nn 3\n')
    assert problems(again) == {Problem.MALFORMED_LINE: 1}
    assert rows(again) == [("n", {}, 3.0)]
    assert rows(parser.parse(b'm{a="bc"} 7\nn 3\n')) == [("m", {"a": "bc"}, 7.0), ("n", {}, 3.0)]


def test_a_value_that_becomes_a_word_is_counted_then_read_again():
    parser = PageParser()
    parser.parse(b"m 1\nn 2\n")
    bad = parser.parse(b"m ERROR\nn 3\n")
    assert problems(bad) == {Problem.MALFORMED_LINE: 1}
    assert _unreadable(bad) == [True, False]
    assert parser.parse(b"m 4\nn 5\n").value.tolist() == [4.0, 5.0]


@pytest.mark.shared
def test_agrees_with_prometheus_client_on_every_recorded_page(shared_dir):
    pages = sorted([*shared_dir.glob("cases/*/*.prom"), *shared_dir.glob("formats/samples/*.prom")])
    assert pages
    for path in pages:
        text = path.read_text()
        if "ERROR - FAILED" not in text:  # prometheus_client gives up the whole page there
            assert_agrees(text)


_names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
_label_names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,6}", fullmatch=True)
_label_values = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
_numbers = st.one_of(
    st.integers(-(10**15), 10**15).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(lambda x: repr(x).replace("inf", "Inf")),
)
_stamps = st.one_of(st.none(), st.integers(0, 4 * 10**12))


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def _lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(_label_names, _label_values, max_size=4))
    inside = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    braces = "{" + inside + "}" if labels or draw(st.booleans()) else ""
    stamp = draw(_stamps)
    return f"{draw(_names)}{braces} {draw(_numbers)}" + ("" if stamp is None else f" {stamp}")


@settings(max_examples=150, deadline=None)
@given(st.lists(_lines(), max_size=8), st.randoms())
def test_agrees_with_prometheus_client_on_any_valid_page(lines, random):
    text = "".join(line + "\n" for line in lines)
    parser = PageParser()
    assert_agrees(text, parser)
    # The same layout with other values, then with lines in another order: the remembered layout must not mislead.
    assert_agrees("".join(f"{line.rpartition(' ')[0]} {random.randint(0, 10**9)}\n" for line in lines), parser)
    random.shuffle(lines)
    assert_agrees("".join(line + "\n" for line in lines), parser)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=60), st.just(b'm{a="1"} 2\n'), st.just(b"\n")), max_size=6))
def test_never_raises_whatever_the_bytes(pieces):
    parser = PageParser()
    for page in (b"".join(pieces), b"".join(reversed(pieces)), b"".join(pieces)):
        parsed = parser.parse(page)
        assert len(parsed.value) == len(parsed.layout.names) == len(parsed.layout.labels)


_TAIL = st.one_of(
    st.floats().map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map("{:.17e}".format),
    st.integers(-(10**20), 10**20).map(str),
    st.text("0123456789.+-eE_ \tnaifx", max_size=6),
)


@given(st.lists(_TAIL, min_size=1, max_size=6))
def test_numbers_read_together_are_those_read_one_by_one(tails):
    """All at once, to the last bit, or not at all; nothing slips from one line to the next."""
    lines = [f"a{i} ".encode() for i in range(len(tails))]
    parser = PageParser()
    parser.parse(b"".join(line + b"1\n" for line in lines))
    together = parser.parse(b"".join(line + tail.encode() + b"\n" for line, tail in zip(lines, tails, strict=True)))
    for i, (name, value) in enumerate(zip(together.layout.names, together.value, strict=True)):
        pair = read_tail(tails[int(name[1:])].encode())
        unreadable = together.unreadable is not None and bool(together.unreadable[i])
        assert unreadable == (pair is None)
        if pair is not None:
            assert np.float64(pair[0]).tobytes() == value.tobytes()


def test_a_line_that_is_a_bare_number_is_never_taken_for_a_value():
    """The remembered beginning is missing: the line is malformed, whatever the other lines' lengths."""
    parser = PageParser()
    parser.parse(b"a 1\nbb 2\n")
    page = parser.parse(b"a 1\n22222\n")
    assert page.layout.names == ("a",)
    assert [problem for problem, _, _ in page.notes] == [Problem.MALFORMED_LINE]

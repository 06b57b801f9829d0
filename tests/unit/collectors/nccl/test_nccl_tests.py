"""nccl-tests output: columns by the header."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.inspect import inspect_source
from collectors.nccl.nccl_tests import RunHalf, parse_nccl_tests

HEAD = """# all_reduce_perf
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
ROW = "1024 256 float sum -1 10.0 1.5 2.5 0 20.0 3.5 4.5 N/A\n"


def test_columns_of_a_row() -> None:
    """Units, the checked and the unchecked half, no root where it is -1."""
    (row,) = parse_nccl_tests((HEAD + ROW).encode()).rows

    assert (row.size_bytes, row.count, row.type, row.redop, row.root) == (1024, 256, "float", "sum", None)
    assert row.out_of_place == RunHalf(1e-5, 1.5e9, 2.5e9, 0)
    assert row.in_place == RunHalf(2e-5, 3.5e9, 4.5e9, None)


def test_newer_columns() -> None:
    """More columns in each half, and a time before the row, shift nothing."""
    head = HEAD.replace("#wrong", "#wrong i_min i_max i_p99 i_cv%").replace("#       size", "# timestamp size")
    row = "2026-01-01 00:00:00 1024 256 float none 3 10.0 1.5 2.5 0 9 11 10.9 2.1% 20.0 3.5 4.5 N/A 19 21 20.9 2.2%\n"
    (found,) = parse_nccl_tests((head + row).encode()).rows

    assert (found.size_bytes, found.redop, found.root) == (1024, "", 3)
    assert found.out_of_place == RunHalf(1e-5, 1.5e9, 2.5e9, 0)
    assert found.in_place == RunHalf(2e-5, 3.5e9, 4.5e9, None)


def test_prefixes_cut_rows_and_rows_before_the_header() -> None:
    """A launcher's mark is taken off; a row cut in its second half keeps the first; one without a header is none."""
    text = (
        ROW
        + "".join(f"[1,0]<stdout>:{line}\n" for line in (HEAD + ROW).splitlines())
        + "2048 512 float sum -1 7 8 9 0 5"
    )
    output = parse_nccl_tests(text.encode())

    assert [row.size_bytes for row in output.rows] == [1024, 2048]
    assert output.rows[1].in_place is None
    assert output.program == "all_reduce_perf"
    assert parse_nccl_tests((HEAD + "1024 256 float\n1024 x y z -1 a b c d e f g h\n").encode()).malformed == 2


@pytest.mark.shared
def test_a_true_run(shared_dir: Path) -> None:
    """Three sizes; the average over all of them is not read as a capacity."""
    data = (shared_dir / "formats" / "samples" / "nccl_tests.txt").read_bytes()
    rows = parse_nccl_tests(data).rows

    assert [row.size_bytes for row in rows] == [2**20, 2**25, 2**30]
    assert [row.out_of_place.busbw_bytes_per_s for row in rows] == pytest.approx([35.22e9, 288.69e9, 468.36e9])
    assert [row.in_place.wrong if row.in_place else 1 for row in rows] == [0, None, 0]
    seen = inspect_source(data, "nccl_tests.txt")
    assert (seen.format, len(seen.facts)) == ("nccl-tests output", 3)

"""Every reader of foreign bytes as a function of bytes: nothing but the errors that it promises comes out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import cramjam

from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.inspect import FORMATS
from collectors.nccl.debug_log import parse_debug_log
from collectors.nccl.inspector import parse_dump
from collectors.nccl.nccl_tests import parse_nccl_tests
from collectors.nccl.ras import parse_ras
from collectors.plain_http import NotPlain, _Reply
from collectors.remote_write.receiver import Message, Receiver
from collectors.slurm.text import read_scontrol_jobs, read_scontrol_nodes, read_sinfo, read_squeue
from collectors.topology.read import SourceText, read_source
from telemetry.errors import GpucastError

_PAGE = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",hostname="n"} 1\n'
_AT_S = 1_767_225_600.0


def exposition(data: bytes) -> None:
    """A page, the same page again, and the page after a good one."""
    parser, mapper = PageParser(), FieldMapper("fuzz")
    for page in (_PAGE, data, data + b"\n", _PAGE):
        mapper.batch(parser.parse(page), _AT_S)


def http_reply(data: bytes) -> None:
    """A reply of an exporter, whole and byte after byte."""
    for step in (len(data) or 1, 1):
        reply = _Reply(10_000)
        with suppress(NotPlain):
            for start in range(0, len(data), step):
                if reply.feed(data[start : start + step]) is not None:
                    break


def remote_write(data: bytes) -> None:
    """A body as it comes, and as the content of a body that unpacks, in both versions."""
    for message in Message:
        for body in (data, bytes(cramjam.snappy.compress_raw(data))):
            with suppress(GpucastError):
                Receiver("fuzz").take(body, message, _AT_S)


def nccl(data: bytes) -> None:
    """All that NCCL writes."""
    for read in (parse_dump, parse_debug_log, parse_nccl_tests):
        with suppress(GpucastError):
            read(data)
    with suppress(GpucastError):
        parse_ras(data, "fuzz")


def slurm(data: bytes) -> None:
    """What Slurm's commands print."""
    text = data.decode("utf-8", "replace")
    for read in (read_scontrol_jobs, read_scontrol_nodes, read_squeue, read_sinfo):
        with suppress(GpucastError):
            read(text)


def topology(data: bytes) -> None:
    """A file or an answer about the wiring."""
    with suppress(GpucastError):
        read_source(SourceText(data, "fuzz"))


def inspect(data: bytes) -> None:
    """Whatever ``gpucast inspect`` may be given; every format is asked, not the first that fits."""
    for read in FORMATS.values():
        read(data, "fuzz")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "exposition": exposition,
    "http-reply": http_reply,
    "remote-write": remote_write,
    "nccl": nccl,
    "slurm": slurm,
    "topology": topology,
    "inspect": inspect,
}

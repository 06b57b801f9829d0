"""Every reader of foreign bytes as a function of bytes: nothing but the errors that it promises comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

import cramjam
import orjson

from collectors.answer import read_answer
from collectors.exposition import PageParser
from collectors.fields import FieldMapper
from collectors.hostlists import expand_hosts, fold_hosts
from collectors.inspect import FORMATS
from collectors.kubernetes.devices import read_pod_resources
from collectors.kubernetes.inspect import read_kubernetes
from collectors.nccl.debug_log import parse_debug_log
from collectors.nccl.inspector import parse_dump
from collectors.nccl.nccl_tests import parse_nccl_tests
from collectors.nccl.ras import parse_ras
from collectors.plain_http import NotPlain, _Reply
from collectors.remote_write.receiver import MAX_UNPACKED_BYTES, Message, Receiver
from collectors.series_map import SeriesMapper
from collectors.slurm.gres import count_gpus, count_tres_gpus, parse_gres, parse_tres
from collectors.slurm.inspect import read_slurm
from collectors.slurm.text import read_duration, read_scontrol_jobs, read_scontrol_nodes, read_sinfo, read_squeue
from collectors.step_reports import read_reports
from collectors.steps import StepBook
from collectors.topology.merge import merge
from collectors.topology.read import SourceText, finished, read_source
from telemetry.errors import GpucastError

Read = Callable[[bytes], None]
_PAGE = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",hostname="n"} 1\n'
_AT_S = 1_767_225_600.0


def _page(data: bytes) -> None:
    FieldMapper("fuzz").batch(PageParser().parse(data), _AT_S)


def _page_again(data: bytes) -> None:
    """The page after a good one, and a good one after it."""
    parser, mapper = PageParser(), FieldMapper("fuzz")
    for page in (_PAGE, data + b"\n", _PAGE):
        mapper.batch(parser.parse(page), _AT_S)


def _http(data: bytes, *, step: int = 0) -> None:
    reply = _Reply(10_000_000)
    with suppress(NotPlain):
        for start in range(0, len(data), step or len(data) or 1):
            if reply.feed(data[start : start + (step or len(data))]) is not None:
                break


def _body(data: bytes, *, message: Message) -> None:
    with suppress(GpucastError):
        Receiver("fuzz").take(data, message, _AT_S)


def _packed(data: bytes, *, message: Message) -> None:
    """The content of a body that unpacks, twice: the second time its series are known."""
    if len(data) > MAX_UNPACKED_BYTES:
        return
    body, receiver = bytes(cramjam.snappy.compress_raw(data)), Receiver("fuzz")
    for _ in range(2):
        with suppress(GpucastError):
            receiver.take(body, message, _AT_S)


def _steps(data: bytes) -> None:
    with suppress(GpucastError):
        reports, faults = read_reports(data, _AT_S)
        StepBook().take(reports, faults, _AT_S)


def _answer(data: bytes) -> None:
    with suppress(GpucastError, orjson.JSONDecodeError):
        SeriesMapper("fuzz").batch([read_answer(orjson.loads(data), "fuzz")], _AT_S)


def _kubelet(data: bytes) -> None:
    with suppress(orjson.JSONDecodeError):
        document = orjson.loads(data)
        if isinstance(document, dict):
            read_pod_resources(document)


def _gpucast(data: bytes, *, read: Callable[[bytes], object]) -> None:
    with suppress(GpucastError):
        read(data)


def _text(data: bytes, *, read: Callable[[str], object]) -> None:
    with suppress(GpucastError):
        read(data.decode("utf-8", "replace"))


def _topology(data: bytes) -> None:
    with suppress(GpucastError):
        finished(merge([read_source(SourceText(data, "fuzz", "h")).topology]))


def _hosts(text: str) -> None:
    fold_hosts(expand_hosts(text))


def _text_reader(read: Callable[[str], object]) -> Read:
    return partial(_text, read=read)


def _formats() -> dict[str, Read]:
    return {f"inspect: {name}": partial(_gpucast, read=partial(_asked, read=read)) for name, read in FORMATS.items()}


def _asked(data: bytes, *, read: Callable[[bytes, str], object]) -> None:
    read(data, "fuzz")


GROUPS: dict[str, dict[str, Read]] = {
    "exposition": {"page": _page, "page after another": _page_again},
    "http-reply": {"reply": _http, "reply in pieces": partial(_http, step=1460)},
    "remote-write": {
        **{f"{message.name} as it comes": partial(_body, message=message) for message in Message},
        **{f"{message.name} packed": partial(_packed, message=message) for message in Message},
    },
    "nccl": {
        "inspector": partial(_gpucast, read=parse_dump),
        "debug log": partial(_gpucast, read=parse_debug_log),
        "nccl-tests": partial(_gpucast, read=parse_nccl_tests),
        "ras": partial(_gpucast, read=lambda data: parse_ras(data, "fuzz")),
    },
    "slurm": {
        "scontrol jobs": _text_reader(read_scontrol_jobs),
        "scontrol nodes": _text_reader(read_scontrol_nodes),
        "squeue": _text_reader(read_squeue),
        "sinfo": _text_reader(read_sinfo),
        "records": partial(_asked, read=read_slurm),
        "gres": _text_reader(lambda text: count_gpus(parse_gres(text))),
        "tres": _text_reader(lambda text: count_tres_gpus(parse_tres(text))),
        "duration": _text_reader(read_duration),
        "host list": _text_reader(_hosts),
    },
    "kubernetes": {"lists": partial(_asked, read=read_kubernetes), "kubelet": _kubelet},
    "prometheus": {"answer": _answer},
    "steps": {"reports": _steps},
    "topology": {"any": _topology},
    "inspect": _formats(),
}
"""Group -> its readers; what is registered in ``collectors.inspect.FORMATS`` is among them by itself."""


def _all_of(readers: Iterable[Read]) -> Read:
    readers = tuple(readers)

    def run(data: bytes) -> None:
        for read in readers:
            read(data)

    return run


TARGETS: dict[str, Read] = {name: _all_of(readers.values()) for name, readers in GROUPS.items()}
"""Group -> all of its readers in turn, for ``scripts/fuzz``."""

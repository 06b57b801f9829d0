"""The worst shapes of text and of bytes that a reader may be given, each made as long as is asked. Nothing is random."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tests.kit.remote_write import field, sample, varint

_AT_S = 1_767_225_600.0
Make = Callable[[int], bytes]


def repeated(unit: bytes, head: bytes = b"", tail: bytes = b"") -> Make:
    """``head``, as many units as fit, ``tail``."""
    return lambda size: head + unit * max((size - len(head) - len(tail)) // len(unit), 1) + tail


def numbered(unit: str, head: str = "", tail: str = "") -> Make:
    """The same with another number in each unit in the place of ``#``."""

    def make(size: int) -> bytes:
        n = max((size - len(head) - len(tail)) // (len(unit) + 4), 1)
        return (head + "".join(unit.replace("#", f"{i:05d}") for i in range(n)) + tail).encode()

    return make


def listed(item: object, head: str, tail: str) -> Make:
    """A JSON document with the same item as often as fits, ``#`` in it replaced by its number."""
    text = json.dumps(item)

    def make(size: int) -> bytes:
        n = max(size // (len(text) + 1), 1)
        return (head + ",".join(text.replace("#", f"{i:05d}") for i in range(n)) + tail).encode()

    return make


_GPU = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-#",hostname="n"} 1\n'
_JOB = {"job_id": 1, "job_state": ["RUNNING"], "nodes": "g[1-9]", "gres_detail": ["gpu:8(IDX:0-7)"] * 9}
_POD = {"metadata": {"name": "p#", "namespace": "d", "uid": "#"}, "spec": {"nodeName": "n", "containers": [
    {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}, "status": {"phase": "Running"}}  # fmt: skip
_NODE = {"metadata": {"name": "n#", "labels": {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.clique": "ab-1.#"}}}
_SERIES = {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-#", "Hostname": "n"}, "values": [[1e9, "1"]]}
_RAS_RANK = {"rank": 1, "node": {"hostname": "n#"}, "pid": 1, "cuda_dev": 0, "status": {}}

SHAPES: dict[str, Make] = {
    # One line, or one value, without end.
    "one letter": repeated(b"a"),
    "blanks": repeated(b" "),
    "tabs": repeated(b"\t"),
    "line ends": repeated(b"\n"),
    "carriage returns": repeated(b"\r"),
    "nulls": repeated(b"\x00"),
    "high bytes": repeated(b"\xff"),
    "digits": repeated(b"9"),
    "continued lines": repeated(b"\\\n"),
    # Brackets and quotes that never close, or nest.
    "brackets": repeated(b"["),
    "braces": repeated(b"{"),
    "objects": repeated(b'{"a":'),
    "quotes": repeated(b'"'),
    "escapes": repeated(b"\\"),
    "tags": repeated(b"<a>", b"<system>"),
    "attributes": repeated(b' a="b"', b"<system"),
    "entities": repeated(b"&lt;", b"<system a='", b"'/>"),
    "closed brackets": repeated(b"[]"),
    # Exposition pages.
    "page, label without an end": repeated(b"x", b'DCGM_FI_DEV_GPU_UTIL{gpu="'),
    "page, many labels": numbered('l#="v",', "DCGM_FI_DEV_GPU_UTIL{", "} 1\n"),
    "page, one label again": repeated(b'l="v",', b"DCGM_FI_DEV_GPU_UTIL{", b"} 1\n"),
    "page, escaped label": repeated(b'\\"', b'DCGM_FI_DEV_GPU_UTIL{gpu="', b'"} 1\n'),
    "page, many names": numbered("name_# 1\n"),
    "page, many unknown labels": numbered('x{a="#"} 1\n'),
    "page, many devices": numbered(_GPU),
    "page, one device again": repeated(_GPU.encode()),
    "page, long number": repeated(b"9", b"DCGM_FI_DEV_GPU_UTIL "),
    "page, commas": repeated(b",", b"DCGM_FI_DEV_GPU_UTIL{"),
    "page, bad lines": repeated(b"a b c d e\n"),
    "page, ports": numbered('node_infiniband_port_data_transmitted_bytes_total{device="m#",port="1"} 1\n'),
    "page, processors": numbered('node_cpu_seconds_total{cpu="#",mode="idle"} 1\n'),
    "page, openmetrics": repeated(b"# TYPE a gauge\n# UNIT a b\n# HELP a c\n"),
    # Slurm.
    "scontrol, one name": repeated(b"x", b"NodeName="),
    "scontrol, words": repeated(b"a=b ", b"JobId=1 JobName="),
    "scontrol, keys": numbered("K#=v ", "JobId=1 "),
    "scontrol, one line": repeated(b"k=v ", b"JobId=1 "),
    "scontrol, keys without a value": repeated(b"aaaa ", b"JobId=1 "),
    "scontrol, long key": repeated(b"a", b"JobId=1 "),
    "scontrol, devices": repeated(b"     Nodes=g[1-9] GRES=gpu:8(IDX:0-7)\n", b"JobId=1\n"),
    "scontrol, wide devices": repeated(b"     Nodes=g[1-99999] GRES=gpu:8(IDX:0-4000)\n", b"JobId=1\n"),
    "scontrol, devices far apart": numbered("   Nodes=g[1-99#] GRES=gpu:8(IDX:0-7)\n", "JobId=1 JobState=RUNNING\n"),
    "scontrol, jobs": repeated(b"JobId=1 JobState=RUNNING NodeList=n[1-9] NumNodes=9 TRES=gres/gpu=8\n"),
    "scontrol, jobs on all": numbered("JobId=# JobState=RUNNING NodeList=n[1-99999] TRES=gres/gpu=8\n"),
    "scontrol, bare jobs": repeated(b"JobId=1\n"),
    "scontrol, nodes": numbered("NodeName=n# Gres=gpu:8 GresUsed=gpu:8(IDX:0-7) State=IDLE\n"),
    "scontrol, gres": repeated(b"gpu:1,", b"NodeName=n1 State=IDLE\n Gres=", b"\n"),
    "scontrol, parentheses": repeated(b"(", b"NodeName=n1 State=IDLE\n Gres=gpu:"),
    "scontrol, devices of one": repeated(b"0-4095,", b"NodeName=n State=IDLE\n GresUsed=gpu:8(IDX:", b")\n"),
    "squeue": repeated(b"1|RUNNING|n[1-9]|gpu:8\n", b"jobid|state|nodelist|grespernode\n"),
    "squeue, all nodes": numbered("#|RUNNING|n[1-99999]|gpu:8\n", "jobid|state|nodelist|grespernode\n"),
    "squeue, columns": repeated(b"|", b"jobid|state\n1"),
    "squeue, names": numbered("c#|", "jobid|state|", "\n1|RUNNING\n"),
    "sinfo": numbered("n# idle gpu:8 gpu:0\n"),
    "sinfo, one node": repeated(b"n1 idle gpu:8 gpu:0\n"),
    "sinfo, states": repeated(b"+IDLE*", b"n1 ", b" gpu:8 gpu:0\n"),
    "slurm json, jobs": listed(_JOB, '{"meta":{"slurm":{}},"jobs":[', "]}"),
    "slurm json, all nodes": listed(_JOB | {"nodes": "g[1-99999]"}, '{"meta":{"slurm":{}},"jobs":[', "]}"),
    "slurm json, wide": listed(
        "gpu:1(IDX:0-4095)",
        '{"meta":{"slurm":{}},"jobs":[{"job_id":1,"job_state":["RUNNING"],"nodes":"g[1-99999]","gres_detail":[',
        "]}]}",
    ),
    "slurm json, nodes": listed(
        {"name": "n#", "gres": "gpu:8", "gres_used": "gpu:8", "state": ["IDLE"]}, '{"meta":{"slurm":{}},"nodes":[', "]}"
    ),
    "slurm json, warnings": listed({"description": "w#"}, '{"meta":{"slurm":{}},"warnings":[', '],"jobs":[]}'),
    "host list, endless": repeated(b"n[1-999999999],", b"SwitchName=s Nodes="),
    "host list, product": repeated(b"[0-99]", b"SwitchName=s Nodes=n"),
    "host list, brackets": repeated(b"a[1-9],", b"SwitchName=s Nodes="),
    "host list, numbers": repeated(b"1,", b"SwitchName=s Nodes=n[", b"1]"),
    "host list, not closed": repeated(b"[1,", b"SwitchName=s Nodes=n"),
    "host list, most names": repeated(b"SwitchName=s Nodes=n[1-150000]\n"),
    # Topology.
    "switches in a row": numbered("SwitchName=s# Switches=t#\n", "", "SwitchName=l Nodes=n1\n"),
    "switches": numbered("SwitchName=s# Nodes=n#\n"),
    "switches, one host": numbered("SwitchName=s# Nodes=n1\n"),
    "blocks": numbered("BlockName=b# Nodes=n#\n", "", "BlockSizes=1\n"),
    "block sizes": repeated(b"1,", b"BlockName=b Nodes=n\nBlockSizes=", b"1\n"),
    "comments": numbered("# s#=real#\n", "", "SwitchName=s Nodes=n\n"),
    "yaml, nested lists": repeated(b"[", b"- topology: t\n  tree: "),
    "yaml, nested maps": repeated(b"{a: ", b"- topology: t\n  tree: "),
    "yaml, dashes": repeated(b"- ", b"- topology: t\n"),
    "yaml, aliases": repeated(b"*a,", b"- topology: &a [", b"1]\n"),
    "yaml, anchors": numbered("- &a# {topology: x}\n", "- topology: t\n"),
    "yaml, switches": numbered("      - {switch: s#, nodes: n#}\n", "- topology: t\n  tree:\n    switches:\n"),
    "yaml, documents": repeated(b"---\nkind: Topology\n", b"kind: Topology\n"),
    "yaml, ring": numbered("      - {ring: r#, nodes: 'n[1-9]'}\n", "- topology: t\n  ring:\n    rings:\n"),
    "matrix, wide": numbered("\tGPU#", "\tGPU0"),
    "matrix, long": repeated(b"GPU0\t X \n", b"\tGPU0\n"),
    "matrix, cells": repeated(b"\tX", b"\tGPU0\nGPU0"),
    "mig rows": repeated(b"|   0  MIG 3g.20gb          9        2          4:4     |\n", b"GPU instances: Placement\n"),
    "gpu list": numbered("GPU #: NVIDIA (UUID: GPU-#)\n  MIG 3g.20gb Device 0: (UUID: MIG-#)\n"),
    "xml, gpus": repeated(b'<gpu dev="0"/>', b"<system>", b"</system>"),
    "xml, pci": numbered('<pci busid="#"><gpu dev="#"/></pci>', "<system><cpu>", "</cpu></system>"),
    "kubernetes nodes": listed(_NODE, '{"kind":"NodeList","apiVersion":"v1","items":[', "]}"),
    "kubernetes pods": listed(_POD, '{"kind":"PodList","apiVersion":"v1","items":[', "]}"),
    "kubernetes containers": listed(
        _POD["spec"]["containers"][0],
        '{"kind":"PodList","apiVersion":"v1","items":['
        '{"metadata":{"name":"p"},"status":{"phase":"Running"},"spec":{"containers":[',
        "]}}]}",
    ),
    "kubelet devices": listed(
        "GPU-#",
        '{"podResources":[{"name":"p","namespace":"d","containers":[{"devices":['
        '{"resourceName":"nvidia.com/gpu","deviceIds":[',
        "]}]}]}]}",
    ),
    "graph": listed({"id": "i#", "network_layers": ["l#"] * 20}, '{"instances":[', "]}"),
    "hypernodes": listed(
        {
            "kind": "HyperNode",
            "metadata": {"name": "h#"},
            "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n#"}}}]},
        },
        '{"kind":"List","items":[',
        "]}",
    ),
    "hypernodes, expressions": listed(
        {
            "kind": "HyperNode",
            "metadata": {"name": "h#"},
            "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "(a+)+$"}}}]},
        },
        '{"kind":"List","items":[',
        "," + json.dumps(_NODE | {"metadata": {"name": "a" * 200 + "!"}}) + "]}",
    ),
    # NCCL.
    "inspector records": repeated(
        b'{"header":{"id":"1","rank":0,"n_ranks":2},"coll_perf":{"coll":"AllReduce","coll_sn":1,'
        b'"coll_msg_size_bytes":1,"coll_exec_time_us":1,"coll_busbw_gbs":1}}\n'
    ),
    "inspector, torn": repeated(b'{"header":{"rank":0}'),
    "debug log": numbered("n1:#:# [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via NET/IB/0\n"),
    "debug log, one line": repeated(b"NCCL INFO "),
    "debug log, arrows": repeated(b"-> ", b"n1:1:1 [0] NCCL INFO Channel 00 : "),
    "nccl-tests": repeated(
        b"  8  2  float  sum  -1  12.1  0.00  0.00  0  12.1  0.00  0.00  0\n", b"# nThread 1\n#  size\n"
    ),
    "ras text": repeated(b"  Group #  Processes  NNodes\n", b"NCCL version 2.28\nJob summary\n===========\n"),
    "ras json": listed(_RAS_RANK, '{"nccl_version":"2.28","communicators":[{"hash":"1","size":9,"ranks":[', "]}]}"),
    # Prometheus.
    "answer, series": listed(_SERIES, '{"status":"success","data":{"resultType":"matrix","result":[', "]}}"),
    "answer, one device": listed(
        _SERIES | {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-1", "Hostname": "n", "pod": "p#"}},
        '{"status":"success","data":{"resultType":"matrix","result":[',
        "]}}",
    ),
    "answer, points": listed(
        [1e9, "1"],
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":'
        '{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"GPU-1","Hostname":"n"},"values":[',
        "]}]}}",
    ),
    "answer, words": listed(
        [1e9, "x#"],
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":'
        '{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"GPU-1","Hostname":"n"},"values":[',
        "]}]}}",
    ),
    "answer, warnings": listed(
        "w#", '{"status":"success","warnings":[', '],"data":{"resultType":"vector","result":[]}}'
    ),
    "answer, buckets": listed(
        [0, "1", "2", "3"],
        '{"status":"success","data":{"resultType":"vector","result":[{"metric":{},'
        '"histogram":[1,{"count":"1","sum":"1","buckets":[',
        "]}]}]}}",
    ),
    "steps": numbered('{"job":"slurm:1","step":#,"at_s":1,"rank":#}\n'),
    "steps, jobs": numbered('{"job":"slurm:#","step":1,"at_s":1}\n'),
    "steps, unknown fields": numbered('"f#":1,', '{"job":"slurm:1",', '"step":1}'),
    "steps, bad lines": repeated(b"{}\n"),
    "switch rows": repeated(
        b"2024-01-01 00:00:00,l1,eth1,1,1\n", b"SaveTimeUTC,DeviceName,PortName,InOctets,OutOctets\n"
    ),
    "switch ports": numbered("2024-01-01 00:00:00,l1,e#,1,1\n", "SaveTimeUTC,DeviceName,PortName,InOctets,OutOctets\n"),
    "switch, quotes": repeated(b'"', b"SaveTimeUTC,DeviceName,PortName,InOctets,OutOctets\n"),
    # HTTP.
    "http head": repeated(b"A: b\r\n", b"HTTP/1.1 200 OK\r\n"),
    "http chunks": repeated(b"1\r\na\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "http empty chunks": repeated(b"00000000000\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "http chunk line": repeated(b"0", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
}
"""Name -> a text of about as many bytes as asked."""


def _label(name: str, value: str) -> bytes:
    return field(1, field(1, name.encode()) + field(2, value.encode()))


_HEAD = _label("UUID", "GPU-1") + _label("__name__", "DCGM_FI_DEV_GPU_UTIL")
_SAMPLE = field(2, sample(_AT_S, 1.0))


def _distinct(make: Callable[[int], bytes]) -> Make:
    def make_all(size: int) -> bytes:
        return b"".join(make(i) for i in range(max(size // len(make(99_999)), 1)))

    return make_all


BODIES: dict[str, Make] = {
    "series": _distinct(lambda i: field(1, _label("UUID", f"GPU-{i:05d}") + _label("__name__", "DCGM_FI_DEV_GPU_UTIL") + _SAMPLE)),
    "series outside the catalogue": _distinct(lambda i: field(1, _label("__name__", f"x{i:05d}") + _SAMPLE)),
    "series of ports": _distinct(lambda i: field(1, _label("__name__", "node_infiniband_port_data_transmitted_bytes_total")
        + _label("device", f"m{i:05d}") + _label("instance", f"n{i:05d}") + _label("port", "1") + _SAMPLE)),
    "hosts are named": _distinct(lambda i: field(1, _label("__name__", "node_uname_info") + _label("instance", f"i{i:05d}")
        + _label("nodename", f"n{i:05d}") + _SAMPLE)),
    "one series again": repeated(field(1, _HEAD + _SAMPLE)),
    "samples of one series": lambda size: field(1, _HEAD + _SAMPLE * (size // len(_SAMPLE))),
    "samples at their own times": lambda size: field(1, _HEAD + b"".join(
        field(2, sample(_AT_S - i, 1.0)) for i in range(size // len(_SAMPLE)))),
    "odd samples": lambda size: field(1, _HEAD + field(2, b"\x10\x01") * (size // 4)),
    "labels of one series": lambda size: field(1, b"".join(_label(f"l{i:06d}", "v") for i in range(size // 15))),
    "empty labels": lambda size: field(1, field(1, b"") * (size // 2)),
    "empty series": repeated(field(1, b"")),
    "long label": lambda size: field(1, _label("__name__", "x" * size)),
    "unknown fields": repeated(b"\x18\x01"),
    "metadata": repeated(field(3, b"\x08\x01")),
    "faults": _distinct(lambda i: field(1, _label("a", f"{i:05d}") + _SAMPLE)),
    "symbols": lambda size: field(4, b"") + _distinct(lambda i: field(4, b"%05d" % i))(size),
    "empty symbols": repeated(field(4, b"")),
    "references": lambda size: field(4, b"") + field(5, field(1, b"\x00" * size)),
    "references one by one": lambda size: field(4, b"") + field(5, b"\x08\x00" * (size // 2)),
    "series of references": lambda size: field(4, b"") + field(4, b"__name__") + field(4, b"DCGM_FI_DEV_GPU_UTIL")
        + field(5, field(1, b"\x01\x02") + _SAMPLE) * (size // 24),
    "distinct series of references": lambda size: field(4, b"") + field(4, b"__name__") + field(4, b"DCGM_FI_DEV_GPU_UTIL")
        + field(4, b"UUID") + _distinct(lambda i: field(4, b"%05d" % i)
        + field(5, field(1, b"\x03" + varint(i + 4) + b"\x01\x02") + _SAMPLE))(size),
    "groups": repeated(b"\x0b"),
    "long numbers": repeated(b"\xff" * 9 + b"\x01"),
}  # fmt: skip
"""Name -> the unpacked content of a remote write body, of both versions, of about as many bytes as asked."""


def hostile_texts(size: int) -> Iterator[tuple[str, bytes]]:
    """Every shape at a size."""
    for name, make in SHAPES.items():
        yield name, make(size)


def hostile_bodies(size: int) -> Iterator[tuple[str, bytes]]:
    """Every body at a size."""
    for name, make in BODIES.items():
        yield name, make(size)

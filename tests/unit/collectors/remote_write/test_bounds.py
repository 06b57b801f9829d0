"""What a request may ask of us is bounded by counts, not by a clock."""

from __future__ import annotations

import pytest

from collectors.remote_write.columns import FIELDS_OF_ODD, MAX_FIELDS
from collectors.remote_write.label_sets import MAX_RENAMINGS
from collectors.remote_write.receiver import Message, Receiver
from telemetry.errors import SchemaError
from tests.kit.remote_write import field, labels_v1, ordered, pack, sample, v1

NOW = 1_767_225_600.0
MOST = MAX_FIELDS // FIELDS_OF_ODD
NAME = labels_v1(ordered({"__name__": "up"}))


def _v1(content: bytes) -> bytes:
    return pack(field(1, NAME + content))


BODIES = {
    "odd samples": (Message.V1, lambda n: _v1(field(2, b"\x10\x01") * n)),
    "unknown fields": (Message.V1, lambda n: pack(b"\x28\x01" * n)),
    "unknown fields of a series": (Message.V1, lambda n: _v1(b"\x28\x01" * n)),
    "lone references": (Message.V2, lambda n: pack(field(4, b"") + field(5, b"\x08\x00" * n))),
}


@pytest.mark.parametrize(("message", "make"), BODIES.values(), ids=BODIES)
def test_what_is_read_one_by_one_is_refused_beyond_its_count(message, make):
    """The sentence names the limit; a fifth of it goes through, or is refused for another reason."""
    assert f"more than {MAX_FIELDS} fields" in _refusal(make(MOST + 1), message)
    assert "fields" not in _refusal(make(MOST // 5), message)


def _refusal(body, message):
    """Why a body is refused; empty when it is taken."""
    try:
        Receiver("t").take(body, message, NOW)
    except SchemaError as refused:
        return refused.message
    return ""


def test_vmagents_largest_block_of_new_series_is_read():
    """10,000 samples, none of the usual shape, each of a series with 30 labels."""
    labels = labels_v1([("__name__", "up"), *((f"l{i:02d}", "v") for i in range(29))])
    body = pack(field(1, labels + field(2, sample(NOW, 0.0))) * 10_000)
    assert Receiver("t").take(body, Message.V1, NOW).samples == 10_000


def _alternating(n: int) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
    name = "node_infiniband_port_data_transmitted_bytes_total"
    found: list[tuple[dict[str, str], list[tuple[float, float]]]] = []
    for i in range(n):
        found.append(({"__name__": "node_uname_info", "instance": f"i{i}", "nodename": f"n{i}"}, [(NOW, 1.0)]))
        found.append(({"__name__": name, "device": "m", "port": "1", "instance": f"i{i}"}, [(NOW, 1.0)]))
    return found


def test_names_of_hosts_are_not_looked_through_for_each():
    """A request that names a host before every port renews what is known a bounded number of times."""
    receiver = Receiver("t")
    receiver.take(v1(*_alternating(200)), Message.V1, NOW)
    assert receiver._sets.renamings <= MAX_RENAMINGS + 1


def test_ports_get_their_hosts_names_in_the_next_request_at_the_latest():
    receiver, request = Receiver("t"), v1(*_alternating(50))
    receiver.take(request, Message.V1, NOW)
    nodes = {
        key.entity.split(":")[0] for batch in receiver.take(request, Message.V1, NOW).batches for key in batch.keys
    }
    assert nodes >= {f"n{i}" for i in range(50)}
    assert receiver.take(request, Message.V1, NOW).taken == 50

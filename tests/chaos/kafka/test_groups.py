"""What an answer to DescribeGroups says of a group."""

import struct
from types import SimpleNamespace

import pytest

from chaos.kafka.client import from_classic
from chaos.kafka.partition import TopicPartition


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


CONSUMER = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">iii", 1, 3, -1)
WORKER = struct.pack(">hh", 0, 0) + text("connect-1") + text("http://127.0.0.1:8083/") + struct.pack(">qi", 7, 0)
"""The assignment of a worker of Kafka Connect (`ConnectProtocol`): version, error, leader and its URL, offset, none."""


@pytest.mark.parametrize(
    ("protocol_type", "assigned", "partitions"),
    [
        ("consumer", CONSUMER, (TopicPartition("orders", 3),)),
        ("consumer", b"", ()),
        ("connect", WORKER, ()),
    ],
    ids=["consumer", "rebalancing", "connect"],
)
def test_only_members_of_the_protocol_of_consumers_have_partitions(protocol_type, assigned, partitions):
    member = SimpleNamespace(
        member_id="m-1",
        group_instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        member_assignment=assigned,
    )
    group = SimpleNamespace(group_state="Stable", protocol_type=protocol_type, members=[member])
    (found,) = from_classic(group, 1).members
    assert (found.member_id, found.partitions) == ("m-1", partitions)

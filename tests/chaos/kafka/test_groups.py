"""What an answer to DescribeGroups says of a group."""

import struct
from types import SimpleNamespace

import pytest

from chaos.kafka.client import from_classic
from chaos.kafka.partition import TopicPartition


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


CONSUMER = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">iii", 1, 3, -1)
SUBSCRIPTION = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">i", -1)
WORKER = struct.pack(">hh", 0, 0) + text("connect-1") + text("http://127.0.0.1:8083/") + struct.pack(">qi", 7, 0)
"""The assignment of a worker of Kafka Connect (`ConnectProtocol`): version, error, leader and its URL, offset, none."""


@pytest.mark.parametrize(
    ("protocol_type", "asked", "assigned", "topics", "partitions"),
    [
        ("consumer", SUBSCRIPTION, CONSUMER, ("orders",), (TopicPartition("orders", 3),)),
        ("consumer", SUBSCRIPTION, b"", ("orders",), ()),
        ("connect", WORKER, WORKER, None, ()),
    ],
    ids=["consumer", "rebalancing", "connect"],
)
def test_only_members_of_the_protocol_of_consumers_have_topics_and_partitions(
    protocol_type, asked, assigned, topics, partitions
):
    member = SimpleNamespace(
        member_id="m-1",
        group_instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        member_metadata=asked,
        member_assignment=assigned,
    )
    group = SimpleNamespace(group_state="Stable", protocol_type=protocol_type, members=[member])
    (found,) = from_classic(group, 1).members
    assert (found.member_id, found.topics, found.partitions) == ("m-1", topics, partitions)

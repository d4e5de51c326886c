"""What the answers of a coordinator say of a group, whatever its protocol."""

import struct
from types import SimpleNamespace

import pytest

from chaos.kafka.client import Kafka, SharePosition, from_classic
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


CLASSIC, CONSUMERS, SHARES, STREAMS = 15, 69, 77, 89
"""API keys of the requests that describe groups."""
NOT_FOUND, MOVES = 69, 16
ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


def member(**fields):
    names = {"member_id": "m-1", "instance_id": None, "client_id": "c", "client_host": "/127.0.0.1"}
    return SimpleNamespace(**names | fields)


def assigned(*numbers):
    return SimpleNamespace(topic_partitions=[SimpleNamespace(topic_name="orders", partitions=list(numbers))])


def group_of(*members, **fields):
    return SimpleNamespace(**{"error_code": 0, "group_state": "Stable", "members": members} | fields)


CONSUMER_GROUP = group_of(
    member(subscribed_topic_regex=None, subscribed_topic_names=["orders"], assignment=assigned(1)), protocol_type=""
)
SHARE_GROUP = group_of(member(subscribed_topic_names=["orders"], assignment=assigned(0, 1)))
TASKS = SimpleNamespace(active_tasks=[SimpleNamespace(subtopology_id="0", partitions=[1])])
SOURCE = SimpleNamespace(
    subtopology_id="0", source_topics=["orders"], repartition_source_topics=[SimpleNamespace(name="by-customer")]
)
STREAMS_GROUP = group_of(member(assignment=TASKS), topology=SimpleNamespace(subtopologies=[SOURCE]))
STARTING = group_of(member(assignment=SimpleNamespace(active_tasks=[])), topology=None)


class Coordinator(Kafka):
    """A cluster whose broker 2 coordinates the group `g`, and knows the requests in `answers`."""

    def __init__(self, answers, committed=None, shared=None):
        self.answers = {CLASSIC: group_of(group_state="Dead", protocol_type="")} | answers
        self._committed, self._shared, self.asked = committed or {}, shared, []

    def coordinator(self, group):
        return 2

    def supports(self, api, broker=None, version=0):
        return True if self._shared is not None and api == 90 else (api in self.answers)

    def ask(self, broker, request):
        self.asked.append(request.API_KEY)
        answer = self.answers[request.API_KEY]
        return None if answer is None else SimpleNamespace(groups=[answer])

    def committed(self, group, partitions):
        return self._committed

    def end_offsets(self, partitions):
        self.asked.append("ends")
        return dict.fromkeys(partitions, 9)


def unknown(code=NOT_FOUND):
    return group_of(error_code=code)


@pytest.mark.parametrize(
    ("answers", "asked", "partitions", "shares"),
    [
        ({CONSUMERS: CONSUMER_GROUP}, [15, 69], (ORDERS[1],), False),
        (
            {CONSUMERS: unknown(), STREAMS: STREAMS_GROUP},
            [15, 69, 89],
            (TopicPartition("by-customer", 1), ORDERS[1]),
            False,
        ),
        ({CONSUMERS: unknown(), STREAMS: STARTING}, [15, 69, 89], (), False),
        ({CONSUMERS: unknown(), STREAMS: unknown(), SHARES: SHARE_GROUP}, [15, 69, 89, 77], tuple(ORDERS), True),
    ],
    ids=["consumer", "streams", "streams that start", "share"],
)
def test_a_group_of_each_protocol_is_found(answers, asked, partitions, shares):
    kafka = Coordinator(answers)
    found = kafka.group("g")
    assert (found.state, found.coordinator, found.shares, kafka.asked) == ("Stable", 2, shares, asked)
    assert [m.partitions for m in found.members] == [partitions]


def test_a_group_that_no_request_knows_is_dead_and_one_that_moves_or_is_not_answered_for_is_unknown():
    assert Coordinator({}).group("g").state == "Dead", "an old broker"
    assert Coordinator(dict.fromkeys((CONSUMERS, STREAMS, SHARES), unknown())).group("g").state == "Dead"
    assert Coordinator({CONSUMERS: unknown(), SHARES: unknown(MOVES)}).group("g") is None
    assert Coordinator({CONSUMERS: unknown(), STREAMS: None}).group("g") is None


def test_a_share_group_has_done_what_is_not_its_lag(monkeypatch):
    shared = {ORDERS[0]: SharePosition(4, 3), ORDERS[1]: SharePosition(4, None)}

    def positions(kafka, group, partitions):
        kafka.asked.append("lag")
        return shared

    monkeypatch.setattr("chaos.kafka.client.share_positions", positions)
    kafka = Coordinator({}, shared=shared)
    assert kafka.done("g", ORDERS) == {ORDERS[0]: 6}, "the lag of the other partition is not known"
    assert kafka.asked == ["ends", "lag"], "records that come in between are not done"
    assert Coordinator({}, {ORDERS[0]: 7}, shared).done("g", ORDERS) == {ORDERS[0]: 7}
    assert Coordinator({}).done("g", ORDERS) == {}, "a broker without share groups"

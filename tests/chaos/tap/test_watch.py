"""Tests of what a tap asks the cluster: brokers that move, topics that go, groups that stand still."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from chaos.kafka.metadata import Metadata, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.tap.watch import STALLED_S, Watch

ORDERS = TopicPartition("orders", 3)
STATE = PartitionState(1, 0, (1,), (1,))


def cluster(brokers=None, topics=(("orders", "id1"),)):
    brokers = brokers or {1: ("a", 9092), 2: ("b", 9092)}
    return Metadata(brokers, {TopicPartition(name, 3): STATE for name, _ in topics}, topic_ids=dict(topics))


@pytest.fixture
def watched():
    lines, moved = [], []
    kafka = SimpleNamespace(
        view=cluster(), offset=100, end=100, metadata=lambda: kafka.view, done=lambda *_: {ORDERS: kafka.offset},
        end_offsets=lambda _: {ORDERS: kafka.end},
    )  # fmt: skip
    watch = Watch(kafka, lines.append, lambda *broker: moved.append(broker))
    look = lambda now=0.0: watch.look(now, {"orders"}, {"billing": {"orders"}})  # noqa: E731
    look()
    return SimpleNamespace(kafka=kafka, lines=lines, moved=moved, watch=watch, look=look)


def test_a_broker_that_joins_or_has_another_address_is_followed(watched):
    watched.kafka.view = cluster({1: ("a", 9092), 2: ("c", 9093), 3: ("d", 9092)})
    watched.look()
    assert watched.moved == [(2, ("c", 9093), False), (3, ("d", 9092), True)] and watched.lines == []


def test_a_broker_that_is_down_and_back_is_said_once(watched):
    watched.kafka.view = cluster({1: ("a", 9092)})
    watched.look()
    watched.look()
    watched.kafka.view = cluster()
    watched.look()
    assert watched.lines == ["broker 2 is down: the cluster does not list it any more", "broker 2 is back"]
    assert watched.moved == []


@pytest.mark.parametrize(
    ("topics", "words"),
    [((), "topic orders was deleted, so"), ((("orders", "id2"),), "topic orders was deleted and created again, so")],
)
def test_a_topic_that_was_deleted_is_not_judged(watched, topics, words):
    watched.kafka.view = cluster(topics=topics)
    watched.look()
    watched.look()
    assert watched.lines == [f"{words} what was written to it is not judged"]
    assert watched.watch.recreated == {"orders"}


def test_a_group_that_commits_nothing_although_there_are_records_is_stalled_and_goes_on(watched):
    watched.kafka.end = 1300
    watched.look(1)
    watched.look(STALLED_S - 1)
    assert watched.lines == []
    watched.look(STALLED_S + 2)
    watched.look(STALLED_S + 9)
    assert watched.lines == ["group billing has made no progress for 30 s in orders/3 (1,200 behind)"]
    watched.kafka.offset = 200
    watched.look(STALLED_S + 10)
    assert watched.lines[1:] == ["group billing goes on in orders/3"]


def test_a_group_at_the_end_of_its_log_is_not_stalled(watched):
    watched.look(1)
    watched.look(10 * STALLED_S)
    assert watched.lines == []


def test_a_cluster_that_does_not_answer_is_said_once(watched):
    watched.kafka.view = None
    watched.look()
    watched.look()
    watched.kafka.view = cluster()
    watched.look()
    assert watched.lines == ["no broker of the cluster answers", "the cluster answers again"]

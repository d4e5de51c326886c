"""Tests of the questions to a cluster: with all brokers, and with brokers that are paused."""

from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.kafka import admin
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.kafka.schemas import ConsumerGroupHeartbeatRequest, ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.wait import wait_until

pytestmark = pytest.mark.kafka
TOPIC, GROUP = "client-orders", "client-billing"
PARTITIONS = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
FIRST, SECOND = PARTITIONS


OLDER = pytest.mark.nightly(twin="chaos/kafka/test_client.py")


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("2.8.2", marks=OLDER)])
def cluster(request, tmp_path_factory):
    if request.param == "4.3.1":
        cluster = request.getfixturevalue("three_brokers")
    else:
        run = Run.create(tmp_path_factory.mktemp("runs"), "client")
        cluster = ProcessCluster.deploy(run, ClusterSpec(3, request.param), ProcessId.current(), 300)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    client.create_topics([NewTopic(TOPIC, 2, 3)])[TOPIC].result(30)
    yield cluster
    if request.param != "4.3.1":
        cluster.destroy()


@pytest.fixture
def kafka(cluster):
    kafka = Kafka(cluster.bootstrap)
    wait_until(lambda: not kafka.lacking([TOPIC]), 30, lambda: f"lacking: {kafka.lacking(['orders'])}")
    wait_until(lambda: not kafka.unhealthy(PARTITIONS), 30, lambda: f"unhealthy: {kafka.unhealthy(PARTITIONS)}")
    yield kafka
    kafka.close()


def test_metadata_and_end_offsets_are_those_of_the_cluster(cluster, kafka):
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(7):
        producer.produce(TOPIC, b"x", partition=1)
    assert producer.flush(30) == 0
    metadata = kafka.metadata()
    assert sorted(metadata.brokers) == [1, 2, 3]
    assert metadata.partitions[FIRST].isr == (1, 2, 3)
    assert metadata.partitions[FIRST].leader_epoch >= 0
    wait_until(lambda: kafka.end_offsets(PARTITIONS) == {FIRST: 0, SECOND: 7}, 30, "the end offsets are wrong")


def test_a_group_has_its_members_and_committed_offsets(cluster, kafka):
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "client.id": "billing/1"}
    config |= {"group.instance.id": "one", "session.timeout.ms": 6000}  # a static member stays until then (KIP-345)
    consumer = Consumer({**config, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([TOPIC])
    message = wait_until(lambda: consumer.poll(0.2), 60, "nothing is delivered")
    consumer.commit(message, asynchronous=False)
    group = kafka.group(GROUP)
    (member,) = group.members
    assert (member.client_id, member.instance_id) == ("billing/1", "one")
    assert member.partitions == (FIRST, SECOND)
    assert group.coordinator == kafka.coordinator(GROUP)
    assert kafka.committed(GROUP, PARTITIONS) == {SECOND: message.offset() + 1}
    consumer.close()
    wait_until(lambda: kafka.group(GROUP).members == (), 30, "the group still has a member")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_is_removed_from_its_group_leaves_its_partitions_to_the_others(cluster, kafka, protocol):
    if protocol == "consumer" and not kafka.supports(ConsumerGroupHeartbeatRequest.API_KEY, version=0):
        pytest.skip("this release has no groups of KIP-848")
    group = f"client-removed-{protocol}"
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": protocol}
    gone, stays = (Consumer({**config, "client.id": name}) for name in ("gone", "stays"))
    for consumer in (gone, stays):
        consumer.subscribe([TOPIC])

    def members():
        for consumer in (gone, stays):
            consumer.poll(0.1)
        state = kafka.group(group)
        return {m.client_id: m for m in state.members} if state and state.state == "Stable" else {}

    both = lambda: [m for m in members().values() if m.partitions]  # noqa: E731
    wait_until(lambda: len(both()) == 2, 60, members)
    admin.remove_members(kafka, group, [members()["gone"].member_id, "unknown"])

    def left():
        stays.poll(0.1)
        return [(m.client_id, m.partitions) for m in kafka.group(group).members]

    wait_until(lambda: left() == [("stays", (FIRST, SECOND))], 60, left)
    stays.close()


def test_a_member_that_is_removed_from_its_share_group_has_left(cluster, kafka):
    if not kafka.supports(ShareGroupHeartbeatRequest.API_KEY, version=1):
        pytest.skip("this release has no share groups")
    group = "client-removed-share"
    consumers = [
        ShareConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "client.id": n}) for n in "ab"
    ]
    for consumer in consumers:
        consumer.subscribe([TOPIC])

    def members():
        for consumer in consumers:
            consumer.poll(0.1)
        state = kafka.group(group)
        return {member.client_id: member.member_id for member in state.members} if state else {}

    found = wait_until(lambda: (now := members()).keys() == {"a", "b"} and now, 60, "the group lacks a member")
    admin.remove_members(kafka, group, [found["a"]])
    assert [member.member_id for member in kafka.group(group).members] == [found["b"]]
    for consumer in consumers:
        consumer.close()


def test_each_broker_that_does_not_list_a_topic_is_named(kafka):
    assert kafka.lacking([TOPIC]) == []
    assert kafka.lacking([TOPIC, "bills"]) == [f"broker {b} does not list bills" for b in (1, 2, 3)]


def test_all_own_settings_of_a_topic_are_removed_and_a_topic_that_is_gone_has_none(kafka):
    own = {"max.message.bytes": "4096", "retention.ms": "1000000"}
    changed = lambda: {name: value for name, (value, its) in admin.settings(kafka, TOPIC, own).items() if its}  # noqa: E731
    admin.set_settings(kafka, TOPIC, own)
    wait_until(lambda: changed() == own, 10, "the settings are not there")
    admin.reset_settings(kafka, TOPIC)
    wait_until(lambda: not changed(), 10, lambda: f"the topic still has {changed()}")
    admin.reset_settings(kafka, "gone")


def test_a_setting_that_only_one_broker_knows_yet_is_removed_too(monkeypatch):
    known = {1: [], 2: [SimpleNamespace(name="retention.ms", config_source=1)], 3: None}

    def ask(broker, _):
        configs = known[broker]
        return configs if configs is None else SimpleNamespace(results=[SimpleNamespace(configs=configs)])

    removed = []
    monkeypatch.setattr(admin, "set_settings", lambda kafka, topic, values: removed.append((topic, values)))
    admin.reset_settings(SimpleNamespace(metadata=lambda: SimpleNamespace(brokers=known), ask=ask), TOPIC)
    assert removed == [(TOPIC, {"retention.ms": None})]


def test_a_share_group_has_its_members_and_what_they_have_done(cluster, kafka):
    if kafka.supports(ShareGroupDescribeRequest.API_KEY, version=1) is False:
        wait_until(lambda: kafka.group("client-queue"), 60, "no broker is the coordinator")
        assert kafka.group("client-queue").state == "Dead" and kafka.done("client-queue", PARTITIONS) == {}
        return
    consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": "client-queue"})
    consumer.subscribe([TOPIC])
    producer, taken = Producer({"bootstrap.servers": cluster.bootstrap}), []

    def has_taken():  # a share group begins at the end of the log
        producer.produce(TOPIC, b"x", partition=0)
        assert producer.flush(30) == 0
        taken.extend(consumer.poll(0.5))
        return len(taken) >= 5

    wait_until(has_taken, 60, lambda: f"taken: {len(taken)}; {kafka.group('client-queue')}")
    state = kafka.group("client-queue")
    assert state.shares and state.state == "Stable" and state.members[0].partitions == tuple(PARTITIONS)
    ends = kafka.end_offsets([FIRST])

    def has_done():
        taken.extend(consumer.poll(0.5))
        return kafka.done("client-queue", [FIRST]) == ends

    wait_until(has_done, 60, lambda: f"{kafka.done('client-queue', [FIRST])} of {ends}")
    consumer.close()


def test_an_unknown_group_is_dead_and_has_no_commits(kafka):
    wait_until(lambda: kafka.coordinator("unknown") is not None, 30, "no coordinator")
    assert (kafka.group("unknown").state, kafka.group("unknown").members) == ("Dead", ())
    assert kafka.committed("unknown", PARTITIONS) == {}


def test_paused_brokers_do_not_prevent_answers(cluster, kafka):
    leader = kafka.metadata().partitions[FIRST].leader
    others = [b for b in cluster.broker_ids if b != leader]
    for broker in others:
        cluster.pause_broker(broker)
    try:
        assert kafka.metadata().partitions[FIRST].leader == leader
        assert FIRST in kafka.end_offsets([FIRST])
    finally:
        for broker in others:
            cluster.resume_broker(broker)

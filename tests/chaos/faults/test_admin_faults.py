"""Faults of topics, groups and leaders on a real cluster: injected, proven from outside, and healed twice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from chaos.cluster.process.driver import ProcessCluster
from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS
from chaos.faults.base import World
from chaos.faults.targets import led_partitions
from chaos.kafka import admin
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.observer import Observer
from chaos.run.directory import Run
from chaos.scenario.load import parse
from chaos.wait import wait_until

pytestmark = pytest.mark.kafka

SCENARIO = """
title: all faults of topics, groups and leaders
topics:
  - {name: orders, partitions: 2, replication_factor: 2}
  - {name: returns, partitions: 1, replication_factor: 3, later: true, config: {min.insync.replicas: 2}}
  - {name: refunds, partitions: 2, replication_factor: 2, config: {retention.ms: 3600000}}
producers: [{name: shop, topic: orders}]
consumers: [{mode: assign, name: replay, group: replay, topics: [orders]}]
faults:
  - {name: more, kind: topic.add_partitions, target: {topic: orders}, to: 3, when: {at: 0s}}
  - {name: make, kind: topic.create, target: {topic: returns}, when: {at: 0s}}
  - {name: set, kind: topic.config, target: {topic: orders}, settings: {retention.ms: 3600000}, when: {at: 0s}}
  - {name: few, kind: broker.config, target: {all_brokers: true}, settings: {max.connections: 200}, when: {at: 0s}}
  - {name: cut, kind: topic.delete_records, target: {partition: orders/0}, leave: 3, when: {at: 0s}}
  - {name: reset, kind: group.reset_offsets, target: {group: replay}, to: latest, when: {at: 0s}}
  - {name: forget, kind: group.delete_offsets, target: {group: replay}, when: {at: 0s}}
  - {name: again, kind: group.reset_offsets, target: {group: replay}, to: 4, when: {at: 0s}}
  - {name: drop, kind: group.delete, target: {group: replay}, when: {at: 0s}}
  - {name: move, kind: partition.reassign, target: {partition: orders/1}, when: {at: 0s}}
  - {name: prefer, kind: election.preferred, target: {topic: orders}, when: {at: 0s}}
  - {name: force, kind: election.unclean, target: {partition: orders/0}, when: {at: 0s}}
  - {name: delete, kind: topic.delete, target: {topic: returns}, when: {at: 0s}}
  - {name: renew, kind: topic.recreate, target: {topic: returns}, partitions: 2, when: {at: 0s}}
  - {name: remove, kind: topic.delete, target: {topic: returns}, create_again: false, when: {at: 0s}}
  - {name: wipe, kind: topic.delete, target: {topic: refunds}, when: {at: 0s}}
  - {name: late, kind: wire.produce, sends: after_abort, target: {partition: orders/1}, when: {at: 0s}}
  - {name: zombie, kind: wire.produce, sends: old_epoch, target: {partition: orders/1}, when: {at: 0s}}
  - {name: gap, kind: wire.produce, sends: sequence_gap, target: {partition: orders/1}, when: {at: 0s}}
expect: {}
"""
PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
RECORDS = 10


@pytest.fixture(scope="module")
def world(three_brokers: ProcessCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    scenario = parse(SCENARIO, "admin.yaml")
    run = Run.create(tmp_path_factory.mktemp("runs"), "admin-faults")
    cluster = three_brokers
    kafka = Kafka(cluster.bootstrap)
    admin.create_topic(kafka, "orders", 2, 2, {})
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(RECORDS):
        producer.produce("orders", b"x", partition=0)
        producer.produce("orders", b"x", partition=1)
    assert producer.flush(30) == 0
    with Observer(run, lambda: Kafka(cluster.bootstrap), PARTITIONS, ["replay"], ["returns"]) as observer:
        wait_until(lambda: observer.metadata, 30, "nothing is observed")
        fleet: Any = SimpleNamespace()
        yield World(scenario, cluster, fleet, observer, kafka, random.Random(1), run=run)
    kafka.close()


def build(world: World, name: str) -> Any:
    spec = next(f for f in world.scenario.faults if f.name == name)
    return FAULTS[spec.kind](spec)


def run(world: World, name: str) -> str:
    """Inject a fault, wait for its proof, heal it twice, and return the proof."""
    fault = build(world, name)
    assert fault.proof(world) is None, "a proof before the fault proves nothing"
    assert fault.heal(world) == "nothing to heal"
    fault.inject(world)
    proof = wait_until(lambda: fault.proof(world), 30, f"{name} is not proven")
    assert fault.heal(world) == fault.heal(world)
    assert fault.resolved
    return str(proof)


def in_sync(topic: str, world: World) -> list[int]:
    """Return the number of in-sync replicas of each partition."""
    metadata = world.kafka.metadata()
    return [len(state.isr) for p, state in metadata.partitions.items() if p.topic == topic] if metadata else []


def test_topics_change_while_clients_use_them(world: World) -> None:
    assert run(world, "more") == "orders has 3 partitions, all with a leader"
    third, made = TopicPartition("orders", 2), TopicPartition("returns", 0)
    wait_until(lambda: third in world.observer.partitions(), 10, "the observer does not find it")
    assert run(world, "make") == "returns exists with 1 partitions"
    wait_until(lambda: made in world.observer.partitions(), 10, "the observer does not find it")
    assert run(world, "set") == "orders has retention.ms=3600000"
    former = {"retention.ms": ("604800000", False)}  # a broker may answer before it has applied the change
    wait_until(lambda: admin.settings(world.kafka, "orders", ["retention.ms"]) == former, 10, "its setting is not back")
    with pytest.raises(ClusterError, match="InvalidPartitions"):
        build(world, "more").inject(world)


def test_settings_of_brokers_change_while_they_run(world: World) -> None:
    assert run(world, "few") == "broker 1, broker 2, broker 3 report max.connections=200"
    for broker in (1, 2, 3):
        assert admin.dynamic_of_broker(world.kafka, broker, ["max.connections"]) == {}


def test_quotas_of_a_client_id_are_set_and_removed(world: World) -> None:
    assert admin.quotas(world.kafka, "shop/1") == {}
    rates = {"producer_byte_rate": 2048.0, "consumer_byte_rate": 1024.0}
    admin.set_quotas(world.kafka, "shop/1", rates)
    wait_until(lambda: admin.quotas(world.kafka, "shop/1") == rates, 10, "the quotas are not listed")
    admin.set_quotas(world.kafka, "shop/1", {"producer_byte_rate": None})
    wait_until(
        lambda: admin.quotas(world.kafka, "shop/1") == {"consumer_byte_rate": 1024.0}, 10, "one quota is still listed"
    )
    for _ in range(2):  # a quota that is gone counts as removed
        admin.set_quotas(world.kafka, "shop/1", dict.fromkeys(rates))
    wait_until(lambda: admin.quotas(world.kafka, "shop/1") == {}, 10, "the quotas are still listed")


def test_records_are_deleted_up_to_an_offset(world: World) -> None:
    assert run(world, "cut") == f"orders/0 begins at offset {RECORDS - 3}"
    with pytest.raises(FaultError, match="no record below"):
        build(world, "cut").inject(world)


def test_offsets_of_a_group_are_reset_and_deleted(world: World) -> None:
    with pytest.raises(FaultError, match="nothing"):
        build(world, "drop").inject(world)
    run(world, "reset")
    assert world.kafka.committed("replay", PARTITIONS) == dict.fromkeys(PARTITIONS, RECORDS)
    run(world, "forget")
    assert world.kafka.committed("replay", PARTITIONS) == {}
    run(world, "again")
    assert "Dead" in run(world, "drop")


def test_a_partition_moves_and_its_preferred_replica_is_elected(world: World) -> None:
    before = world.kafka.metadata()
    assert before
    assert "all in sync" in run(world, "move")
    moved = wait_until(lambda: world.observer.partition(PARTITIONS[1]), 10, "orders/1 is not observed")
    assert moved.replicas != before.partitions[PARTITIONS[1]].replicas
    if moved.leader != moved.replicas[0]:
        assert "the preferred one" in run(world, "prefer")
    with pytest.raises(FaultError, match="already"):
        build(world, "prefer").inject(world)


def test_an_unclean_election_needs_a_partition_without_leader(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.faults.replicas.LEADERLESS_TIMEOUT_S", 1.0)
    with pytest.raises(FaultError, match="nothing to elect"):
        build(world, "force").inject(world)


def test_a_topic_is_deleted_and_created_again(world: World) -> None:
    fault = build(world, "delete")
    fault.inject(world)
    wait_until(lambda: fault.proof(world), 30, "the topic still exists")
    assert fault.heal(world) == fault.heal(world) == "returns exists again, empty"
    first = fault.evidence
    assert first["former_id"] != first["topic_id"]
    assert "with 2 partitions" in run(world, "renew")
    second, last = TopicPartition("returns", 1), build(world, "remove")
    wait_until(lambda: second in world.observer.partitions(), 10, "the observer does not find the new topic")
    last.inject(world)
    assert last.evidence["former_id"] not in first.values()
    assert wait_until(lambda: last.proof(world), 30, "the topic still exists") == "returns is gone from the metadata"
    assert last.heal(world) == "returns stays deleted"
    wait_until(lambda: second not in world.observer.partitions(), 10, "the observer still lists it")


@pytest.mark.parametrize(
    ("partitions", "replicas", "outcome"),
    [
        (1, 2, "refunds exists again, created by a client with 1 of 2 partitions, and extended"),
        (1, 1, "refunds exists again, created by a client with 1 of 2 partitions and 1 of 2 replicas, and extended"),
        (2, 1, "refunds exists again, created by a client with 1 of 2 replicas, and extended"),
        (3, 2, "a client created refunds first, with 3 partitions; set auto.create.topics.enable: false"),
    ],
)
def test_a_topic_that_a_client_creates_before_the_heal_is_extended_or_named(
    world: World, partitions: int, replicas: int, outcome: str
) -> None:
    fault = build(world, "wipe")
    admin.create_topic(world.kafka, "refunds", 2, 2, {})
    wait_until(lambda: led_partitions("refunds", world), 10, "the topic is not there")
    fault.inject(world)
    wait_until(lambda: fault.proof(world), 30, "the topic still exists")
    admin.create_topic(world.kafka, "refunds", partitions, replicas, {})
    if outcome.startswith("refunds"):
        assert fault.heal(world) == outcome
        assert len(led_partitions("refunds", world)) == 2
        assert in_sync("refunds", world) == [2, 2], "a fault after the heal finds all replicas"
        assert admin.settings(world.kafka, "refunds", ["retention.ms"]) == {"retention.ms": ("3600000", True)}
    else:
        with pytest.raises(FaultError, match=outcome):
            fault.heal(world)
    admin.delete_topics(["refunds"]).apply(world.kafka)
    wait_until(lambda: not led_partitions("refunds", world), 10, "the topic is still there")


def test_a_broker_refuses_what_no_client_library_sends(world: World) -> None:
    assert run(world, "late").endswith("a record of an aborted transaction: refused with INVALID_TXN_STATE")
    assert run(world, "zombie").endswith("a record with a fenced producer epoch: refused with INVALID_PRODUCER_EPOCH")
    assert run(world, "gap").endswith("after one with sequence 0: refused with OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert build(world, "late").proof(world) is None, "each fault has its own answer"

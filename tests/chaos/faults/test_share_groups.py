"""Faults of share groups without a cluster: what proves them, and what does not."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.faults import FAULTS
from chaos.kafka import admin
from chaos.kafka.client import GroupMember, GroupState, SharePosition
from chaos.kafka.partition import TopicPartition
from chaos.scenario.load import parse

PARTITION = TopicPartition("orders", 0)
SCENARIO = """
title: t
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: share, name: worker, group: workers, members: 2, topics: [orders], client: javaRELEASE}]
faults: [{name: f, FAULT, when: {acked: 1}}]
"""


@dataclass
class Client:
    """A member and its counts."""

    counts: dict[str, int] = field(default_factory=dict)
    alive: bool = True

    def count(self, name: str) -> int:
        return self.counts.get(name, 0)


class World:
    """A share group of two members that have the same partition."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fault: str, release: str = "") -> None:
        self.scenario = parse(SCENARIO.replace("FAULT", fault).replace("RELEASE", release), "t.yaml")
        self.members = {"worker/1": "m1", "worker/2": "m2"}
        self.clients = {name: Client() for name in self.members}
        self.starts: dict[TopicPartition, int] = {PARTITION: 3}
        self.coordinator: int | None = 1
        self.orders: list[dict[str, Any]] = []
        self.rng, self.access, self.proxy = random.Random(0), None, None
        self.controller_ids: tuple[int, ...] = ()
        self.kafka = self.fleet = self.cluster = self
        self.observer = SimpleNamespace(metadata=None, partitions=self.partitions)
        monkeypatch.setattr("chaos.kafka.client.share_positions", lambda kafka, group, partitions: self.positions())
        monkeypatch.setattr("chaos.kafka.client.share_coordinator", lambda kafka, group, partition: self.coordinator)
        self.fault = FAULTS[self.scenario.faults[0].kind](self.scenario.faults[0])

    def group(self, name: str) -> GroupState:
        members = [GroupMember(i, None, client, "", (PARTITION,)) for client, i in self.members.items()]
        return GroupState("Stable", 1, tuple(members))

    def positions(self) -> dict[TopicPartition, SharePosition]:
        return {partition: SharePosition(start, 0) for partition, start in self.starts.items()}

    def present(self, entry: str) -> list[str]:
        return list(self.clients)

    def state(self, client: str) -> Client:
        return self.clients[client]

    def crash(self, client: str) -> None:
        self.clients[client].alive = False

    def order(self, client: str, order: dict[str, Any]) -> None:
        self.orders.append(order)

    def partitions(self, topics: set[str]) -> list[TopicPartition]:
        return [PARTITION]

    def end_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        return {PARTITION: 9}

    def metadata(self) -> Any:
        return SimpleNamespace(partitions={}, topic_ids={"orders": "id"})

    def kill_broker(self, broker: int) -> None:
        self.coordinator = None


CRASH = "kind: consumer.crash, target: {member: worker/1}"
SLOW = "kind: consumer.slow, per_record: 1s, target: {member: worker/1}"


def test_a_partition_that_another_member_has_too_is_no_proof_of_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, CRASH)
    world.fault.inject(world)
    assert world.fault.proof(world) is None, "worker/2 had the partition before"
    del world.members["worker/1"]
    assert world.fault.proof(world) == "worker/1 left group workers"


def test_locks_that_expire_prove_a_slow_member(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, SLOW)
    world.clients["worker/2"].counts["again"] = 4
    world.fault.inject(world)
    assert world.fault.proof(world) is None, "others got records again before the fault"
    world.clients["worker/1"].counts["again"] = 9
    assert world.fault.proof(world) is None, "those that it got itself do not count"
    world.clients["worker/2"].counts["again"] = 6
    assert world.fault.proof(world) == "locks of worker/1 expired: 2 records went to others"


def test_released_records_do_not_prove_a_slow_member_but_a_refusal_does(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, SLOW, ", release_every: 5")
    world.fault.inject(world)
    world.clients["worker/2"].counts["again"] = 6
    assert world.fault.proof(world) is None
    world.clients["worker/1"].counts["refused"] = 1
    assert world.fault.proof(world)


def test_start_offsets_are_proven_by_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "kind: share.reset_offsets, to: latest, target: {group: workers}")
    asked: list[Any] = []
    monkeypatch.setattr(admin, "alter_share_offsets", lambda kafka, group, starts: asked.append(starts))
    assert world.fault.inject(world) == "set workers to orders/0: 9"
    assert asked == [{PARTITION: 9}]
    assert world.fault.evidence["offsets"] == {"orders/0": 9}
    assert world.fault.proof(world) is None
    world.starts[PARTITION] = 9
    assert world.fault.proof(world) == "group workers has the start offsets that it was set to"


def test_a_share_coordinator_is_found_and_its_move_proves_the_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "kind: coordinator.kill, target: {share_coordinator_of: workers}")
    assert world.fault.inject(world).endswith("the share coordinator of group workers")
    assert world.fault.proof(world) is None
    world.coordinator = 2
    assert world.fault.proof(world) == "the share coordinator of group workers went from broker 1 to 2"

"""Faults of rights, without brokers: the proof, a proof that must be missing, and the heal after half an injection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS, security
from chaos.kafka import acls
from chaos.kafka.acls import Right
from chaos.kafka.security import ClusterSecurity, Security
from chaos.scenario.load import parse

SCENARIO = """
title: rights
cluster: {brokers: 2, security: {protocol: SASL_SSL, mechanism: PLAIN, acls: true}}
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: assign, name: replay, topics: [orders]}]
faults:
  - {name: taken, kind: acl.withdraw, target: {topic: orders}, operation: OPERATION, when: {acked: 1}}
"""


class Client:
    def __init__(self) -> None:
        self.client, self.failed = "shop/1", 0

    def count(self, name: str) -> int:
        return self.failed if name == "failed" else 0


class Brokers:
    """What each broker allows clients, and which rights are taken and given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.allowed: dict[int, set[str] | None] = {1: {"read", "write"}, 2: {"read", "write"}}
        self.taken: list[Right] = []
        self.refuses = False
        monkeypatch.setattr(security, "Kafka", lambda *_, **__: SimpleNamespace(close=lambda: None))
        monkeypatch.setattr(security, "Access", SimpleNamespace(of=lambda _: None))
        monkeypatch.setattr(security, "HEAL_S", 0.3)
        monkeypatch.setattr(acls, "allowed", lambda _, broker, topic: self.allowed[broker])
        monkeypatch.setattr(acls, "withdraw", self._withdraw)
        monkeypatch.setattr(acls, "grant", self._grant)

    def _withdraw(self, _: Any, principal: str, rights: list[Right]) -> None:
        assert principal == "User:client"
        self.taken += rights
        if self.refuses:
            raise ClusterError("no broker answers")

    def _grant(self, _: Any, principal: str, rights: list[Right]) -> None:
        self.taken = [right for right in self.taken if right not in rights]


def made(operation: str = "write", secured: bool = True) -> tuple[Any, Any, Client]:
    scenario = parse(SCENARIO.replace("OPERATION", operation), "t.yaml")
    way = SimpleNamespace(spec=ClusterSecurity(protocol="SASL_SSL", mechanism="PLAIN", acls=True), clients=Security())
    cluster = SimpleNamespace(bootstrap="", broker_ids=[1, 2], state=SimpleNamespace(secured=way if secured else None))
    client = Client()
    fleet = SimpleNamespace(present=lambda _: ["shop/1"], state=lambda _: client)
    world: Any = SimpleNamespace(scenario=scenario, cluster=cluster, fleet=fleet, kafka=None)
    return FAULTS["acl.withdraw"](scenario.faults[0]), world, client


def test_a_right_is_gone_when_every_broker_denies_it_and_a_send_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, (fault, world, client) = Brokers(monkeypatch), made()
    client.failed = 3
    assert fault.proof(world) is None and fault.heal(world) == "nothing to heal"
    assert fault.inject(world) == "took the right to write orders from the clients"
    assert brokers.taken == [Right("topic", "orders", "write")]
    client.failed = 5
    assert fault.proof(world) is None, "brokers still allow it"
    brokers.allowed[1] = {"read"}
    assert fault.proof(world) is None, "broker 2 still allows it"
    brokers.allowed[2] = None
    assert fault.proof(world) is None, "broker 2 does not answer"
    brokers.allowed[2] = set()
    client.failed = 3
    assert fault.proof(world) is None, "no send was refused since"
    client.failed = 7
    assert fault.proof(world) == (
        "every broker denies clients to write orders; not acknowledged since: 4 sends of shop/1"
    )
    brokers.allowed = {1: {"write"}, 2: {"write"}}
    assert fault.heal(world) == fault.heal(world) == "every broker allows clients to write orders again"
    assert brokers.taken == []


def test_a_right_to_read_needs_no_send(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, (fault, world, _) = Brokers(monkeypatch), made("read")
    fault.inject(world)
    assert brokers.taken == [Right("topic", "orders", "read")]
    brokers.allowed = {1: {"write"}, 2: {"write"}}
    assert fault.proof(world) == "every broker denies clients to read orders"


def test_an_injection_that_failed_half_way_is_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, (fault, world, _) = Brokers(monkeypatch), made()
    brokers.refuses = True
    with pytest.raises(ClusterError, match="no broker answers"):
        fault.inject(world)
    assert brokers.taken and "again" in fault.heal(world) and not brokers.taken


def test_a_right_that_does_not_come_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, (fault, world, _) = Brokers(monkeypatch), made()
    fault.inject(world)
    brokers.allowed[2] = {"read"}
    with pytest.raises(ClusterError, match="broker 2 still denies clients to write orders after"):
        fault.heal(world)


def test_what_clients_may_not_do_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, (fault, world, _) = Brokers(monkeypatch), made()
    brokers.allowed[2] = {"read"}
    with pytest.raises(FaultError, match="broker 2 does not allow clients to write orders before"):
        fault.inject(world)
    assert not brokers.taken and fault.heal(world) == "nothing to heal"
    fault, world, _ = made(secured=False)
    with pytest.raises(FaultError, match="no security that Aftershock set up"):
        fault.inject(world)

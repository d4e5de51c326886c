"""Faults of rights and passwords, without brokers: proof, missing proof, and the heal after half an injection."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS, security
from chaos.kafka import users
from chaos.kafka.security import ClusterSecurity, Security
from chaos.kafka.users import Right
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
        monkeypatch.setattr("chaos.kafka.client.Kafka", lambda *_, **__: SimpleNamespace(close=lambda: None))
        monkeypatch.setattr(security, "Access", SimpleNamespace(of=lambda _: None))
        monkeypatch.setattr(security, "HEAL_S", 0.3)
        monkeypatch.setattr(users, "allowed", lambda _, broker, topic: self.allowed[broker])
        monkeypatch.setattr(users, "withdraw", self._withdraw)
        monkeypatch.setattr(users, "grant", self._grant)

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


CHANGE = """
title: passwords
cluster: {brokers: 2, security: {protocol: SASL_PLAINTEXT, mechanism: SCRAM-SHA-512}}
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: assign, name: replay, topics: [orders]}]
faults: [{name: change, kind: credential.change, target: {all_brokers: true}, when: {acked: 1}}]
"""


class Passwords:
    """The password of the clients at each broker."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.at, self.given, self.slow = {1: "first", 2: "first"}, list[str](), set[int]()
        self.down = False
        (tmp_path / "password").write_text("first")
        clients = Security(
            protocol="SASL_PLAINTEXT",
            mechanism="SCRAM-SHA-512",
            username="client",
            password=f"file:{tmp_path}/password",
        )
        spec = ClusterSecurity(protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-512")
        state = SimpleNamespace(secured=SimpleNamespace(spec=spec, clients=clients))
        cluster = SimpleNamespace(broker_ids=[1, 2], state=state, address=lambda b: ("h", b))
        self.world: Any = SimpleNamespace(cluster=cluster, kafka=None)
        self.fault: Any = FAULTS["credential.change"](parse(CHANGE, "t.yaml").faults[0])
        monkeypatch.setattr(users, "set_password", self._set)
        monkeypatch.setattr("chaos.kafka.connection.login_refusal", self._refusal)
        monkeypatch.setattr("chaos.kafka.connection.login_works", lambda *args: self._refusal(*args) is None)
        monkeypatch.setattr(security, "HEAL_S", 0.3)

    def _set(self, _: Any, user: str, mechanism: str, password: str) -> None:
        assert (user, mechanism) == ("client", "SCRAM-SHA-512")
        self.given.append(password)
        self.at |= {broker: password for broker in self.at if broker not in self.slow}
        if self.down:
            raise ClusterError("no broker answers")

    def _refusal(self, host: str, port: int, timeout_s: float, access: Any) -> str | None:
        return None if access.password == self.at[port] else "SASL refused client at h: invalid credentials"


def test_a_password_is_changed_when_every_broker_refuses_the_former(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    passwords = Passwords(monkeypatch, tmp_path)
    fault, world = passwords.fault, passwords.world
    assert fault.proof(world) is None and fault.heal(world) == "nothing to heal"
    passwords.slow = {2}
    outcome = fault.inject(world)
    assert len(passwords.given[0]) >= 32 and passwords.given[0] not in outcome
    assert fault.proof(world) is None, "broker 2 still takes the former password"
    passwords.at[2] = "another"
    assert fault.proof(world) is None, "broker 2 takes neither"
    passwords.at[2] = passwords.given[0]
    assert fault.proof(world) == ("every broker refuses a login with the password of the clients: invalid credentials")
    assert passwords.given[0] not in repr(fault.evidence)
    with pytest.raises(ClusterError, match="broker 2 still refuses the password of the clients"):
        fault.heal(world)
    passwords.slow = set()
    assert (
        fault.heal(world) == fault.heal(world) == "every broker takes the password of the clients for user client again"
    )
    assert set(passwords.at.values()) == {"first"}


def test_a_change_of_passwords_that_failed_half_way_is_healed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    passwords = Passwords(monkeypatch, tmp_path)
    passwords.down = True
    with pytest.raises(ClusterError, match="no broker answers"):
        passwords.fault.inject(passwords.world)
    passwords.down = False
    passwords.fault.heal(passwords.world)
    assert set(passwords.at.values()) == {"first"}


def test_a_password_that_is_refused_before_cannot_be_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    passwords = Passwords(monkeypatch, tmp_path)
    passwords.at[2] = "another"
    with pytest.raises(FaultError, match="broker 2 does not take the password of the clients before the fault"):
        passwords.fault.inject(passwords.world)
    assert not passwords.given

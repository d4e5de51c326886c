"""Faults of certificates, without brokers: real files, and listeners that load them when a setting is altered."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509

from chaos.cluster.secured import credentials
from chaos.cluster.secured.certificates import common_name
from chaos.cluster.secured.settings import CA, STORE
from chaos.cluster.state import ClusterState, NodeState
from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS, security
from chaos.kafka import admin
from chaos.kafka.connection import Presented, short_serial
from chaos.kafka.security import ClusterSecurity
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.scenario.load import parse

SCENARIO = """
title: certificates
cluster: {brokers: 2, security: {protocol: SSL, client_certificates: true}}
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: assign, name: replay, topics: [orders]}]
faults: [{name: new, when: {acked: 1}, FAULT}]
"""
ROTATE = "kind: certificate.rotate, target: {all_brokers: true}"
EXPIRE = "kind: certificate.expire, target: {broker: 2}"
SPEC = ClusterSecurity(protocol="SSL", client_certificates=True)


def certificate_in(path: Path) -> x509.Certificate:
    pem = path.read_bytes()
    return x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERT") :])


class Brokers:
    """Two brokers: what each of their ports presents, and which settings they got, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, run: Run, fault: str) -> None:
        homes = {b: run.brokers / str(b) for b in (1, 2)}
        for home in homes.values():
            home.mkdir(parents=True)
        self.homes, self.altered, self.dynamic = homes, list[tuple[int, list[str]]](), dict[int, dict[str, str]]()
        self.loads = True
        secured = credentials.make(run, SPEC, homes, ["127.0.0.1", "localhost"])
        self.presents = {10 * b + n: certificate_in(homes[b] / STORE) for b in homes for n in range(3)}
        me = ProcessId.current()
        nodes = [NodeState(id=b, kafka="4.3.1", host="h", port=10 * b, behind=[10 * b + 1]) for b in homes]
        for node in nodes:
            node.controller_port = 10 * node.id + 2
        common = {"kafka": "4.3.1", "cluster_id": "c", "bootstrap": "h:10", "heap_bytes": 0}
        state = ClusterState(**common, owner=me, reaper=me, brokers=nodes, secured=secured)
        cluster = SimpleNamespace(
            run=run,
            state=state,
            bootstrap="h:10",
            broker_ids=[1, 2],
            controller_ids=[],
            address=lambda b: ("h", 10 * b),
        )
        scenario = parse(SCENARIO.replace("FAULT", fault), "t.yaml")
        self.world: Any = SimpleNamespace(scenario=scenario, cluster=cluster, kafka=None, rng=None)
        self.fault: Any = FAULTS[scenario.faults[0].kind](scenario.faults[0])
        monkeypatch.setattr("chaos.kafka.client.Kafka", lambda *_, **__: SimpleNamespace(close=lambda: None))
        monkeypatch.setattr("chaos.kafka.connection.presented_certificate", self._presented)
        monkeypatch.setattr("chaos.kafka.connection.certificate_refusal", self._refusal)
        monkeypatch.setattr(security, "LOADED_S", 0.3)
        monkeypatch.setattr(admin, "set_of_broker", self._set)
        monkeypatch.setattr(admin, "dynamic_of_broker", self._dynamic)

    def _presented(self, host: str, port: int, timeout_s: float) -> Presented:
        found = self.presents.get(port)
        if found is None:
            raise ConnectionRefusedError
        return Presented(found.serial_number, common_name(found.issuer), found.not_valid_after_utc)

    def _dynamic(self, _: object, broker: int, names: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in self.dynamic.get(broker, {}).items() if name in names}

    def _refusal(self, host: str, port: int, timeout_s: float, access: object) -> str | None:
        late = self.presents[port].not_valid_after_utc < datetime.datetime.now(datetime.UTC)
        return "certificate has expired" if late else None

    def _set(self, _: object, broker: int, values: Mapping[str, str]) -> None:
        self.altered.append((broker, sorted(values)))
        if not self.loads:
            raise ClusterError("no broker answers")
        self.dynamic.setdefault(broker, {}).update(values)
        for n, name in enumerate(("client", "peers", "controller")):
            if path := values.get(f"listener.name.{name}.ssl.keystore.location"):
                self.presents[10 * broker + n] = certificate_in(self.homes[broker] / path)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, "r")


def test_a_certificate_is_rotated_when_every_listener_presents_it(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    brokers = Brokers(monkeypatch, run, ROTATE)
    before = dict(brokers.presents)
    assert brokers.fault.proof(brokers.world) is None and brokers.fault.heal(brokers.world) == "nothing to heal"
    assert "gave broker 1, broker 2 new certificates of aftershock-ca" in brokers.fault.inject(brokers.world)
    assert [broker for broker, _ in brokers.altered] == [1, 2]
    proof = brokers.fault.proof(brokers.world)
    assert proof and f"before: {short_serial(before[20].serial_number)}" in proof
    assert set(brokers.fault.evidence["certificates"]) == {"broker 1", "broker 2"}
    for port, old in before.items():
        new = brokers.presents[port]
        assert new.serial_number != old.serial_number and new.subject == old.subject
        names = [c.extensions.get_extension_for_class(x509.SubjectAlternativeName) for c in (old, new)]
        assert names[0] == names[1], "Kafka refuses other names"
    brokers.presents[22] = before[22]
    assert brokers.fault.proof(brokers.world) is None, "one listener has the old certificate"
    assert "stay" in brokers.fault.heal(brokers.world)


def test_all_brokers_trust_another_authority_before_one_presents_it(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    brokers = Brokers(monkeypatch, run, f"{ROTATE}, authority: other")
    assert "of aftershock-next-ca" in brokers.fault.inject(brokers.world)
    stores = [(b, names[0].rpartition(".ssl.")[2]) for b, names in brokers.altered]
    assert stores == [
        (1, "truststore.location"),
        (2, "truststore.location"),
        (1, "keystore.location"),
        (2, "keystore.location"),
    ]
    assert all((home / CA).read_bytes().count(b"BEGIN CERT") == 2 for home in brokers.homes.values())
    assert {common_name(c.issuer) for c in brokers.presents.values()} == {"aftershock-next-ca"}
    again = FAULTS["certificate.rotate"](brokers.world.scenario.faults[0])
    assert "of aftershock-ca" in again.inject(brokers.world), "a lent cluster may have the other authority already"


def test_an_expired_certificate_is_refused_and_renewed(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    brokers = Brokers(monkeypatch, run, EXPIRE)
    before = dict(brokers.presents)
    brokers.fault.inject(brokers.world)
    changed = [port for port, certificate in brokers.presents.items() if certificate != before[port]]
    assert changed == [20], "brokers still trust each other"
    expired = brokers.presents[20]
    assert "refuses it: certificate has expired" in brokers.fault.proof(brokers.world)
    brokers.presents[20] = before[20]
    assert brokers.fault.proof(brokers.world) is None, "the broker has not loaded it"
    brokers.presents[20] = expired
    assert brokers.fault.heal(brokers.world) == "broker 2 presents a valid certificate again"
    assert brokers.presents[20].not_valid_after_utc > datetime.datetime.now(datetime.UTC)
    assert brokers.fault.proof(brokers.world) is None


def test_a_certificate_that_is_still_valid_proves_nothing(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    brokers = Brokers(monkeypatch, run, f"{EXPIRE}, after: 10s")
    brokers.fault.inject(brokers.world)
    assert brokers.fault.proof(brokers.world) is None


def test_an_injection_that_failed_half_way_is_healed(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    brokers = Brokers(monkeypatch, run, EXPIRE)
    brokers.loads = False
    with pytest.raises(ClusterError, match="no broker answers"):
        brokers.fault.inject(brokers.world)
    brokers.loads = True
    assert "valid certificate again" in brokers.fault.heal(brokers.world)


def test_a_broker_that_loads_no_renewed_certificate_is_an_error(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    brokers = Brokers(monkeypatch, run, EXPIRE)
    brokers.fault.inject(brokers.world)
    monkeypatch.setattr(admin, "set_of_broker", lambda *_: None)
    with pytest.raises(ClusterError, match="broker 2 does not present its renewed certificate"):
        brokers.fault.heal(brokers.world)


def test_a_broker_without_a_certificate_is_no_target(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    brokers = Brokers(monkeypatch, run, EXPIRE)
    del brokers.presents[20]
    with pytest.raises(FaultError, match="broker 2 presented no certificate before the fault"):
        brokers.fault.inject(brokers.world)
    assert not brokers.altered and brokers.fault.heal(brokers.world) == "nothing to heal"

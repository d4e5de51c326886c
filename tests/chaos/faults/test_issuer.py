"""The stop of an issuer of tokens: its proof, a proof that must be missing, and its heal."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.cluster.secured import issuer
from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS, security
from chaos.kafka import tokens
from chaos.kafka.security import Security
from chaos.run.directory import Run
from chaos.scenario.load import parse

SCENARIO = """
title: tokens
cluster: {brokers: 2, security: {protocol: SASL_PLAINTEXT, mechanism: OAUTHBEARER}}
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: assign, name: replay, topics: [orders]}]
faults: [{name: stop, kind: issuer.stop, target: {all_brokers: true}, when: {acked: 1}}]
"""


class Issuer:
    """An issuer that is up or down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.up, self.found, self.starts = True, True, 0
        (tmp_path / "password").write_text("secret-Xk3vQ9")
        fields = {"username": "client", "password": f"file:{tmp_path}/password", "token_endpoint": "http://h:1/token"}
        clients = Security(protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", **fields)
        state = SimpleNamespace(secured=SimpleNamespace(clients=clients), owner=None)
        self.world: Any = SimpleNamespace(cluster=SimpleNamespace(state=state, run=Run.create(tmp_path, "r")))
        self.fault: Any = FAULTS["issuer.stop"](parse(SCENARIO, "t.yaml").faults[0])
        monkeypatch.setattr(tokens, "fetch", self._fetch)
        monkeypatch.setattr(issuer, "stop", self._stop)
        monkeypatch.setattr(issuer, "start", self._start)
        monkeypatch.setattr(security, "HEAL_S", 0.3)
        self.broken = False

    def _fetch(self, endpoint: str, client: str, secret: str, timeout_s: float) -> str:
        assert (endpoint, client, secret) == ("http://h:1/token", "client", "secret-Xk3vQ9")
        if not self.up:
            raise ConnectionRefusedError(111, "Connection refused")
        return "token"

    def _stop(self, _: Run) -> int:
        self.up = self.up and not self.found
        return int(self.found)

    def _start(self, *_: object) -> None:
        self.starts, self.up = self.starts + 1, not self.broken


def test_an_issuer_is_stopped_when_nobody_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    at = Issuer(monkeypatch, tmp_path)
    assert at.fault.proof(at.world) is None and at.fault.heal(at.world) == "nothing to heal"
    assert at.fault.inject(at.world) == "stopped the issuer http://h:1/token"
    assert at.fault.proof(at.world) == "clients get no tokens: [Errno 111] Connection refused"
    at.up = True
    assert at.fault.proof(at.world) is None, "it answers"
    at.up = False
    assert at.fault.heal(at.world) == at.fault.heal(at.world) == "the issuer http://h:1/token gives tokens again"
    assert at.starts == 1


def test_an_issuer_that_is_down_or_has_no_process_is_no_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    at = Issuer(monkeypatch, tmp_path)
    at.up = False
    with pytest.raises(FaultError, match=r"gave no token before the fault: .*refused"):
        at.fault.inject(at.world)
    assert at.fault.heal(at.world) == "nothing to heal"
    at.up, at.found = True, False
    with pytest.raises(FaultError, match="answers, but its process was not found"):
        at.fault.inject(at.world)
    assert "again" in at.fault.heal(at.world) and at.starts == 0


def test_an_issuer_that_does_not_come_back_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    at = Issuer(monkeypatch, tmp_path)
    at.fault.inject(at.world)
    at.broken = True
    with pytest.raises(ClusterError, match="gives no token after its start"):
        at.fault.heal(at.world)

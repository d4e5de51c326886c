"""Faults of clocks without a cluster: conditions of the proofs, and heals."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.cluster.brokers.clock_reading import ClockReading, read_clock
from chaos.errors import ClusterError, FaultError
from chaos.faults import FAULTS, SPECS, clocks
from chaos.faults.base import World
from chaos.faults.clocks import ClientClock, NodeClock, Stamp
from chaos.kafka.partition import TopicPartition
from chaos.ledger.record import IDENTITY_HEADER, RUN_WIDTH, Identity, encode
from chaos.preload.libraries import RIGHT, Skew
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.setup.triggers import Target, Trigger

JUMP = {"kind": "clock.jump", "by": "+2h"}
SKEW = {"kind": "clock.skew", "ahead": "-5m"}


class Cluster:
    """Brokers with clocks. `width_s`: how inexact a reading is. `deaf`: those that set no clock."""

    driver = SimpleNamespace(driver="fake")

    def __init__(self) -> None:
        self.skews = dict.fromkeys((1, 2, 3), RIGHT)
        self.since = dict.fromkeys((1, 2, 3), 0.0)
        self.controller_ids: list[int] = []
        self.broker_ids = [1, 2, 3]
        self.width_s = 0.01
        self.deaf: set[int] = set()
        self.silent: set[int] = set()
        self.acts: list[str] = []
        self.state = self.driver

    def set_clock(self, node: int, skew: Skew) -> None:
        self.skews[node], self.since[node] = skew, time.time()

    def clock_ahead_s(self, node: int) -> float:
        skew = self.skews[node]
        return skew.ahead_s + skew.drift * (time.time() - self.since[node])

    def broker_alive(self, broker: int) -> bool:
        return True

    def stop_broker(self, broker: int) -> None:
        self.acts.append(f"stop {broker}")

    def start_broker(self, broker: int) -> None:
        self.acts.append(f"start {broker}")

    def start_brokers(self, brokers: Any) -> None:
        raise AssertionError("one by one")

    def reading(self, node: int) -> ClockReading | None:
        if node in self.silent:
            return None
        ahead = 0.0 if node in self.deaf else self.clock_ahead_s(node)
        return ClockReading(ahead - self.width_s, ahead + self.width_s)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(NodeClock, "read", lambda clock: clock.world.cluster.reading(clock.node))
    monkeypatch.setattr(clocks, "READ_TIMEOUT_S", 0.1)
    kafka = SimpleNamespace(
        metadata=lambda: SimpleNamespace(partitions={}), unhealthy=lambda _: [], controller=lambda: (2, 1)
    )
    return World(SimpleNamespace(), Cluster(), None, None, kafka, random.Random(1))  # type: ignore[arg-type]


def fault_of(values: dict[str, Any], **target: Any) -> Any:
    spec = SPECS[values["kind"]]
    return FAULTS[values["kind"]](
        spec.model_validate(
            {"name": "f", **values, "target": Target(**(target or {"broker": 2})), "when": Trigger(at=0)}
        )
    )


def test_a_jump_is_proven_by_the_clock_that_the_node_shows_and_healed_by_a_step_back(world: Any) -> None:
    fault = fault_of(JUMP)
    assert "stepped the clock of broker 2 by +7200s (before: broker 2 is 0.000 s ahead)" in fault.inject(world)
    assert "broker 2 is 7200.000 s ahead" in fault.proof(world)
    assert fault.evidence["ahead_s"] == {"broker 2": pytest.approx(7200, abs=1)}
    for _ in range(2):
        fault.heal(world)
        assert world.cluster.clock_ahead_s(2) == 0
    assert world.cluster.skews[1] == RIGHT


def test_there_is_no_proof_if_one_of_the_nodes_shows_the_right_time_or_nothing(world: Any) -> None:
    fault = fault_of(JUMP, all_brokers=True)
    world.cluster.deaf = {3}
    fault.inject(world)
    assert fault.proof(world) is None
    world.cluster.deaf, world.cluster.silent = set(), {3}
    assert fault.proof(world) is None
    world.cluster.silent = set()
    assert "broker 1 is 7200.000 s ahead, broker 2 is" in fault.proof(world)


def test_another_change_than_that_of_the_fault_is_no_proof(world: Any) -> None:
    fault = fault_of(JUMP)
    fault.inject(world)
    world.cluster.set_clock(2, Skew(3600))
    assert fault.proof(world) is None


def test_readings_that_are_too_inexact_are_no_proof(world: Any) -> None:
    fault = fault_of({"kind": "clock.jump", "by": "-2s"})
    world.cluster.width_s = 3
    fault.inject(world)
    assert fault.proof(world) is None


def test_a_drift_is_proven_once_it_has_moved_the_clock_far_enough(world: Any) -> None:
    fault = fault_of({"kind": "clock.drift", "gains": "-900ms"})
    fault.inject(world)
    assert fault.proof(world) is None
    fault._since_s -= 60
    world.cluster.since[2] -= 60
    assert "behind" in fault.proof(world)
    fault.heal(world)
    assert world.cluster.skews[2] == RIGHT


def test_a_skew_restarts_each_node_once_and_its_heal_only_those_that_are_wrong(world: Any) -> None:
    fault = fault_of(SKEW, all_brokers=True)
    fault.inject(world)
    assert world.cluster.acts == ["stop 1", "start 1", "stop 2", "start 2", "stop 3", "start 3"]
    assert "broker 3 is 300.000 s behind" in fault.proof(world)
    world.cluster.acts.clear()
    for _ in range(2):
        fault.heal(world)
    assert world.cluster.acts == ["stop 1", "start 1", "stop 2", "start 2", "stop 3", "start 3"]
    assert set(world.cluster.skews.values()) == {RIGHT}


def test_a_skew_that_failed_half_way_is_healed_where_it_began(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = fault_of(SKEW, all_brokers=True)

    def fail(broker: int) -> None:
        raise ClusterError("it does not start")

    monkeypatch.setattr(world.cluster, "start_broker", fail)
    with pytest.raises(ClusterError):
        fault.inject(world)
    monkeypatch.undo()
    world.cluster.acts.clear()
    fault.heal(world)
    assert world.cluster.acts == ["stop 1", "start 1"]
    assert set(world.cluster.skews.values()) == {RIGHT}


def test_a_second_fault_of_a_wrong_clock_is_refused_and_changes_nothing(world: Any) -> None:
    fault_of(JUMP).inject(world)
    second = fault_of(SKEW)
    with pytest.raises(FaultError, match="another fault has changed the clock of broker 2"):
        second.inject(world)
    assert second.heal(world) == "nothing to heal"
    assert world.cluster.clock_ahead_s(2) == 7200


def test_a_node_that_shows_no_time_is_an_error_before_the_fault(world: Any) -> None:
    world.cluster.silent = {2}
    fault = fault_of(JUMP)
    with pytest.raises(FaultError, match="broker 2 shows no time in its log"):
        fault.inject(world)
    assert world.cluster.skews[2] == RIGHT


class Fleet:
    """Clients with clocks. `stamped`: the timestamp of the last record, in seconds ahead of the call."""

    def __init__(self) -> None:
        self.skew = RIGHT
        self.stamped: float | None = None
        self.silent = False
        self.failed = 0

    def present(self, entry: str) -> list[str]:
        return [f"{entry}/1"]

    def set_clock(self, client: str, skew: Skew) -> None:
        self.skew = skew

    def clock_ahead_s(self, client: str) -> float:
        return self.skew.ahead_s

    def state(self, client: str) -> Any:
        return SimpleNamespace(
            alive=True,
            shown_us=lambda timeout_s: None if self.silent else int((time.time() + self.skew.ahead_s) * 1e6),
            count=lambda name: self.failed if name == "failed" else 0,
        )


@pytest.fixture
def clients(world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    def stamp(clock: ClientClock, since_us: int) -> Stamp | None:
        ahead_s = clock.world.fleet.stamped  # type: ignore[attr-defined]
        return None if ahead_s is None else Stamp(since_us, ahead_s, "orders/0 offset 7")

    monkeypatch.setattr(ClientClock, "stamp", stamp)
    return World(writing("3.9.2"), world.cluster, Fleet(), None, None, world.rng)  # type: ignore[arg-type]


def writing(release: str) -> Scenario:
    return parse(
        f"{{title: t, cluster: {{kafka: {release}}}, topics: [{{name: orders}}], "
        "producers: [{name: shop, topic: orders}]}",
        "x",
    )


def test_the_clock_of_a_consumer_is_proven_by_its_own_answer(clients: Any) -> None:
    fault = fault_of(JUMP, random_member="billing")
    assert "stepped the clock of billing/1 by +7200s (before: billing/1 is 0.000 s" in fault.inject(clients)
    assert "by its own answer, compared with the clock of the machine, billing/1 is 7200.000 s ahead" in fault.proof(
        clients
    )
    clients.fleet.silent = True
    assert fault.proof(clients) is None
    fault.heal(clients)
    assert clients.fleet.skew == RIGHT
    assert set(clients.cluster.skews.values()) == {RIGHT}


@pytest.mark.parametrize(("stamped", "proven"), [(7200.1, True), (None, False), (0.0, False), (3600.0, False)])
def test_the_clock_of_a_producer_is_proven_by_the_timestamps_of_its_records_too(
    clients: Any, stamped: float | None, proven: bool
) -> None:
    fault = fault_of(JUMP, member="shop/1")
    fault.inject(clients)
    clients.fleet.stamped = stamped
    proof = fault.proof(clients)
    assert (proof is not None) == proven
    if proof:
        assert "and the timestamp of orders/0 offset 7 is 7200.100 s ahead" in proof


def test_the_clock_of_a_producer_whose_records_have_nothing_but_an_id_is_proven_by_its_own_answer(clients: Any) -> None:
    value = """{template: '{{"id": "{id}"}}', mark: none}"""
    unmarked = parse(f"{{title: t, topics: [{{name: o}}], producers: [{{name: shop, topic: o, value: {value}}}]}}", "x")
    fault = fault_of(JUMP, member="shop/1")
    fault.inject(replace(clients, scenario=unmarked))
    assert (fault.proof(replace(clients, scenario=unmarked)) or "").endswith("shop/1 is 7200.000 s ahead")


@pytest.mark.parametrize("marked", ["value", "header"])
def test_the_time_at_which_a_record_was_sent_is_in_its_value_or_in_a_header(
    clients: Any, monkeypatch: pytest.MonkeyPatch, marked: str
) -> None:
    monkeypatch.undo()  # the stamps of the fixture
    sent_us, identity = 5_000_000, Identity("r" * RUN_WIDTH, "shop/1", 1, 7, 5_000_000)
    value = encode(identity, None, b"") if marked == "value" else b'{"order_id": "7"}'
    headers = [(IDENTITY_HEADER, encode(identity, None, b""))] if marked == "header" else None
    message = SimpleNamespace(
        error=lambda: None, topic=lambda: "orders", partition=lambda: 0, offset=lambda: 0, value=lambda: value,
        headers=lambda: headers, timestamp=lambda: (1, 12_000),
    )  # fmt: skip
    reader = SimpleNamespace(assign=lambda _: None, consume=lambda *_: [message], close=lambda: None)
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: reader)
    partition = TopicPartition("orders", 0)
    kafka = SimpleNamespace(
        metadata=lambda: SimpleNamespace(partitions={partition: None}), end_offsets=lambda _: {partition: 1}
    )
    cluster = SimpleNamespace(bootstrap="b:1")
    clock = ClientClock("shop/1", replace(clients, kafka=kafka, cluster=cluster))
    assert clock.stamp(sent_us) == Stamp(sent_us, 7.0, "orders/0 offset 0")


@pytest.mark.parametrize(
    ("release", "failed", "proven"), [("4.0.2", 3, True), ("4.0.2", 0, False), ("3.9.2", 3, False)]
)
def test_records_that_brokers_refuse_for_their_time_are_proof_where_they_refuse_it(
    clients: Any, release: str, failed: int, proven: bool
) -> None:
    """From Kafka 4.0 on, brokers take no timestamp that is more than an hour ahead."""
    clients = replace(clients, scenario=writing(release))
    fault = fault_of(JUMP, member="shop/1")
    fault.inject(clients)
    clients.fleet.failed = failed
    proof = fault.proof(clients)
    assert (proof is not None) == proven
    if proof:
        assert "and the brokers refuse the timestamps of its records" in proof


def test_a_client_that_does_not_answer_is_an_error_before_the_fault(clients: Any) -> None:
    clients.fleet.silent = True
    with pytest.raises(FaultError, match="billing/1 shows no time in an answer"):
        fault_of(JUMP, member="billing/1").inject(clients)
    assert clients.fleet.skew == RIGHT


class Node:
    """A node that logs a refused request with the time of its clock, and ends the connection. TLS: an alert first."""

    def __init__(self, log: Path, ahead_s: float, secured: bool) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._log, self._ahead_s, self._secured = log, ahead_s, secured
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        connection, (_, port) = self._server.accept()
        with connection:
            (key,) = struct.unpack_from(">h", connection.recv(100), 4)
            if self._secured:
                connection.sendall(b"\x15\x03\x03\x00\x02\x02P")
                time.sleep(0.3)
            shown = datetime.fromtimestamp(time.time() + self._ahead_s, UTC).isoformat(timespec="milliseconds")
            with self._log.open("a") as log:
                if self._secured:
                    where = f"(channelId=127.0.0.1:{self.port}-127.0.0.1:{{}}-1-0) (SSL handshake failed)"
                    for line in (
                        f"2001-01-01T00:00:00.000Z [n] [INFO] {where.format(port + 1)}",
                        f"{shown} [n] [INFO] {where.format(port)}",
                    ):
                        log.write(f"{line}\n")
                    return
                log.write("2001-01-01T00:00:00.000Z [x] [INFO] of another thread\n")
                log.write(f"{shown} [n] [ERROR] kafka.network.Processor - Closing socket because of error\n")
                log.write(f"InvalidRequestException: Our best guess of the apiKey is: {key}\n")
                log.write("2002-01-01T00:00:00.000Z [x] [INFO] later\n")
                log.write(f"InvalidRequestException: Our best guess of the apiKey is: {key}\n")

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Any]:
    nodes: list[Node] = []

    def make(ahead_s: float, secured: bool = False) -> Node:
        nodes.append(Node(tmp_path / "node.log", ahead_s, secured))
        return nodes[-1]

    yield make
    for found in nodes:
        found.close()


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "secured"])
@pytest.mark.parametrize("ahead_s", [0.0, 7200.0, -7200.0])
def test_a_reading_contains_how_far_the_clock_is_ahead(
    node: Any, tmp_path: Path, ahead_s: float, secured: bool
) -> None:
    found = read_clock("127.0.0.1", node(ahead_s, secured).port, tmp_path / "node.log")
    assert found is not None
    assert found.low_s <= ahead_s <= found.high_s
    assert found.ahead_s == pytest.approx(ahead_s, abs=5)


def test_a_node_that_does_not_answer_or_log_gives_no_reading(
    node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.cluster.brokers.clock_reading.LOGGED_S", 0.1)
    answering = node(0.0)
    assert read_clock("127.0.0.1", answering.port, tmp_path / "another.log") is None
    answering.close()
    assert read_clock("127.0.0.1", answering.port, tmp_path / "node.log") is None

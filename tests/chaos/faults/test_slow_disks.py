"""The fault of a slow disk without a cluster: conditions of the proof, and of the heal."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.errors import FaultError
from chaos.faults import FAULTS, SPECS
from chaos.faults.base import World
from chaos.preload.libraries import FAST, Delayed, Delays
from chaos.preload.meter import Meter, Reading
from chaos.setup.triggers import Target, Trigger
from tests.chaos.conftest import Time

WRITE = {"write": "50ms"}
BOTH = {"write": "50ms", "fsync": "200ms"}
USUAL_S = 0.002


class Cluster:
    """Nodes that report their times. `deaf`: those that delay nothing. `lazy_s`: time that they lose anyway."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(driver="fake", zookeeper=None)
        self.controller_ids = [101]
        self.broker_ids = [1, 2, 3]
        self.delays = dict.fromkeys((1, 2, 3, 101), FAST)
        self.counted = {node: Delayed(0, 0) for node in self.delays}
        self.readings = {node: Reading(node, 1) for node in self.delays}
        self.down: set[int] = set()
        self.deaf: set[int] = set()
        self.lazy_s = 0.0

    def slow_disk(self, node: int, delays: Delays) -> None:
        self.delays[node] = delays

    def disk_delays(self, node: int) -> Delays:
        return self.delays[node]

    def delayed_writes(self, node: int) -> Delayed:
        return self.counted[node]

    def broker_alive(self, node: int) -> bool:
        return node not in self.down

    def meter(self, node: int) -> Reading | None:
        if node in self.down:
            return None
        if node in self.controller_ids:
            self.write(node, produces=False)  # it writes by itself
        now = self.readings[node]
        self.readings[node] = Reading(now.process, now.number + 1, now.produce, now.flush)
        return self.readings[node]

    def write(self, node: int, produces: bool = True) -> None:
        delays = FAST if node in self.deaf else self.delays[node]
        counted, now = self.counted[node], self.readings[node]
        writes, syncs = counted.writes + (delays.write_s > 0), counted.syncs + (delays.sync_s > 0)
        self.counted[node] = Delayed(writes, syncs)
        flush_s = USUAL_S + delays.sync_s + self.lazy_s
        produce_s = flush_s + delays.write_s
        produce = Meter(now.produce.count + 1, now.produce.total_s + produce_s) if produces else now.produce
        flush = Meter(now.flush.count + 1, now.flush.total_s + flush_s)
        self.readings[node] = Reading(now.process, now.number, produce, flush)

    def restart(self, node: int) -> None:
        self.readings[node] = Reading(self.readings[node].process + 1000, 1)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    cluster = Cluster()
    topics: list[str] = []

    def probe(kafka: Any, topic: str, node: int, timeout_s: float) -> str | None:
        assert topic in topics
        if node in cluster.down:
            return "no answer within 5 s"
        cluster.write(node)
        return None

    monkeypatch.setattr("chaos.kafka.raw_producer.create_probe", lambda kafka, topic, node: topics.append(topic))
    monkeypatch.setattr("chaos.kafka.raw_producer.probe", probe)
    monkeypatch.setattr("chaos.kafka.raw_producer.remove_probe", lambda kafka, topic: topics.remove(topic))
    monkeypatch.setattr("chaos.wait.time", Time())
    kafka = SimpleNamespace(controller=lambda: (101, 1), topics=topics)
    return World(SimpleNamespace(), cluster, None, None, kafka, random.Random(1))  # type: ignore[arg-type]


def fault_of(values: dict[str, Any], **target: Any) -> Any:
    spec = SPECS["disk.slow"].model_validate(
        {
            "name": "f",
            "kind": "disk.slow",
            **values,
            "target": Target(**(target or {"broker": 2})),
            "when": Trigger(at=0),
        }
    )
    return FAULTS["disk.slow"](spec)


def proof_of(fault: Any, world: Any) -> str | None:
    """Return the proof as a run looks for it: several times."""
    return next(filter(None, (fault.proof(world) for _ in range(6))), None)


def test_a_slow_disk_is_proven_by_the_times_of_the_node_and_healed_when_they_have_fallen(world: Any) -> None:
    fault = fault_of(BOTH)
    text = fault.inject(world)
    assert "slowed the disk of broker 2: each write takes 50ms more, each fsync takes 200ms more" in text
    assert "(before: broker 2 took 2.0 ms for a request to write" in text
    assert world.cluster.delays == {1: FAST, 2: Delays(0.05, 0.2), 3: FAST, 101: FAST}
    assert "broker 2 took 252.0 ms for a request to write (mean of 3) and 202.0 ms for a flush" in proof_of(
        fault, world
    )
    for _ in range(2):
        assert "is as fast as before: broker 2 took 2.0 ms" in fault.heal(world)
    assert world.cluster.delays[2] == FAST
    assert world.kafka.topics == []


def test_a_node_that_is_as_fast_as_before_is_no_proof(world: Any) -> None:
    fault = fault_of(BOTH, all_brokers=True)
    world.cluster.deaf = {3}
    fault.inject(world)
    assert proof_of(fault, world) is None
    world.cluster.deaf = set()
    world.cluster.readings[3] = Reading(3000, 1)  # the mean since the injection has fast writes
    assert "broker 3 took" in proof_of(fault, world)


def test_a_slow_machine_is_no_proof_if_the_library_delayed_nothing(world: Any) -> None:
    fault = fault_of(WRITE)
    world.cluster.deaf = {2}
    fault.inject(world)
    world.cluster.lazy_s = 0.1
    assert proof_of(fault, world) is None


def test_a_delayed_write_is_no_proof_if_the_node_reports_a_smaller_time(world: Any) -> None:
    fault = fault_of(WRITE)
    fault.inject(world)
    world.cluster.delays[2] = Delays(write_s=0.01)  # as if the delay had no effect on requests
    assert proof_of(fault, world) is None
    assert world.cluster.counted[2].writes > 0


def test_each_of_both_delays_has_to_be_seen(world: Any) -> None:
    fault = fault_of(BOTH)
    fault.inject(world)
    world.cluster.delays[2] = Delays(write_s=0.5)
    assert proof_of(fault, world) is None


def test_a_node_that_was_restarted_is_compared_with_its_times_before_the_fault(world: Any) -> None:
    fault = fault_of(WRITE)
    fault.inject(world)
    world.cluster.restart(2)
    assert "mean of 3" in proof_of(fault, world)


def test_a_dedicated_controller_is_measured_by_its_own_flushes(world: Any) -> None:
    fault = fault_of({"fsync": "200ms"}, controller=True)
    fault.inject(world)
    assert world.kafka.topics == []
    text = proof_of(fault, world)
    assert "controller 101 took 202.0 ms for a flush" in text
    assert "request" not in text
    assert "controller 101" in fault.heal(world)


def test_a_node_that_stays_slow_fails_the_heal_and_one_that_is_down_does_not(world: Any) -> None:
    fault = fault_of(WRITE)
    fault.inject(world)
    world.cluster.lazy_s = 0.2
    with pytest.raises(FaultError, match=r"broker 2 is not slowed any more, but it still took 202.0 ms"):
        fault.heal(world)
    assert world.cluster.delays[2] == FAST
    world.cluster.down = {2}
    assert "broker 2 reports no times now" in fault.heal(world)


def test_a_second_fault_of_a_slow_disk_is_refused_and_changes_nothing(world: Any) -> None:
    fault_of(WRITE).inject(world)
    second = fault_of(BOTH)
    with pytest.raises(FaultError, match="another fault has slowed the disk of broker 2; let this one begin after"):
        second.inject(world)
    assert second.heal(world) == "nothing to heal"
    assert world.cluster.delays[2] == Delays(write_s=0.05)


def test_a_node_that_refuses_writes_is_an_error_that_says_so(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.kafka.raw_producer.probe", lambda *args: "NotLeaderForPartitionError")
    with pytest.raises(FaultError, match=r"reports no times .*; it answers a write with: NotLeaderForPartitionError"):
        fault_of(WRITE).inject(world)
    assert not world.cluster.delays[2].write_s


def test_a_node_that_reports_nothing_is_an_error_before_the_fault(world: Any) -> None:
    world.cluster.down = {2}
    fault = fault_of(WRITE)
    with pytest.raises(FaultError, match="broker 2 reports no times of its requests"):
        fault.inject(world)
    assert world.cluster.delays[2] == FAST


def test_an_injection_that_failed_half_way_is_healed(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = fault_of(WRITE, all_brokers=True)
    slow = world.cluster.slow_disk

    def fail(node: int, delays: Delays) -> None:
        if node == 3:
            raise FaultError("the file is gone")
        slow(node, delays)

    monkeypatch.setattr(world.cluster, "slow_disk", fail)
    with pytest.raises(FaultError):
        fault.inject(world)
    monkeypatch.setattr(world.cluster, "slow_disk", slow)
    fault.heal(world)
    assert set(world.cluster.delays.values()) == {FAST}

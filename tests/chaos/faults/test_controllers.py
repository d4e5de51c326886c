"""Faults of controllers without a cluster: targets, conditions of the proofs, and heals."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.errors import FaultError
from chaos.faults import FAULTS, brokers, controllers, targets
from chaos.faults.base import World
from chaos.kafka import admin
from chaos.kafka.client import Quorum
from chaos.setup.triggers import Target, Trigger
from tests.chaos.faults.test_brokers import Cluster

DEDICATED = (101, 102, 103)
ACTIVE = Quorum(102, 7, dict.fromkeys(DEDICATED, 50))


class Kafka:
    """The answers of the brokers; `quorum` None: no controller is active."""

    def __init__(self, quorum: Quorum | None = ACTIVE) -> None:
        self.found, self.metadata = quorum, lambda: object()

    def quorum(self) -> Quorum | None:
        return self.found

    def controller(self) -> tuple[int, int] | None:
        return (self.found.leader, self.found.epoch) if self.found else None


def world_of(dedicated: tuple[int, ...] = DEDICATED) -> Any:
    cluster = Cluster()
    cluster.controller_ids = dedicated
    fleet = SimpleNamespace(acked=100)
    fleet.total_acked = lambda: fleet.acked
    kafka = Kafka(Quorum(102, 7, dict.fromkeys(dedicated, 50)))
    return World(SimpleNamespace(), cluster, fleet, None, kafka, random.Random(1))  # type: ignore[arg-type]


def kill_of(**target: Any) -> Any:
    spec = controllers.ControllerKillSpec(name="k", kind="controller.kill", target=Target(**target), when=Trigger(at=0))
    return FAULTS[spec.kind](spec)


@pytest.mark.parametrize(
    ("dedicated", "target", "expected"),
    [
        (DEDICATED, {"controller": True}, {102}),
        (DEDICATED, {"controllers": "all"}, {101, 102, 103}),
        ((102,), {"controllers": "majority"}, {102}),
        ((101, 102), {"controllers": "majority"}, {101, 102}),
    ],
)
def test_a_target_is_the_active_controller_or_it_with_others(
    dedicated: tuple[int, ...], target: dict[str, Any], expected: set[int]
) -> None:
    fault, world = kill_of(**target), world_of(dedicated)
    fault.inject(world)
    assert world.cluster.down == expected


@pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (9, 5)])
def test_a_majority_contains_the_active_controller(size: int, majority: int) -> None:
    fault, world = kill_of(controllers="majority"), world_of(tuple(range(101, 101 + size)))
    world.kafka.found = Quorum(101, 1, {})
    fault.inject(world)
    assert len(world.cluster.down) == majority and 101 in world.cluster.down


def test_a_follower_is_never_the_active_controller() -> None:
    hit = set()
    for seed in range(20):
        fault, world = kill_of(controller_follower=True), world_of()
        world.rng.seed(seed)
        fault.inject(world)
        hit |= world.cluster.down
    assert hit == {101, 103}


def test_a_kill_of_the_active_one_is_proven_by_another_one_or_a_higher_epoch() -> None:
    fault, world = kill_of(controller=True), world_of()
    assert fault.proof(world) is None, "there was no injection yet"
    assert fault.inject(world) == "killed controller 102, the active controller in epoch 7"
    assert fault.proof(world) is None, "the same controller in the same epoch"
    world.kafka.found = Quorum(103, 8, {})
    assert fault.proof(world) == "the active controller went from 102 to 103, epoch 7 to 8"
    assert fault.heal(world) == "controller 102 is back" and not world.cluster.down


def test_a_kill_of_brokers_that_are_controllers_names_brokers() -> None:
    fault, world = kill_of(controller=True), world_of(())
    world.kafka.found = Quorum(2, 7, {})
    assert fault.inject(world).startswith("killed broker 2, ")


def test_a_kill_of_a_follower_is_proven_by_its_log_that_ends() -> None:
    fault, world = kill_of(controller_follower=True), world_of()
    fault.inject(world)
    gone = fault.broker
    for ahead in range(controllers.MIN_BEHIND):
        world.kafka.found = Quorum(102, 7, {n: 50 if n == gone else 50 + ahead for n in DEDICATED})
        assert fault.proof(world) is None, "a live voter may be that far behind"
    world.kafka.found = Quorum(102, 7, dict.fromkeys(DEDICATED, 60))
    assert fault.proof(world) is None, "the voter goes on"
    world.kafka.found = Quorum(102, 7, {n: 50 if n == gone else 60 for n in DEDICATED})
    expected = f"the metadata log of controller {gone} stays at 50, and the active controller is at 60"
    assert fault.proof(world) == expected


def test_without_a_majority_it_is_proven_that_no_change_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = True
    monkeypatch.setattr(admin, "accepts_changes", lambda kafka, timeout_s: accepted)
    fault, world = kill_of(controllers="majority"), world_of()
    assert fault.inject(world).endswith("; 1 of 3 controllers left, no majority")
    assert fault.proof(world) is None, "the active controller still answers"
    world.kafka.found = None
    assert fault.proof(world) is None, "a topic could be created"
    accepted, world.fleet.acked = False, 350
    proof = fault.proof(world)
    assert proof.startswith("brokers answer, but name no active controller") and "250 records" in proof
    world.kafka.metadata = lambda: None
    assert fault.proof(world) is None, "no broker answers, so nobody can tell"
    world.kafka.found = ACTIVE
    assert "250 records were acknowledged" in fault.heal(world)
    assert fault.evidence["acked_without_controller"] == 250


def restart_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a rolling restart with steps for brokers that succeed."""
    spec = brokers.RollingRestartSpec(
        name="r", kind="cluster.rolling_restart", target=Target(all_brokers=True), when=Trigger(at=0)
    )
    monkeypatch.setattr(brokers, "stop_controlled", lambda broker, world: [broker])
    monkeypatch.setattr(brokers, "is_gone", lambda broker, world: True)
    monkeypatch.setattr(brokers.RollingRestart, "_out_of_sync", lambda self, world: [])
    return FAULTS[spec.kind](spec)


def test_a_rolling_restart_begins_with_the_controllers_and_the_active_one_is_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault, world = restart_of(monkeypatch), world_of()
    observer = SimpleNamespace(metadata=SimpleNamespace(brokers=(1, 2, 3)))
    world = World(world.scenario, world.cluster, world.fleet, observer, world.kafka, world.rng)  # type: ignore[arg-type]
    fault.inject(world)
    stopped = [node for operation, node in world.cluster.operations if operation == "stop"]
    assert stopped == [101, 103, 102] and not world.cluster.down
    assert fault.resolved == "controllers 101, 102, 103, brokers 1, 2, 3"
    assert fault.proof(world) is None, "the active controller kept its epoch"
    fault._epochs = (7, 9)
    assert str(fault.proof(world)).endswith("; the epoch of the active controller went from 7 to 9")


def test_a_quorum_of_one_has_no_follower() -> None:
    with pytest.raises(FaultError, match="102 is the only voter, so no controller follows it"):
        targets.brokers(Target(controller_follower=True), world_of((102,)))

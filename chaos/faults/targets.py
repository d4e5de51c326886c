"""From a target as written to brokers or clients, at the moment of injection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from chaos.errors import FaultError, WaitTimeout
from chaos.faults.world import World
from chaos.kafka.client import NO_LEADER
from chaos.kafka.metadata_merge import PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.scenario.triggers import Target
from chaos.wait import wait_until

T = TypeVar("T")

ANSWER_TIMEOUT_S = 20.0


def brokers(target: Target, world: World) -> list[int]:
    """The brokers that a target means now."""
    ((kind, value),) = target.given().items()
    if kind == "broker":
        return [value]
    if kind == "random_broker":
        return [world.rng.choice(world.cluster.broker_ids)]
    if kind == "coordinator_of":
        return [coordinator(value, world)]
    if kind == "transaction_coordinator_of":
        return [transaction_coordinator(value, world)]
    if kind == "controller":
        return [controller(world)[0]]
    if kind == "all_brokers":
        return list(world.cluster.broker_ids)
    state = partition(TopicPartition.parse(value), world)
    followers = sorted(set(state.replicas) - {state.leader})
    if kind == "isr_of":
        return sorted(state.isr)
    if kind == "leader_of":
        return [state.leader]
    if not followers:
        raise FaultError(f"{value} has no follower")
    return followers if kind == "followers_of" else [world.rng.choice(followers)]


def broker(target: Target, world: World) -> int:
    """The broker that a target of one broker means now."""
    (one,) = brokers(target, world)
    return one


def client(target: Target, world: World) -> str:
    """The client that a target means, such as `billing/1`."""
    ((kind, value),) = target.given().items()
    if kind == "member":
        return str(value)
    return str(world.rng.choice(world.fleet.clients(value)))


def coordinator(group: str, world: World) -> int:
    """The broker that coordinates a group, asked now."""
    return _answer(lambda: world.kafka.coordinator(group), f"no broker names a coordinator of {group}")


def transaction_coordinator(transactional_id: str, world: World) -> int:
    """The broker that coordinates an id's transactions, asked now."""
    why = f"no broker names a transaction coordinator of {transactional_id}"
    return _answer(lambda: world.kafka.transaction_coordinator(transactional_id), why)


def controller(world: World) -> tuple[int, int]:
    """The active controller and its epoch, asked now."""
    return _answer(world.kafka.controller, "no broker names an active controller")


def partition(name: TopicPartition, world: World) -> PartitionState:
    """A partition that has a leader, asked now."""

    def led() -> PartitionState | None:
        metadata = world.kafka.metadata()
        state = metadata.partitions.get(name) if metadata else None
        return state if state and state.leader != NO_LEADER else None

    return _answer(led, f"{name} has no leader to aim at")


def _answer(question: Callable[[], T | None], why: str) -> T:
    try:
        answer = wait_until(question, ANSWER_TIMEOUT_S, why)
    except WaitTimeout as e:
        raise FaultError(str(e)) from None
    assert answer is not None  # wait_until returns only what is true
    return answer

"""Resolution of a target to brokers, partitions or clients, at the moment of injection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from chaos.errors import FaultError, WaitTimeout
from chaos.faults.base import World
from chaos.kafka.metadata_merge import NO_LEADER, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.scenario.triggers import Target
from chaos.wait import wait_until

T = TypeVar("T")

ANSWER_TIMEOUT_S = 20.0


def brokers(target: Target, world: World) -> list[int]:
    """Return the ids of the targeted brokers. Raises `FaultError` if no broker answers or there is no follower."""
    selector, value = target.selector
    if selector == "broker":
        return [value]
    if selector == "random_broker":
        return [world.rng.choice(world.cluster.broker_ids)]
    if selector == "coordinator_of":
        return [_answer(lambda: world.kafka.coordinator(value), f"no broker names a coordinator of {value}")]
    if selector == "transaction_coordinator_of":
        why = f"no broker names a transaction coordinator of {value}"
        return [_answer(lambda: world.kafka.transaction_coordinator(value), why)]
    if selector == "controller":
        return [controller(world)[0]]
    if selector == "all_brokers":
        return list(world.cluster.broker_ids)
    state = partition(TopicPartition.parse(value), world)
    followers = sorted(set(state.replicas) - {state.leader})
    if selector == "isr_of":
        return sorted(state.isr)
    if selector == "leader_of":
        return [state.leader]
    if not followers:
        raise FaultError(f"{value} has no follower")
    return followers if selector == "followers_of" else [world.rng.choice(followers)]


def broker(target: Target, world: World) -> int:
    """Return the id of the targeted broker, for a target that means one broker."""
    (broker_id,) = brokers(target, world)
    return broker_id


def broker_names(broker_ids: Iterable[int]) -> str:
    """Return `broker 1, broker 2`."""
    return ", ".join(f"broker {broker_id}" for broker_id in broker_ids)


def client(target: Target, world: World) -> str:
    """Return the targeted client, such as `billing/1`."""
    selector, value = target.selector
    return str(value if selector == "member" else world.rng.choice(world.fleet.clients(value)))


def controller(world: World) -> tuple[int, int]:
    """Return the active controller and its epoch. Raises `FaultError` if no broker names one."""
    return _answer(world.kafka.controller, "no broker names an active controller")


def partition(name: TopicPartition, world: World) -> PartitionState:
    """Return the state of a partition that has a leader. Raises `FaultError` if it gets none in time."""

    def led() -> PartitionState | None:
        metadata = world.kafka.metadata()
        state = metadata.partitions.get(name) if metadata else None
        return state if state and state.leader != NO_LEADER else None

    return _answer(led, f"{name} has no leader")


def partitions(target: Target, world: World) -> list[TopicPartition]:
    """Return the partitions of a target that is a topic or a partition. Raises `FaultError` if none has a leader."""
    if target.partition is not None:
        name = TopicPartition.parse(target.partition)
        partition(name, world)
        return [name]
    names = led_partitions(str(target.topic), world)
    if not names:
        raise FaultError(f"{target.topic} has no partition with a leader")
    return names


def led_partitions(topic: str, world: World) -> list[TopicPartition]:
    """Return the partitions of a topic that have a leader."""
    metadata = world.kafka.metadata()
    states = metadata.partitions if metadata else {}
    return [name for name, state in states.items() if name.topic == topic and state.leader != NO_LEADER]


def _answer(question: Callable[[], T | None], why: str) -> T:
    try:
        answer = wait_until(question, ANSWER_TIMEOUT_S, why)
    except WaitTimeout as e:
        raise FaultError(str(e)) from None
    assert answer is not None  # wait_until returns only truthy values
    return answer

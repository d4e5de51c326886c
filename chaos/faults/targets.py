"""From a target as written to brokers or clients, at the moment of injection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from chaos.errors import FaultError, WaitTimeout
from chaos.faults.world import World
from chaos.kafka import NO_LEADER
from chaos.scenario.triggers import Target
from chaos.views import PartitionState
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
    state = _partition(value, world)
    followers = sorted(set(state.replicas) - {state.leader})
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


def _partition(name: str, world: World) -> PartitionState:
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

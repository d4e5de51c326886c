"""Targets: their resolution at the moment of injection, and operations on brokers that several faults share."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from chaos.cluster.api import Cluster, Start, Stop, able
from chaos.cluster.settings import FIRST_CONTROLLER
from chaos.errors import FaultError, WaitTimeout
from chaos.faults.base import Fault, FaultSpec, World
from chaos.kafka.metadata import NO_LEADER, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access
from chaos.setup.triggers import Target
from chaos.wait import wait_until

S = TypeVar("S", bound=FaultSpec)
T = TypeVar("T")

LOOKUP_TIMEOUT_S = 20.0
HANDOVER_TIMEOUT_S = 2.0
"""Time after its exit until the metadata shows the handover of a stopped broker: far shorter than a broker session."""
SILENCE_S = 1.0
"""Time without an answer after which a broker that answered before counts as paused."""
ANSWER_TIMEOUT_S = 5.0

_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)
"""ApiVersions v0 with correlation id 1 and no client id: every Kafka since 0.10 answers it (KIP-35)."""


def brokers(target: Target, world: World) -> list[int]:
    """Return the ids of the targeted brokers or controllers.

    Raises `FaultError` if no broker answers or there is no follower.
    """
    selector, value = target.selector
    if selector == "broker":
        return [value]
    if selector == "random_broker":
        return [world.rng.choice(world.cluster.broker_ids)]
    if selector == "broker_of_moment":
        if world.moment is None:
            raise FaultError("no moment on the wire came before the fault")
        return [world.moment.broker]
    if selector == "coordinator_of":
        return [answer(lambda: world.kafka.coordinator(value), f"no broker names a coordinator of {value}")]
    if selector == "coordinator_of_app":
        group = group_of(target, world)
        return [answer(lambda: world.kafka.coordinator(group), f"no broker names a coordinator of {group}")]
    if selector == "share_coordinator_of":
        why = f"no broker names a share coordinator of {value}"
        return [answer(lambda: share_coordinator_of(value, world), why)]
    if selector == "transaction_coordinator_of":
        why = f"no broker names a transaction coordinator of {value}"
        return [answer(lambda: world.kafka.transaction_coordinator(value), why)]
    if target.picks_controllers:
        return _controllers(target, world)
    if selector == "rack":
        return world.scenario.brokers_in(value)
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


def group_of(target: Target, world: World) -> str:
    """Return the group of a target that is a coordinator. Raises `FaultError` if an application has none."""
    selector, value = target.selector
    if selector != "coordinator_of_app":
        return str(value)
    group = world.apps and world.apps.group_of(value)
    if not group:
        raise FaultError(f"{value} has no consumer group, so no broker is its coordinator")
    return group


def share_coordinator_of(group: str, world: World) -> int | None:
    """Return the share coordinator of a share group for partition 0 of its first topic; None if unknown."""
    from chaos.kafka.client import share_coordinator

    topic = next(entry.topics[0] for entry in world.scenario.shares if entry.group == group)
    return share_coordinator(world.kafka, group, TopicPartition(topic, 0))


def controller(world: World) -> tuple[int, int]:
    """Return the active controller and its epoch. Raises `FaultError` if no broker names one."""
    return answer(world.kafka.controller, "no broker names an active controller")


def controllers(world: World) -> list[int]:
    """Return the ids of all controllers of a started KRaft cluster: the dedicated ones, or else all brokers."""
    return list(world.cluster.controller_ids or world.cluster.broker_ids)


def voters(world: World) -> list[int]:
    """Return the ids of the controllers that are voters of the quorum; all controllers if it is not known."""
    quorum = world.kafka.quorum()
    return sorted(quorum.ends) if quorum and quorum.ends else controllers(world)


def _controllers(target: Target, world: World) -> list[int]:
    """Return the ids of the targeted controllers, with the active one first."""
    active, _ = controller(world)
    if target.controller:
        return [active]
    if target.controller_observer:
        observers = sorted(set(controllers(world)) - set(voters(world)))
        if not observers:
            raise FaultError("every controller is a voter already")
        return [world.rng.choice(observers)]
    others = [node for node in voters(world) if node != active]
    if target.controller_follower:
        if not others:
            raise FaultError(f"{active} is the only voter, so no controller follows it")
        return [world.rng.choice(others)]
    if target.controllers == "majority":
        others = sorted(world.rng.sample(others, (len(others) + 1) // 2))
    return [active, *others]


def node_name(node: int, world: World) -> str:
    """Return the role and the id of a node, such as `broker 2` or `controller 101`."""
    return f"{'controller' if node in world.cluster.controller_ids else 'broker'} {node}"


def partition(name: TopicPartition, world: World) -> PartitionState:
    """Return the state of a partition that has a leader. Raises `FaultError` if it gets none in time."""

    def led() -> PartitionState | None:
        metadata = world.kafka.metadata()
        state = metadata.partitions.get(name) if metadata else None
        return state if state and state.leader != NO_LEADER else None

    return answer(led, f"{name} has no leader")


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


def answer(question: Callable[[], T | None], why: Callable[[], str] | str, timeout_s: float = LOOKUP_TIMEOUT_S) -> T:
    """Return the first truthy answer. Raises `FaultError`, with `why`, if there is none in time."""
    try:
        answer = wait_until(question, timeout_s, why, every_s=0.2)
    except WaitTimeout as e:
        raise FaultError(str(e)) from None
    assert answer is not None  # wait_until returns only truthy values
    return answer


class BrokerFault(Fault[S]):
    """A fault of the brokers, or of the controllers, that its target means."""

    brokers: list[int]

    @property
    def broker(self) -> int:
        """The id of the first target."""
        return self.brokers[0]

    def _aim(self, world: World) -> None:
        self.brokers = brokers(self.spec.target, world)
        self.resolved = ", ".join(node_name(node, world) for node in self.brokers)


def answer_s(host: str, port: int, timeout_s: float, access: Access | None = None) -> float:
    """Return the seconds until a broker answers, including a TLS handshake if connections are encrypted.

    The request needs no login. Raises `TimeoutError` without an answer, another `OSError` if the broker is gone.
    """
    from chaos.kafka.connection import connect, seconds_left

    began = time.monotonic()
    deadline = began + timeout_s
    with connect(host, port, deadline, access) as connection:
        connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
        connection.settimeout(seconds_left(deadline))
        if not connection.recv(4):
            raise ConnectionResetError("the broker closed the connection")
    return time.monotonic() - began


def answered(broker: int, world: World) -> float:
    """Return the seconds until a broker answers before a fault. Raises `FaultError` if it does not answer."""
    try:
        return answer_s(*world.cluster.address(broker), ANSWER_TIMEOUT_S, access_to(broker, world))
    except OSError as e:
        raise FaultError(
            f"{node_name(broker, world)} did not answer even before the fault: {e or type(e).__name__}"
        ) from None


def all_silent(nodes: Iterable[int], world: World) -> bool:
    """Return whether each of these nodes accepts a connection but does not answer. They are asked at the same time."""
    asked = [*nodes]
    with ThreadPoolExecutor(len(asked)) as pool:
        return all(pool.map(lambda node: is_silent(node, world.cluster, access_to(node, world)), asked))


def access_to(node: int, world: World) -> Access | None:
    """Return how to log in to a node: dedicated controllers of a secured cluster have a separate listener."""
    return world.cluster.state.access(node) if node >= FIRST_CONTROLLER else world.access


def is_silent(broker: int, cluster: Cluster, access: Access | None) -> bool:
    """Return whether a broker accepts a connection but does not answer. A broker that refuses is gone, not silent."""
    try:
        answer_s(*cluster.address(broker), SILENCE_S, access)
    except OSError as e:
        return isinstance(e, TimeoutError)
    return False


def waited_s(broker: int, timeout_s: float, world: World) -> float | None:
    """Return the seconds until a broker answers; None if it does not answer."""
    try:
        return answer_s(*world.cluster.address(broker), timeout_s, access_to(broker, world))
    except OSError:
        return None


def led_by(broker: int, world: World) -> dict[TopicPartition, int]:
    """Return the partitions that a broker leads, with their leader epochs.

    They belong to the scenario's topics, to the internal topics of its applications, and to the user's topics that its
    faults aim at.
    """
    metadata, scenario = world.kafka.metadata(), world.scenario
    topics = {t.name for t in scenario.topics} | scenario.internal_topics.keys() | scenario.their_topics
    if metadata is None:
        raise FaultError("no broker answers, so the partitions that the target leads are unknown")
    return {
        name: state.leader_epoch
        for name, state in sorted(metadata.partitions.items())
        if state.leader == broker and name.topic in topics
    }


def is_only(broker: int, world: World) -> bool:
    """Return whether a broker is the only one of its cluster."""
    return tuple(world.cluster.broker_ids) == (broker,)


def is_gone(broker: int, world: World) -> bool:
    """Return whether brokers answer and list this one no longer; of the only broker, whether none answers."""
    metadata = world.kafka.metadata()
    if metadata is None or not metadata.brokers:
        return is_only(broker, world)
    return broker not in metadata.brokers


def stop_controlled(broker: int, world: World) -> list[TopicPartition]:
    """Stop a broker and return the partitions that it handed over.

    The only broker has none to which it could hand over. Raises `FaultError` if a broker still leads one of them: the
    shutdown was not controlled, and its session has to expire.
    """
    led = led_by(broker, world)
    able(world.cluster, Stop).stop_broker(broker)
    if is_only(broker, world):
        return []

    def still_led() -> list[TopicPartition]:
        metadata = world.kafka.metadata()
        states = metadata.partitions if metadata else {}
        return [name for name, epoch in led.items() if name not in states or states[name].leader_epoch <= epoch]

    try:
        wait_until(lambda: not still_led(), HANDOVER_TIMEOUT_S, lambda: abbreviate(still_led()))
    except WaitTimeout as e:
        raise FaultError(f"broker {broker} ended, but still leads {e}: that was no controlled shutdown") from None
    return sorted(led)


def start_down(brokers: Iterable[int], world: World) -> None:
    """Start those brokers that are down, all at once: one of them alone may be no quorum."""
    if down := [broker for broker in brokers if not world.cluster.broker_alive(broker)]:
        able(world.cluster, Start).start_brokers(down)


def abbreviate(names: Sequence[TopicPartition], limit: int = 4) -> str:
    """Return the first names and the number of the others."""
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(str, names[:limit])) + rest

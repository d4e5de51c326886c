"""Events in the logs of brokers, one class for each kind.

Times are microseconds since the epoch. `node` is the broker or controller that wrote the line; the event may concern
another broker. pydantic converts the text of the log to the type of each field.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator

from chaos.incident.logs.entries import Source
from chaos.kafka.partition import TopicPartition

BrokerIds = Annotated[tuple[int, ...], BeforeValidator(lambda text: [n for n in text.replace(" ", "").split(",") if n])]
"""Broker ids, from text such as `1, 2,3`."""


class Event(BaseModel, frozen=True):
    """Base of all events. `summary` is the text of `describe`, with the fields of the event in braces."""

    summary: ClassVar[str]
    at_us: int
    node: int
    source: Source

    def __init_subclass__(cls, summary: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.summary = summary

    def describe(self) -> str:
        """Return the event as one sentence; empty if its kind has no summary."""
        return self.summary.format(**{name: list(v) if isinstance(v, tuple) else v for name, v in self})


class PartitionEvent(Event):
    """Event of one partition."""

    partition: TopicPartition


class GroupEvent(Event):
    """Event of one consumer group; `node` is its coordinator."""

    group: str


class MemberEvent(GroupEvent):
    """Event of one member of a consumer group."""

    member: str


class JvmStep(Event, summary="broker {node} starts"):
    """Step of a broker's start, in the order of `step`. A repeated step is the start of another process."""

    step: int


class SignalReceived(Event, summary="broker {node} receives {signal}"):
    """The process receives a signal to end."""

    signal: str


class ShuttingDown(Event, summary="broker {node} begins a controlled shutdown"):
    """The broker begins a controlled shutdown."""


class FatalError(Event, summary="broker {node}: {reason}"):
    """The broker exits because of an error."""

    reason: str


class LogRecovery(Event, summary="broker {node} finds no marker of a clean shutdown"):
    """The broker finds no marker of a clean shutdown when it starts."""


class Version(Event):
    """The broker or a client inside it reports its release; both have the same."""

    version: str


class ZooKeeperUsed(Event):
    """The broker connects to ZooKeeper, or registers there."""


class BrokerFenced(Event, summary="the controller fences broker {broker}: its session timed out"):
    """The controller fences a broker (KRaft)."""

    broker: int


class BrokerUnfenced(Event, summary="the controller unfences broker {broker}"):
    """The controller unfences a broker (KRaft)."""

    broker: int


class BrokersChanged(Event, summary="brokers added {added}, removed {deleted}, restarted {bounced}"):
    """The controller reads another list of brokers from ZooKeeper."""

    added: BrokerIds
    deleted: BrokerIds
    bounced: BrokerIds
    live: BrokerIds


class ControllerElected(Event, summary="broker {node} becomes the active controller, epoch {epoch}"):
    """`node` becomes the active controller."""

    epoch: int


class ControllerResigned(Event, summary="broker {node} is no longer the active controller"):
    """`node` stops being the active controller."""


class HeartbeatFailed(Event, summary="broker {node} cannot reach the controller, or its session expired"):
    """A broker cannot reach the controller, or its ZooKeeper session expires."""


class PeerLost(Event, summary="broker {node} has no connection to broker {peer}"):
    """A connection to another broker breaks or cannot be opened."""

    peer: int


class TopicCreated(Event, summary="topic {topic} is created: {partitions} partitions, {replicas} replicas"):
    """A topic is created."""

    topic: str
    partitions: int
    replicas: int


class PartitionPlaced(PartitionEvent):
    """The controller assigns the replicas of a partition."""

    replicas: BrokerIds
    topic_id: str = ""
    leader: int = -1


class LogCreated(PartitionEvent):
    """A broker creates the log of a replica, with the settings of the topic."""

    properties: str


class LeaderStarted(
    PartitionEvent, summary="broker {node} leads {partition}, epoch {leader_epoch}, from offset {offset}, ISR {isr}"
):
    """`node` becomes the leader of a partition. `previous_leader` is -1 where the line does not name it."""

    leader_epoch: int
    offset: int
    isr: BrokerIds
    previous_epoch: int
    previous_leader: int = -1


class FollowerStarted(PartitionEvent):
    """`node` becomes a follower of a partition. `leader` is -1 where the line does not name it."""

    leader_epoch: int
    previous_epoch: int
    leader: int = -1


class LeaderChosen(
    PartitionEvent, summary="the controller elects {leader} as leader of {partition}, epoch {leader_epoch}, ISR {isr}"
):
    """The controller elects a leader (ZooKeeper)."""

    leader: int
    leader_epoch: int
    isr: BrokerIds


class IsrShrunk(PartitionEvent, summary="ISR of {partition} shrinks from {before} to {isr}"):
    """The leader removes replicas from the ISR. `end_offset` is the end of its log at that time."""

    before: BrokerIds
    isr: BrokerIds
    end_offset: int = -1


class IsrUpdated(PartitionEvent, summary="ISR of {partition} is {isr}"):
    """A broker reports the current ISR."""

    isr: BrokerIds


class UncleanElection(Event, summary="UNCLEAN election: {leader}, which is not in the ISR, leads {partition}"):
    """A replica outside the ISR becomes leader."""

    leader: int
    partition: TopicPartition | None = None
    topic_id: str = ""
    number: int = -1


class LogLoaded(PartitionEvent, summary="broker {node} has {partition} up to offset {end_offset}"):
    """A broker loads the log of a replica when it starts."""

    end_offset: int


class ReplicaLoaded(PartitionEvent):
    """A broker has a replica of a partition."""


class LeaderNotElected(PartitionEvent, summary="no leader can be elected for {partition}: {reason}"):
    """The controller finds no replica that may become leader (ZooKeeper)."""

    reason: str = "no replica may lead"


class StateChangeError(Event, summary="broker {node}: {text}"):
    """Another error in the log of state changes. `text` is its first line, with the exception behind it."""

    text: str


class Truncated(PartitionEvent, summary="broker {node} truncates {partition} to offset {offset}"):
    """A broker truncates the log of a replica."""

    offset: int


class CoordinatorLoaded(PartitionEvent, summary="broker {node} coordinates {partition}"):
    """`node` becomes the coordinator for the groups or transactional ids of this partition."""


class CoordinatorUnloaded(PartitionEvent, summary="broker {node} no longer coordinates {partition}"):
    """`node` stops being the coordinator for this partition."""


class RebalanceBegan(GroupEvent, summary="group {group} rebalances after generation {generation}: {reason}"):
    """A group begins a rebalance."""

    generation: int
    reason: str


class RebalanceDone(GroupEvent, summary="group {group} has generation {generation} with {members} members"):
    """All members of a group have joined a generation."""

    generation: int
    members: int


class MemberJoined(MemberEvent):
    """A member joins a group."""


class MemberFailed(MemberEvent, summary="member {member} of group {group} failed: {reason}"):
    """The coordinator removes a member from its group."""

    reason: str = "session timed out"


class MemberLeft(MemberEvent, summary="member {member} left group {group}; reason of its client: {reason}"):
    """A member leaves its group. `reason` is the text of its client."""

    reason: str = "not provided"


class PollTimeExceeded(Event, summary="client {client} did not poll within max.poll.interval.ms"):
    """A client reports in its own log that it exceeded max.poll.interval.ms."""

    client: str


class TransactionalIdTaken(Event, summary="transactional id {transactional_id} is initialized with epoch {epoch}"):
    """A producer initializes a transactional id; an epoch above 0 fences the previous producer."""

    transactional_id: str
    epoch: int


class TransactionTimedOut(Event, summary="transaction of {transactional_id} is aborted by its timeout"):
    """The coordinator aborts a transaction that exceeded its timeout."""

    transactional_id: str


class ProducerFenced(Event, summary="producer id {producer_id} is rejected: its epoch is old"):
    """A broker rejects a request of a producer with an old epoch."""

    producer_id: int


class DiskFailed(Event, summary="broker {node} lost log directory {directory}"):
    """A log directory fails."""

    directory: str


class BelowMinIsr(
    PartitionEvent, summary="writes to {partition} are rejected: the ISR is smaller than min.insync.replicas"
):
    """A broker rejects a write because the ISR is smaller than min.insync.replicas."""

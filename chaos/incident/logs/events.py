"""Events in the logs of brokers, one class for each kind.

Times are microseconds since the epoch. `node` is the broker or controller that wrote the line; the event may concern
another broker. pydantic converts the text of the log to the type of each field.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator

from chaos.incident.logs.entries import Source
from chaos.kafka.partition import TopicPartition

BrokerIds = Annotated[tuple[int, ...], BeforeValidator(lambda text: [n for n in text.replace(" ", "").split(",") if n])]
"""Broker ids, from text such as `1, 2,3`."""


class Event(BaseModel, frozen=True):
    """Base of all events. `summary` is the text of `describe`, with the fields of the event in braces."""

    summary: ClassVar[str] = ""
    at_us: int
    node: int
    source: Source

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


class JvmStep(Event):
    """Step of a broker's start, in the order of `step`. A repeated step is the start of another process."""

    summary = "broker {node} starts"
    step: int


class SignalReceived(Event):
    """The process receives a signal to end."""

    summary = "broker {node} receives {signal}"
    signal: str


class ShuttingDown(Event):
    """The broker begins a controlled shutdown."""

    summary = "broker {node} begins a controlled shutdown"


class FatalError(Event):
    """The broker exits because of an error."""

    summary = "broker {node}: {reason}"
    reason: str


class LogRecovery(Event):
    """The broker finds no marker of a clean shutdown when it starts."""

    summary = "broker {node} finds no marker of a clean shutdown"


class Version(Event):
    """The broker or a client inside it reports its release; both have the same."""

    version: str


class BrokerFenced(Event):
    """The controller fences a broker (KRaft)."""

    summary = "the controller fences broker {broker}: its session timed out"
    broker: int


class BrokerUnfenced(Event):
    """The controller unfences a broker (KRaft)."""

    summary = "the controller unfences broker {broker}"
    broker: int


class BrokersChanged(Event):
    """The controller reads another list of brokers from ZooKeeper."""

    summary = "brokers added {added}, removed {deleted}, restarted {bounced}"
    added: BrokerIds
    deleted: BrokerIds
    bounced: BrokerIds
    live: BrokerIds


class ControllerElected(Event):
    """`node` becomes the active controller."""

    summary = "broker {node} becomes the active controller, epoch {epoch}"
    epoch: int


class ControllerResigned(Event):
    """`node` stops being the active controller."""

    summary = "broker {node} is no longer the active controller"


class HeartbeatFailed(Event):
    """A broker cannot reach the controller, or its ZooKeeper session expires."""

    summary = "broker {node} cannot reach the controller, or its session expired"


class PeerLost(Event):
    """A connection to another broker breaks or cannot be opened."""

    summary = "broker {node} has no connection to broker {peer}"
    peer: int


class TopicCreated(Event):
    """A topic is created."""

    summary = "topic {topic} is created: {partitions} partitions, {replicas} replicas"
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


class LeaderStarted(PartitionEvent):
    """`node` becomes the leader of a partition. `previous_leader` is -1 where the line does not name it."""

    summary = "broker {node} leads {partition}, epoch {leader_epoch}, from offset {offset}, ISR {isr}"
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


class LeaderChosen(PartitionEvent):
    """The controller elects a leader (ZooKeeper)."""

    summary = "the controller elects {leader} as leader of {partition}, epoch {leader_epoch}, ISR {isr}"
    leader: int
    leader_epoch: int
    isr: BrokerIds


class IsrShrunk(PartitionEvent):
    """The leader removes replicas from the ISR. `end_offset` is the end of its log at that time."""

    summary = "ISR of {partition} shrinks from {before} to {isr}"
    before: BrokerIds
    isr: BrokerIds
    end_offset: int = -1


class IsrUpdated(PartitionEvent):
    """A broker reports the current ISR."""

    summary = "ISR of {partition} is {isr}"
    isr: BrokerIds


class UncleanElection(Event):
    """A replica outside the ISR becomes leader."""

    summary = "UNCLEAN election: {leader}, which is not in the ISR, leads {partition}"
    leader: int
    partition: TopicPartition | None = None
    topic_id: str = ""
    number: int = -1
    previous_leader: int = -1


class LogLoaded(PartitionEvent):
    """A broker loads the log of a replica when it starts."""

    summary = "broker {node} has {partition} up to offset {end_offset}"
    end_offset: int


class Truncated(PartitionEvent):
    """A broker truncates the log of a replica."""

    summary = "broker {node} truncates {partition} to offset {offset}"
    offset: int


class CoordinatorLoaded(PartitionEvent):
    """`node` becomes the coordinator for the groups or transactional ids of this partition."""

    summary = "broker {node} coordinates {partition}"


class CoordinatorUnloaded(PartitionEvent):
    """`node` stops being the coordinator for this partition."""

    summary = "broker {node} no longer coordinates {partition}"


class RebalanceBegan(GroupEvent):
    """A group begins a rebalance."""

    summary = "group {group} rebalances after generation {generation}: {reason}"
    generation: int
    reason: str


class RebalanceDone(GroupEvent):
    """All members of a group have joined a generation."""

    summary = "group {group} has generation {generation} with {members} members"
    generation: int
    members: int


class MemberJoined(MemberEvent):
    """A member joins a group."""


class MemberFailed(MemberEvent):
    """The coordinator removes a member from its group."""

    summary = "member {member} of group {group} failed: {reason}"
    reason: str = "session timed out"


class MemberLeft(MemberEvent):
    """A member leaves its group. `reason` is the text of its client."""

    summary = "member {member} left group {group}; reason of its client: {reason}"
    reason: str = "not provided"


class PollTimeExceeded(Event):
    """A client reports in its own log that it exceeded max.poll.interval.ms."""

    summary = "client {client} did not poll within max.poll.interval.ms"
    client: str


class TransactionalIdTaken(Event):
    """A producer initializes a transactional id; an epoch above 0 fences the previous producer."""

    summary = "transactional id {transactional_id} is initialized with epoch {epoch}"
    transactional_id: str
    epoch: int


class TransactionTimedOut(Event):
    """The coordinator aborts a transaction that exceeded its timeout."""

    summary = "transaction of {transactional_id} is aborted by its timeout"
    transactional_id: str


class ProducerFenced(Event):
    """A broker rejects a request of a producer with an old epoch."""

    summary = "producer id {producer_id} is rejected: its epoch is old"
    producer_id: int


class DiskFailed(Event):
    """A log directory fails."""

    summary = "broker {node} lost log directory {directory}"
    directory: str


class BelowMinIsr(PartitionEvent):
    """A broker rejects a write because the ISR is smaller than min.insync.replicas."""

    summary = "writes to {partition} are rejected: the ISR is smaller than min.insync.replicas"

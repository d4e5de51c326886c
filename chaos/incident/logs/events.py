"""What brokers said, as data. Times are microseconds since the epoch, partitions are written orders/0.

`node` is the broker (or controller) whose log says it; what it says may be about another one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where it stands: a file, by its path inside the folder, a line counted from 1, and the beginning of the text."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Event:
    """Anything that was said."""

    at_us: int
    node: int
    source: Source


@dataclass(frozen=True)
class JvmStep(Event):
    """A step of a broker's start, in the order of `step`: one that comes again begins another life."""

    step: int


@dataclass(frozen=True)
class SignalReceived(Event):
    """The process was asked to end."""

    signal: str


@dataclass(frozen=True)
class ShuttingDown(Event):
    """The broker began to shut down in order."""


@dataclass(frozen=True)
class FatalError(Event):
    """The broker gave up."""

    reason: str


@dataclass(frozen=True)
class LogRecovery(Event):
    """At its start the broker found no mark of a clean shutdown."""


@dataclass(frozen=True)
class Version(Event):
    """The release, or the library of a client inside the broker: they have the same."""

    version: str


@dataclass(frozen=True)
class BrokerFenced(Event):
    """The controller fenced a broker (KRaft)."""

    broker: int


@dataclass(frozen=True)
class BrokerUnfenced(Event):
    """The controller lets a broker serve."""

    broker: int


@dataclass(frozen=True)
class BrokersChanged(Event):
    """What the controller learned from ZooKeeper."""

    added: tuple[int, ...]
    deleted: tuple[int, ...]
    bounced: tuple[int, ...]
    live: tuple[int, ...]


@dataclass(frozen=True)
class ControllerElected(Event):
    """`node` is the active controller from now on."""

    epoch: int


@dataclass(frozen=True)
class ControllerResigned(Event):
    """`node` is the active controller no more."""


@dataclass(frozen=True)
class HeartbeatFailed(Event):
    """A broker could not reach the controller, or lost its session with ZooKeeper."""


@dataclass(frozen=True)
class PeerLost(Event):
    """A connection to another broker broke or could not be made."""

    peer: int


@dataclass(frozen=True)
class TopicCreated(Event):
    """A topic was made."""

    topic: str
    partitions: int
    replicas: int


@dataclass(frozen=True)
class PartitionPlaced(Event):
    """A partition and its replicas."""

    partition: str
    replicas: tuple[int, ...]
    topic_id: str = ""
    leader: int = -1


@dataclass(frozen=True)
class LogCreated(Event):
    """A replica's log was made, with the topic's settings."""

    partition: str
    properties: str


@dataclass(frozen=True)
class LeaderStarted(Event):
    """`node` leads a partition from an offset on. `previous_leader` is -1 where it is not said."""

    partition: str
    leader_epoch: int
    offset: int
    isr: tuple[int, ...]
    previous_epoch: int
    previous_leader: int = -1


@dataclass(frozen=True)
class FollowerStarted(Event):
    """`node` follows a partition. `leader` is -1 where it is not said."""

    partition: str
    leader_epoch: int
    previous_epoch: int
    leader: int = -1


@dataclass(frozen=True)
class LeaderChosen(Event):
    """The controller chose a leader (ZooKeeper)."""

    partition: str
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True)
class IsrShrunk(Event):
    """The leader took replicas out of the ISR. `end_offset` is its log's end then."""

    partition: str
    before: tuple[int, ...]
    isr: tuple[int, ...]
    end_offset: int = -1


@dataclass(frozen=True)
class IsrUpdated(Event):
    """The ISR as it is now."""

    partition: str
    isr: tuple[int, ...]


@dataclass(frozen=True)
class UncleanElection(Event):
    """A replica that was not in sync was made leader."""

    leader: int
    partition: str = ""
    topic_id: str = ""
    number: int = -1
    previous_leader: int = -1


@dataclass(frozen=True)
class LogLoaded(Event):
    """A broker read the log of a replica at its start; it ended there."""

    partition: str
    end_offset: int


@dataclass(frozen=True)
class Truncated(Event):
    """A replica's log was cut off at an offset."""

    partition: str
    offset: int


@dataclass(frozen=True)
class CoordinatorLoaded(Event):
    """`node` coordinates the groups (or transactional ids) of this partition from now on."""

    partition: str


@dataclass(frozen=True)
class CoordinatorUnloaded(Event):
    """`node` coordinates them no more."""

    partition: str


@dataclass(frozen=True)
class RebalanceBegan(Event):
    """A group rebalances; `node` is its coordinator."""

    group: str
    generation: int
    reason: str


@dataclass(frozen=True)
class RebalanceDone(Event):
    """All members of a group have joined a generation."""

    group: str
    generation: int
    members: int


@dataclass(frozen=True)
class MemberJoined(Event):
    """A member came to a group."""

    group: str
    member: str


@dataclass(frozen=True)
class MemberFailed(Event):
    """A member was put out of its group: session timeout, or `reason`."""

    group: str
    member: str
    reason: str = ""


@dataclass(frozen=True)
class MemberLeft(Event):
    """A member left its group by itself, with the reason that its client gave, if any."""

    group: str
    member: str
    reason: str = ""


@dataclass(frozen=True)
class PollTimeExceeded(Event):
    """A client's own log: it did not poll within max.poll.interval.ms."""

    client: str


@dataclass(frozen=True)
class TransactionalIdTaken(Event):
    """A producer took a transactional id; with an epoch above 0 it fences the one before."""

    transactional_id: str
    epoch: int


@dataclass(frozen=True)
class TransactionTimedOut(Event):
    """The coordinator aborted a transaction that was open for too long."""

    transactional_id: str


@dataclass(frozen=True)
class ProducerFenced(Event):
    """A write or a request of a producer with an old epoch was refused."""

    producer_id: int


@dataclass(frozen=True)
class DiskFailed(Event):
    """A log directory failed."""

    directory: str


@dataclass(frozen=True)
class BelowMinIsr(Event):
    """A write was refused, for the ISR was smaller than min.insync.replicas."""

    partition: str

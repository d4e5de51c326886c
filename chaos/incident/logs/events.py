"""Events in the logs of brokers, one class for each kind.

Times are microseconds since the epoch. `node` is the broker or controller that wrote the line; the event may concern
another broker. pydantic converts the text of the log to the type of each field.

A pattern has the Kafka class that writes a message, the releases, and the resulting event. The patterns are taken from
the classes of 2.8.2, 3.9.2 and 4.3.1 and from logs of real clusters of these releases. Only messages of the listed
classes are searched, by simple class name because Kafka moved classes between packages. A line of any other class
therefore costs almost nothing. Named groups of a pattern are the fields of its event.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator

from chaos.incident.logs.entries import Entry, Source
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


STATE_CHANGE = "state.change.logger"
_P = r"(?P<partition>[A-Za-z0-9._-]+-\d+)"


@dataclass(frozen=True)
class Pattern:
    """One message of Kafka. `classes` write it in the releases `since`; `fixed` are fields without a group."""

    event: type[Event]
    text: re.Pattern[str]
    classes: tuple[str, ...]
    since: str
    fixed: Mapping[str, Any] = field(default_factory=dict)


def _p(event: type[Event], text: str, classes: str, since: str = "2.8 to 4.3", **fixed: Any) -> Pattern:
    return Pattern(event, re.compile(text), tuple(classes.split()), since, fixed)


PATTERNS = (
    # start and end of a broker
    _p(JvmStep, r"Registered `?kafka:type=kafka\.Log4jController`? MBean", "Log4jControllerRegistration", step=0),
    _p(JvmStep, r"Registered signal handlers for", "LoggingSignalHandler", step=1),
    _p(JvmStep, r"^starting$", "KafkaServer", "2.8 to 3.9, ZooKeeper", step=2),
    _p(JvmStep, r"Starting broker$", "BrokerServer", "2.8 to 4.3, KRaft", step=3),
    _p(SignalReceived, r"Terminating process due to signal (?P<signal>\w+)", "LoggingSignalHandler"),
    _p(ShuttingDown, r"^(?:\[KafkaServer id=\d+\] )?(?:shutting down|Starting controlled shutdown)$", "KafkaServer"),
    _p(ShuttingDown, r"Transition from STARTED to SHUTTING_DOWN|\] shutting down$", "BrokerServer"),
    _p(FatalError, r"(?P<reason>Fatal error during \w+ ?startup)", "KafkaServer BrokerServer ControllerServer"),
    _p(FatalError, r"(?P<reason>Exiting Kafka due to fatal exception)", "Kafka"),
    _p(FatalError, r"(?P<reason>java\.lang\.OutOfMemoryError[^\n]{0,80})", "*"),
    _p(LogRecovery, r"(?:Attempting recovery for all|Recovering \d+) logs (?:in|from) .* since no clean shutdown file was found", "LogManager"),  # noqa: E501
    _p(Version, r"^Kafka version: (?P<version>\S+)", "AppInfoParser"),
    _p(ZooKeeperUsed, r"^(?:\[KafkaServer id=\d+\] )?Connecting to zookeeper on", "KafkaServer", "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(ZooKeeperUsed, r"^Registered broker \d+ at path /brokers/ids/", "KafkaZkClient", "2.8 to 3.9, ZooKeeper"),
    # brokers as the controller sees them
    _p(BrokerFenced, r"Fencing broker (?P<broker>\d+)(?: at epoch \d+)? because its session has timed out", "ReplicationControlManager", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(BrokerUnfenced, r"request from broker (?P<broker>\d+) to unfence has been granted", "BrokerHeartbeatManager", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(BrokersChanged, r"Newly added brokers: (?P<added>[\d,]*), deleted brokers: (?P<deleted>[\d,]*), bounced brokers: (?P<bounced>[\d,]*), all live brokers: (?P<live>[\d,]*)", "KafkaController", "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(ControllerElected, r"Becoming (?:the )?active (?:controller )?at (?:controller )?epoch (?P<epoch>\d+)", "QuorumController", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(ControllerResigned, r"Renouncing the leadership", "QuorumController", "2.8 to 4.3, KRaft"),
    _p(ControllerElected, r"successfully elected as the controller\. Epoch incremented to (?P<epoch>\d+)", "KafkaController", "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(ControllerResigned, r"\] Resigned$", "KafkaController", "2.8 to 3.9, ZooKeeper"),
    _p(HeartbeatFailed, r"Unable to send a heartbeat because the RPC got timed out", "BrokerLifecycleManager", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(HeartbeatFailed, r"Session expired\.", "ZooKeeperClient", "2.8 to 3.9, ZooKeeper"),
    _p(PeerLost, r"Replica(?:Fetcher|Manager)[^\]]*\] (?:Connection to node|Node) (?P<peer>\d+)(?: \(\S*\))? (?:could not be established|disconnected)", "NetworkClient"),  # noqa: E501
    _p(PeerLost, r"leaderId=(?P<peer>\d+)[^\]]*\] Error in response for fetch request", "ReplicaFetcherThread"),
    # topics
    _p(TopicCreated, r"CreatableTopic\(name='(?P<topic>[^']*)', numPartitions=(?P<partitions>-?\d+), replicationFactor=(?P<replicas>-?\d+)", "ReplicationControlManager", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(PartitionPlaced, rf"Replayed PartitionRecord for new partition {_P} with topic ID (?P<topic_id>\S+) and PartitionRegistration\(replicas=\[(?P<replicas>[\d, ]*)\].*? leader=(?P<leader>-?\d+)", "ReplicationControlManager", "3.0 to 4.3, KRaft"),  # noqa: E501
    _p(PartitionPlaced, rf"{_P} -> ReplicaAssignment\(replicas=(?P<replicas>[\d,]*)", "KafkaController", "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(LogCreated, rf"Created log for partition {_P} in .* with properties \{{(?P<properties>.*)\}}", "LogManager"),
    # leaders and replicas
    _p(LeaderStarted, rf"Leader {_P} starts at leader epoch (?P<leader_epoch>\d+) from offset (?P<offset>\d+) with high watermark \d+ ISR \[(?P<isr>[\d,]*)\].*Previous leader epoch was (?P<previous_epoch>-?\d+)", STATE_CHANGE, "2.8"),  # noqa: E501
    _p(LeaderStarted, rf"Leader {_P}(?: with topic id \S+)? starts at leader epoch (?P<leader_epoch>\d+) from offset (?P<offset>\d+) with partition epoch \d+, high watermark \d+, ISR \[(?P<isr>[\d,]*)\].*?Previous leader (?:Some\((?P<previous_leader>\d+)\)|None) and previous leader epoch was (?P<previous_epoch>-?\d+)", STATE_CHANGE, "3.0 to 4.3"),  # noqa: E501
    _p(FollowerStarted, rf"Follower {_P} starts at leader epoch (?P<leader_epoch>\d+) from offset \d+ with high watermark \d+\. Previous leader epoch was (?P<previous_epoch>-?\d+)", STATE_CHANGE, "2.8"),  # noqa: E501
    _p(FollowerStarted, rf"Follower {_P} starts at leader epoch (?P<leader_epoch>\d+) from offset \d+ with partition epoch \d+ and high watermark \d+\. Current leader is (?P<leader>-?\d+)\. Previous leader \S+ and previous leader epoch was (?P<previous_epoch>-?\d+)", STATE_CHANGE, "3.0 to 4.3"),  # noqa: E501
    _p(LeaderNotElected, rf"Follower {_P} starts at leader epoch \d+ .*Current leader is -1\.", STATE_CHANGE, "3.0 to 4.3, KRaft", reason="no replica of its ISR is alive"),  # noqa: E501
    _p(LeaderChosen, rf"Changed partition {_P} from \w+ to OnlinePartition with state LeaderAndIsr\(leader=(?P<leader>-?\d+), leaderEpoch=(?P<leader_epoch>\d+), (?:isUncleanLeader=\w+, )?isr=List\((?P<isr>[\d, ]*)\)", STATE_CHANGE, "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(IsrShrunk, rf"\[Partition {_P} broker=\d+\] Shrinking ISR from (?P<before>[\d,]*) to (?P<isr>[\d,]*)\. Leader: \(highWatermark: \d+, endOffset: (?P<end_offset>\d+)\)", "Partition"),  # noqa: E501
    _p(IsrUpdated, rf"\[Partition {_P} broker=\d+\] ISR updated to \[?(?P<isr>[\d,]+)\]?", "Partition"),
    _p(UncleanElection, r"topicId (?P<topic_id>\S+), partition (?P<number>\d+) to (?P<leader>\d+) using an unclean election", "PartitionChangeBuilder", "3.0 to 4.3, KRaft"),  # noqa: E501
    _p(UncleanElection, rf"UNCLEAN partition change for {_P} with topic ID .*?leader: -?\d+ -> (?P<leader>\d+)", "ReplicationControlManager", "3.0 to 4.3, KRaft"),  # noqa: E501
    _p(LogLoaded, r"Completed load of Log\(dir=.*?/(?P<partition>[^/,]+-\d+), .*?logEndOffset=(?P<end_offset>\d+)\)", "LogManager"),  # noqa: E501
    _p(ReplicaLoaded, rf"Log loaded for partition {_P} with initial high watermark", "Partition"),
    _p(LeaderNotElected, rf"failed to change state for partition {_P} from \w+ to OnlinePartition(?:[\s\S]*?Exception: (?P<reason>[^\n]*))?", STATE_CHANGE, "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(Truncated, rf"(?:Unified)?Log partition={_P}, dir=.*\] Truncating to offset (?P<offset>\d+)", "Log UnifiedLog"),
    _p(BelowMinIsr, rf"The size of the current ISR .*insufficient to satisfy the min\.isr requirement of \d+ for partition {_P}", "ReplicaManager Partition"),  # noqa: E501
    # coordinators
    _p(CoordinatorLoaded, r"Elected as the (?P<partition>group|txn) coordinator for partition (?P<number>\d+)", "GroupCoordinator TransactionCoordinator", "2.8 to 4.3"),  # noqa: E501
    _p(CoordinatorUnloaded, r"Resigned as the (?P<partition>group|txn) coordinator for partition (?P<number>\d+)", "GroupCoordinator TransactionCoordinator", "2.8 to 4.3"),  # noqa: E501
    _p(CoordinatorLoaded, rf"Finished loading of metadata from {_P} with epoch", "CoordinatorRuntime", "4.0 to 4.3"),
    _p(CoordinatorUnloaded, rf"Finished unloading metadata for {_P} with epoch", "CoordinatorRuntime", "4.0 to 4.3"),
    # groups
    _p(RebalanceBegan, r"Preparing to rebalance group (?P<group>.+?) in state \w+ with old generation (?P<generation>-?\d+) (?:\(__consumer_offsets-\d+\) )?\(reason: (?P<reason>.*)\)\.?$", "GroupCoordinator GroupMetadataManager"),  # noqa: E501
    _p(RebalanceDone, r"Stabilized group (?P<group>.+?) generation (?P<generation>\d+)(?: \(__consumer_offsets-\d+\))? with (?P<members>\d+) members", "GroupCoordinator GroupMetadataManager"),  # noqa: E501
    _p(MemberJoined, r"[Mm]ember with unknown member id joins group (?P<group>.+?) in \w+ state\. Created a new member id (?P<member>\S+) ", "GroupCoordinator GroupMetadataManager"),  # noqa: E501
    _p(MemberJoined, r"\[GroupId (?P<group>.+?)\] Member (?P<member>\S+) joins the consumer group", "GroupMetadataManager", "3.7 to 4.3"),  # noqa: E501
    _p(MemberFailed, r"^(?:\[GroupCoordinator [^\]]*\]:? )?Member (?P<member>\S+) in group (?P<group>.+?) has failed, removing it from the group", "GroupCoordinator GroupMetadataManager"),  # noqa: E501
    _p(MemberFailed, r"\[GroupId (?P<group>.+?)\] Member (?P<member>\S+) fenced from the group because (?P<reason>.*?)\.?$", "GroupMetadataManager", "3.7 to 4.3"),  # noqa: E501
    _p(MemberLeft, r"Member\[group\.instance\.id [^,]*, member\.id (?P<member>[^\]]+)\] in group (?P<group>.+?) has left, removing it from the group", "GroupCoordinator", "2.8"),  # noqa: E501
    _p(MemberLeft, r"Member MemberMetadata\(memberId=(?P<member>[^,]+), .*\) has left group (?P<group>.+?) through explicit `LeaveGroup`; client reason: (?P<reason>.*)$", "GroupCoordinator", "3.0 to 3.9"),  # noqa: E501
    _p(MemberLeft, r"\[Group(?:Id)? (?P<group>.+?)\] (?:Dynamic )?[Mm]ember (?P<member>\S+) has left group through explicit `LeaveGroup` request; client reason: (?P<reason>.*)$", "GroupMetadataManager", "3.9 to 4.3"),  # noqa: E501
    _p(MemberLeft, r"\[GroupId (?P<group>.+?)\] Member (?P<member>\S+) left the consumer group", "GroupMetadataManager", "3.7 to 4.3"),  # noqa: E501
    _p(PollTimeExceeded, r"clientId=(?P<client>[^,\]]+).*consumer poll timeout has expired", "AbstractCoordinator ConsumerCoordinator AbstractHeartbeatRequestManager ConsumerHeartbeatRequestManager", "2.8 to 4.3, Java client"),  # noqa: E501
    # transactions
    _p(TransactionalIdTaken, r"Initialized transactionalId (?P<transactional_id>.+?) with producerId \d+ and producer epoch (?P<epoch>\d+)", "TransactionCoordinator"),  # noqa: E501
    _p(TransactionTimedOut, r"Completed rollback of ongoing transaction for transactionalId (?P<transactional_id>.+?) due to timeout", "TransactionCoordinator"),  # noqa: E501
    _p(ProducerFenced, r"Epoch of producer (?P<producer_id>\d+) at offset \d+ in \S+ is \d+, which is (?:smaller than|less than|[^,]*?) the last seen epoch", "ReplicaManager ProducerAppendInfo"),  # noqa: E501
    # disks
    _p(DiskFailed, r"Stopping serving replicas in dir (?P<directory>.+?)(?: with uuid .*)?$", "ReplicaManager"),
    _p(DiskFailed, r"(?:Shutdown|Halting) broker because (?:all log dirs in|dir) (?P<directory>.+?) (?:have failed|is offline)", "LogManager ReplicaManager LogDirFailureHandler"),  # noqa: E501
)  # fmt: skip

LIBRDKAFKA = re.compile(r"%\d\|(?P<at>\d+\.\d+)\|MAXPOLL\|(?P<client>.+?)#")
"""Message of a librdkafka client that polled too late. Its time is in seconds since the epoch."""

_COORDINATOR_TOPICS = {"group": "__consumer_offsets", "txn": "__transaction_state"}
_BY_CLASS: dict[str, list[Pattern]] = defaultdict(list)
for _pattern in PATTERNS:
    for _name in _pattern.classes:
        _BY_CLASS[_name].append(_pattern)
_ANY_CLASS = _BY_CLASS.pop("*")


def events_of(entry: Entry) -> Iterator[Event]:
    """Yield the events that a log entry reports; most entries report none."""
    found = list(_matches(entry))
    if not found and entry.logger == STATE_CHANGE and entry.level in ("ERROR", "FATAL"):
        lines = entry.message.split("\n")
        reason = next((line for line in lines[1:] if line[:1].strip() and ": " in line), "")
        text = f"{lines[0]}: {reason}" if reason else lines[0]
        found = [StateChangeError(at_us=entry.at_us, node=entry.node, source=entry.source, text=text[:300])]
    yield from found


def _matches(entry: Entry) -> Iterator[Event]:
    name = entry.logger if entry.logger == STATE_CHANGE else entry.logger.rpartition(".")[2].rstrip("$").split("$")[0]
    patterns = _BY_CLASS.get(name, [])
    if entry.level in ("ERROR", "FATAL"):
        patterns = [*patterns, *_ANY_CLASS]
    for pattern in patterns:
        for match in pattern.text.finditer(entry.message):
            fields = {key: text for key, text in match.groupdict().items() if text is not None} | dict(pattern.fixed)
            if topic := _COORDINATOR_TOPICS.get(fields.get("partition", "")):
                fields["partition"] = TopicPartition(topic, int(fields.pop("number")))
            elif "partition" in fields:
                topic, _, number = fields["partition"].rpartition("-")
                fields["partition"] = TopicPartition(topic, int(number))
            yield pattern.event(at_us=entry.at_us, node=entry.node, source=entry.source, **fields)

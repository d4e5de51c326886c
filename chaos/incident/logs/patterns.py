"""Patterns of log messages: the Kafka class that writes the message, the releases, and the resulting event.

The patterns are taken from the classes of 2.8.2, 3.9.2 and 4.3.1 and from logs of real clusters of these releases. Only
messages of the listed classes are searched, by simple class name because Kafka moved classes between packages. A line
of any other class therefore costs almost nothing. Named groups of a pattern are the fields of its event.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.incident.logs import events as e
from chaos.incident.logs.entries import Entry
from chaos.incident.logs.events import Event
from chaos.kafka.partition import TopicPartition

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
    _p(e.JvmStep, r"Registered `?kafka:type=kafka\.Log4jController`? MBean", "Log4jControllerRegistration", step=0),
    _p(e.JvmStep, r"Registered signal handlers for", "LoggingSignalHandler", step=1),
    _p(e.JvmStep, r"^starting$", "KafkaServer", "2.8 to 3.9, ZooKeeper", step=2),
    _p(e.JvmStep, r"Starting broker$", "BrokerServer", "2.8 to 4.3, KRaft", step=3),
    _p(e.SignalReceived, r"Terminating process due to signal (?P<signal>\w+)", "LoggingSignalHandler"),
    _p(e.ShuttingDown, r"^(?:\[KafkaServer id=\d+\] )?(?:shutting down|Starting controlled shutdown)$", "KafkaServer"),
    _p(e.ShuttingDown, r"Transition from STARTED to SHUTTING_DOWN|\] shutting down$", "BrokerServer"),
    _p(e.FatalError, r"(?P<reason>Fatal error during \w+ ?startup)", "KafkaServer BrokerServer ControllerServer"),
    _p(e.FatalError, r"(?P<reason>Exiting Kafka due to fatal exception)", "Kafka"),
    _p(e.FatalError, r"(?P<reason>java\.lang\.OutOfMemoryError[^\n]{0,80})", "*"),
    _p(e.LogRecovery, r"(?:Attempting recovery for all|Recovering \d+) logs (?:in|from) .* since no clean shutdown file was found", "LogManager"),  # noqa: E501
    _p(e.Version, r"^Kafka version: (?P<version>\S+)", "AppInfoParser"),
    _p(e.ZooKeeperUsed, r"^(?:\[KafkaServer id=\d+\] )?Connecting to zookeeper on", "KafkaServer", "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(e.ZooKeeperUsed, r"^Registered broker \d+ at path /brokers/ids/", "KafkaZkClient", "2.8 to 3.9, ZooKeeper"),
    # brokers as the controller sees them
    _p(e.BrokerFenced, r"Fencing broker (?P<broker>\d+)(?: at epoch \d+)? because its session has timed out", "ReplicationControlManager", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(e.BrokerUnfenced, r"request from broker (?P<broker>\d+) to unfence has been granted", "BrokerHeartbeatManager", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(e.BrokersChanged, r"Newly added brokers: (?P<added>[\d,]*), deleted brokers: (?P<deleted>[\d,]*), bounced brokers: (?P<bounced>[\d,]*), all live brokers: (?P<live>[\d,]*)", "KafkaController", "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(e.ControllerElected, r"Becoming (?:the )?active (?:controller )?at (?:controller )?epoch (?P<epoch>\d+)", "QuorumController", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(e.ControllerResigned, r"Renouncing the leadership", "QuorumController", "2.8 to 4.3, KRaft"),
    _p(e.ControllerElected, r"successfully elected as the controller\. Epoch incremented to (?P<epoch>\d+)", "KafkaController", "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(e.ControllerResigned, r"\] Resigned$", "KafkaController", "2.8 to 3.9, ZooKeeper"),
    _p(e.HeartbeatFailed, r"Unable to send a heartbeat because the RPC got timed out", "BrokerLifecycleManager", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(e.HeartbeatFailed, r"Session expired\.", "ZooKeeperClient", "2.8 to 3.9, ZooKeeper"),
    _p(e.PeerLost, r"Replica(?:Fetcher|Manager)[^\]]*\] (?:Connection to node|Node) (?P<peer>\d+)(?: \(\S*\))? (?:could not be established|disconnected)", "NetworkClient"),  # noqa: E501
    _p(e.PeerLost, r"leaderId=(?P<peer>\d+)[^\]]*\] Error in response for fetch request", "ReplicaFetcherThread"),
    # topics
    _p(e.TopicCreated, r"CreatableTopic\(name='(?P<topic>[^']*)', numPartitions=(?P<partitions>-?\d+), replicationFactor=(?P<replicas>-?\d+)", "ReplicationControlManager", "2.8 to 4.3, KRaft"),  # noqa: E501
    _p(e.PartitionPlaced, rf"Replayed PartitionRecord for new partition {_P} with topic ID (?P<topic_id>\S+) and PartitionRegistration\(replicas=\[(?P<replicas>[\d, ]*)\].*? leader=(?P<leader>-?\d+)", "ReplicationControlManager", "3.0 to 4.3, KRaft"),  # noqa: E501
    _p(e.PartitionPlaced, rf"{_P} -> ReplicaAssignment\(replicas=(?P<replicas>[\d,]*)", "KafkaController", "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(e.LogCreated, rf"Created log for partition {_P} in .* with properties \{{(?P<properties>.*)\}}", "LogManager"),
    # leaders and replicas
    _p(e.LeaderStarted, rf"Leader {_P} starts at leader epoch (?P<leader_epoch>\d+) from offset (?P<offset>\d+) with high watermark \d+ ISR \[(?P<isr>[\d,]*)\].*Previous leader epoch was (?P<previous_epoch>-?\d+)", STATE_CHANGE, "2.8"),  # noqa: E501
    _p(e.LeaderStarted, rf"Leader {_P}(?: with topic id \S+)? starts at leader epoch (?P<leader_epoch>\d+) from offset (?P<offset>\d+) with partition epoch \d+, high watermark \d+, ISR \[(?P<isr>[\d,]*)\].*?Previous leader (?:Some\((?P<previous_leader>\d+)\)|None) and previous leader epoch was (?P<previous_epoch>-?\d+)", STATE_CHANGE, "3.0 to 4.3"),  # noqa: E501
    _p(e.FollowerStarted, rf"Follower {_P} starts at leader epoch (?P<leader_epoch>\d+) from offset \d+ with high watermark \d+\. Previous leader epoch was (?P<previous_epoch>-?\d+)", STATE_CHANGE, "2.8"),  # noqa: E501
    _p(e.FollowerStarted, rf"Follower {_P} starts at leader epoch (?P<leader_epoch>\d+) from offset \d+ with partition epoch \d+ and high watermark \d+\. Current leader is (?P<leader>-?\d+)\. Previous leader \S+ and previous leader epoch was (?P<previous_epoch>-?\d+)", STATE_CHANGE, "3.0 to 4.3"),  # noqa: E501
    _p(e.LeaderNotElected, rf"Follower {_P} starts at leader epoch \d+ .*Current leader is -1\.", STATE_CHANGE, "3.0 to 4.3, KRaft", reason="no replica of its ISR is alive"),  # noqa: E501
    _p(e.LeaderChosen, rf"Changed partition {_P} from \w+ to OnlinePartition with state LeaderAndIsr\(leader=(?P<leader>-?\d+), leaderEpoch=(?P<leader_epoch>\d+), (?:isUncleanLeader=\w+, )?isr=List\((?P<isr>[\d, ]*)\)", STATE_CHANGE, "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(e.IsrShrunk, rf"\[Partition {_P} broker=\d+\] Shrinking ISR from (?P<before>[\d,]*) to (?P<isr>[\d,]*)\. Leader: \(highWatermark: \d+, endOffset: (?P<end_offset>\d+)\)", "Partition"),  # noqa: E501
    _p(e.IsrUpdated, rf"\[Partition {_P} broker=\d+\] ISR updated to \[?(?P<isr>[\d,]+)\]?", "Partition"),
    _p(e.UncleanElection, r"topicId (?P<topic_id>\S+), partition (?P<number>\d+) to (?P<leader>\d+) using an unclean election", "PartitionChangeBuilder", "3.0 to 4.3, KRaft"),  # noqa: E501
    _p(e.UncleanElection, rf"UNCLEAN partition change for {_P} with topic ID .*?leader: -?\d+ -> (?P<leader>\d+)", "ReplicationControlManager", "3.0 to 4.3, KRaft"),  # noqa: E501
    _p(e.LogLoaded, r"Completed load of Log\(dir=.*?/(?P<partition>[^/,]+-\d+), .*?logEndOffset=(?P<end_offset>\d+)\)", "LogManager"),  # noqa: E501
    _p(e.ReplicaLoaded, rf"Log loaded for partition {_P} with initial high watermark", "Partition"),
    _p(e.LeaderNotElected, rf"failed to change state for partition {_P} from \w+ to OnlinePartition(?:[\s\S]*?Exception: (?P<reason>[^\n]*))?", STATE_CHANGE, "2.8 to 3.9, ZooKeeper"),  # noqa: E501
    _p(e.Truncated, rf"(?:Unified)?Log partition={_P}, dir=.*\] Truncating to offset (?P<offset>\d+)", "Log UnifiedLog"),  # noqa: E501
    _p(e.BelowMinIsr, rf"The size of the current ISR .*insufficient to satisfy the min\.isr requirement of \d+ for partition {_P}", "ReplicaManager Partition"),  # noqa: E501
    # coordinators
    _p(e.CoordinatorLoaded, r"Elected as the (?P<partition>group|txn) coordinator for partition (?P<number>\d+)", "GroupCoordinator TransactionCoordinator", "2.8 to 4.3"),  # noqa: E501
    _p(e.CoordinatorUnloaded, r"Resigned as the (?P<partition>group|txn) coordinator for partition (?P<number>\d+)", "GroupCoordinator TransactionCoordinator", "2.8 to 4.3"),  # noqa: E501
    _p(e.CoordinatorLoaded, rf"Finished loading of metadata from {_P} with epoch", "CoordinatorRuntime", "4.0 to 4.3"),
    _p(e.CoordinatorUnloaded, rf"Finished unloading metadata for {_P} with epoch", "CoordinatorRuntime", "4.0 to 4.3"),
    # groups
    _p(e.RebalanceBegan, r"Preparing to rebalance group (?P<group>.+?) in state \w+ with old generation (?P<generation>-?\d+) (?:\(__consumer_offsets-\d+\) )?\(reason: (?P<reason>.*)\)\.?$", "GroupCoordinator GroupMetadataManager"),  # noqa: E501
    _p(e.RebalanceDone, r"Stabilized group (?P<group>.+?) generation (?P<generation>\d+)(?: \(__consumer_offsets-\d+\))? with (?P<members>\d+) members", "GroupCoordinator GroupMetadataManager"),  # noqa: E501
    _p(e.MemberJoined, r"[Mm]ember with unknown member id joins group (?P<group>.+?) in \w+ state\. Created a new member id (?P<member>\S+) ", "GroupCoordinator GroupMetadataManager"),  # noqa: E501
    _p(e.MemberJoined, r"\[GroupId (?P<group>.+?)\] Member (?P<member>\S+) joins the consumer group", "GroupMetadataManager", "3.7 to 4.3"),  # noqa: E501
    _p(e.MemberFailed, r"^(?:\[GroupCoordinator [^\]]*\]:? )?Member (?P<member>\S+) in group (?P<group>.+?) has failed, removing it from the group", "GroupCoordinator GroupMetadataManager"),  # noqa: E501
    _p(e.MemberFailed, r"\[GroupId (?P<group>.+?)\] Member (?P<member>\S+) fenced from the group because (?P<reason>.*?)\.?$", "GroupMetadataManager", "3.7 to 4.3"),  # noqa: E501
    _p(e.MemberLeft, r"Member\[group\.instance\.id [^,]*, member\.id (?P<member>[^\]]+)\] in group (?P<group>.+?) has left, removing it from the group", "GroupCoordinator", "2.8"),  # noqa: E501
    _p(e.MemberLeft, r"Member MemberMetadata\(memberId=(?P<member>[^,]+), .*\) has left group (?P<group>.+?) through explicit `LeaveGroup`; client reason: (?P<reason>.*)$", "GroupCoordinator", "3.0 to 3.9"),  # noqa: E501
    _p(e.MemberLeft, r"\[Group(?:Id)? (?P<group>.+?)\] (?:Dynamic )?[Mm]ember (?P<member>\S+) has left group through explicit `LeaveGroup` request; client reason: (?P<reason>.*)$", "GroupMetadataManager", "3.9 to 4.3"),  # noqa: E501
    _p(e.MemberLeft, r"\[GroupId (?P<group>.+?)\] Member (?P<member>\S+) left the consumer group", "GroupMetadataManager", "3.7 to 4.3"),  # noqa: E501
    _p(e.PollTimeExceeded, r"clientId=(?P<client>[^,\]]+).*consumer poll timeout has expired", "AbstractCoordinator ConsumerCoordinator AbstractHeartbeatRequestManager ConsumerHeartbeatRequestManager", "2.8 to 4.3, Java client"),  # noqa: E501
    # transactions
    _p(e.TransactionalIdTaken, r"Initialized transactionalId (?P<transactional_id>.+?) with producerId \d+ and producer epoch (?P<epoch>\d+)", "TransactionCoordinator"),  # noqa: E501
    _p(e.TransactionTimedOut, r"Completed rollback of ongoing transaction for transactionalId (?P<transactional_id>.+?) due to timeout", "TransactionCoordinator"),  # noqa: E501
    _p(e.ProducerFenced, r"Epoch of producer (?P<producer_id>\d+) at offset \d+ in \S+ is \d+, which is (?:smaller than|less than|[^,]*?) the last seen epoch", "ReplicaManager ProducerAppendInfo"),  # noqa: E501
    # disks
    _p(e.DiskFailed, r"Stopping serving replicas in dir (?P<directory>.+?)(?: with uuid .*)?$", "ReplicaManager"),
    _p(e.DiskFailed, r"(?:Shutdown|Halting) broker because (?:all log dirs in|dir) (?P<directory>.+?) (?:have failed|is offline)", "LogManager ReplicaManager LogDirFailureHandler"),  # noqa: E501
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
        found = [e.StateChangeError(at_us=entry.at_us, node=entry.node, source=entry.source, text=text[:300])]
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

"""Questions to a Kafka cluster about offsets, groups, the KRaft quorum and data folders, answered as plain data.

A question without an answer in time returns None, or leaves out the part that is missing: while faults take brokers
down, that is an observation and no error. The request versions are supported by Kafka 2.8 to 4.4 (KIP-896).

The quorum: a broker passes the question on to the controller that it takes for the active one. A controller answers for
itself, and only if it believes to be active.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import DescribeGroupsRequest, DescribeLogDirsRequest, DescribeQuorumRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.protocol.metadata import FindCoordinatorRequest

from chaos.kafka import messages
from chaos.kafka.brokers import Brokers
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.messages import request
from chaos.kafka.partition import TopicPartition, by_topic
from chaos.kafka.schemas import (
    ConsumerGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from chaos.run.events import now_us


def describe_request(version: int) -> Any:
    """Return the request that describes the quorum. Version 2, of Kafka 3.9, has the directories of the replicas."""
    partitions = [{"partition_index": 0}]
    return messages.request(
        DescribeQuorumRequest[version], topics=[{"topic_name": "__cluster_metadata", "partitions": partitions}]
    )


DESCRIBE_QUORUM = describe_request(0)


@dataclass(frozen=True)
class Quorum:
    """The active controller, its epoch, and the end of the metadata log of each voter as the active one knows it."""

    leader: int
    epoch: int
    ends: Mapping[int, int]


def described(answer: Any) -> Quorum | None:
    """Return the quorum in an answer; None without an answer, or if it is an error."""
    if answer is None or answer.error_code or not answer.topics:
        return None
    quorum = answer.topics[0].partitions[0]
    if quorum.error_code or quorum.leader_id < 0:
        return None
    ends = {int(voter.replica_id): int(voter.log_end_offset) for voter in quorum.current_voters}
    return Quorum(int(quorum.leader_id), int(quorum.leader_epoch), ends)


@dataclass(frozen=True)
class Belief:
    """The answer of one controller about itself. epoch: in which it believes to be active; None if it does not."""

    epoch: int | None
    asked_us: int


def ask_controller(node: int, link: BrokerConnection, timeout_s: float) -> Belief | None:
    """Return what a controller believes; None if it does not answer."""
    asked_us = now_us()
    try:
        quorum = described(link.ask(DESCRIBE_QUORUM, timeout_s))
    except OSError:
        return None
    return Belief(quorum.epoch if quorum and quorum.leader == node else None, asked_us)


UNKNOWN_GROUP = "Dead"
"""State of a group that the coordinator does not know."""


@dataclass(frozen=True)
class GroupMember:
    """A member of a group.

    instance_id: its `group.instance.id`, None for a dynamic member. partitions: its assigned partitions in order.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class GroupState:
    """A group of any protocol. An unknown group has the state `Dead` and no members.

    shares: whether it is a share group, in which several members may have the same partition, and which has no
    committed offsets.
    """

    state: str
    coordinator: int
    members: tuple[GroupMember, ...]
    shares: bool = False


CONSUMERS = "consumer"
"""The protocol type of a group of consumers."""


def from_classic(described: Any, coordinator: int) -> GroupState:
    """Return the group in an answer to DescribeGroups.

    Members with another protocol than consumers, such as workers of Kafka Connect, have no partitions: what is assigned
    to them has another form.
    """
    is_consumers = described.protocol_type == CONSUMERS
    members = (
        _member(
            m,
            instance_id=m.group_instance_id,
            partitions=_classic_assignment(m.member_assignment) if is_consumers else [],
        )
        for m in described.members
    )
    return GroupState(described.group_state, coordinator, tuple(members))


def from_kip_848(described: Any, coordinator: int) -> GroupState:
    """Return the group in an answer to ConsumerGroupDescribe. Its members use the `consumer` protocol."""
    members = (
        _member(
            m,
            instance_id=m.instance_id,
            partitions=[TopicPartition(t.topic_name, p) for t in m.assignment.topic_partitions for p in t.partitions],
        )
        for m in described.members
    )
    return GroupState(described.group_state, coordinator, tuple(members))


def from_kip_932(described: Any, coordinator: int) -> GroupState:
    """Return the group in an answer to ShareGroupDescribe. Several members may have the same partition."""
    members = (
        _member(
            m,
            instance_id=None,
            partitions=[TopicPartition(t.topic_name, p) for t in m.assignment.topic_partitions for p in t.partitions],
        )
        for m in described.members
    )
    return GroupState(described.group_state, coordinator, tuple(members), shares=True)


def from_kip_1071(described: Any, coordinator: int) -> GroupState:
    """Return the group in an answer to StreamsGroupDescribe: its members have active tasks of Kafka Streams.

    A task reads one partition of each source of its subtopology; topics for repartitioning are such sources, too.
    """
    sources: dict[str, list[str]] = {}
    for part in (described.topology.subtopologies if described.topology else None) or ():
        sources[part.subtopology_id] = [*part.source_topics, *(t.name for t in part.repartition_source_topics)]
    members = (
        _member(
            m,
            instance_id=m.instance_id,
            partitions=[
                TopicPartition(topic, number)
                for tasks in m.assignment.active_tasks
                for topic in sources.get(tasks.subtopology_id, ())
                for number in tasks.partitions
            ],
        )
        for m in described.members
    )
    return GroupState(described.group_state, coordinator, tuple(members))


def _member(m: Any, *, instance_id: str | None, partitions: list[TopicPartition]) -> GroupMember:
    return GroupMember(m.member_id, instance_id, m.client_id, m.client_host, tuple(sorted(partitions)))


def _classic_assignment(data: Any) -> list[TopicPartition]:
    """Return the partitions of an assignment, which is empty while the group rebalances."""
    if not data:
        return []
    decoded = data if isinstance(data, ConsumerProtocolAssignment) else ConsumerProtocolAssignment.decode(bytes(data))
    return [TopicPartition(t.topic, p) for t in decoded.assigned_partitions for p in t.partitions]


BY_PROTOCOL = (
    (ConsumerGroupDescribeRequest, 0, from_kip_848),
    (StreamsGroupDescribeRequest, 0, from_kip_1071),
    (ShareGroupDescribeRequest, 1, from_kip_932),
)
"""How a group is described that DescribeGroups does not know: each protocol has a request for it."""
LATEST, EARLIEST = -1, -2
"""Timestamps in ListOffsets for the end and the start of a log."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_GROUP, _TRANSACTION = 0, 1
_COORDINATOR_MOVES = {14, 15, 16}
"""Error codes of a broker that loads the group, or does not coordinate it (any more)."""


class Kafka(Brokers):
    """A client for questions to a cluster."""

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermarks of the partitions with a leader that answers."""
        return self._offsets(partitions, LATEST)

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offsets of the partitions with a leader that answers."""
        return self._offsets(partitions, EARLIEST)

    def offsets_from(self, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Return the offset of the first record from a time on, -1 without one, where the leader answers."""
        return self._offsets(partitions, time_ms)

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return high watermark and last stable offset of the partitions with a leader that answers both requests.

        The high watermark is asked first. So without an open transaction the last stable offset is not below it.
        """
        offsets: dict[TopicPartition, tuple[int, int]] = {}
        for leader, led in self._by_leader(partitions).items():
            ends = self._offsets_at(leader, led, LATEST)
            stable = self._offsets_at(leader, led, LATEST, READ_COMMITTED) if ends else {}
            offsets.update({p: (end, stable[p]) for p, end in ends.items() if p in stable})
        return offsets

    def _offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for leader, led in self._by_leader(partitions).items():
            offsets.update(self._offsets_at(leader, led, timestamp))
        return offsets

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        metadata, by_leader = self.metadata(), dict[int, list[TopicPartition]]()
        for partition in partitions:
            if metadata is not None and (state := metadata.partitions.get(partition)) is not None:
                by_leader.setdefault(state.leader, []).append(partition)
        return by_leader

    def _offsets_at(
        self, leader: int, partitions: list[TopicPartition], timestamp: int, isolation: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        topics = messages.topics({p: {"current_leader_epoch": -1, "timestamp": timestamp} for p in partitions})
        request = messages.request(ListOffsetsRequest[5], replica_id=-1, isolation_level=isolation, topics=topics)
        answer = self.ask(leader, request)
        return {partition: p.offset for partition, p in _without_error(answer)}

    def epoch_end(self, partition: TopicPartition, epoch: int) -> int | None:
        """Return the end offset of a leader epoch in the log of the partition's leader; None without an answer."""
        state = self.state(partition)
        if state is None:
            return None
        part = {"partition": partition.number, "current_leader_epoch": -1, "leader_epoch": epoch}
        topics = [{"topic": partition.topic, "partitions": [part]}]
        request = messages.request(OffsetForLeaderEpochRequest[3], replica_id=-1, topics=topics)
        answer = self.ask(state.leader, request)
        end = answer.topics[0].partitions[0] if answer and answer.topics else None
        return int(end.end_offset) if end and not end.error_code and end.end_offset >= 0 else None

    def coordinator(self, group: str) -> int | None:
        """Return the coordinator of a group; None if the request is refused or no broker answers."""
        return self._coordinator(group, _GROUP)

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        """Return the coordinator of a transactional id; None if the request is refused or no broker answers."""
        return self._coordinator(transactional_id, _TRANSACTION)

    def _coordinator(self, key: str, key_type: int) -> int | None:
        answer = self.ask_any(FindCoordinatorRequest[2](key=key, key_type=key_type))
        if answer is None or answer.error_code:
            return None
        self._brokers.setdefault(answer.node_id, (answer.host, answer.port))
        return int(answer.node_id)

    def controller(self) -> tuple[int, int] | None:
        """Return the active controller and its epoch; None if no broker knows it.

        In KRaft that is the leader of the quorum. With ZooKeeper the metadata names it, and the epoch is 0.
        """
        kraft = self.supports(DescribeQuorumRequest.API_KEY)
        if kraft is None:
            return None
        if not kraft:
            metadata = self.metadata()
            return (metadata.controller, 0) if metadata and metadata.controller >= 0 else None
        quorum = self.quorum()
        return (quorum.leader, quorum.epoch) if quorum else None

    def quorum(self) -> Quorum | None:
        """Return the KRaft quorum as the active controller sees it; None if no broker reaches an active controller."""
        return described(self.ask_any(DESCRIBE_QUORUM))

    def group(self, group: str) -> GroupState | None:
        """Return state and members of a group of any protocol; None if its coordinator does not answer."""
        coordinator = self.coordinator(group)
        if coordinator is None:
            return None
        answer = self.ask(coordinator, DescribeGroupsRequest[4](groups=[group]))
        if answer is None or answer.groups[0].error_code:
            return None
        state = from_classic(answer.groups[0], coordinator)
        if state.state != UNKNOWN_GROUP:
            return state
        for describe, version, read in BY_PROTOCOL:
            known = self.supports(describe.API_KEY, coordinator, version)
            answer = self.ask(coordinator, describe[version](group_ids=[group])) if known else None
            if known is not False and (answer is None or answer.groups[0].error_code in _COORDINATOR_MOVES):
                return None
            if answer is not None and not answer.groups[0].error_code:
                return read(answer.groups[0], coordinator)
        return state

    def done(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Return the offset below which a group has done all records; None without an answer.

        That is its committed offset. A share group commits none: as many records are done as are not its lag, and its
        lag is asked after the ends.
        """
        committed = self.committed(group, partitions)
        if committed or not self.supports(DescribeShareGroupOffsetsRequest.API_KEY, version=1):
            return committed
        ends = self.end_offsets(partitions)
        shared = share_positions(self, group, ends) or {}
        return {p: ends[p] - at.lag for p, at in shared.items() if at.lag is not None} or committed

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Return the committed offsets of a group, without the partitions that have none; None without an answer."""
        found = self.committed_or_none(group, partitions)
        return None if found is None else {p: offset for p, offset in found.items() if offset is not None}

    def committed_or_none(
        self, group: str, partitions: Iterable[TopicPartition] | None, coordinator: int | None = None
    ) -> dict[TopicPartition, int | None] | None:
        """Return the committed offset of each partition that the coordinator answers for, None where it has none.

        partitions: None for all with a committed offset.
        coordinator: the broker to ask if it is known. Returns None without an answer.
        """
        coordinator = self.coordinator(group) if coordinator is None else coordinator
        if coordinator is None:
            return None
        named = None if partitions is None else by_topic(partitions).items()
        topics = None if named is None else [{"name": n, "partition_indexes": numbers} for n, numbers in named]
        answer = self.ask(coordinator, messages.request(OffsetFetchRequest[5], group_id=group, topics=topics))
        if answer is None or answer.error_code:
            return None
        return {
            partition: p.committed_offset if p.committed_offset >= 0 else None
            for partition, p in _without_error(answer)
        }


def _without_error(answer: Any) -> list[tuple[TopicPartition, Any]]:
    """Return the partitions in an answer that have no error; empty without an answer."""
    return [
        (TopicPartition(topic.name, p.partition_index), p)
        for topic in (answer.topics if answer else ())
        for p in topic.partitions
        if not p.error_code
    ]


_UNSUPPORTED = 35
_SHARE = 2
"""Key type of FindCoordinator for the state of a share group in one partition."""


@dataclass(frozen=True)
class SharePosition:
    """The state of a share group in one partition.

    start: the offset below which each record has its final state; None before the group has begun there. lag: the
    number of records from there on that have none (KIP-1226); None if the broker does not know it.
    """

    start: int | None
    lag: int | None


def has_share_groups(kafka: Kafka, group: str) -> bool:
    """Return whether brokers can have share groups: their release can, and their feature share.version is not 0.

    With the feature at 0 they list the requests of share groups, and refuse each group.
    """
    if not kafka.supports(DescribeShareGroupOffsetsRequest.API_KEY, version=1):
        return False
    groups: list[dict[str, Any]] = [{"group_id": group, "topics": []}]
    answer = kafka.ask_any(messages.request(DescribeShareGroupOffsetsRequest[1], groups=groups))
    return answer is not None and answer.groups[0].error_code != _UNSUPPORTED


def share_coordinator(kafka: Kafka, group: str, partition: TopicPartition) -> int | None:
    """Return the broker that keeps the state of a share group in a partition; None if no broker names one.

    It leads the partition of `__share_group_state` that the hash of group, topic id and partition selects.
    """
    metadata = kafka.metadata()
    topic_id = metadata.topic_ids.get(partition.topic) if metadata else None
    if not topic_id:
        return None
    key = f"{group}:{topic_id}:{partition.number}"
    answer = kafka.ask_any(FindCoordinatorRequest[6](key_type=_SHARE, coordinator_keys=[key]))
    found = answer.coordinators[0] if answer and answer.coordinators else None
    return None if found is None or found.error_code else int(found.node_id)


def share_positions(
    kafka: Kafka, group: str, partitions: Iterable[TopicPartition], coordinator: int | None = None
) -> dict[TopicPartition, SharePosition] | None:
    """Return the position of a share group in each partition that its coordinator answers for; None without an answer.

    coordinator: the broker to ask if it is known.
    """
    coordinator = kafka.coordinator(group) if coordinator is None else coordinator
    if coordinator is None:
        return None
    topics = [{"topic_name": name, "partitions": numbers} for name, numbers in by_topic(partitions).items()]
    groups = [{"group_id": group, "topics": topics}]
    answer = kafka.ask(coordinator, messages.request(DescribeShareGroupOffsetsRequest[1], groups=groups))
    if answer is None or answer.groups[0].error_code:
        return None
    return {
        TopicPartition(topic.topic_name, p.partition_index): SharePosition(_known(p.start_offset), _known(p.lag))
        for topic in answer.groups[0].topics
        for p in topic.partitions
        if not p.error_code
    }


def _known(number: int) -> int | None:
    return int(number) if number >= 0 else None


@dataclass(frozen=True)
class LogDir:
    """A data folder. error: Kafka's name for what is wrong with it; empty if it works. sizes: bytes of each replica."""

    path: str
    error: str
    sizes: Mapping[TopicPartition, int]


def log_dirs(kafka: Kafka, broker: int) -> list[LogDir] | None:
    """Return the data folders of a broker, failed ones included; None without an answer."""
    answer = kafka.ask(broker, request(DescribeLogDirsRequest[1], topics=None))
    if answer is None:
        return None
    return [
        LogDir(
            found.log_dir,
            for_code(found.error_code).__name__ if found.error_code else "",
            {
                TopicPartition(topic.name, p.partition_index): p.partition_size
                for topic in found.topics or ()
                for p in topic.partitions
            },
        )
        for found in answer.results
    ]

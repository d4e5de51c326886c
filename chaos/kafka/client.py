"""Asking a Kafka cluster what it shows to the outside: answers as plain data.

A question that the cluster does not answer in time gives None (or leaves the part out): while brokers are being killed
that is news, not an error. Versions of requests are those that Kafka 2.8 to 4.3 all speak (KIP-896).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeQuorumRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from chaos.kafka.access import Access
from chaos.kafka.brokers import NO_LEADER, Brokers, addresses
from chaos.kafka.connection import ask_versions
from chaos.kafka.groups import UNKNOWN_GROUP, GroupMember, GroupState, of_classic, of_kip_848
from chaos.kafka.partition import TopicPartition, by_topic
from chaos.kafka.schemas.groups import ConsumerGroupDescribeRequest

__all__ = ["NO_LEADER", "GroupMember", "GroupState", "Kafka", "addresses"]

NO_ERROR = 0
CONSUMER_GROUP_DESCRIBE = 69
"""The key of that API."""
LATEST, EARLIEST = -1, -2
"""The timestamps by which ListOffsets means the ends of a log."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

FIND_COORDINATOR, DESCRIBE_GROUPS, OFFSET_FETCH, LIST_OFFSETS = 2, 4, 5, 5
DESCRIBE_QUORUM, EPOCH_END = 0, 3
"""Version of each request."""

_EndsOf = ListOffsetsRequest.ListOffsetsTopic
_EpochOf = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
_CommittedOf = OffsetFetchRequest.OffsetFetchRequestTopic


class Kafka(Brokers):
    """Questions to a cluster."""

    def __init__(
        self, bootstrap: str, timeout_s: float = 1.0, access: Access | None = None, topics: Sequence[str] | None = None
    ) -> None:
        super().__init__(bootstrap, timeout_s, access, topics)
        self._kip_848: dict[int, bool] = {}
        self._kraft: bool | None = None  # not asked yet

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """High watermarks of the partitions whose leaders answer."""
        return self._offsets(partitions, LATEST)

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs begin, of the partitions whose leaders answer."""
        return self._offsets(partitions, EARLIEST)

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """High watermark and last stable offset of the partitions whose leaders answer to both, asked in this order:
        where no transaction is open the second is not below the first."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        for leader, names in self._by_leader(partitions).items():
            ends = self._offsets_at(leader, names, LATEST)
            stable = self._offsets_at(leader, names, LATEST, READ_COMMITTED) if ends else {}
            found.update({name: (end, stable[name]) for name, end in ends.items() if name in stable})
        return found

    def _offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for leader, names in self._by_leader(partitions).items():
            found.update(self._offsets_at(leader, names, timestamp))
        return found

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        metadata, by_leader = self.metadata(), dict[int, list[TopicPartition]]()
        for name in partitions:
            if metadata is not None and (state := metadata.partitions.get(name)) is not None:
                by_leader.setdefault(state.leader, []).append(name)
        return by_leader

    def _offsets_at(
        self, leader: int, names: list[TopicPartition], timestamp: int, isolation: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        topics = [_offsets_of(topic, numbers, timestamp) for topic, numbers in by_topic(names).items()]
        request = ListOffsetsRequest[LIST_OFFSETS](replica_id=-1, isolation_level=isolation, topics=topics)
        answer = self.ask(leader, request)
        if answer is None:
            return {}
        return {
            TopicPartition(topic.name, p.partition_index): p.offset
            for topic in answer.topics
            for p in topic.partitions
            if p.error_code == NO_ERROR
        }

    def epoch_end(self, partition: TopicPartition, epoch: int) -> int | None:
        """Where a leader epoch ends in the log, as the partition's leader has it now; None where it gives no answer."""
        metadata = self.metadata()
        state = metadata.partitions.get(partition) if metadata else None
        if state is None:
            return None
        one = _EpochOf.OffsetForLeaderPartition(partition=partition.number, current_leader_epoch=-1, leader_epoch=epoch)
        asked = [_EpochOf(topic=partition.topic, partitions=[one])]
        answer = self.ask(state.leader, OffsetForLeaderEpochRequest[EPOCH_END](replica_id=-1, topics=asked))
        found = answer.topics[0].partitions[0] if answer and answer.topics else None
        return int(found.end_offset) if found and found.error_code == NO_ERROR and found.end_offset >= 0 else None

    def coordinator(self, group: str) -> int | None:
        """The broker that a FindCoordinator request names; None where it is refused or nobody answers."""
        return self._coordinator(group, 0)

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        """The broker that coordinates the transactions of an id; None where it is refused or nobody answers."""
        return self._coordinator(transactional_id, 1)

    def _coordinator(self, key: str, key_type: int) -> int | None:
        answer = self.ask_any(FindCoordinatorRequest[FIND_COORDINATOR](key=key, key_type=key_type))
        if answer is None or answer.error_code != NO_ERROR:
            return None
        self._brokers.setdefault(answer.node_id, (answer.host, answer.port))
        return int(answer.node_id)

    def controller(self) -> tuple[int, int] | None:
        """The active controller and its epoch; None where nobody knows one.

        In KRaft the leader of the quorum. With ZooKeeper, metadata names it, and its epoch (0 here) is not shown.
        """
        if self._kraft is None:
            versions = self.ask_any(ask_versions())
            if versions is None:
                return None
            self._kraft = any(api.api_key == DescribeQuorumRequest.API_KEY for api in versions.api_keys)
        if not self._kraft:
            metadata = self.metadata()
            return (metadata.controller, 0) if metadata and metadata.controller >= 0 else None
        topic = DescribeQuorumRequest.TopicData
        asked = topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])
        answer = self.ask_any(DescribeQuorumRequest[DESCRIBE_QUORUM](topics=[asked]))
        if answer is None or answer.error_code != NO_ERROR or not answer.topics:
            return None
        quorum = answer.topics[0].partitions[0]
        if quorum.error_code != NO_ERROR or quorum.leader_id < 0:
            return None
        return int(quorum.leader_id), int(quorum.leader_epoch)

    def group(self, group: str) -> GroupState | None:
        """State and members of a group, from its coordinator."""
        coordinator = self.coordinator(group)
        if coordinator is None:
            return None
        answer = self.ask(coordinator, DescribeGroupsRequest[DESCRIBE_GROUPS](groups=[group]))
        if answer is None or answer.groups[0].error_code != NO_ERROR:
            return None
        state = of_classic(answer.groups[0], coordinator)
        if state.state == UNKNOWN_GROUP and self._knows_kip_848(coordinator):
            return self._group_of_kip_848(group, coordinator) or state
        return state

    def _knows_kip_848(self, broker: int) -> bool:
        """Whether a broker can describe groups of the `consumer` protocol; others would close the connection."""
        if broker not in self._kip_848:
            answer = self.ask(broker, ask_versions())
            if answer is None:
                return False
            self._kip_848[broker] = any(api.api_key == CONSUMER_GROUP_DESCRIBE for api in answer.api_keys)
        return self._kip_848[broker]

    def _group_of_kip_848(self, group: str, coordinator: int) -> GroupState | None:
        """A group whose members speak the `consumer` protocol, which DescribeGroups calls unknown."""
        answer = self.ask(coordinator, ConsumerGroupDescribeRequest[0](group_ids=[group]))
        if answer is None or answer.groups[0].error_code != NO_ERROR:
            return None
        return of_kip_848(answer.groups[0], coordinator)

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Committed offsets of a group by partition; partitions without one are left out."""
        coordinator = self.coordinator(group)
        if coordinator is None:
            return None
        topics = [_CommittedOf(name=topic, partition_indexes=n) for topic, n in by_topic(partitions).items()]
        answer = self.ask(coordinator, OffsetFetchRequest[OFFSET_FETCH](group_id=group, topics=topics))
        if answer is None or answer.error_code != NO_ERROR:
            return None
        return {
            TopicPartition(topic.name, p.partition_index): p.committed_offset
            for topic in answer.topics
            for p in topic.partitions
            if p.error_code == NO_ERROR and p.committed_offset >= 0
        }


def _offsets_of(topic: str, numbers: list[int], timestamp: int) -> Any:
    kind = _EndsOf.ListOffsetsPartition
    parts = [kind(partition_index=n, current_leader_epoch=-1, timestamp=timestamp) for n in numbers]
    return _EndsOf(name=topic, partitions=parts)

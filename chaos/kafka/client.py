"""Questions to a Kafka cluster, answered as plain data.

A question without an answer in time returns None, or leaves out the part that is missing: while faults take brokers
down, that is an observation and no error. The request versions are supported by Kafka 2.8 to 4.4 (KIP-896).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeQuorumRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from chaos.kafka import messages
from chaos.kafka.brokers import Brokers
from chaos.kafka.groups import UNKNOWN_GROUP, GroupState, from_classic, from_kip_848
from chaos.kafka.partition import TopicPartition, by_topic
from chaos.kafka.quorum import DESCRIBE_QUORUM, Quorum, described
from chaos.kafka.schemas import ConsumerGroupDescribeRequest

CONSUMER_GROUP_DESCRIBE = 69
"""API key of ConsumerGroupDescribe."""
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
        """Return state and members of a group; None if its coordinator does not answer."""
        coordinator = self.coordinator(group)
        if coordinator is None:
            return None
        answer = self.ask(coordinator, DescribeGroupsRequest[4](groups=[group]))
        if answer is None or answer.groups[0].error_code:
            return None
        state = from_classic(answer.groups[0], coordinator)
        # DescribeGroups does not know the groups of the `consumer` protocol
        if state.state == UNKNOWN_GROUP and self.supports(CONSUMER_GROUP_DESCRIBE, coordinator):
            answer = self.ask(coordinator, ConsumerGroupDescribeRequest[0](group_ids=[group]))
            if answer is None or answer.groups[0].error_code in _COORDINATOR_MOVES:
                return None
            if not answer.groups[0].error_code:
                return from_kip_848(answer.groups[0], coordinator)
        return state

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Return the committed offsets of a group, without the partitions that have none; None without an answer."""
        found = self.committed_or_none(group, partitions)
        return None if found is None else {p: offset for p, offset in found.items() if offset is not None}

    def committed_or_none(
        self, group: str, partitions: Iterable[TopicPartition], coordinator: int | None = None
    ) -> dict[TopicPartition, int | None] | None:
        """Return the committed offset of each partition that the coordinator answers for, None where it has none.

        coordinator: the broker to ask if it is known. Returns None without an answer.
        """
        coordinator = self.coordinator(group) if coordinator is None else coordinator
        if coordinator is None:
            return None
        topics = [{"name": name, "partition_indexes": numbers} for name, numbers in by_topic(partitions).items()]
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

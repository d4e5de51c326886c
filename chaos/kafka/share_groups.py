"""Questions about share groups (KIP-932) to their coordinators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest

from chaos.kafka import messages
from chaos.kafka.client import Kafka
from chaos.kafka.groups import UNKNOWN_GROUP, GroupState, from_kip_932
from chaos.kafka.partition import TopicPartition, by_topic
from chaos.kafka.schemas import DescribeShareGroupOffsetsRequest, ShareGroupDescribeRequest

GROUP_ID_NOT_FOUND = 69
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


def share_group(kafka: Kafka, group: str) -> GroupState | None:
    """Return state and members of a share group; None if its coordinator does not answer."""
    coordinator = kafka.coordinator(group)
    if coordinator is None:
        return None
    answer = kafka.ask(coordinator, ShareGroupDescribeRequest[1](group_ids=[group]))
    if answer is None:
        return None
    described = answer.groups[0]
    if described.error_code == GROUP_ID_NOT_FOUND:
        return GroupState(UNKNOWN_GROUP, coordinator, ())
    return None if described.error_code else from_kip_932(described, coordinator)


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

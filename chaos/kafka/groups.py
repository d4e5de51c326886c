"""Groups as their coordinators describe them: the classic protocol, KIP-848, and share groups (KIP-932)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from chaos.kafka.partition import TopicPartition

UNKNOWN_GROUP = "Dead"
"""State of a group that the coordinator does not know."""


@dataclass(frozen=True)
class GroupMember:
    """A member of a group.

    instance_id: its `group.instance.id`, None for a dynamic member. topics: the topics that it subscribed to when it
    joined the current generation; None if the coordinator does not know them, as during a rebalance or for a regular
    expression that brokers evaluate (KIP-848). partitions: its assigned partitions in order.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...] | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class GroupState:
    """A group. An unknown group has the state `Dead` and no members."""

    state: str
    coordinator: int
    members: tuple[GroupMember, ...]


def from_classic(described: Any, coordinator: int) -> GroupState:
    """Return the group in an answer to DescribeGroups."""
    members = (
        _member(
            m,
            instance_id=m.group_instance_id,
            topics=_subscription(m.member_metadata),
            partitions=_classic_assignment(m.member_assignment),
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
            topics=None if m.subscribed_topic_regex else tuple(sorted(m.subscribed_topic_names)),
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
            topics=tuple(sorted(m.subscribed_topic_names)),
            partitions=[TopicPartition(t.topic_name, p) for t in m.assignment.topic_partitions for p in t.partitions],
        )
        for m in described.members
    )
    return GroupState(described.group_state, coordinator, tuple(members))


def _member(
    m: Any, *, instance_id: str | None, topics: tuple[str, ...] | None, partitions: list[TopicPartition]
) -> GroupMember:
    return GroupMember(m.member_id, instance_id, m.client_id, m.client_host, topics, tuple(sorted(partitions)))


def _subscription(data: Any) -> tuple[str, ...] | None:
    """Return the topics in the metadata of a classic member; None if it is empty or of an unknown form."""
    if not data:
        return None
    try:
        known = isinstance(data, ConsumerProtocolSubscription)
        subscription = data if known else ConsumerProtocolSubscription.decode(bytes(data))
    except (struct.error, ValueError):
        return None
    return tuple(sorted(subscription.topics))


def _classic_assignment(data: Any) -> list[TopicPartition]:
    """Return the partitions of an assignment, which is empty while the group rebalances."""
    if not data:
        return []
    decoded = data if isinstance(data, ConsumerProtocolAssignment) else ConsumerProtocolAssignment.decode(bytes(data))
    return [TopicPartition(t.topic, p) for t in decoded.assigned_partitions for p in t.partitions]

"""Groups as their coordinator shows them, from either of the requests that describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from chaos.kafka.partition import TopicPartition

UNKNOWN_GROUP = "Dead"
"""The state of a group that nobody knows."""


@dataclass(frozen=True)
class GroupMember:
    """One member of a group as its coordinator shows it."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class GroupState:
    """A group as its coordinator shows it; one that nobody knows is `Dead` and has no members."""

    state: str
    coordinator: int
    members: tuple[GroupMember, ...]


def of_classic(described: Any, coordinator: int) -> GroupState:
    """From the answer to DescribeGroups."""
    members = tuple(
        GroupMember(m.member_id, m.client_id, m.client_host, _assigned(m.member_assignment)) for m in described.members
    )
    return GroupState(described.group_state, coordinator, members)


def of_kip_848(described: Any, coordinator: int) -> GroupState:
    """From the answer to ConsumerGroupDescribe: a group whose members speak the `consumer` protocol."""
    members = tuple(
        GroupMember(
            m.member_id,
            m.client_id,
            m.client_host,
            tuple(sorted(TopicPartition(t.topic_name, p) for t in m.assignment.topic_partitions for p in t.partitions)),
        )
        for m in described.members
    )
    return GroupState(described.group_state, coordinator, members)


def _assigned(data: Any) -> tuple[TopicPartition, ...]:
    """The partitions in a member's assignment, which is empty while the group rebalances."""
    if not data:
        return ()
    assignment = (
        data if isinstance(data, ConsumerProtocolAssignment) else ConsumerProtocolAssignment.decode(bytes(data))
    )
    return tuple(sorted(TopicPartition(t.topic, p) for t in assignment.assigned_partitions for p in t.partitions))

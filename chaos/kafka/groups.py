"""Consumer groups as their coordinators describe them, for the classic protocol and for KIP-848."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from chaos.kafka.partition import TopicPartition

UNKNOWN_GROUP = "Dead"
"""State of a group that the coordinator does not know."""


@dataclass(frozen=True)
class GroupMember:
    """A member of a group, with its assigned partitions in order."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class GroupState:
    """A group. An unknown group has the state `Dead` and no members."""

    state: str
    coordinator: int
    members: tuple[GroupMember, ...]


def from_classic(described: Any, coordinator: int) -> GroupState:
    """Return the group in an answer to DescribeGroups."""
    return _group(described, coordinator, lambda member: _classic_assignment(member.member_assignment))


def from_kip_848(described: Any, coordinator: int) -> GroupState:
    """Return the group in an answer to ConsumerGroupDescribe. Its members use the `consumer` protocol."""
    assigned = lambda member: [  # noqa: E731
        TopicPartition(t.topic_name, p) for t in member.assignment.topic_partitions for p in t.partitions
    ]
    return _group(described, coordinator, assigned)


def _group(described: Any, coordinator: int, assigned: Callable[[Any], list[TopicPartition]]) -> GroupState:
    members = (
        GroupMember(m.member_id, m.client_id, m.client_host, tuple(sorted(assigned(m)))) for m in described.members
    )
    return GroupState(described.group_state, coordinator, tuple(members))


def _classic_assignment(data: Any) -> list[TopicPartition]:
    """Return the partitions of an assignment, which is empty while the group rebalances."""
    if not data:
        return []
    decoded = data if isinstance(data, ConsumerProtocolAssignment) else ConsumerProtocolAssignment.decode(bytes(data))
    return [TopicPartition(t.topic, p) for t in decoded.assigned_partitions for p in t.partitions]

"""Faults that an administrator makes: topics, their records and settings, offsets of groups, leaders and replicas.

They go through the Kafka protocol alone, so every driver can do them.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from chaos.scenario.faults.base import FaultSpec

TOPIC = frozenset({"topic"})
TOPIC_OR_PARTITION = frozenset({"topic", "partition"})
GROUP = frozenset({"group"})


class AddPartitions(FaultSpec):
    """Give a topic more partitions; they stay."""

    targets = TOPIC
    kind: Literal["topic.add_partitions"]
    to: int = Field(gt=1, le=1000, description="how many there are then")


class CreateTopic(FaultSpec):
    """Make a topic that `topics` describes and marks `later: true`; it stays."""

    targets = TOPIC
    kind: Literal["topic.create"]


class DeleteTopic(FaultSpec):
    """Delete a topic with all its records; healed by making it again, empty."""

    targets = TOPIC
    kind: Literal["topic.delete"]


class DeleteRecords(FaultSpec):
    """Move the log start of partitions forward, as retention does; what was deleted stays deleted."""

    targets = TOPIC_OR_PARTITION
    kind: Literal["topic.delete_records"]
    before: int | None = Field(None, gt=0, description="delete what lies below this offset")
    leave: int | None = Field(None, ge=0, description="or all but the last so many offsets of each partition")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.before is None) == (self.leave is None):
            raise ValueError("give exactly one of before, leave")
        return self


class TopicConfig(FaultSpec):
    """Change settings of a topic; healed by what they were before."""

    targets = TOPIC
    kind: Literal["topic.config"]
    settings: dict[str, bool | int | float | str] = Field(min_length=1, description="by their Kafka names")


class DeleteOffsets(FaultSpec):
    """Delete the committed offsets of a group that subscribes to nothing just now; they stay deleted."""

    targets = GROUP
    kind: Literal["group.delete_offsets"]


class ResetOffsets(FaultSpec):
    """Commit other offsets for a group without members, as kafka-consumer-groups --reset-offsets does; they stay."""

    targets = GROUP
    kind: Literal["group.reset_offsets"]
    to: Literal["earliest", "latest"] | int = Field(description="earliest, latest, or an offset")


class DeleteGroup(FaultSpec):
    """Delete a group without members, with all of its offsets; it stays deleted until its members come back."""

    targets = GROUP
    kind: Literal["group.delete"]


class ElectPreferred(FaultSpec):
    """Let the preferred replica, the first in the list, lead again; it stays the leader."""

    targets = TOPIC_OR_PARTITION
    kind: Literal["election.preferred"]


class ElectUnclean(FaultSpec):
    """Let a replica lead that is not in sync, where no other is there: what it lacks is lost; it stays the leader."""

    targets = TOPIC_OR_PARTITION
    kind: Literal["election.unclean"]


class Reassign(FaultSpec):
    """Move a partition to other brokers while it is written to; it stays there."""

    targets = frozenset({"partition"})
    kind: Literal["partition.reassign"]
    to: list[int] | None = Field(
        None, min_length=1, description="the replicas, the preferred leader first; left out: each one broker further"
    )

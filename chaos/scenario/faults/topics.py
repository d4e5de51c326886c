"""Faults of topics, their records and their settings: operations of an administrator, which every driver can do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.setup import Setup
from chaos.scenario.triggers import check_one_of

TOPIC = frozenset({"topic"})
TOPIC_OR_PARTITION = frozenset({"topic", "partition"})


class AddPartitions(FaultSpec):
    """Add partitions to a topic; they stay."""

    targets = TOPIC
    kind: Literal["topic.add_partitions"]
    to: int = Field(gt=1, le=1000, description="number of partitions afterwards")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the number grows."""
        yield from super().problems(setup, where)
        topic = next((t for t in setup.topics if t.name == self.target.topic), None)
        if topic and self.to <= topic.partitions:
            yield f"{where}.to: {topic.name} has {topic.partitions} partitions already"


class CreateTopic(FaultSpec):
    """Create a topic that `topics` describes and marks `later: true`; it stays."""

    targets = TOPIC
    kind: Literal["topic.create"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the topic does not exist from the start."""
        yield from super().problems(setup, where)
        if self.target.topic in {t.name for t in setup.topics if not t.later}:
            yield f"{where}.target.topic: {self.target.topic} exists from the start; mark it later: true in topics"


class DeleteTopic(FaultSpec):
    """Delete a topic with all its records; healed by creating it again, empty."""

    targets = TOPIC
    kind: Literal["topic.delete"]


class DeleteRecords(FaultSpec):
    """Move the log start of partitions forward, as retention does; the records stay deleted."""

    targets = TOPIC_OR_PARTITION
    kind: Literal["topic.delete_records"]
    before: int | None = Field(None, gt=0, description="delete the records below this offset")
    leave: int | None = Field(None, ge=0, description="or all but this many offsets at the end of each partition")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        check_one_of(self, "before", "leave")
        return self


class TopicConfig(FaultSpec):
    """Change settings of a topic; healed by their former values."""

    targets = TOPIC
    kind: Literal["topic.config"]
    settings: dict[str, bool | int | float | str] = Field(min_length=1, description="by their Kafka names")


TopicFaults = AddPartitions | CreateTopic | DeleteTopic | DeleteRecords | TopicConfig

"""Consumers of a scenario: who reads what, in which way, and commits when."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from chaos.kafka.settings import Config
from chaos.scenario.names import ClientName, GroupId, TopicName, TopicPattern
from chaos.scenario.triggers import Partition, Strict
from chaos.units import Duration


class Commit(Strict):
    """When offsets are committed, and how."""

    when: Literal["after_batch", "after_record", "before_processing", "periodic", "never"] = "after_batch"
    kind: Literal["sync", "async", "auto"] = Field(
        "sync",
        description="auto: librdkafka's auto commit, with offsets stored as `when` says: before_processing is its own "
        "default (enable.auto.offset.store), after_batch and after_record store what was processed",
    )
    every: Duration | None = Field(None, gt=0, description="periodic: the time between two commits")
    on_revoke: bool = Field(False, description="commit what is processed in the revoke callback besides")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.when == "periodic") != (self.every is not None):
            raise ValueError("every: goes with when: periodic, and only with it")
        if self.when == "periodic" and self.kind == "auto":
            raise ValueError("kind: auto is periodic by itself; set auto.commit.interval.ms in config")
        if self.on_revoke and self.kind == "auto":
            raise ValueError("on_revoke: librdkafka's auto commit does that by itself")
        return self


class Workers(Strict):
    """A pool of threads that process what one thread polls, records of one partition at the same time too."""

    count: int = Field(4, ge=1, le=64)
    tracking: Literal["window", "naive"] = Field(
        "window",
        description="window: what is committed ends before the first record that is not processed; "
        "naive: it ends after the highest that is",
    )
    straggle_every: int | None = Field(None, ge=1, description="every so many offsets, one takes `straggle` longer")
    straggle: Duration = Field(0.0, description="the extra processing time of those")


class Subscribe(Strict):
    """A consumer group: `members` consumers that subscribe to topics."""

    mode: Literal["subscribe"]
    name: ClientName
    group: GroupId
    members: int = Field(1, ge=1, le=50)
    threads: int = Field(1, ge=1, le=50, description="members in one process, each in a thread: they die together")
    admitted: int | None = Field(
        None, ge=1, description="of the members, as many as the broker lets in (group.max.size); all if left out"
    )
    topics: list[TopicName] = []
    pattern: TopicPattern | None = Field(
        None, description="or: every topic whose whole name matches this regular expression, such as orders-.*"
    )
    commit: Commit = Commit()
    workers: Workers | None = Field(None, description="process in a pool of threads; one after another if left out")
    max_poll_records: int = Field(500, ge=1, description="most records of one batch")
    per_record: Duration = Field(0.0, description="processing time of each record")
    config: Config = Field({}, description="librdkafka settings")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if bool(self.topics) == (self.pattern is not None):
            raise ValueError("give exactly one of topics, pattern")
        if self.admitted is not None and self.admitted > self.members:
            raise ValueError(f"admitted: {self.admitted} are more than the {self.members} members")
        if self.workers and (self.commit.when != "after_batch" or self.commit.kind == "auto"):
            raise ValueError("workers: need commit after_batch, sync or async; their tracking says what is committed")
        return self

    @property
    def admitted_members(self) -> int:
        """How many members its group is to have."""
        return self.members if self.admitted is None else self.admitted

    def topics_among(self, names: Iterable[str]) -> list[str]:
        """Those of these topics that it reads."""
        if self.pattern is None:
            return [name for name in names if name in self.topics]
        return [name for name in names if re.fullmatch(self.pattern, name)]


class StartAt(Strict):
    """A start position other than the named ones. Exactly one of these."""

    offsets: dict[Partition, int] | None = Field(
        None, description="offset by partition, such as orders/0: 100; waited for if it is not there yet"
    )
    timestamp: Duration | None = Field(None, description="records written so long after the clients started, or later")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.offsets is None) == (self.timestamp is None):
            raise ValueError("give exactly one of offsets, timestamp")
        return self


class Assign(Strict):
    """Assign-mode consumers: `members` processes that **each** read every partition of the topics."""

    mode: Literal["assign"]
    name: ClientName
    group: GroupId | None = Field(None, description="the group id they carry; several may share one")
    no_group_id: Literal["absent", "empty"] | None = Field(
        None,
        description="first try it with no group.id at all, or the empty one, and record what the client says; then go "
        "on with an id that is never committed to, which is what an entry without group has anyhow",
    )
    members: int = Field(1, ge=1, le=50)
    topics: list[TopicName] = Field(min_length=1)
    start: Literal["earliest", "latest", "group"] | StartAt = Field(
        "earliest", description="group: the group's committed offset, else auto.offset.reset"
    )
    checkpoint: bool = Field(True, description="keep offsets with the sink and resume there after a crash")
    discover: Duration | None = Field(
        None, gt=0, description="look for new partitions so often, and read them from their start; never if left out"
    )
    commit: Commit = Commit(when="never")
    max_poll_records: int = Field(500, ge=1, description="most records of one batch")
    per_record: Duration = Field(0.0, description="processing time of each record")
    config: Config = Field({}, description="librdkafka settings")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.commit.on_revoke:
            raise ValueError("commit.on_revoke: nothing is ever revoked in assign mode")
        if self.no_group_id and self.group is not None:
            raise ValueError("no_group_id: does not go with a group")
        return self

    def topics_among(self, names: Iterable[str]) -> list[str]:
        """Those of these topics that it reads."""
        return [name for name in names if name in self.topics]


Consumer = Annotated[Subscribe | Assign, Field(discriminator="mode")]


def reads_committed(consumer: Subscribe | Assign) -> bool:
    """Whether it reads committed records only (isolation.level), as librdkafka does by default."""
    return str(consumer.config.get("isolation.level", "read_committed")).lower() != "read_uncommitted"

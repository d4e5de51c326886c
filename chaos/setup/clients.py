"""Clients of a scenario: producers, processors, which read, transform and write, and consumers.

Consumers subscribe, or are assigned partitions; then a scenario says where they start and when they commit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from chaos.clients.choice import Client, ClientChoice
from chaos.clients.java.traits import ASSIGNORS, PACKAGE
from chaos.clients.traits import Ability
from chaos.kafka.settings import Config
from chaos.ledger.record import HEADER_BYTES
from chaos.setup.names import EntryName, ErrorName, GroupId, RackName, Spelled, TopicName, TopicPattern, WriterName
from chaos.setup.needs import Needs
from chaos.setup.rows import TOPIC_ONLY, Rows, check_rows
from chaos.setup.share import Share
from chaos.setup.timestamps import Timestamps
from chaos.setup.triggers import OneOf, Partition, Strict
from chaos.units import Duration, Size
from chaos.values.arrivals import Arrivals, Pace, per_second
from chaos.values.model import Value


def strong(client: Client) -> Config:
    """Return the settings with which a producer of this library loses no record, and writes each one once."""
    return {"acks": "all", "enable.idempotence": True, **client.traits.careful}


When = Literal["after_batch", "after_record", "before_processing", "periodic", "on_checkpoint", "never"]


class Commit(Strict):
    """When and how a consumer commits offsets; on_checkpoint: offsets of each complete checkpoint, as Flink does."""

    when: Annotated[
        When,
        Needs("commits on checkpoints", lambda when, _: when == "on_checkpoint"),
        Needs("commits after processing", lambda _, commit: commit.processed),
    ] = "after_batch"
    kind: Annotated[
        Literal["sync", "async", "auto"],
        Needs("asynchronous commits", lambda kind, commit: kind == "async" and commit.processed),
    ] = Field(
        "sync",
        description="auto: the library commits. librdkafka commits stored offsets, and `when` says which are stored: "
        "before_processing is its default (enable.auto.offset.store), after_batch and after_record store processed "
        "offsets. The Java client commits what earlier polls returned, which is after_batch",
    )
    every: Duration | None = Field(None, gt=0, description="periodic: time between two commits")
    on_revoke: bool = Field(
        False, description="also commit, in the revoke callback, processed offsets without a confirmed commit"
    )

    @property
    def processed(self) -> bool:
        """Whether it commits what was processed, and not checkpoints, or nothing."""
        return self.when not in ("on_checkpoint", "never")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.when == "periodic") != (self.every is not None):
            raise ValueError("every: goes with when: periodic, and only with it")
        if self.when == "periodic" and self.kind == "auto":
            raise ValueError("kind: auto is periodic already; set auto.commit.interval.ms in config")
        if self.when == "on_checkpoint" and self.kind != "async":
            raise ValueError("when: on_checkpoint goes with kind: async; Flink does not wait for the answer")
        if self.on_revoke and self.kind == "auto":
            raise ValueError("on_revoke: an automatic commit already does that")
        if self.on_revoke and self.when == "before_processing":
            raise ValueError("on_revoke: all offsets are committed before processing; leave it out")
        return self


class Transactions(Strict):
    """The transactions of a client. Its transactional.id is its name, the same for every incarnation."""

    records: Annotated[int, Needs("transactions of a size")] = Field(
        100, ge=1, description="records of each transaction"
    )
    abort_every: Annotated[int | None, Needs("transactions of a size")] = Field(
        None, ge=2, description="abort every n-th transaction on purpose, with all its records in the log"
    )
    timeout: Duration = Field(60.0, ge=1, description="transaction.timeout.ms: older transactions are aborted")
    hold: Annotated[Duration, Needs("transactions of a size")] = Field(
        0.0, description="time that a transaction stays open after its last record"
    )


class Plain(Strict):
    """How a processor writes and commits without transactions, batch by batch.

    after_output: commit when all outputs are acknowledged; a crash in between writes them again. before_output: commit
    first; a crash in between leaves inputs without output.
    """

    commit: Annotated[
        Literal["after_output", "before_output"], Needs("commits before outputs", lambda it, _: it == "before_output")
    ]
    records: Annotated[int, Needs("batches of a size")] = Field(100, ge=1, description="most records of a batch")
    hold: Annotated[Duration, Needs("batches of a size")] = Field(
        0.0, description="time between the two steps, in which a crash duplicates or loses"
    )


class Workers(Strict):
    """A pool of threads that process the records that one thread polls, in parallel even within one partition."""

    count: int = Field(4, ge=1, le=64)
    tracking: Literal["window", "naive"] = Field(
        "window",
        description="window: commit up to the first unprocessed record; naive: up to the highest processed one",
    )
    straggle_every: int | None = Field(None, ge=1, description="every n-th offset takes `straggle` longer")
    straggle: Duration = Field(0.0, description="extra processing time of these offsets")


LibraryPartitioner = Literal["consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"]
ApplicationPartitioner = Literal["round_robin", "by_key_number"]
Partitioner = LibraryPartitioner | Literal["sticky"] | ApplicationPartitioner
SendMode = Literal["callback", "synchronous", "fire_and_forget"]
AssignBy = Annotated[
    Literal["application", "client"] | None,
    Needs("assignment by the application", lambda by, _: by == "application"),
]
MEMBER_NEEDS = (
    Needs("KIP-848", lambda config, _: uses_kip_848(config)),
    Needs("static membership", lambda config, _: "group.instance.id" in config),
    Needs("cooperative", lambda config, entry: any("cooperative" in n for n in assignors_of(config, entry.client))),
)
"""What settings of a group member need."""


def _resets_to_none(_: Config, entry: Any) -> bool:
    """Return whether a partition without a committed offset is an error of a consumer."""
    return str(settings_of(entry).get("auto.offset.reset", "")).lower() in ("none", "error")


class Producer(Strict):
    """`count` producer processes that each send `records` records, numbered by seq from 0."""

    abilities: ClassVar[tuple[Ability, ...]] = ("produce",)

    name: WriterName
    topic: TopicName | None = Field(None, description="the topic that it writes to")
    topics: Annotated[list[TopicName], Needs("several topics", lambda topics, _: len(topics) > 1)] = Field(
        [],
        description="or several: records go to them in turn, so each transaction with as many records spans all of "
        "them, and all its records become visible together or none does",
    )
    rows: Rows | None = Field(
        None, description="or a table or a file, which a source of Kafka Connect reads: each record is a row of it"
    )
    count: int = Field(1, ge=1, le=50)
    records: int = Field(20_000, ge=1, description="records of each process")
    rate: Annotated[Pace | None, Needs("arrivals", lambda rate, _: isinstance(rate, Arrivals))] = Field(
        None, description="rate of each process, such as 200/s, or its arrivals; full speed if left out"
    )
    outlast_faults: bool = Field(
        False, description="continue at `rate` until every fault is healed; `records` is then the minimum number"
    )
    keys: int | None = Field(None, ge=1, description="number of distinct keys; no key if left out")
    tombstone_every: Annotated[int | None, Needs("tombstones")] = Field(
        None,
        ge=2,
        description="each n-th record of a process is a tombstone, which deletes its key: it has no value, and its "
        "identity is in the record header `aftershock`",
    )
    value_size: Size = Field(128, ge=HEADER_BYTES, le=2**20, description="bytes of the value, including its header")
    value: Annotated[Value | None, Needs("values of the user")] = Field(
        None, description="payloads of the user's form in place of values of `value_size` bytes"
    )
    mode: Annotated[SendMode, Needs("waiting for answers")] = Field(
        "callback",
        description="callback: process each delivery report when it arrives; synchronous: wait for it before the next "
        "record; fire_and_forget: ignore delivery reports, and drop records that a full local queue refuses",
    )
    partitioner: Annotated[
        Partitioner | None,
        Needs("library partitioner", lambda name, _: name in get_args(LibraryPartitioner)),
        Needs("sticky partitioner", lambda name, _: name == "sticky"),
    ] = Field(
        None,
        description="librdkafka's partitioners by their names; sticky: one partition for some time, without keys; "
        "round_robin and by_key_number: functions of the application. The library's default if left out",
    )
    definite_errors: Annotated[list[ErrorName], Needs("definite errors")] = Field(
        [],
        description="errors such as NOT_LEADER_OR_FOLLOWER after which the application takes a record for not written, "
        "in addition to errors that prove it; `resurrected_write` shows where that is wrong (java)",
    )
    timestamps: Annotated[Timestamps | None, Needs("timestamps of the application")] = Field(
        None,
        description="the application sets the timestamp of each record: the time of the call in milliseconds; in "
        "seconds or microseconds, which Kafka reads as milliseconds; or shifted, such as -48h or +2h. The library sets "
        "it if left out",
    )
    resend: Annotated[bool, Needs("resending")] = Field(
        False, description="after a crash, continue at the first record without acknowledgement"
    )
    checkpoint_every: Annotated[Duration | None, Needs("checkpoints of a producer")] = Field(
        None,
        gt=0,
        description="interval of the checkpoints of a client that stores its position in them; with transactions, each "
        "lasts from one to the next",
    )
    transactions: Annotated[Transactions | None, Needs("transactions")] = Field(
        None, description="write in transactions"
    )
    client: ClientChoice = Field(Client(), description="client library, such as java:3.9.2")
    config: Annotated[
        Config, Needs("parallel writing", lambda config, _: str(config.get("parallelism.default", 1)) != "1")
    ] = Field(
        default_factory=lambda given: strong(given.get("client", Client())),
        description="settings by the names of the client library; the default has one request in flight only with "
        "librdkafka, because of its issue 4953",
    )

    @model_serializer(mode="wrap")
    def _without_default(self, dumped: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """Leave out settings that are the default of the library, because another library may have others."""
        fields: dict[str, Any] = dumped(self)
        if info.exclude_defaults and self.config == strong(self.client):
            fields.pop("config", None)
        return fields

    @model_validator(mode="after")
    def _check(self) -> Self:
        if [bool(self.topics), self.topic is not None, self.rows is not None].count(True) != 1:
            raise ValueError("give exactly one of topic, topics, rows")
        if self.rows:
            fields = type(self).model_fields
            of_topic = [name for name in TOPIC_ONLY if getattr(self, name) != fields[name].default]
            of_topic += ["config"] if self.config not in ({}, strong(self.client)) else []
            check_rows(self.name, of_topic, self.value)
        if len(set(self.topics)) < len(self.topics):
            raise ValueError("topics: each is given once")
        for name, given in (
            ("tombstone_every", self.tombstone_every),
            ("partitioner", self.partitioner if self.partitioner in get_args(ApplicationPartitioner) else None),
        ):
            if given is not None and len(self.topics) > 1:
                raise ValueError(f"{name}: counts the records of one topic; give topic in place of topics")
        if self.value:
            for name, given, instead in (
                ("keys", self.keys is not None, "value.key"),
                ("tombstone_every", self.tombstone_every is not None, "another producer"),
                ("value_size", self.value_size != type(self).model_fields["value_size"].default, "value.sizes"),
            ):
                if given:
                    raise ValueError(f"{name}: does not go with value; use {instead}")
        if self.transactions and self.transactions.records < len(self.topics):
            raise ValueError(
                f"transactions.records: {self.transactions.records} records do not reach {len(self.topics)} topics"
            )
        return self

    @property
    def written(self) -> list[str]:
        """The topics that it writes to; none if it writes rows."""
        return list(self.topics) if self.topic is None else [self.topic]

    @property
    def inputs(self) -> list[str]:
        """What its records are the inputs of, as `of` of an effect names it: topics, or with rows the producer."""
        return [self.name] if self.rows else self.written

    @property
    def has_keys(self) -> bool:
        """Whether its records have keys."""
        return self.keys is not None or (self.value is not None and self.value.key is not None)

    @property
    def in_headers(self) -> bool:
        """Whether its records carry their identity in a header; tombstones aside."""
        return self.value is not None and self.value.mark == "header"

    @property
    def unmarked(self) -> bool:
        """Whether its records carry nothing of Aftershock but an id."""
        return self.value is not None and self.value.mark == "none"

    def most_records(self, drive_s: float) -> int:
        """Return how many records each process may send in a drive of at most that many seconds."""
        if not self.outlast_faults:
            return self.records
        return max(self.records, math.ceil(per_second(self.rate) * drive_s))  # the order to stop ends it

    @property
    def checkpoint_interval(self) -> float | None:
        """Seconds between checkpoints of its position; None for a client without them."""
        return _checkpoint_interval(self.checkpoint_every, self.client)


class Processor(Strict):
    """Read-process-write: `members` processes of one group that write a record for each one they read.

    Output records and input offsets belong to one transaction, unless `plain` is set. Output records name the processor
    as their producer and have separate sequence numbers. Input is checked as for a subscribe consumer.
    """

    abilities: ClassVar[tuple[Ability, ...]] = ("process",)

    name: WriterName
    group: GroupId
    topics: list[TopicName] = Field(min_length=1, description="input topics")
    to: TopicName = Field(description="output topic")
    members: int = Field(1, ge=1, le=50)
    threads: Annotated[int, Needs("threads of a processor")] = Field(
        1, ge=1, le=50, description="members per process, each in a thread (streams)"
    )
    transactions: Annotated[
        Transactions | None, Needs("transactions of a size", lambda it, _: it and it.timeout != Transactions().timeout)
    ] = Field(None, description="the default, unless `plain` is set")
    plain: Annotated[Plain | None, Needs("plain processing")] = Field(
        None, description="write and commit without transactions"
    )
    assign_by: AssignBy = Field(None, description="as for a subscribe consumer")
    state: Annotated[Literal["count"] | None, Needs("state of a processor")] = Field(
        None,
        description="count: each output has the key of its input, and carries how many inputs of that key the group "
        "has processed, by partition; the counts are in a store with a changelog (streams)",
    )
    lose_state: bool = Field(
        False, description="each incarnation begins without the local state of the one before, as on another machine"
    )
    value_size: Size = Field(128, ge=HEADER_BYTES, le=2**20, description="bytes of the value, including its header")
    client: ClientChoice = Field(Client(), description="client library, such as java:3.9.2")
    config: Config = Field({}, description="settings of its producer by the names of the client library")
    consumer_config: Annotated[Config, *MEMBER_NEEDS] = Field(
        {"auto.offset.reset": "earliest"}, description="settings of its consumer by the names of the client library"
    )

    @model_validator(mode="before")
    @classmethod
    def _default(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("plain") is None and data.get("transactions") is None:
            return data | {"transactions": {}}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.plain and self.transactions:
            raise ValueError("plain: goes without transactions; leave one of the two out, or set it to null")
        if self.state and len(self.topics) > 1:
            raise ValueError("state: needs exactly one input topic, because the order between topics is not defined")
        if self.lose_state and not self.state:
            raise ValueError("lose_state: there is no state; give state")
        return self


class _Consumer(Strict):
    """The fields of both kinds of consumers."""

    mode: str
    name: EntryName
    group: GroupId | None = None
    members: int = Field(1, ge=1, le=50)
    topics: list[TopicName] = []
    commit: Commit = Commit()
    max_poll_records: int = Field(500, ge=1, description="maximum number of records in a batch")
    per_record: Duration = Field(0.0, description="processing time of each record")
    rack: Annotated[RackName | None, Needs("rack")] = Field(
        None, description="rack of the members, which read from the replica there; from the leaders if left out"
    )
    client: ClientChoice = Field(Client(), description="client library, such as java:3.9.2")
    config: Annotated[Config, Needs("reset to none", _resets_to_none)] = Field(
        {}, description="settings by the names of the client library"
    )

    def topics_among(self, names: Iterable[str]) -> list[str]:
        """Return the topics that the consumer reads."""
        return [name for name in names if name in self.topics]


InstanceTemplate = Annotated[
    str,
    Spelled(r"^[A-Za-z0-9._-]*\{member\}[A-Za-z0-9._-]*$", "letters, digits, . _ and - around {member}"),
    Field(max_length=200),
]


class Subscribe(_Consumer):
    """A consumer group: `members` consumers that subscribe to topics."""

    abilities: ClassVar[tuple[Ability, ...]] = ("subscribe",)

    mode: Literal["subscribe"]
    group: GroupId
    threads: Annotated[int, Needs("threads")] = Field(
        1, ge=1, le=50, description="members per process, each in a thread; they crash together"
    )
    admitted: int | None = Field(
        None,
        ge=0,
        description="number of members that the broker admits (group.max.size; 0: none, as they have no assignor in "
        "common with the others); all if left out",
    )
    pattern: Annotated[TopicPattern | None, Needs("pattern")] = Field(
        None, description="instead of topics: a regular expression for the names of topics, such as orders-.*"
    )
    assign_by: AssignBy = Field(
        None,
        description="who looks up the committed offsets of newly assigned partitions. application: the rebalance "
        "callback asks for them and assigns these offsets, so each start is on record (confluent only, its default); "
        "client: the client library, as all others do; then librdkafka's starts show only in the deliveries",
    )
    config: Annotated[Config, Needs("reset to none", _resets_to_none), *MEMBER_NEEDS] = Field(
        {}, description="settings by the names of the client library"
    )
    workers: Annotated[Workers | None, Needs("workers")] = Field(
        None, description="process in a pool of threads; in one thread if left out"
    )
    static: Annotated[bool | InstanceTemplate, Needs("static membership")] = Field(
        False,
        description="static membership (KIP-345): each member has a group.instance.id, its name such as billing-1 or a "
        "template with its number such as pod-{member}; a restart within session.timeout.ms causes no rebalance. With "
        "group.protocol=consumer (KIP-848) that is so only after consumer.leave: a crashed member cannot come back "
        "before its session has ended (UNRELEASED_INSTANCE_ID)",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.topics) == (self.pattern is not None):
            raise ValueError("give exactly one of topics, pattern")
        if self.admitted is not None and self.admitted > self.members:
            raise ValueError(f"admitted: {self.admitted} is more than the {self.members} members")
        if self.static and self.threads > 1:
            raise ValueError("static: the members in the threads of a process would share one group.instance.id")
        if self.workers and (self.commit.when != "after_batch" or self.commit.kind == "auto"):
            raise ValueError("workers: need commit after_batch, sync or async; tracking defines the committed offset")
        return self

    def instance_id(self, number: int) -> str | None:
        """Return the group.instance.id of a member by its number; None for a dynamic member."""
        if not self.static:
            return None
        template = f"{self.name}-{{member}}" if self.static is True else self.static
        return template.replace("{member}", str(number))

    @property
    def admitted_members(self) -> int:
        """Number of members that the group gets."""
        return self.members if self.admitted is None else self.admitted

    def topics_among(self, names: Iterable[str]) -> list[str]:
        """Return the topics that the consumer reads."""
        if self.pattern is None:
            return super().topics_among(names)
        return [name for name in names if re.fullmatch(self.pattern, name)]


class StartAt(OneOf):
    """A start position by offset or time. Exactly one of these."""

    offsets: dict[Partition, int] | None = Field(
        None, description="offset by partition, such as orders/0: 100; waits if it does not exist yet"
    )
    timestamp: Duration | None = Field(None, description="records written from this time after the clients start on")


class Assign(_Consumer):
    """Consumers in assign mode: `members` processes that **each** read every partition of the topics."""

    abilities: ClassVar[tuple[Ability, ...]] = ("assign",)

    mode: Literal["assign"]
    group: GroupId | None = Field(None, description="their group id; several entries may share one")
    topics: list[TopicName] = Field(min_length=1)
    commit: Annotated[
        Commit, Needs("automatic commits in assign mode", lambda it, _: it.kind == "auto" and it.processed)
    ] = Commit(when="never")
    max_poll_records: Annotated[int, Needs("records per poll")] = Field(
        500, ge=1, description="maximum number of records in a batch"
    )
    no_group_id: Annotated[Literal["absent", "empty"] | None, Needs("assignment without group.id")] = Field(
        None,
        description="first try no group.id at all, or the empty one, and record the error of the client; then continue "
        "with an id without commits, as an entry without group does",
    )
    start: Annotated[
        Literal["earliest", "latest", "group"] | StartAt, Needs("group offsets", lambda start, _: start == "group")
    ] = Field("earliest", description="group: the committed offset of the group, or else auto.offset.reset")
    checkpoint: Annotated[bool, Needs("checkpoint", lambda on, _: on)] = Field(
        True, description="store offsets, by default with the results; resume there after a crash"
    )
    checkpoint_every: Annotated[Duration | None, Needs("checkpoint interval")] = Field(
        None, gt=0, description="interval of checkpoints apart from the results; records after one are read again"
    )
    idempotent_results: Annotated[bool, Needs("idempotent results")] = Field(
        False, description="records read again after a checkpoint get no second result"
    )
    savepoint: Annotated[bool, Needs("savepoints")] = Field(
        False, description="end with a savepoint when ordered to stop; the next incarnation starts from it (flink)"
    )
    discover: Duration | None = Field(
        None, gt=0, description="interval to look for new partitions, read from their start; never if left out"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.commit.on_revoke:
            raise ValueError("commit.on_revoke: assign mode has no revocations")
        if self.no_group_id and self.group is not None:
            raise ValueError("no_group_id: does not go with a group")
        if self.savepoint and not self.checkpoint:
            raise ValueError("savepoint: goes with checkpoint: the next incarnation starts from it")
        return self

    @property
    def subtasks(self) -> int:
        """Number of subtasks of all its Flink jobs."""
        return self.members * int(self.config.get("parallelism.default", 1))

    @property
    def checkpoint_interval(self) -> float | None:
        """Seconds between checkpoints that are apart from the results; None if each result is one."""
        return _checkpoint_interval(self.checkpoint_every, self.client)


def _checkpoint_interval(every: float | None, client: Client) -> float | None:
    return client.traits.checkpoint_every if every is None else every


Consumer = Annotated[Subscribe | Assign, Field(discriminator="mode")]
ConsumerEntry = Annotated[Subscribe | Assign | Share, Field(discriminator="mode")]
Entry = Producer | Processor | Subscribe | Assign | Share


def settings_of(entry: Producer | Processor | Consumer) -> Config:
    """Return the settings of an entry by their common names; the names in the scenario are names of its library.

    KafkaSource of Flink replaces auto.offset.reset by what its start means (`OffsetsInitializer`).
    """
    settings = entry.client.traits.common(entry.config)
    if isinstance(entry, Assign) and entry.client.traits.starts_reset and entry.start != "group":
        at_end = entry.start == "latest" or (isinstance(entry.start, StartAt) and entry.start.timestamp is not None)
        return {**settings, "auto.offset.reset": "latest" if at_end else "earliest"}
    return settings


def assignors_of(config: Config, client: Client) -> tuple[str, ...]:
    """Return the assignors that members with these settings support, in order of preference, by their protocol names.

    The default is the default of the client library. With group.protocol=consumer the broker has them (KIP-848).
    """
    if uses_kip_848(config):
        return (str(config.get("group.remote.assignor") or "uniform"),)
    key = "partition.assignment.strategy"
    names = str(client.traits.common(config).get(key) or client.traits.defaults(client.release)[key]).split(",")
    return tuple(_assignor(name.strip()) for name in names)


def _assignor(name: str) -> str:
    """Return the protocol name of an assignor. The Java client is configured with the names of classes."""
    return ASSIGNORS.get(name.removeprefix(PACKAGE), name)


def uses_kip_848(config: Config) -> bool:
    """Return whether members with these settings use the `consumer` group protocol."""
    return str(config.get("group.protocol", "classic")).lower() == "consumer"


def reads_committed(consumer: Subscribe | Assign) -> bool:
    """Return whether a consumer reads only committed records (isolation.level), by default as its library does."""
    client = consumer.client
    default = client.traits.defaults(client.release)["isolation.level"]
    return str(settings_of(consumer).get("isolation.level", default)).lower() != "read_uncommitted"

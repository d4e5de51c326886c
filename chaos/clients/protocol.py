"""The JSON specs that client programs read, and rows and names that they write. See `chaos.clients`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Security
from chaos.run.events import now_us
from chaos.values.arrivals import Arrivals
from chaos.values.model import Value

Scalar = bool | int | float | str
Config = dict[str, Scalar]
Partition = tuple[str, int]
"""Topic and partition number."""
Role = Literal["producer", "consumer"]
"""Role of a client in its `lifecycle` rows; a processor is a producer."""
Outcome = Literal["ok", "fail", "unknown"]
"""Outcome of a send or a commit: done, definitely not done, or nobody knows."""
Steady = Literal["settings", "limits", "rights", "timestamps"]
"""Settings of a topic, its limits (also limits that the brokers set), and rights of a client."""
FENCED = ("FENCED", "PRODUCER_EPOCH", "INVALID_TXN_STATE")
"""What the error of a fenced producer contains, in capitals. The last one: its EndTxn comes while the coordinator ends
its transaction for the next incarnation (seen with kafka-clients 4.3.1 and Apache Kafka 4.3.1)."""
AssignBy = Literal["application", "client"]
"""Who looks up the committed offsets when a rebalance assigns partitions."""
Program = Literal["producer", "processor", "group_consumer", "assign_consumer", "share_consumer"]
PROGRAMS: tuple[Program, ...] = ("producer", "processor", "group_consumer", "assign_consumer")
"""The programs of a complete runtime. A library with share groups also has a share_consumer."""


class Part(BaseModel):
    """A part of a spec or of the choice of a client. It refuses unknown keys, and its values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class IdentitiesSpec(Part):
    """Where records have their identities, besides the values; see `chaos.values`."""

    in_headers: list[str] = Field([], description="topics with identities in the header `aftershock`")
    unmarked: dict[str, list[Value]] = Field({}, description="by topic: payloads that have only ids")
    created_us: int = Field(0, description="time of the run, for ids that are numbers")
    first: dict[str, int] = Field(
        {}, description="by client of a producer with ids: how many records the clients before it may send"
    )
    most: int = Field(0, description="how many records all of them may send")


class ClientSpec(Part):
    """The fields that every client has. `program` names the program that runs the spec."""

    role: ClassVar[Role]
    program: Program
    run_id: str
    run_token: str = Field(description="8 characters that every record value of the run contains")
    ledger: Path
    client: str = Field(description="entry/number, such as shop/1; also the Kafka client.id")
    incarnation: int = Field(1, ge=1)
    bootstrap: str
    security: Security | None = Field(None, description="TLS and SASL; plaintext when left out")
    config: Config = Field(
        {}, description="settings by the names of the client library; they override the defaults of the program"
    )

    @property
    def writer(self) -> str:
        """Name of the ledger files of this incarnation."""
        return f"{self.client}.{self.incarnation}"

    @classmethod
    def load(cls, path: str) -> Self:
        """Read a spec file. Raises `OSError` and pydantic's `ValidationError`."""
        return cls.model_validate_json(Path(path).read_bytes())


class TransactionSpec(Part):
    """The division of records into transactions; see `chaos.setup.clients.Transactions`."""

    id: str = Field(description="transactional.id: the same in every incarnation")
    records: int = Field(ge=1)
    abort_every: int | None = Field(None, ge=1)
    timeout_s: float = Field(60.0, gt=0)
    hold_s: float = Field(0.0, ge=0)


class WriterSpec(ClientSpec):
    """The fields of every client that writes records."""

    role = "producer"
    topic: str
    rows: RowsSpec | None = Field(None, description="rows of a table or a file in place of records of a topic")
    in_turn: list[str] = Field(
        [], description="topics that take the records in turn: the one at seq modulo their number; `topic` if empty"
    )
    first_seq: int = Field(0, ge=0)
    value_size: int = Field(description="bytes of the value, identity included")
    stop_within_s: float = Field(10.0, gt=0, description="longest wait for delivery reports after the order to stop")
    transactions: TransactionSpec | None = Field(None, description="write in transactions")
    steady: list[Steady] = Field([], description="what does not change during the run")

    @property
    def table(self) -> str:
        """The table of the ledger that has what the client wrote."""
        return "inserts" if self.rows else "sends"

    def topic_of(self, seq: int) -> str:
        """Return the topic of a record."""
        return self.in_turn[seq % len(self.in_turn)] if self.in_turn else self.topic

    def topics_from(self, first: int) -> Iterator[str]:
        """Yield the topics of the records from a seq on, without end."""
        return map(self.topic_of, itertools.count(first)) if self.in_turn else itertools.repeat(self.topic)


class TimestampSpec(Part):
    """The timestamp of a record in ms: the time of the call in us, divided, and shifted."""

    divisor_us: int = Field(ge=1)
    shift_ms: int = 0

    def of(self, call_us: int) -> int:
        """Return the timestamp of a record."""
        return call_us // self.divisor_us + self.shift_ms


class RowsSpec(Part):
    """Where a producer of rows writes. url: of a database, or a reference to it; setting: the key that has it."""

    url: str = ""
    setting: str = ""
    insert: str = ""
    file: Path | None = None


class ProducerSpec(WriterSpec):
    """A producer that sends seq `first_seq` to `records` - 1, waits for all reports, then for the order to stop."""

    program: Literal["producer"] = "producer"
    records: int = Field(ge=0)
    hold: bool = Field(False, description="send nothing before the order to start")
    rate: float | None = Field(None, gt=0, description="records per second; full speed when left out")
    arrivals: Arrivals | None = Field(None, description="when each record is sent, in place of `rate`")
    keys: int | None = Field(None, ge=1, description="number of distinct keys; no keys when left out")
    seed: int = Field(0, ge=0, description="fixes the key of each seq")
    tombstone_every: int | None = Field(
        None, ge=2, description="records with seq + 1 divisible by this number have no value; see `chaos.ledger.record`"
    )
    value: Value | None = Field(
        None, description="payloads of the user's form, with absolute paths; `value_size` does not count then"
    )
    number_from: int = Field(0, description="an id that is a number is this one plus the seq")
    timestamps: TimestampSpec | None = Field(
        None, description="the program sets the timestamp of each record; the library does when left out"
    )
    mode: Literal["callback", "synchronous", "fire_and_forget"] = "callback"
    partitions: int = Field(0, ge=0, description="partitions of the topic; required with `partitioner`")
    checkpoint_every_s: float | None = Field(None, gt=0, description="seconds between checkpoints of its position")
    restore: bool = Field(False, description="continue at its last checkpoint, instead of `first_seq` if there is one")
    definite_errors: list[str] = Field(
        [], description="names of errors in the protocol that count as `fail`, like errors that prove a refusal"
    )
    partitioner: Literal["round_robin", "by_key_number"] | None = Field(
        None, description="the application chooses the partition; the library does when left out"
    )


class PlainSpec(Part):
    """The order of output and commit without transactions; see `chaos.setup.clients.Plain`."""

    commit: Literal["after_output", "before_output"]
    records: int = Field(ge=1)
    hold_s: float = Field(0.0, ge=0)


class ProcessorSpec(WriterSpec):
    """A group member that reads topics and writes one record for each record that it reads.

    Exactly one of `transactions` and `plain` is set.
    """

    program: Literal["processor"] = "processor"
    group: str
    topics: list[str] = Field(min_length=1, description="topics to read")
    consumer_config: Config = {}
    identities: IdentitiesSpec | None = Field(None, description="as for a consumer")
    assign_by: AssignBy | None = Field(None, description="as for a group consumer")
    plain: PlainSpec | None = None
    state: Literal["count"] | None = Field(
        None,
        description="count: each output has the key of its input, and in the header `aftershock-count` the number of "
        "inputs of this key that the group has processed, this one included, by partition",
    )
    lose_state: bool = Field(False, description="begin without the local state of the earlier incarnation")
    threads: list[str] = Field([], description="the clients of this process; only `client` if empty")


class CommitSpec(Part):
    """The time and kind of offset commits; see `chaos.setup.clients.Commit`."""

    when: Literal["after_batch", "after_record", "before_processing", "periodic", "on_checkpoint", "never"]
    kind: Literal["sync", "async", "auto"]
    every_s: float | None = Field(None, gt=0, description="periodic: seconds between two commits")
    on_revoke: bool = Field(False, description="also commit processed offsets when partitions are revoked")


class WorkersSpec(Part):
    """Processing in a pool of threads; see `chaos.setup.clients.Workers`."""

    count: int = Field(ge=1)
    tracking: Literal["window", "naive"]
    straggle_every: int | None = None
    straggle_s: float = 0.0


class ConsumerSpec(ClientSpec):
    """The fields of both kinds of consumers."""

    role = "consumer"
    topics: list[str] = Field(min_length=1)
    identities: IdentitiesSpec | None = Field(
        None, description="where records have their identities, besides the values and the headers of tombstones"
    )
    commit: CommitSpec
    max_poll_records: int = Field(500, ge=1)
    per_record_s: float = Field(0.0, ge=0, description="processing time of each record")


class GroupConsumerSpec(ConsumerSpec):
    """A group member that subscribes to topics; a topic that begins with ^ is a regular expression.

    With `threads`, the process runs one member per name, each in a thread; `client` is the first name.
    """

    program: Literal["group_consumer"] = "group_consumer"
    group: str
    assign_by: AssignBy | None = Field(
        None,
        description="client: the library looks up the committed offsets of assigned partitions; application: the "
        "rebalance callback asks for them and assigns them. A program that can do only one ignores it",
    )
    workers: WorkersSpec | None = None
    threads: list[str] = Field([], description="the clients of this process; only `client` if empty")


class AssignConsumerSpec(ConsumerSpec):
    """A consumer that assigns itself every partition of its topics.

    A partition in `checkpoint` continues there. Every other partition starts as `start` says.
    """

    program: Literal["assign_consumer"] = "assign_consumer"
    group: str | None = None
    start: Literal["earliest", "latest", "group", "offsets", "timestamp"] = "earliest"
    offsets: dict[str, int] = Field(
        {}, description="by `topic/partition`; the client waits for an offset in the future; earliest when left out"
    )
    timestamp_ms: int | None = Field(None, description="since the epoch; the client waits for a time in the future")
    restore: bool = Field(False, description="a later incarnation restores its last checkpoint, if it has one")
    checkpoint: dict[str, int] = Field({}, description="next offset by `topic/partition`, from `checkpoint_of`")
    checkpoint_every_s: float | None = Field(
        None,
        gt=0,
        description="seconds between checkpoints apart from the results, each with rows of the event `checkpoint`; "
        "every result is one if null",
    )
    idempotent_results: bool = Field(
        False, description="write no delivery row for records after the checkpoint that have one already"
    )
    session: str | None = Field(
        None, description="host:port of the session cluster to submit the job to; if null, the process runs it"
    )
    savepoint: bool = Field(False, description="end with a savepoint, from which the next incarnation starts")
    discover_s: float | None = Field(None, gt=0, description="seconds between two searches for new partitions")
    no_group_id: Literal["absent", "empty"] | None = Field(
        None, description="group.id to try first, to record the answer of the client library"
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.start == "timestamp" and self.timestamp_ms is None:
            raise ValueError("start: timestamp needs timestamp_ms")
        if self.start == "group" and self.group is None:
            raise ValueError("start: group needs a group")
        return self


class ShareConsumerSpec(ClientSpec):
    """A member of a share group; see `chaos.setup.share.Share`."""

    role = "consumer"
    program: Literal["share_consumer"] = "share_consumer"
    group: str
    topics: list[str] = Field(min_length=1)
    commit: Literal["sync", "async", "implicit"] = "sync"
    release_every: int | None = Field(None, ge=1, description="release offsets with offset + 1 divisible by it")
    release_times: int = Field(1, ge=1, description="up to this delivery count")
    reject_every: int | None = Field(None, ge=1, description="reject offsets with offset + 1 divisible by it")
    max_poll_records: int = Field(500, ge=1)
    per_record_s: float = Field(0.0, ge=0, description="processing time of each record")


def lifecycle_row(client: str, role: str, incarnation: int, event: str, detail: dict[str, Any]) -> dict[str, object]:
    """Return a row of `lifecycle`."""
    return {
        "client": client,
        "role": role,
        "incarnation": incarnation,
        "event": event,
        "detail": json.dumps(detail),
        "at_us": now_us(),
    }


def partition_name(partition: Partition) -> str:
    """Return `topic/number`, such as `orders/0`."""
    return str(TopicPartition(*partition))


def partition_of(name: str) -> Partition:
    """Return the partition that `topic/number` names. Raises `ValueError`."""
    partition = TopicPartition.parse(name)
    return partition.topic, partition.number

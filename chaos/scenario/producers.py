"""The clients that write: producers, and processors, which read, transform and write in one transaction."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.kafka.settings import Config
from chaos.ledger.record import HEADER_BYTES
from chaos.scenario.names import ClientName, GroupId, TopicName
from chaos.scenario.triggers import Strict
from chaos.units import Duration, Rate, Size

LibraryPartitioner = Literal["consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"]
ApplicationPartitioner = Literal["round_robin", "by_key_number"]
Partitioner = LibraryPartitioner | Literal["sticky"] | ApplicationPartitioner
SendMode = Literal["callback", "synchronous", "fire_and_forget"]


class Transactions(Strict):
    """How a client divides its records into transactions. Its transactional.id is its name, the same in every life."""

    records: int = Field(100, ge=1, description="of each transaction")
    abort_every: int | None = Field(
        None, ge=2, description="every so many transactions, one is aborted on purpose, with all its records in the log"
    )
    timeout: Duration = Field(60.0, ge=1, description="transaction.timeout.ms: the coordinator aborts what is older")
    hold: Duration = Field(0.0, description="how long a transaction stays open after its last record")


class Producer(Strict):
    """`count` producer processes that each send `records` records, numbered by seq from 0."""

    name: ClientName
    topic: TopicName
    count: int = Field(1, ge=1, le=50)
    records: int = Field(20_000, ge=1, description="of each process")
    rate: Rate | None = Field(None, description="of each process; full speed when left out")
    outlast_faults: bool = Field(
        False, description="go on at `rate` until every fault is through; `records` is then the least number"
    )
    keys: int | None = Field(None, ge=1, description="number of distinct keys; no key when left out")
    value_size: Size = Field(128, ge=HEADER_BYTES, le=2**20, description="bytes of the value, identity included")
    mode: SendMode = Field(
        "callback",
        description="callback: each record's result is looked at when it comes; synchronous: it is waited for before "
        "the next record; fire_and_forget: it is never looked at, and what the full local queue refuses is given up",
    )
    partitioner: Partitioner | None = Field(
        None,
        description="librdkafka's by their names; sticky: one partition for a while, no key; round_robin and "
        "by_key_number: functions of the application's own. librdkafka's default when left out",
    )
    resend: bool = Field(
        False, description="after a crash, begin again at the first record that was not acknowledged to the last life"
    )
    transactions: Transactions | None = Field(None, description="write in transactions")
    config: Config = Field({"acks": "all", "enable.idempotence": True}, description="librdkafka settings")


class Processor(Strict):
    """Read-process-write: `members` processes of one group that write a record for each one they read.

    Records out and offsets in are of one transaction. What is written carries the processor as its producer, with a seq
    of its own; what is read is judged as of a subscribe consumer.
    """

    name: ClientName
    group: GroupId
    topics: list[TopicName] = Field(min_length=1, description="read from these")
    to: TopicName = Field(description="written to this")
    members: int = Field(1, ge=1, le=50)
    transactions: Transactions = Transactions()
    value_size: Size = Field(128, ge=HEADER_BYTES, le=2**20, description="bytes of the value, identity included")
    config: Config = Field({}, description="librdkafka settings of its producer")
    consumer_config: Config = Field(
        {"auto.offset.reset": "earliest"}, description="librdkafka settings of its consumer"
    )

"""Clients that write: producers, and processors, which read, transform and write in one transaction."""

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
    """The transactions of a client. Its transactional.id is its name, the same for every incarnation."""

    records: int = Field(100, ge=1, description="records of each transaction")
    abort_every: int | None = Field(
        None, ge=2, description="abort every n-th transaction on purpose, with all its records in the log"
    )
    timeout: Duration = Field(60.0, ge=1, description="transaction.timeout.ms: older transactions are aborted")
    hold: Duration = Field(0.0, description="time that a transaction stays open after its last record")


class Producer(Strict):
    """`count` producer processes that each send `records` records, numbered by seq from 0."""

    name: ClientName
    topic: TopicName
    count: int = Field(1, ge=1, le=50)
    records: int = Field(20_000, ge=1, description="records of each process")
    rate: Rate | None = Field(None, description="rate of each process; full speed if left out")
    outlast_faults: bool = Field(
        False, description="continue at `rate` until every fault is healed; `records` is then the minimum number"
    )
    keys: int | None = Field(None, ge=1, description="number of distinct keys; no key if left out")
    value_size: Size = Field(128, ge=HEADER_BYTES, le=2**20, description="bytes of the value, including its header")
    mode: SendMode = Field(
        "callback",
        description="callback: process each delivery report when it arrives; synchronous: wait for it before the next "
        "record; fire_and_forget: ignore delivery reports, and drop records that a full local queue refuses",
    )
    partitioner: Partitioner | None = Field(
        None,
        description="librdkafka's partitioners by their names; sticky: one partition for some time, without keys; "
        "round_robin and by_key_number: functions of the application. librdkafka's default if left out",
    )
    resend: bool = Field(False, description="after a crash, continue at the first record without acknowledgement")
    transactions: Transactions | None = Field(None, description="write in transactions")
    config: Config = Field({"acks": "all", "enable.idempotence": True}, description="librdkafka settings")


class Processor(Strict):
    """Read-process-write: `members` processes of one group that write a record for each one they read.

    Output records and input offsets belong to one transaction. Output records name the processor as their producer and
    have separate sequence numbers. Input is checked as for a subscribe consumer.
    """

    name: ClientName
    group: GroupId
    topics: list[TopicName] = Field(min_length=1, description="input topics")
    to: TopicName = Field(description="output topic")
    members: int = Field(1, ge=1, le=50)
    transactions: Transactions = Transactions()
    value_size: Size = Field(128, ge=HEADER_BYTES, le=2**20, description="bytes of the value, including its header")
    config: Config = Field({}, description="librdkafka settings of its producer")
    consumer_config: Config = Field(
        {"auto.offset.reset": "earliest"}, description="librdkafka settings of its consumer"
    )

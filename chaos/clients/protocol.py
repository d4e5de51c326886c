"""What a client is given: the models of its JSON spec, and the shape of what it is ordered and tells.

The protocol itself is described in `chaos.clients`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from chaos.kafka.access import librdkafka
from chaos.kafka.security import Security

Scalar = bool | int | float | str
Config = dict[str, Scalar]
Partition = tuple[str, int]
"""Topic and partition number."""


class ClientSpec(BaseModel):
    """What every client is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    run_token: str = Field(description="8 characters, inside every value of the run")
    ledger: Path
    client: str = Field(description="entry/number, such as shop/1; the Kafka client.id too")
    incarnation: int = Field(1, ge=1)
    bootstrap: str
    security: Security | None = Field(None, description="TLS and SASL, with the places of secrets; plain when left out")
    config: Config = Field({}, description="librdkafka settings; they win over the client's own")

    @property
    def writer(self) -> str:
        """The name of its ledger files."""
        return f"{self.client}.{self.incarnation}"

    def connection(self) -> dict[str, str]:
        """Where the cluster is and how to get in, as librdkafka takes it. Raises `UsageError` without a secret."""
        return {"bootstrap.servers": self.bootstrap, "client.id": self.client, **librdkafka(self.security)}

    @classmethod
    def load(cls, path: str) -> Self:
        """Read a spec. Raises `OSError` and pydantic's `ValidationError`."""
        return cls.model_validate_json(Path(path).read_bytes())


class TransactionSpec(BaseModel):
    """How a client divides its records into transactions; see `chaos.scenario.Transactions`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(description="transactional.id: the same in every incarnation")
    records: int = Field(ge=1)
    abort_every: int | None = Field(None, ge=1)
    timeout_s: float = Field(60.0, gt=0)
    hold_s: float = Field(0.0, ge=0)

    def settings(self) -> Config:
        """What it means for librdkafka."""
        return {"transactional.id": self.id, "transaction.timeout.ms": round(self.timeout_s * 1000)}


class _WritingSpec(ClientSpec):
    """What every client that writes is given."""

    topic: str
    first_seq: int = Field(0, ge=0)
    value_size: int = Field(description="bytes of the value, identity included")
    stop_within_s: float = Field(10.0, gt=0, description="longest wait for outstanding answers after a stop")
    transactions: TransactionSpec | None = Field(None, description="write in transactions")


class ProducerSpec(_WritingSpec):
    """A producer that sends seq `first_seq` to `records` - 1, waits for all answers, then for its order to stop."""

    records: int = Field(ge=0)
    hold: bool = Field(False, description="send nothing before the order to start")
    rate: float | None = Field(None, gt=0, description="records per second; full speed when left out")
    keys: int | None = Field(None, ge=1, description="number of distinct keys; no key when left out")
    seed: int = Field(0, ge=0, description="fixes the key of each seq")
    mode: Literal["callback", "synchronous", "fire_and_forget"] = "callback"
    partitions: int = Field(0, ge=0, description="of the topic; needed by the application's own partitioners")
    partitioner: Literal["round_robin", "by_key_number"] | None = Field(
        None, description="the application chooses partitions itself; else librdkafka does as its settings say"
    )


class ProcessorSpec(_WritingSpec):
    """A client that reads topics as a member of a group and writes a record for each one it reads, in transactions."""

    group: str
    topics: list[str] = Field(min_length=1, description="read from these")
    consumer_config: Config = {}
    transactions: TransactionSpec


class CommitSpec(BaseModel):
    """When offsets are committed, and how; see `chaos.scenario.Commit`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    when: Literal["after_batch", "after_record", "before_processing", "periodic", "never"]
    kind: Literal["sync", "async", "auto"]
    every_s: float | None = Field(None, gt=0, description="periodic: seconds between two commits")
    on_revoke: bool = Field(False, description="commit what is processed when partitions are taken away, too")


class WorkersSpec(BaseModel):
    """Process in a pool of threads; see `chaos.scenario.consumers.Workers`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: int = Field(ge=1)
    tracking: Literal["window", "naive"]
    straggle_every: int | None = None
    straggle_s: float = 0.0


class _ConsumerSpec(ClientSpec):
    topics: list[str] = Field(min_length=1)
    commit: CommitSpec
    max_poll_records: int = Field(500, ge=1)
    per_record_s: float = Field(0.0, ge=0, description="processing time of each record")


class GroupConsumerSpec(_ConsumerSpec):
    """A member of a consumer group that subscribes to topics; one that begins with ^ is a regular expression.

    With `threads`, it stands for as many members of these names, each in a thread; `client` is the first of them.
    """

    group: str
    workers: WorkersSpec | None = None
    threads: list[str] = Field([], description="the clients that live in this process; only `client` if empty")


class AssignConsumerSpec(_ConsumerSpec):
    """A consumer that reads every partition of its topics from positions of its own choice.

    A partition that `checkpoint` names goes on there, any other begins where `start` says.
    """

    group: str | None = None
    start: Literal["earliest", "latest", "group", "offsets", "timestamp"] = "earliest"
    offsets: dict[str, int] = Field(
        {}, description="by `topic/partition`, waited for if not there yet; a partition left out begins at earliest"
    )
    timestamp_ms: int | None = Field(None, description="since the epoch; the client waits for it if it is to come")
    checkpoint: dict[str, int] = Field({}, description="next offset by `topic/partition`, from `checkpoint_of`")
    discover_s: float | None = Field(None, gt=0, description="seconds between two looks for new partitions; else none")
    no_group_id: Literal["absent", "empty"] | None = Field(
        None, description="what group.id to try first, for the record of what the client says to it"
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.start == "timestamp" and self.timestamp_ms is None:
            raise ValueError("start: timestamp needs timestamp_ms")
        if self.start == "group" and self.group is None:
            raise ValueError("start: group needs a group")
        return self


def partition_name(partition: Partition) -> str:
    """`orders/0`."""
    return f"{partition[0]}/{partition[1]}"


def partition_of(name: str) -> Partition:
    """The reverse of `partition_name`. Raises `ValueError`."""
    topic, _, number = name.rpartition("/")
    return topic, int(number)

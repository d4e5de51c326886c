"""The scenario: what to deploy, who writes and reads, what breaks when, and what must hold in the end."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from chaos.cluster.metadata_mode import Metadata, choose
from chaos.cluster.verbs import Verbs
from chaos.errors import UsageError
from chaos.kafka.security import Security
from chaos.kafka.settings import Config
from chaos.scenario import rules
from chaos.scenario.consumers import Consumer, Subscribe
from chaos.scenario.expect import Expect
from chaos.scenario.faults import Fault, WireFault
from chaos.scenario.names import TopicName
from chaos.scenario.producers import Processor, Producer
from chaos.scenario.schedule import Schedule
from chaos.scenario.triggers import Strict
from chaos.units import Duration, Size

Bootstrap = Annotated[str, Field(pattern=r"^\s*[^\s,:/]+:\d{1,5}\s*(,\s*[^\s,:/]+:\d{1,5}\s*)*$")]

DEFAULT_KAFKA = "4.3.1"


class Cluster(Strict):
    """The brokers. Each is a JVM: a KRaft broker and controller in one, or a broker beside a ZooKeeper server.

    Unless they exist already (driver: attached).
    """

    driver: Literal["process", "docker", "attached"] = Field(
        "process",
        description="process: JVMs of this machine; docker: a container for each; attached: a cluster that exists",
    )
    brokers: int = Field(3, ge=1, le=9, description="attached: as many as there are, whatever this says")
    kafka: str = Field(DEFAULT_KAFKA, pattern=r"^\d+\.\d+\.\d+$", description="any Apache Kafka release")
    metadata: Metadata | None = Field(
        None,
        validate_default=True,
        description="where metadata is kept; if left out: with the brokers from Kafka 3.3 on, in ZooKeeper before",
    )
    config: Config = Field({}, description="broker settings by their Kafka names")
    proxy: bool = Field(False, description="clients go through the wire proxy even if no fault needs it")
    heap: Size = Field(256 * 2**20, ge=64 * 2**20, description="heap of each broker")
    cpus: float | None = Field(None, gt=0, description="docker: CPUs that each broker may use; no limit if left out")
    memory: Size | None = Field(
        None, ge=128 * 2**20, description="docker: memory of each broker, above its heap; no limit if left out"
    )
    disk: Size | None = Field(
        None, ge=64 * 2**20, description="docker: size of each broker's disk, held in memory; the host's if left out"
    )
    bootstrap: Bootstrap | None = Field(None, description="attached: host:port of one or more brokers, with commas")
    security: Security = Field(Security(), description="attached: TLS and SASL; plain connections when left out")
    allow_faults: bool = Field(
        False, description="attached: whether brokers may be broken, together with --i-own-this-cluster"
    )
    verbs: Verbs = Field(Verbs(), description="attached: the commands that break brokers and bring them back")

    @field_validator("metadata")
    @classmethod
    def _suits_the_release(cls, asked: Metadata | None, others: ValidationInfo) -> Metadata | None:
        """Fill it in: what a run was made with must be on record."""
        if not {"kafka", "driver"} <= others.data.keys():  # refused by then
            return asked
        try:
            return choose(others.data["kafka"], asked, others.data["driver"])
        except UsageError as e:
            raise ValueError(str(e)) from None


class Clients(Strict):
    """What the clients are made of."""

    confluent_kafka: str | None = Field(
        None,
        pattern=r"^\d+\.\d+\.\d+$",
        description="release of confluent-kafka, and with it of librdkafka; Aftershock's own when left out",
    )


class Topic(Strict):
    """A topic, made before any client starts, or by a fault `topic.create`."""

    name: TopicName
    partitions: int = Field(1, ge=1, le=1000)
    replication_factor: int = Field(3, ge=1)
    config: Config = Field({}, description="topic settings by their Kafka names")
    later: bool = Field(False, description="made by a fault topic.create, while clients run")


class Limits(Strict):
    """Time-outs. What passes one makes the run inconclusive or shows as an anomaly; it never hangs."""

    drive: Duration = Field(180.0, description="for producers to send everything and faults to be healed")
    drain: Duration = Field(60.0, description="for consumers to reach the end of every partition")
    proof: Duration = Field(30.0, description="for a fault to show its effect")
    clients: Duration = Field(30.0, description="for clients to start, groups to form, and clients to stop")


VariantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=40)]


class Variant(Strict):
    """One side of an A/B scenario: what it changes, and what is then expected."""

    set: dict[str, Any] = Field({}, description="values by path, as of --set: producers.shop.config.acks: 1")
    expect: Expect | None = Field(None, description="the contract of this side; the scenario's when left out")


class Scenario(Strict):
    """A whole scenario. Every default is visible in `resolved.json` and in `python -m chaos show`."""

    title: str = Field(min_length=1, max_length=200)
    description: str = ""
    seed: int | None = Field(None, ge=0, description="fixes every random choice; drawn and recorded when left out")
    schedule: Schedule | None = Field(
        None, description="when its DAG runs: cron (UTC), or a preset such as @daily; only on demand when left out"
    )
    cluster: Cluster = Cluster()
    clients: Clients = Clients()
    topics: list[Topic] = Field(min_length=1)
    producers: list[Producer] = Field(min_length=1)
    consumers: list[Consumer] = []
    processors: list[Processor] = []
    faults: list[Fault] = []
    expect: Expect = Expect()
    limits: Limits = Limits()
    variants: dict[VariantName, Variant] = Field(
        {}, description="A/B: each is a run with the same seed and timeline; the report puts them side by side"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if problems := rules.problems(self):
            raise ValueError("; ".join(problems))
        return self

    @property
    def proxied(self) -> bool:
        """Whether clients reach the brokers through the wire proxy only."""
        return self.cluster.proxy or any(isinstance(fault, WireFault) for fault in self.faults)

    @property
    def switched(self) -> bool:
        """Whether brokers of the process driver reach each other through a switch, for a fault cuts their links."""
        return self.cluster.driver == "process" and any("isolate" in fault.needs for fault in self.faults)

    @property
    def readers(self) -> list[Consumer]:
        """Every entry that reads: the consumers, and the reading side of each processor as a subscribe consumer."""
        return [*self.consumers, *map(_reading_side, self.processors)]

    @property
    def transactional(self) -> bool:
        """Whether any client writes in transactions."""
        return bool(self.processors) or any(p.transactions for p in self.producers)

    def topic(self, name: str) -> Topic:
        """The topic of that name."""
        return next(t for t in self.topics if t.name == name)

    def partitions_at_end(self) -> dict[str, int]:
        """How many partitions each topic has when all faults are through: some add to them."""
        found = {t.name: t.partitions for t in self.topics}
        for fault in self.faults:
            if fault.kind == "topic.add_partitions" and fault.target.topic is not None:
                found[fault.target.topic] = max(found[fault.target.topic], fault.to)
        return found

    def held_back(self) -> set[str]:
        """The members, such as billing/3, that a fault consumer.join lets start while the others run."""
        return {f.target.member for f in self.faults if f.kind == "consumer.join" and f.target.member is not None}


def _reading_side(processor: Processor) -> Subscribe:
    return Subscribe(
        mode="subscribe",
        name=processor.name,
        group=processor.group,
        members=processor.members,
        topics=processor.topics,
        config=processor.consumer_config,
    )

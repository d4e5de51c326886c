"""The setup of a scenario: the cluster, its topics, and the clients that write and read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from chaos.cluster.drivers import DriverName
from chaos.cluster.metadata_mode import Metadata, choose
from chaos.cluster.verbs import Verbs
from chaos.errors import UsageError
from chaos.kafka.security import Security
from chaos.kafka.settings import Config
from chaos.scenario.consumers import Consumer, Subscribe
from chaos.scenario.names import TopicName
from chaos.scenario.producers import Processor, Producer
from chaos.scenario.schedule import Schedule
from chaos.scenario.triggers import Strict
from chaos.units import Size

Bootstrap = Annotated[str, Field(pattern=r"^\s*[^\s,:/]+:\d{1,5}\s*(,\s*[^\s,:/]+:\d{1,5}\s*)*$")]

DEFAULT_KAFKA = "4.3.1"


class Cluster(Strict):
    """The brokers. Each new broker is a JVM: a KRaft broker and controller in one, or a broker beside ZooKeeper.

    The attached driver uses brokers that already exist.
    """

    driver: DriverName = Field(
        "process",
        description="process: JVMs on this machine; docker: one container per broker; attached: an existing cluster",
    )
    brokers: int = Field(3, ge=1, le=9, description="number of brokers; ignored by the attached driver")
    kafka: str = Field(DEFAULT_KAFKA, pattern=r"^\d+\.\d+\.\d+$", description="Apache Kafka release")
    metadata: Metadata | None = Field(
        None,
        validate_default=True,
        description="where metadata is kept; if left out: kraft from Kafka 3.3 on, zookeeper before",
    )
    config: Config = Field({}, description="broker settings by their Kafka names")
    proxy: bool = Field(False, description="connect clients through the wire proxy even if no fault needs it")
    heap: Size = Field(256 * 2**20, ge=64 * 2**20, description="heap of each broker")
    cpus: float | None = Field(None, gt=0, description="docker: CPUs of each broker; no limit if left out")
    memory: Size | None = Field(
        None, ge=128 * 2**20, description="docker: memory of each broker, above its heap; no limit if left out"
    )
    disk: Size | None = Field(
        None, ge=64 * 2**20, description="docker: size of each broker's disk, held in memory; the host's if left out"
    )
    bootstrap: Bootstrap | None = Field(None, description="attached: host:port of one or more brokers, comma-separated")
    security: Security = Field(Security(), description="attached: TLS and SASL; plain connections if left out")
    allow_faults: bool = Field(
        False, description="attached: allow faults of brokers; the run also needs --i-own-this-cluster"
    )
    verbs: Verbs = Field(Verbs(), description="attached: the commands that stop and start brokers")

    @field_validator("metadata")
    @classmethod
    def _fill_in(cls, requested: Metadata | None, others: ValidationInfo) -> Metadata | None:
        """Return the metadata mode of the release, so that `resolved.json` records it."""
        if not {"kafka", "driver"} <= others.data.keys():  # one of them is invalid and has its own error
            return requested
        try:
            return choose(others.data["kafka"], requested, others.data["driver"])
        except UsageError as e:
            raise ValueError(str(e)) from None


class Clients(Strict):
    """The client library that clients run with."""

    confluent_kafka: str | None = Field(
        None,
        pattern=r"^\d+\.\d+\.\d+$",
        description="release of confluent-kafka, and so of librdkafka; the installed one if left out",
    )


class Topic(Strict):
    """A topic. It is created before any client starts, or by a fault `topic.create`."""

    name: TopicName
    partitions: int = Field(1, ge=1, le=1000)
    replication_factor: int = Field(3, ge=1)
    config: Config = Field({}, description="topic settings by their Kafka names")
    later: bool = Field(False, description="created by a fault topic.create, while clients run")


class Setup(Strict):
    """The part of a scenario that holds before any fault: cluster, topics and clients."""

    title: str = Field(min_length=1, max_length=200)
    description: str = ""
    seed: int | None = Field(None, ge=0, description="fixes every random choice; drawn and recorded if left out")
    schedule: Schedule | None = Field(
        None, description="when its DAG runs: cron (UTC), or a preset such as @daily; only on demand if left out"
    )
    cluster: Cluster = Cluster()
    clients: Clients = Clients()
    topics: list[Topic] = Field(min_length=1)
    producers: list[Producer] = Field(min_length=1)
    consumers: list[Consumer] = []
    processors: list[Processor] = []

    @property
    def attached(self) -> bool:
        """Whether the scenario runs on an existing cluster."""
        return self.cluster.driver == "attached"

    @property
    def readers(self) -> list[Consumer]:
        """Every entry that reads: the consumers, and the reading side of each processor as a subscribe consumer."""
        return [*self.consumers, *map(_reading_side, self.processors)]

    @property
    def transactional(self) -> bool:
        """Whether any client writes in transactions."""
        return bool(self.processors) or any(p.transactions for p in self.producers)

    def topic(self, name: str) -> Topic:
        """Return the topic of that name. Raises `StopIteration` if there is none."""
        return next(t for t in self.topics if t.name == name)


def _reading_side(processor: Processor) -> Subscribe:
    return Subscribe(
        mode="subscribe",
        name=processor.name,
        group=processor.group,
        members=processor.members,
        topics=processor.topics,
        config=processor.consumer_config,
    )

"""The runtime `spark`: queries of Spark Structured Streaming, which read without membership and commit nothing.

Settings are the options of its Kafka source (Structured Streaming + Kafka Integration Guide), such as
maxOffsetsPerTrigger; settings of its Kafka consumers have the prefix `kafka.`, settings of Spark `spark.`. pyspark has
the Spark, and the Kafka source has the same release.
"""

from __future__ import annotations

from chaos.clients.java.traits import MISNAMED
from chaos.clients.traits import Traits, in_all_releases
from chaos.kafka.settings import Config
from chaos.settings import Source

RELEASE = "4.2.0"
PREFIX = "kafka."
LEAST_HEAP = 480 * 2**20
"""Spark refuses to start with less than 450 MiB of usable heap (its UnifiedMemoryManager)."""
OPTIONS = frozenset(
    {
        *("failOnDataLoss", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions"),
        *("maxRecordsPerPartition", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries"),
        *("fetchOffset.retryIntervalMs", "startingOffsetsByTimestampStrategy"),
    }
)
START = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
RESERVED = frozenset(
    {
        *(*START, "subscribe", "subscribePattern", "assign", "includeHeaders", "groupIdPrefix", "checkpointLocation"),
        *("kafka.bootstrap.servers", "kafka.client.id", "kafka.group.id", "kafka.auto.offset.reset"),
        *("kafka.enable.auto.commit", "kafka.key.deserializer", "kafka.value.deserializer"),
        # with it, queries join groups
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching",
        # with it, the plan of a batch may hide the offsets where the batch begins
        "spark.sql.adaptive.streaming.stateless.enabled",
        *("kafka.interceptor.classes", "spark.master", "spark.driver.host", "spark.local.dir"),
    }
)


def common(config: Config) -> Config:
    """Return settings by their common names: without the prefix `kafka.`."""
    return {name.removeprefix(PREFIX): value for name, value in config.items()}


def unknown(name: str) -> str:
    """Return why a name is no setting; empty if it may be one. The program knows the settings of the consumer."""
    if name in OPTIONS or name.startswith((PREFIX, "spark.")):
        return ""
    return "write an option of its Kafka source, such as maxOffsetsPerTrigger, or kafka. and a setting of its consumer"


def defaults(_: str | None) -> Config:
    """Return the settings that a scenario leaves out."""
    return {
        "auto.offset.reset": "latest",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": "",
        "failOnDataLoss": True,
    }


TRAITS = Traits(
    name="spark",
    library="spark",
    reported={"spark": "spark", "kafka_clients": "kafka-clients"},
    releases=(RELEASE, RELEASE),
    abilities=in_all_releases("assign", "checkpoint", "checkpoint interval", "idempotent results", "encrypted keys"),
    lacks={
        "produce": "its program only reads",
        "subscribe": "a query assigns partitions itself and joins no group; use mode: assign",
        "seek": "a running query cannot be sent to other offsets",
        "transaction markers": "its batches end after markers, which the audit cannot compare with what was processed",
        "deleted topics": "a query keeps the offsets of the deleted topic, and its program does not begin again",
        "assignment without group.id": "its consumers have generated ids",
        "reset to none": "Spark sets auto.offset.reset itself",
        "group offsets": "a query never asks for committed offsets; give it another start",
        "commits after processing": "a query commits nothing; use commit: {when: never}",
        "records per poll": "a batch is bounded by maxOffsetsPerTrigger in config",
        "fixed partitions": "a query finds new partitions in each batch; give discover",
    },
    auto_commits=frozenset(),
    settings={
        "consumer": (
            *(Source("spark"), Source(prefix="spark.")),
            Source("java-consumer", PREFIX, releases={RELEASE: "3.9.2"}),
        )
    },
    reserved=RESERVED,
    misnamed={name: PREFIX + name for name in ("isolation.level", "max.partition.fetch.bytes", "metadata.max.age.ms")}
    | {name: own and PREFIX + own for name, own in MISNAMED.items()},
    unknown=unknown,
    common=common,
    defaults=defaults,
    heap=True,
    least_heap=LEAST_HEAP,
)

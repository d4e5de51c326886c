"""The runtimes `flink` (KafkaSource, KafkaSink) and `flink-legacy` (FlinkKafkaConsumer): Flink jobs.

Jobs read without membership; jobs of `flink` may also write. Each client is a job in a mini cluster in a separate
process, or a job that such a process submits to a session cluster. A setting is one of Flink, such as
parallelism.default, or of its Kafka clients. FlinkKafkaConsumer is in the connector 3.4.0-1.20, the last one that has
it.
"""

from __future__ import annotations

from typing import get_args

from chaos.clients.java.traits import MISNAMED, PLUGINS
from chaos.clients.traits import OWN_POSITIONS, Role, Traits, in_all_releases, number
from chaos.kafka.settings import Config
from chaos.settings import Source

OLDEST, NEWEST = "1.20.0", "2.3.0"
LEGACY_NEWEST = "1.20.5"
CHECKPOINT_EVERY_S = 1.0
CLUSTER_SETTINGS = ("taskmanager.", "jobmanager.", "cluster.", "heartbeat.")
"""The beginnings of the names of settings that a session cluster has, not its jobs."""
KAFKA_CLIENTS = {OLDEST: "3.4.0", "2.0.0": "3.9.1", "2.2.0": "4.2.0"}
"""The release of kafka-clients that the Kafka connector uses, by the first release of Flink."""
CONNECTORS = {(1, 20): "3.4.0-1.20", (2, 0): "4.0.1-2.0", (2, 2): "5.0.0-2.2"}
"""The release of the Kafka connector, by the first line of Flink that uses it."""


def connector(release: str) -> str:
    """Return the release of the Kafka connector for a release of Flink."""
    return CONNECTORS[max(line for line in CONNECTORS if line <= number(release)[:2])]


def defaults(_: str | None) -> Config:
    """Return the settings that a scenario leaves out; they are the same in all releases."""
    return {
        "acks": "all",
        "enable.idempotence": True,
        "auto.offset.reset": "latest",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": "",
    }


TRAITS = Traits(
    name="flink",
    library="flink",
    reported={"flink": "flink", "kafka_clients": "kafka-clients"},
    releases=(OLDEST, NEWEST),
    abilities=in_all_releases(
        "produce",
        "transactions",
        "sticky partitioner",
        "checkpoints of a producer",
        "assign",
        "checkpoint",
        "checkpoint interval",
        "savepoints",
        "session clusters",
        "commits on checkpoints",
        "encrypted keys",
        *OWN_POSITIONS,
    ),
    lacks={
        "library partitioner": "the names are librdkafka's; set partitioner.class in config",
        "resending": "a job continues at its last checkpoint, and sends what came after it again; leave resend out",
        "waiting for answers": "a complete checkpoint says that records are written; use mode: callback",
        "parallel writing": "a producer is one subtask, so that its records have an order; use count for more",
        "transactions of a size": "a transaction lasts from one checkpoint to the next; use checkpoint_every",
        "fencing": "an earlier job is fenced only when it uses a transactional.id that the next one took over",
        "send outcomes": "a job sees no answer to a single record",
        "ignore reports": "a job never sees the answers of the brokers; kill it without `unreported`",
        "subscribe": "a job assigns partitions to its subtasks itself; use mode: assign",
        "seek": "a running job cannot be sent to other offsets",
        "assignment without group.id": "its programs do not try it",
        "reset to none": "its job would fail; leave it out, or use start",
        "commits after processing": "a job commits on checkpoints: when: on_checkpoint, kind: async, or when: never",
        "commit outcomes": "a commit that fails reaches nobody",
    },
    auto_commits=frozenset(),
    settings={role: (Source("flink"), Source(f"java-{role}", releases=KAFKA_CLIENTS)) for role in get_args(Role)},
    plugins=PLUGINS,
    reserved=frozenset(
        {
            *("key.deserializer", "value.deserializer", "enable.auto.commit", "group.id", "max.poll.records"),
            *("key.serializer", "value.serializer", "transactional.id", "transaction.timeout.ms"),
            *("commit.offsets.on.checkpoint", "partition.discovery.interval.ms", "client.id.prefix"),
            *("flink.partition-discovery.interval-millis", "state.checkpoints.dir"),
            *("execution.checkpointing.interval", "execution.checkpointing.dir", "execution.checkpointing.storage"),
        }
    ),
    reserved_parts=("restart-strategy", "execution.savepoint", "execution.state-recovery"),
    misnamed=MISNAMED,
    defaults=defaults,
    starts_reset=True,
    heap=True,
    checkpoint_every=CHECKPOINT_EVERY_S,
)

"""The runtime `streams`: Kafka Streams applications, as processors.

The group is the application.id. Without `plain`, the application is exactly-once with one producer for each thread
(KIP-447: exactly_once_v2, before 3.0 exactly_once_beta). With `plain`, it is at-least-once. It commits each
commit.interval.ms. A member is a stream thread; `threads` of them share a process.
"""

from __future__ import annotations

from chaos.clients.java.traits import MISNAMED, NEWEST, OLDEST, PLUGINS
from chaos.clients.traits import Traits, in_all_releases
from chaos.kafka.settings import Config
from chaos.settings import Source

ASSIGNOR = "stream"
"""The assignor of Kafka Streams, by its name in the group protocol."""


def defaults(_: str | None) -> Config:
    """Return the settings that a scenario leaves out; Kafka Streams has other defaults than its clients."""
    return {
        "acks": "all",
        "enable.idempotence": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": ASSIGNOR,
    }


TRAITS = Traits(
    name="streams",
    library="kafka-streams",
    reported={"kafka_streams": "kafka-streams", "kafka_clients": "kafka-clients"},
    releases=(OLDEST, NEWEST),
    abilities=in_all_releases(
        "process",
        "plain processing",
        "threads of a processor",
        "state of a processor",
        "transaction markers",
        "encrypted keys",
        "send outcomes",
        "commit outcomes",
    ),
    lacks={
        "produce": "an application reads and writes",
        "subscribe": "an application reads and writes; list it in processors",
        "assign": "an application reads and writes; list it in processors",
        "transactions": "an application reads and writes; list it in processors",
        "transactions of a size": "a transaction lasts for one commit.interval.ms; the time-out is "
        "producer.transaction.timeout.ms in config",
        "batches of a size": "it commits each commit.interval.ms; leave records and hold out",
        "commits before outputs": "it commits after its outputs are acknowledged",
        "KIP-848": "Kafka Streams has another group protocol, which its programs do not try",
        "cooperative": "Kafka Streams has one assignor",
        "deleted topics": "an application ends when an input topic is deleted",
        "fencing": "each process has another transactional.id, unless it finds the state directory of the earlier one",
    },
    settings={
        "producer": (
            *(Source("streams"), Source("java-consumer"), Source("java-producer"), Source(prefix="topic.")),
            *(Source("java-consumer", f"{kind}consumer.") for kind in ("", "main.", "restore.", "global.")),
            *(Source("java-producer", "producer."), Source("java-admin", "admin.")),
        ),
        "consumer": (Source("java-consumer"),),
    },
    plugins=PLUGINS,
    auto_commits=frozenset(),
    reserved=frozenset(
        {
            *("application.id", "processing.guarantee", "num.stream.threads", "state.dir", "group.protocol"),
            *("partition.assignment.strategy", "group.id", "enable.auto.commit", "default.client.supplier"),
            *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"),
            *("transactional.id", "producer.transactional.id", "main.consumer.group.id", "consumer.group.id"),
        }
    ),
    misnamed=MISNAMED,
    defaults=defaults,
    heap=True,
    isolates=True,
)

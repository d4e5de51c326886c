"""Topics of a run, made before any client starts."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.kafka import admin
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.kafka.settings import as_text
from chaos.setup.model import Topic
from chaos.wait import wait_until

TOPICS_TIMEOUT_S = 30.0


def create_topics(kafka: Kafka, topics: Sequence[Topic]) -> None:
    """Create the topics; wait until every broker lists them, and every partition has a leader and a full ISR.

    Raises `ClusterError`.
    """
    for t in topics:
        config = {key: as_text(value) for key, value in t.config.items()}
        admin.create_topic(kafka, t.name, t.partitions, t.replication_factor, config)
    names = [t.name for t in topics]
    partitions = [TopicPartition(t.name, p) for t in topics for p in range(t.partitions)]

    def problems() -> list[str]:
        return kafka.lacking(names) + kafka.unhealthy(partitions)

    wait_until(lambda: not problems(), TOPICS_TIMEOUT_S, lambda: f"the topics are not ready: {'; '.join(problems())}")

"""The data folders of a broker, as it reports them (KIP-113)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka.errors import for_code
from kafka.protocol.admin import DescribeLogDirsRequest

from chaos.kafka.client import Kafka
from chaos.kafka.messages import request
from chaos.kafka.partition import TopicPartition


@dataclass(frozen=True)
class LogDir:
    """A data folder. error: Kafka's name for what is wrong with it; empty if it works. sizes: bytes of each replica."""

    path: str
    error: str
    sizes: Mapping[TopicPartition, int]


def log_dirs(kafka: Kafka, broker: int) -> list[LogDir] | None:
    """Return the data folders of a broker, also those that failed; None without an answer."""
    answer = kafka.ask(broker, request(DescribeLogDirsRequest[1], topics=None))
    if answer is None:
        return None
    return [
        LogDir(
            found.log_dir,
            for_code(found.error_code).__name__ if found.error_code else "",
            {
                TopicPartition(topic.name, p.partition_index): p.partition_size
                for topic in found.topics or ()
                for p in topic.partitions
            },
        )
        for found in answer.results
    ]

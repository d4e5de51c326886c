"""All committed records of a small topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition


def records_of(settings: Mapping[str, Any], topic: str, within_s: float) -> list[Message]:
    """Return the records of a topic, as far as brokers answer in time. settings: for a connection of librdkafka."""
    consumer = Consumer(
        {
            **settings,
            "group.id": "none",  # librdkafka requires one; the consumer never joins it
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found: list[Message] = []
    deadline = time.monotonic() + within_s
    try:
        waiting = set(consumer.list_topics(topic, within_s).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in waiting])
        while waiting and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.1):
                if (error := message.error()) is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
        return found
    finally:
        consumer.close()

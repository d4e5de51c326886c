"""Records of topics, read up to the ends of their partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message

from chaos.kafka.partition import TopicPartition


def log_consumer(settings: Mapping[str, Any]) -> Consumer:
    """Return a consumer for `read_to_end`, of committed records if the settings of librdkafka say nothing else."""
    return Consumer(
        {
            "group.id": "none",  # librdkafka requires one; the consumer never joins it
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",  # for logs that begin behind the given offset
            **settings,
        }
    )


def read_to_end(
    consumer: Consumer, begins: Mapping[TopicPartition, int], within_s: float, take: Callable[[Message], object]
) -> set[TopicPartition]:
    """Pass on each record from the given offsets on; return the partitions that were not read to their ends in time."""
    waiting = set(begins)
    deadline = time.monotonic() + within_s
    consumer.assign([confluent_kafka.TopicPartition(p.topic, p.number, begin) for p, begin in begins.items()])
    while waiting and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.1):
            if (error := message.error()) is None:
                take(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # again after each later record
                waiting.discard(TopicPartition(message.topic(), message.partition()))
    return waiting


def take_records(settings: Mapping[str, Any], topic: str, within_s: float, take: Callable[[Message], object]) -> None:
    """Pass on each committed record of a topic, as far as brokers answer in time."""
    with closing(log_consumer(settings)) as consumer:
        numbers = consumer.list_topics(topic, within_s).topics[topic].partitions
        read_to_end(consumer, {TopicPartition(topic, n): OFFSET_BEGINNING for n in numbers}, within_s, take)


def records_of(settings: Mapping[str, Any], topic: str, within_s: float) -> list[Message]:
    """Return the committed records of a small topic, as far as brokers answer in time."""
    found: list[Message] = []
    take_records(settings, topic, within_s, found.append)
    return found

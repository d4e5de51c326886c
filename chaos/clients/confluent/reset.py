"""Where reading begins without a committed offset: what auto.offset.reset means, as a number."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from chaos.clients.confluent.lifecycle import log
from chaos.clients.protocol import Config, Partition

EARLIEST = frozenset({"smallest", "earliest", "beginning"})
LATEST = frozenset({"largest", "latest", "end"})
DEFAULT = "largest"
"""librdkafka's default."""


def reset_position(consumer: Consumer, partition: Partition, config: Config, timeout_s: float) -> int | None:
    """The offset that auto.offset.reset names now; None if nobody answers, or it names none (`error`)."""
    reset = config.get("auto.offset.reset", config.get("topic.auto.offset.reset", DEFAULT))
    if reset not in EARLIEST | LATEST:
        return None
    try:
        low, high = watermarks(consumer, partition, timeout_s)
    except KafkaException as e:
        log(f"watermarks of {partition} unknown, librdkafka is to reset: {e}")
        return None
    return low if reset in EARLIEST else high


def watermarks(consumer: Consumer, partition: Partition, timeout_s: float) -> tuple[int, int]:
    """Log start and high watermark of a partition, asked for now. Raises `KafkaException`."""
    found: tuple[int, int] | None = consumer.get_watermark_offsets(
        TopicPartition(*partition), timeout=timeout_s, cached=False
    )
    if found is None:  # its way to say that the time is over
        raise KafkaException("no answer in time")
    return found

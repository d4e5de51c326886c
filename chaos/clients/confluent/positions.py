"""Offsets that a consumer asks the brokers for: log ends, reset positions, offsets by time and targets of seeks."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from chaos.clients.confluent.lifecycle import log
from chaos.clients.protocol import Config, Partition, partition_of

TIMEOUT_S = 5.0
"""Longest wait for an answer."""
EARLIEST = frozenset({"smallest", "earliest", "beginning"})
LATEST = frozenset({"largest", "latest", "end"})
DEFAULT_RESET = "largest"
"""librdkafka's default of auto.offset.reset."""


def watermarks(consumer: Consumer, partition: Partition) -> tuple[int, int]:
    """Return the current log start offset and high watermark. Raises `KafkaException`."""
    offsets: tuple[int, int] | None = consumer.get_watermark_offsets(
        TopicPartition(*partition), timeout=TIMEOUT_S, cached=False
    )
    if offsets is None:  # confluent-kafka returns None after the timeout
        raise KafkaException("no answer in time")
    return offsets


def reset_position(consumer: Consumer, partition: Partition, config: Config) -> int | None:
    """Return the offset that auto.offset.reset means now; None without an answer, or if it is `error`."""
    reset = config.get("auto.offset.reset", config.get("topic.auto.offset.reset", DEFAULT_RESET))
    if reset not in EARLIEST | LATEST:
        return None
    try:
        low, high = watermarks(consumer, partition)
    except KafkaException as e:
        log(f"watermarks of {partition} unknown, librdkafka chooses the position: {e}")
        return None
    return low if reset in EARLIEST else high


def offsets_at(consumer: Consumer, partitions: Collection[Partition], timestamp_ms: int) -> dict[Partition, int]:
    """Return the first offset at or after a time, or the high watermark without one. Raises `KafkaException`."""
    offsets: dict[Partition, int] = {}
    requests = [TopicPartition(*p, timestamp_ms) for p in partitions]
    for answer in consumer.offsets_for_times(requests, timeout=TIMEOUT_S):
        if answer.error is not None:
            raise KafkaException(answer.error)
        partition = answer.topic, answer.partition
        missing = answer.offset < 0 or answer.offset == OFFSET_END
        offsets[partition] = watermarks(consumer, partition)[1] if missing else int(answer.offset)
    return offsets


def seek_targets(order: dict[str, Any], held: Collection[Partition], consumer: Consumer) -> dict[Partition, int]:
    """Return the target offset of each partition held that an order to seek means. Raises `KafkaException`."""
    if "offsets" in order:
        offsets = {partition_of(name): int(offset) for name, offset in order["offsets"].items()}
        return {p: offsets[p] for p in held if p in offsets}
    return offsets_at(consumer, held, int((time.time() - float(order["ago_s"])) * 1000))

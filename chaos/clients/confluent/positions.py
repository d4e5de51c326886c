"""Offsets that a consumer asks the brokers for: log ends, start positions, offsets by time and targets of seeks."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from chaos.clients.assignments import StartPosition
from chaos.clients.program import log
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


def left_to_library(
    partitions: Sequence[TopicPartition],
) -> tuple[list[TopicPartition], dict[Partition, StartPosition]]:
    """Return where reading starts, as `start_positions`, if librdkafka chooses: no offset, and null in the ledger."""
    unknown = {(p.topic, p.partition): StartPosition() for p in partitions}
    return [TopicPartition(*p) for p in unknown], unknown


def start_positions(
    consumer: Consumer, partitions: Sequence[TopicPartition], config: Config
) -> tuple[list[TopicPartition], dict[Partition, StartPosition]]:
    """Return where reading starts, for librdkafka and for the ledger: the committed offset, or the reset position.

    If no broker answers, librdkafka chooses, and the ledger gets null.
    """
    if not partitions:
        return [], {}
    try:
        answers = consumer.committed(list(partitions), timeout=TIMEOUT_S)
    except KafkaException as e:
        log(f"committed offsets unknown, librdkafka chooses the positions: {e}")
        return left_to_library(partitions)
    starts: dict[Partition, StartPosition] = {}
    for answer in answers:
        partition = answer.topic, answer.partition
        starts[partition] = StartPosition()
        if answer.error is None and answer.offset >= 0:
            starts[partition] = StartPosition(answer.offset, "committed")
        elif answer.error is None and (offset := reset_position(consumer, partition, config)) is not None:
            starts[partition] = StartPosition(offset, "reset")
            answer.offset = offset
    # an answer also carries the leader epoch of the commit, with which librdkafka detects a truncated log
    targets = [a if a.offset >= 0 and a.error is None else TopicPartition(a.topic, a.partition) for a in answers]
    return targets, starts


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

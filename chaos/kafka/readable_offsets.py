"""The offset up to which a consumer can read each partition: the one behind the last record that it receives.

A log ends with offsets that no consumer receives: transaction markers, and for read_committed also aborted records. So
in topics with transactions, the end offset of the log does not show whether a consumer has read everything.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal

import confluent_kafka
from confluent_kafka import Consumer, KafkaError

from chaos.errors import ClusterError
from chaos.kafka.access import librdkafka
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Security

Isolation = Literal["read_committed", "read_uncommitted"]

FIRST_WINDOW, GROWTH = 1000, 8
"""Number of offsets before the end that are read first, and its growth factor while they contain no record."""
TIMEOUT_S = 30.0


def readable_ends(
    bootstrap: str, security: Security | None, ends: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, int]:
    """Return the offset behind the last record that a consumer receives; 0 if it receives none.

    ends: the end offsets of the logs. Raises `ClusterError` if a log cannot be read.
    """
    readable: dict[TopicPartition, int] = {}
    window = FIRST_WINDOW
    while left := {partition: end for partition, end in ends.items() if partition not in readable}:
        begins = {partition: max(0, end - window) for partition, end in left.items()}
        last = _last_records(bootstrap, security, begins, isolation)
        readable |= {partition: offset + 1 for partition, offset in last.items()}
        readable |= {partition: 0 for partition, begin in begins.items() if begin == 0 and partition not in last}
        window *= GROWTH
    return readable


def _last_records(
    bootstrap: str, security: Security | None, begins: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, int]:
    """Return the offset of the last record of each partition, from the given offset on; none without a record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "aftershock-ends",  # librdkafka requires one; the consumer never joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",  # for logs that begin behind the given offset
            "isolation.level": isolation,
            "log_level": 0,
            **librdkafka(security),
        }
    )
    last: dict[TopicPartition, int] = {}
    waiting = set(begins)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        consumer.assign([confluent_kafka.TopicPartition(p.topic, p.number, begin) for p, begin in begins.items()])
        while waiting:
            for message in consumer.consume(1000, 0.1):
                partition = TopicPartition(message.topic(), message.partition())
                error = message.error()
                if error is None:
                    last[partition] = max(last.get(partition, -1), message.offset())
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(partition)
            if time.monotonic() > deadline:
                unread = ", ".join(map(str, sorted(waiting)))
                raise ClusterError(f"the end of {unread} cannot be read, after {TIMEOUT_S:g} s")
    finally:
        consumer.close()
    return last

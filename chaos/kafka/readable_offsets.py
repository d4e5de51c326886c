"""How far each partition can be read: behind its last record, where transactions leave other things at the end of logs.

Markers of transactions take offsets that no reader is ever given, and a read_committed reader is given nothing of what
was aborted. So where transactions are written, the end of the log says nothing about who is through.
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

FIRST_WINDOW = 1000
"""So many offsets before the end are looked at first, and eight times as many whenever there was no record."""
TIMEOUT_S = 30.0


def readable_ends(
    bootstrap: str, security: Security | None, ends: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, int]:
    """By `topic/partition`, the offset behind the last record that a reader gets; 0 where it gets none.

    ends: the end offsets. Raises `ClusterError` when the log cannot be read.
    """
    found: dict[TopicPartition, int] = {}
    window = FIRST_WINDOW
    while left := {name: end for name, end in ends.items() if name not in found}:
        begins = {name: max(0, end - window) for name, end in left.items()}
        last = _last_records(bootstrap, security, begins, isolation)
        found |= {name: offset + 1 for name, offset in last.items()}
        found |= {name: 0 for name, begin in begins.items() if begin == 0 and name not in last}
        window *= 8
    return found


def _last_records(
    bootstrap: str, security: Security | None, begins: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, int]:
    """The last record of each partition from an offset on; none where there is none."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "aftershock-ends",  # never joined: librdkafka wants a name
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",  # where the log begins later
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
                name = TopicPartition(message.topic(), message.partition())
                error = message.error()
                if error is None:
                    last[name] = max(last.get(name, -1), message.offset())
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(name)
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the end of {', '.join(map(str, sorted(waiting)))} cannot be read, after {TIMEOUT_S:g} s"
                )
    finally:
        consumer.close()
    return last

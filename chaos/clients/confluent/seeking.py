"""The order to seek: where each partition is to go on, and that it does.

{"do": "seek", "offsets": {"orders/0": 100}}     to these offsets
{"do": "seek", "ago_s": 5.0}                     each partition held: to the first record of that time or later
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from chaos.clients.confluent.reset import watermarks
from chaos.clients.protocol import Partition, partition_of

ASK_TIMEOUT_S = 5.0


def targets(order: dict[str, Any], held: Iterable[Partition], consumer: Consumer) -> dict[Partition, int]:
    """The offset to go on at of each partition that is held and meant. Raises `KafkaException` where nobody answers."""
    if "offsets" in order:
        wanted = {partition_of(name): int(offset) for name, offset in order["offsets"].items()}
        return {p: wanted[p] for p in held if p in wanted}
    at_ms = int((time.time() - float(order["ago_s"])) * 1000)
    found = {}
    for answer in consumer.offsets_for_times([TopicPartition(*p, at_ms) for p in held], timeout=ASK_TIMEOUT_S):
        if answer.error is not None:
            raise KafkaException(answer.error)
        partition = answer.topic, answer.partition
        none = answer.offset < 0 or answer.offset == OFFSET_END
        found[partition] = watermarks(consumer, partition, ASK_TIMEOUT_S)[1] if none else int(answer.offset)
    return found


def seek(consumer: Consumer, positions: dict[Partition, int]) -> None:
    """Go on there. Raises `KafkaException`."""
    for partition, offset in positions.items():
        consumer.seek(TopicPartition(*partition, offset))

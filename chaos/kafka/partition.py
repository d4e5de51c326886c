"""The address of a partition. Messages, files and the ledger contain it as `topic/number`, such as `orders/0`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

_FORM = re.compile(r"([A-Za-z0-9._-]+)/(\d+)")


@dataclass(frozen=True, order=True, slots=True)
class TopicPartition:
    """A partition of a topic. `str()` returns the text form, such as `orders/0`.

    The topic id (KIP-516) differs between a topic and an earlier one with the same name. Comparisons ignore it, because
    most sources do not contain it.
    """

    topic: str
    number: int
    topic_id: str | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the partition that a text such as `orders/0` names. Raises `ValueError`."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a partition; write topic/number, such as orders/0")
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in the order in which they come."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.number)
    return topics


def group_partition(group: str, partitions: int) -> int:
    """Return the number of the partition of `__consumer_offsets` that holds a group."""
    return java_hash(group) % partitions


def java_hash(text: str) -> int:
    """Return `Utils.abs(text.hashCode())` of Kafka: Java's 32-bit hash over UTF-16 code units, without its sign.

    `Utils.abs` is `Math.abs` (0 for the lowest number), not `Utils.toPositive`, which clears the sign bit.
    """
    units, value = text.encode("utf-16-be", "surrogatepass"), 0
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2], "big")) & 0xFFFFFFFF
    return abs(value - 2**32 if value >= 2**31 else value) % 2**31

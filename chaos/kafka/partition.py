"""The address of a partition, which every other part of the platform writes as `topic/number`, such as `orders/0`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

_FORM = re.compile(r"([A-Za-z0-9._-]+)/(\d+)")


@dataclass(frozen=True, order=True, slots=True)
class TopicPartition:
    """A partition of a topic. `str()` gives `orders/0`, the form in messages, files and the ledger.

    The topic id (KIP-516) tells a topic from an earlier one with the same name. It takes no part in comparisons,
    because most sources do not give it.
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

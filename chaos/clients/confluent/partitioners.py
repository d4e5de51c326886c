"""Partitioners of the application's own: each record's partition, chosen before librdkafka sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Literal

import numpy as np

from chaos.ledger.record_columns import Ints

LIBRARY = -1
"""In place of a partition: librdkafka's partitioner is to choose."""

Chooser = Callable[[int, int, Ints | None], Iterable[int]]
"""From the first seq, the count of records, and the numbers of their keys, to their partitions."""


def chooser(name: Literal["round_robin", "by_key_number"] | None, partitions: int) -> Chooser:
    """The function of that name for a topic of so many partitions."""
    if name == "round_robin":
        return lambda first, count, _: (np.arange(first, first + count) % partitions).tolist()
    if name == "by_key_number":
        return lambda first, count, keys: [] if keys is None else (keys % partitions).tolist()
    return lambda first, count, keys: repeat(LIBRARY)

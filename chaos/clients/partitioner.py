"""Partitioners of the application, for the records of a producer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Literal

import numpy as np

from chaos.ledger.record_columns import Ints

Partitioner = Callable[[int, int, Ints | None], Iterable[int | None]]
"""Maps first seq, number of records and numbers of their keys to the partitions."""


def partitioner(
    name: Literal["round_robin", "by_key_number"] | None, partitions: int, unassigned: int | None = None
) -> Partitioner:
    """Return the partitioner with that name for a topic of `partitions` partitions.

    Without a name, that of the library chooses: each record gets `unassigned`.
    """
    if name == "round_robin":
        return lambda first, count, _: (np.arange(first, first + count) % partitions).tolist()
    if name == "by_key_number":
        return lambda first, count, keys: [] if keys is None else (keys % partitions).tolist()
    return lambda first, count, keys: repeat(unassigned)

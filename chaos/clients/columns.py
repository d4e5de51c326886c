"""Records as columns: what a delivery report or a consumed record gives for its ledger row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from chaos.ledger.record_columns import Headers, Ints
from chaos.ledger.stream import same

MISSING = -1
"""The number for a value that the library does not give."""


@dataclass
class Columns:
    """Columns of records, in their order. Sends have no epochs; topics are read only if they may differ."""

    headers: Headers
    partitions: Ints
    offsets: Ints
    epochs: Ints | None = None
    topics: list[str] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, first: int, count: int) -> Columns:
        """Return up to `count` rows, from row `first` on."""
        rows = slice(first, first + count)
        return Columns(
            self.headers[rows],
            self.partitions[rows],
            self.offsets[rows],
            None if self.epochs is None else self.epochs[rows],
            None if self.topics is None else self.topics[rows],
        )


def joined(parts: Sequence[Columns]) -> Columns:
    """Return the rows of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    return Columns(
        np.concatenate([p.headers for p in parts]),
        np.concatenate([p.partitions for p in parts]),
        np.concatenate([p.offsets for p in parts]),
        np.concatenate([p.epochs for p in parts if p.epochs is not None]) if parts[0].epochs is not None else None,
        list(chain.from_iterable(p.topics or () for p in parts)) if parts[0].topics is not None else None,
    )


def nullable(numbers: Ints, kind: type[np.signedinteger[Any]]) -> pa.Array:
    """Return an Arrow column with null for `MISSING`."""
    missing = numbers == MISSING
    return pa.array(numbers.astype(kind, copy=False), mask=missing if missing.any() else None)


def recurring(numbers: Ints | None) -> pa.Array:
    """Return an int32 column with null for `MISSING`, run-end encoded if all numbers are the same."""
    assert numbers is not None  # the caller read them
    first = int(numbers[0])
    if (numbers == first).all():
        return same(None if first == MISSING else first, pa.int32()).slice(0, len(numbers))
    return nullable(numbers, np.int32)

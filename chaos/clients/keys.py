"""The keys of the records of a producer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chaos.ledger.record_columns import Ints


class Keys:
    """The key `k0`, `k1`, ... of each seq: spread by the seed, and the same in every incarnation.

    Also which seqs are tombstones, records without a value.
    """

    def __init__(self, count: int, seed: int, tombstone_every: int | None = None) -> None:
        self._tombstone_every = tombstone_every
        self.texts = [f"k{i}" for i in range(count)]
        self.bytes = [text.encode() for text in self.texts]
        self._column = pa.array(self.texts, pa.string())
        self._seed = np.uint64(seed)

    def of(self, seqs: Ints) -> Ints:
        """Return the numbers of the keys of seqs."""
        x = seqs.astype(np.uint64) + (self._seed << np.uint64(32))
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # the finalizer of splitmix64
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((x ^ (x >> np.uint64(31))) % np.uint64(len(self.texts))).astype(np.int64)

    def tombstones(self, first: int, count: int) -> list[bool]:
        """Return whether each of `count` seqs is a tombstone; an empty list if none can be."""
        every = self._tombstone_every
        return [(seq + 1) % every == 0 for seq in range(first, first + count)] if every else []

    def column(self, numbers: Ints) -> pa.Array:
        """Return the texts of keys as a column."""
        return self._column.take(pa.array(numbers))

"""What a producer sends and when: the keys of its records, their partitions if it chooses them, and the rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from chaos.clients.protocol import ProducerSpec
from chaos.ledger.record_columns import Ints
from chaos.values.arrivals import recorded

TICK_S = 0.01
CATCH_UP_S = 0.25
"""Missed time that is caught up after a stall; the rest counts as time without load."""


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

    def key(self, seq: int) -> str:
        """Return the key of a record."""
        return self.texts[int(self.of(np.array([seq]))[0])]

    def keys(self, seqs: Ints) -> pa.Array:
        """Return the keys of records as a column."""
        return self._column.take(pa.array(self.of(seqs)))


Partitioner = Callable[[int, int, Ints | None], Iterable[int | None]]
"""Maps first seq, number of records and numbers of their keys to the partitions."""


def partitioner(
    name: Literal["round_robin", "by_key_number"] | None, partitions: int, unassigned: int | None = None
) -> Partitioner:
    """Return the partitioner with that name for a topic of `partitions` partitions.

    Without a name, the partitioner of the library chooses: each record gets `unassigned`.
    """
    if name == "round_robin":
        return lambda first, count, _: (np.arange(first, first + count) % partitions).tolist()
    if name == "by_key_number":
        return lambda first, count, keys: [] if keys is None else (keys % partitions).tolist()
    return lambda first, count, keys: repeat(unassigned)


class Pacer:
    """The number of records to send now at a steady rate."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._start = self._next_tick = time.monotonic()
        self._sent = 0

    def due(self) -> int:
        """Return the number of records to send now; 0 before the next tick."""
        now = time.monotonic()
        if now < self._next_tick:
            return 0
        self._next_tick = now + TICK_S
        due = int((now - self._start) * self._rate) - self._sent
        limit = max(1, int(self._rate * CATCH_UP_S))
        if due > limit:
            self._start += (due - limit) / self._rate
            due = limit
        return due

    def sent(self, count: int) -> None:
        """Count records that were sent."""
        self._sent += count


class Schedule:
    """The number of records to send now, by the second of each record from the begin on."""

    def __init__(self, times: Iterator[float]) -> None:
        self._times = times
        self._start = time.monotonic()
        self._next, self._due = next(times), 0

    def due(self) -> int:
        """Return the number of records to send now."""
        now = time.monotonic()
        if not self._due:  # what is due already is not late
            self._start += max(0.0, now - self._start - self._next - CATCH_UP_S)
        while self._next <= now - self._start:
            self._due += 1
            self._next = next(self._times)
        return self._due

    def sent(self, count: int) -> None:
        """Count records that were sent."""
        self._due -= count


def pacer(spec: ProducerSpec, first: int) -> Pacer | Schedule | None:
    """Return what paces a producer from a seq on; None at full speed."""
    if spec.arrivals is not None:
        samples = spec.value.samples if spec.value else None
        pauses = recorded(Path(samples), spec.arrivals.recording) if samples and spec.arrivals.recording else []
        return Schedule(spec.arrivals.times(spec.seed + first, pauses, first))
    return Pacer(spec.rate) if spec.rate else None

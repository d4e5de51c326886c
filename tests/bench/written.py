"""The sends and the log of a generated history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from tests.bench.parts import Ints

TOPIC = "orders"
PARTITIONS, PRODUCERS = 12, 2
TICK_US = 5_000
BEGIN_US = 1_700_000_000_000_000
LOST, DUPLICATED = 0.01, 0.05
"""Shares of the batches of a rich history."""
PAUSE_US = 100_000
"""Time without sends around the creation of a topic again."""
GONE = PARTITIONS - 1
"""The partition without a log in a rich history."""


Kind = Literal["clean", "rich", "recreated", "compacted"]


@dataclass(frozen=True)
class Plan:
    """The size of a history and its kind.

    kind: without anomalies, with many (`rich`), with a topic that is deleted in the middle and created again, or with a
    compacted topic of many keys.
    records: records sent in total.
    per_tick: records of each producer in a tick.
    ticks: ticks of a slice; the default makes slices of 1,000,000 records.
    """

    records: int
    kind: Kind = "clean"
    seed: int = 1
    per_tick: int = 500
    ticks: int = 1000

    @property
    def run_id(self) -> str:
        return f"bench-{self.records}-{self.kind}"

    @property
    def rich(self) -> bool:
        return self.kind == "rich"

    @property
    def recreated_at(self) -> int | None:
        """The number of the slice before which the topic is created again."""
        slices = -(-self.records // (self.ticks * self.per_tick * PRODUCERS))
        return max(2, slices // 4 * 2) if self.kind == "recreated" else None


@dataclass
class Planted:
    """The counts that a correct audit finds: all of these and no others.

    lost: `lost_write`. duplicated: `duplicate_write`. reused: offsets of `offset_reuse`. redelivered: legal
    `duplicate_delivery`. superseded: records that compaction removed.
    """

    lost: int = 0
    duplicated: int = 0
    reused: int = 0
    redelivered: int = 0
    superseded: int = 0


@dataclass
class Slice:
    """The records of some ticks, sorted by (tick, producer, seq), with their acknowledgements.

    log: by partition, the first offset, and the row in this slice of each log record. zero_us: the time of tick 0.
    """

    tick: Ints
    producer: Ints
    seq: Ints
    partition: Ints
    batch: Ints
    invoked_us: Ints
    completed_us: Ints
    acked_offset: Ints
    zero_us: int
    log: dict[int, tuple[int, Ints]] = field(default_factory=dict)


class Writing:
    """Generates all sends in slices, and counts the anomalies in `planted`.

    heads: by partition, the next offset.
    lost_at: by partition, the offsets at which lost batches were acknowledged; later records reuse them.
    """

    def __init__(self, plan: Plan, planted: Planted) -> None:
        self.plan, self.planted = plan, planted
        self.rng = np.random.default_rng(plan.seed)
        self.heads = [0] * PARTITIONS
        self.lost_at: list[list[Ints]] = [[] for _ in range(PARTITIONS)]

    def slices(self) -> Iterator[Slice]:
        """Yield the slices in the order of their ticks."""
        size = self.plan.ticks * self.plan.per_tick * PRODUCERS
        for nth in range(-(-self.plan.records // size)):
            if nth == self.plan.recreated_at:
                self.heads = [0] * PARTITIONS
            s = self._sent(nth * self.plan.ticks, min(size, self.plan.records - nth * size))
            first, batches = int(s.batch.min()), int(s.batch.max() - s.batch.min()) + 1
            fate = self.rng.random(batches)[s.batch - first] if self.plan.rich else np.ones(len(s.seq))
            for p in range(PARTITIONS):
                mine = np.flatnonzero(s.partition == p)
                if self.plan.rich and p == GONE:
                    self._lose_log(s, p, mine)
                else:
                    self._write(s, p, mine, fate[mine])
            yield s
        self.planted.reused = sum(_reused(at, end) for at, end in zip(self.lost_at, self.heads, strict=True))

    def _sent(self, first_tick: int, n: int) -> Slice:
        """Return a slice without offsets and log; all records of a batch are acknowledged at the same time."""
        index, per_tick = np.arange(n, dtype=np.int64), self.plan.per_tick
        tick = index // (per_tick * PRODUCERS) + first_tick
        producer = index // per_tick % PRODUCERS
        seq = tick * per_tick + index % per_tick
        partition = self.rng.integers(0, PARTITIONS, n)
        batch = (tick * PRODUCERS + producer) * PARTITIONS + partition
        latency = self.rng.integers(1_500, 20_000, int(batch.max() - batch.min()) + 1)
        again = self.plan.recreated_at
        zero_us = BEGIN_US + (0 if again is None or first_tick < again * self.plan.ticks else PAUSE_US)
        invoked = zero_us + tick * TICK_US + (index % per_tick) * 5 // per_tick * 200
        completed = zero_us + tick * TICK_US + 1_000 + latency[batch - batch.min()]
        return Slice(tick, producer, seq, partition, batch, invoked, completed, np.full(n, -1, np.int64), zero_us)

    def _lose_log(self, s: Slice, p: int, mine: Ints) -> None:
        """Acknowledge the records of a partition one after the other, and leave its log empty."""
        s.log[p] = 0, mine[:0]
        s.acked_offset[mine] = self.heads[p] + np.arange(len(mine))
        self.heads[p] += len(mine)
        self.planted.lost += len(mine)

    def _write(self, s: Slice, p: int, mine: Ints, fate: npt.NDArray[np.float64]) -> None:
        """Write the records of a partition to its log: 0, 1 or 2 copies, as the random number of the batch says."""
        head, copies = self.heads[p], np.ones(len(mine), np.int64)
        copies[fate < LOST] = 0
        copies[(fate >= LOST) & (fate < LOST + DUPLICATED)] = 2
        self.planted.lost += int((copies == 0).sum())
        self.planted.duplicated += int((copies == 2).sum())
        order = _twice(mine, copies, s.batch[mine])
        s.log[p] = head, order
        # the first of two copies is the acknowledged one
        s.acked_offset[order[::-1]] = (head + np.arange(len(order)))[::-1]
        lost = copies == 0
        at = (head + np.cumsum(copies) + _nth_of_batch(s.batch[mine]))[lost]
        s.acked_offset[mine[lost]] = at
        self.lost_at[p].append(at)
        self.heads[p] += len(order)


def _nth_of_batch(batch: Ints) -> Ints:
    """Return for each record of one partition, in send order, the number of earlier records of its batch."""
    _, first, batch_index = np.unique(batch, return_index=True, return_inverse=True)
    nth: Ints = np.arange(len(batch)) - first[batch_index]
    return nth


def _reused(at: list[Ints], end: int) -> int:
    """Return the number of offsets of lost batches that another record got, too. `end`: end offset of the log."""
    if not at:
        return 0
    offsets, times = np.unique(np.concatenate(at), return_counts=True)
    return int(((offsets < end) | (times > 1)).sum())


def _twice(mine: Ints, copies: Ints, batch: Ints) -> Ints:
    """Return the rows in log order: send order, with the second copy of a batch directly after the first."""
    keep, second = copies > 0, copies == 2
    rows = np.concatenate([mine[keep], mine[second]])
    nth = np.concatenate([np.zeros(keep.sum(), np.int64), np.ones(second.sum(), np.int64)])
    return rows[np.lexsort((rows, nth, np.concatenate([batch[keep], batch[second]])))]

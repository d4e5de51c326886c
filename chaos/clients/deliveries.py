"""Processed records as rows: what makes a delivery count is that its row is in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from chaos.clients.identity import Identities
from chaos.clients.protocol import Partition
from chaos.events import now_us
from chaos.ledger.writer import TableWriter


class DeliveryLog:
    """Writes `deliveries` for one consumer in one incarnation."""

    def __init__(
        self, writer: TableWriter, consumer: str, incarnation: int, group: str | None, mode: str, topics: Sequence[str]
    ) -> None:
        self._writer = writer
        self._only_topic = topics[0] if len(topics) == 1 and not topics[0].startswith("^") else None
        self._who = (pa.scalar(consumer), pa.scalar(incarnation, pa.int32()))
        self._how = (pa.scalar(group, pa.string()), pa.scalar(mode))
        self.delivered = 0
        # a batch has some ten columns of one value each: made once for each length
        self._repeat = lru_cache(maxsize=256)(pa.repeat)

    def append(
        self, messages: Sequence[Message], polled_us: int, numbers: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """Write the rows of processed records; returns each partition's next offset.

        `numbers` are the running numbers of the assignments under which partitions are held; a record of a partition that
        is not held gets none. All rows carry the time of this call as `processed_us`.
        """
        n = len(messages)
        partitions = np.fromiter(map(Message.partition, messages), np.int32, n)
        offsets = np.fromiter(map(Message.offset, messages), np.int64, n)
        epochs = [e if e is not None and e >= 0 else None for e in map(Message.leader_epoch, messages)]
        identities = Identities(list(map(Message.value, messages)))
        producers, incarnations = identities.who()
        if self._only_topic is not None:
            topics = self._repeat(self._only_topic, n)
            ends = {(self._only_topic, p): o for p, o in _last(partitions, offsets).items()}
        else:
            names = list(map(Message.topic, messages))
            topics = pa.array(names, pa.string())
            ends = {(t, int(p)): int(o) + 1 for t, p, o in zip(names, partitions, offsets, strict=True)}
        self._writer.append(
            [
                *(self._repeat(c, n) for c in self._who),
                *(self._repeat(c, n) for c in self._how),
                self._numbers(ends, numbers, topics, partitions),
                pa.array(np.arange(self.delivered, self.delivered + n)),
                topics,
                pa.array(partitions),
                pa.array(offsets),
                pa.array(epochs, pa.int32()),
                producers,
                incarnations,
                identities.seq(),
                pa.repeat(pa.scalar(polled_us, pa.int64()), n),
                pa.repeat(pa.scalar(now_us(), pa.int64()), n),
            ]
        )
        self.delivered += n
        return ends

    def _numbers(
        self, ends: Mapping[Partition, int], numbers: Mapping[Partition, int], topics: pa.Array, partitions: np.ndarray
    ) -> pa.Array:
        seen = {numbers.get(partition) for partition in ends}
        if len(seen) == 1:
            return self._repeat(pa.scalar(seen.pop(), pa.int32()), len(partitions))
        each = zip(topics.to_pylist(), partitions.tolist(), strict=True)
        return pa.array([numbers.get(partition) for partition in each], pa.int32())


def next_offsets(messages: Sequence[Message]) -> dict[Partition, int]:
    """Each partition's next offset after these records."""
    return {(m.topic(), m.partition()): m.offset() + 1 for m in messages}


def _last(partitions: np.ndarray, offsets: np.ndarray) -> dict[int, int]:
    ends = np.full(int(partitions.max()) + 1, -1, np.int64)
    ends[partitions] = offsets + 1  # where an index repeats, numpy keeps the last value
    return {int(p): int(ends[p]) for p in np.flatnonzero(ends >= 0)}

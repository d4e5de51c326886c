"""Processed records as rows: what makes a delivery count is that its row is in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        self._same = [
            pa.scalar(consumer, pa.string()),
            pa.scalar(incarnation, pa.int32()),
            pa.scalar(group, pa.string()),
            pa.scalar(mode, pa.string()),
            pa.scalar(self._only_topic, pa.string()),
        ]
        self._columns = [pa.repeat(value, 0) for value in self._same]
        self.delivered = 0

    def append(
        self, messages: Sequence[Message], polled_us: int, numbers: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """Write the rows of processed records; returns each partition's next offset.

        `numbers` are the running numbers of the assignments under which partitions are held; a record of a partition
        that is not held gets none. All rows carry the time of this call as `processed_us`.
        """
        n = len(messages)
        partitions = np.fromiter(map(Message.partition, messages), np.int32, n)
        offsets = np.fromiter(map(Message.offset, messages), np.int64, n)
        identities = Identities(list(map(Message.value, messages)))
        producers, incarnations = identities.who()
        *who_and_how, topics = self._constants(n)
        if self._only_topic is not None:
            ends = {(self._only_topic, p): o for p, o in _last(partitions, offsets).items()}
        else:
            names = list(map(Message.topic, messages))
            topics = pa.array(names, pa.string())
            ends = {(t, int(p)): int(o) + 1 for t, p, o in zip(names, partitions, offsets, strict=True)}
        self._writer.append(
            [
                *who_and_how,
                self._numbers(ends, numbers, topics, partitions),
                pa.array(np.arange(self.delivered, self.delivered + n)),
                topics,
                pa.array(partitions),
                pa.array(offsets),
                pa.array(list(map(Message.leader_epoch, messages)), pa.int32()),
                producers,
                incarnations,
                identities.seq(),
                identities.sent_us(),
                pa.array(np.full(n, polled_us)),
                pa.array(np.full(n, now_us())),
            ]
        )
        self.delivered += n
        return ends

    def _constants(self, n: int) -> list[pa.Array]:
        """The columns that have one value all through a run, `n` long: cut from longer ones."""
        if n > len(self._columns[0]):
            self._columns = [pa.repeat(value, 2 * n) for value in self._same]
        return [column.slice(0, n) for column in self._columns]

    def _numbers(
        self, ends: Mapping[Partition, int], numbers: Mapping[Partition, int], topics: pa.Array, partitions: np.ndarray
    ) -> pa.Array:
        seen = {numbers.get(partition) for partition in ends}
        if len(seen) == 1:
            return pa.repeat(pa.scalar(seen.pop(), pa.int32()), len(partitions))
        each = zip(topics.to_pylist(), partitions.tolist(), strict=True)
        return pa.array([numbers.get(partition) for partition in each], pa.int32())


def next_offsets(messages: Sequence[Message]) -> dict[Partition, int]:
    """Each partition's next offset after these records."""
    return {(m.topic(), m.partition()): m.offset() + 1 for m in messages}


def _last(partitions: np.ndarray, offsets: np.ndarray) -> dict[int, int]:
    ends = np.full(int(partitions.max()) + 1, -1, np.int64)
    ends[partitions] = offsets + 1  # where an index repeats, numpy keeps the last value
    return {int(p): int(ends[p]) for p in np.flatnonzero(ends >= 0)}

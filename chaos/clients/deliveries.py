"""Ledger rows of processed records. A record counts as processed when its row is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pyarrow as pa

from chaos.clients.assignments import ReaderKey
from chaos.clients.columns import Columns, joined, recurring
from chaos.clients.protocol import Partition
from chaos.ledger.record_columns import Identities, Ints
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import TableWriter, runs, same
from chaos.run.events import now_us


class DeliveryLog:
    """Writes `deliveries` for one incarnation of a consumer.

    `add` keeps processed records, `write` writes their rows in one batch.

    waiting: records added and not yet written.
    delivered: records written.
    """

    def __init__(self, writer: TableWriter, key: ReaderKey, topics: Sequence[str]) -> None:
        self._writer = writer
        self._only_topic = topics[0] if len(topics) == 1 and not topics[0].startswith("^") else None
        self._key_columns = [same(value, TABLES["deliveries"].field(name).type) for name, value in asdict(key).items()]
        self._topic = same(self._only_topic, pa.string())
        self._added: list[Columns] = []
        self._polled_us: list[int] = []
        self._first_ordinal = 0
        self.waiting = 0
        self.delivered = 0

    @property
    def needs_topics(self) -> bool:
        """Whether the topic of each record has to be read, because there may be several."""
        return self._only_topic is None

    @property
    def waiting_since_us(self) -> int:
        """Poll time of the first record that waits."""
        return self._polled_us[0]

    def add(self, records: Columns, polled_us: int, ordinal: int | None = None) -> None:
        """Keep processed records for the next `write`.

        `ordinal` is the number of the first record within the incarnation; pass it if records are not processed in the
        order of their poll.
        """
        if not self._added:
            self._first_ordinal = self.delivered if ordinal is None else ordinal
        self._added.append(records)
        self._polled_us.append(polled_us)
        self.waiting += len(records)

    def next_offsets(self, records: Columns) -> dict[Partition, int]:
        """Return the offset after the last record of each partition."""
        return PartitionIndex(records, self._only_topic).ends(records.offsets)

    def write(self, assignments: Mapping[Partition, int]) -> dict[Partition, int]:
        """Write the rows of all added records. Returns the offset after the last record of each partition.

        `assignments` maps each partition held to its running number; other partitions get null. The time of this call
        is `processed_us` of all rows.
        """
        if not self._added:
            return {}
        records, n = joined(self._added), self.waiting
        index = PartitionIndex(records, self._only_topic)
        ends = index.ends(records.offsets)
        identities = Identities(records.headers)
        ends_of_polls = np.cumsum([len(part) for part in self._added])
        self._writer.append(
            [
                *(column.slice(0, n) for column in self._key_columns),
                index.numbers(ends, assignments),
                pa.array(np.arange(self._first_ordinal, self._first_ordinal + n)),
                self._topic.slice(0, n) if records.topics is None else pa.array(records.topics, pa.string()),
                pa.array(records.partitions.astype(np.int32)),
                pa.array(records.offsets),
                recurring(records.epochs),
                *identities.producers(),
                identities.seq,
                identities.sent_us,
                runs(ends_of_polls, pa.array(self._polled_us)),
                runs(ends_of_polls[-1:], pa.array([now_us()])),
            ]
        )
        self._added.clear()
        self._polled_us.clear()
        self.waiting = 0
        self.delivered += n
        return ends


class PartitionIndex:
    """The partition of each record as one integer, which counts through the topics and their partitions."""

    def __init__(self, records: Columns, only_topic: str | None) -> None:
        self._width = int(records.partitions.max()) + 1
        self._topics: list[str | None] = [only_topic]
        self._index: Ints = records.partitions
        if records.topics is not None:
            topics = pa.array(records.topics, pa.string()).dictionary_encode()
            self._topics = topics.dictionary.to_pylist()
            self._index = self._index + topics.indices.to_numpy().astype(np.int64) * self._width

    def partition(self, index: int) -> Partition:
        """Return topic and partition number."""
        return self._topics[index // self._width] or "", index % self._width

    def ends(self, offsets: Ints) -> dict[Partition, int]:
        """Return the offset after the last record of each partition."""
        ends = np.full(self._width * len(self._topics), -1, np.int64)
        ends[self._index] = offsets + 1  # numpy keeps the last value of a repeated index
        return {self.partition(index): int(ends[index]) for index in np.flatnonzero(ends >= 0).tolist()}

    def numbers(self, ends: Mapping[Partition, int], numbers: Mapping[Partition, int]) -> pa.Array:
        """Return the number of each record's partition as an int32 column; null for a partition without one."""
        distinct = {numbers.get(partition) for partition in ends}
        if len(distinct) == 1:
            return same(distinct.pop(), pa.int32()).slice(0, len(self._index))
        each = [numbers.get(self.partition(index)) for index in range(self._width * len(self._topics))]
        return pa.array(each, pa.int32()).take(pa.array(self._index))

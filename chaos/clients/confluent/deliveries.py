"""Processed records as rows: what makes a delivery count is that its row is in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from chaos.clients.confluent.columns import Columns, joined, recurring
from chaos.clients.protocol import Partition
from chaos.ledger.record_columns import Identities, Ints
from chaos.ledger.runs import runs, same
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us


class DeliveryLog:
    """Writes `deliveries` for one consumer in one incarnation.

    Records are added as they are polled and processed, and written a batch at a time; only written ones are delivered.
    """

    def __init__(
        self, writer: TableWriter, consumer: str, incarnation: int, group: str | None, mode: str, topics: Sequence[str]
    ) -> None:
        self._writer = writer
        self._only_topic = topics[0] if len(topics) == 1 and not topics[0].startswith("^") else None
        self._who_and_how = [
            same(consumer, pa.string()),
            same(incarnation, pa.int32()),
            same(group, pa.string()),
            same(mode, pa.string()),
        ]
        self._topic = same(self._only_topic, pa.string())
        self._added: list[Columns] = []
        self._polled_us: list[int] = []
        self._first_ordinal = 0
        self.waiting = 0
        """Records added and not yet written."""
        self.delivered = 0

    @property
    def needs_topics(self) -> bool:
        """Whether the topic of a record has to be asked for."""
        return self._only_topic is None

    @property
    def waiting_since_us(self) -> int:
        """When the first of the records that wait was polled."""
        return self._polled_us[0]

    def add(self, records: Columns, polled_us: int, ordinal: int | None = None) -> None:
        """Keep processed records for the next `write`. `ordinal`: of the first, where they are not processed in the
        order in which they were polled."""
        if not self._added:
            self._first_ordinal = self.delivered if ordinal is None else ordinal
        self._added.append(records)
        self._polled_us.append(polled_us)
        self.waiting += len(records)

    def next_offsets(self, records: Columns) -> dict[Partition, int]:
        """Each partition's next offset after these records."""
        return Places(records, self._only_topic).ends(records.offsets)

    def write(self, numbers: Mapping[Partition, int]) -> dict[Partition, int]:
        """Write the rows of all added records; returns each partition's next offset.

        `numbers` are the running numbers of the assignments under which partitions are held; a record of a partition
        that is not held gets none. All rows carry the time of this call as `processed_us`.
        """
        if not self._added:
            return {}
        records, n = joined(self._added), self.waiting
        places = Places(records, self._only_topic)
        ends = places.ends(records.offsets)
        identities = Identities(records.headers)
        ends_of_polls = np.cumsum([len(part) for part in self._added])
        self._writer.append(
            [
                *(column.slice(0, n) for column in self._who_and_how),
                places.numbers(ends, numbers),
                pa.array(np.arange(self._first_ordinal, self._first_ordinal + n)),
                self._topic.slice(0, n) if records.topics is None else pa.array(records.topics, pa.string()),
                pa.array(records.partitions.astype(np.int32)),
                pa.array(records.offsets),
                recurring(records.epochs),
                *identities.who(),
                identities.seq(),
                identities.sent_us(),
                runs(ends_of_polls, pa.array(self._polled_us)),
                runs(ends_of_polls[-1:], pa.array([now_us()])),
            ]
        )
        self._added.clear()
        self._polled_us.clear()
        self.waiting = 0
        self.delivered += n
        return ends


class Places:
    """In which partition each of some records is, as a number that counts through topics and their partitions."""

    def __init__(self, records: Columns, only_topic: str | None) -> None:
        self._width = int(records.partitions.max()) + 1
        self._names: list[str | None] = [only_topic]
        self._place: Ints = records.partitions
        if records.topics is not None:
            topics = pa.array(records.topics, pa.string()).dictionary_encode()
            self._names = topics.dictionary.to_pylist()
            self._place = self._place + topics.indices.to_numpy().astype(np.int64) * self._width

    def partition(self, place: int) -> Partition:
        """Topic and partition number."""
        return self._names[place // self._width] or "", place % self._width

    def ends(self, offsets: Ints) -> dict[Partition, int]:
        """Each partition's next offset: the one after its last record."""
        ends = np.full(self._width * len(self._names), -1, np.int64)
        ends[self._place] = offsets + 1  # where an index repeats, numpy keeps the last value
        return {self.partition(place): int(ends[place]) for place in np.flatnonzero(ends >= 0).tolist()}

    def numbers(self, ends: Mapping[Partition, int], numbers: Mapping[Partition, int]) -> pa.Array:
        """For each record the number that its partition has, if it has one."""
        seen = {numbers.get(partition) for partition in ends}
        if len(seen) == 1:
            return same(seen.pop(), pa.int32()).slice(0, len(self._place))
        each = [numbers.get(self.partition(place)) for place in range(self._width * len(self._names))]
        return pa.array(each, pa.int32()).take(pa.array(self._place))

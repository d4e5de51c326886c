"""Ledger rows of the records that a client sends and reads, from columns that its library fills."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from chaos.clients.protocol import Outcome, Partition, WriterSpec
from chaos.clients.python.assignments import ReaderKey
from chaos.clients.python.load import Keys
from chaos.clients.python.values import UserValues
from chaos.ledger.record import Input
from chaos.ledger.record_columns import Headers, Identities, Ints
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import TableWriter, runs, same
from chaos.run.events import now_us

WRITE_EVERY_S = 0.1
WRITE_ROWS = 8192
_OK, _NULL = same("ok", pa.string()), same(None, pa.string())
_NO_INPUT = None, None, None
_INPUT_TYPES = pa.string(), pa.int32(), pa.int64()

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


class SendLog:
    """Writes `sends` for one incarnation of a client.

    acked, failed, unknown: records by outcome.
    inputs: by seq, the input of each record of a processor that has no row yet.
    txn: number of the transaction of the records that are reported now; set it only right after a `write`.
    last_failure: the last error of a record; empty without one.
    """

    def __init__(
        self, writer: TableWriter, spec: WriterSpec, keys: Keys | UserValues | None, has_offsets: bool = True
    ) -> None:
        """has_offsets: whether acknowledgements have offsets; with acks=0 no broker answers with one."""
        self._writer, self._spec, self._keys, self._has_offsets = writer, spec, keys, has_offsets
        self._client, self._topic = same(spec.client, pa.string()), same(spec.topic, pa.string())
        self._in_turn = np.array(spec.in_turn)
        self._incarnation = same(spec.incarnation, pa.int32())
        self._acked: list[Columns] = []
        self._acked_us: list[int] = []
        self._waiting = 0
        self._rows: list[dict[str, object]] = []
        self._next_write = 0.0
        self.acked = self.failed = self.unknown = 0
        self.txn: int | None = None
        self.inputs: dict[int, Input] = {}
        self.last_failure = ""

    @property
    def rows(self) -> int:
        """Records that have a row or get one with the next `write`."""
        return self.acked + self.failed + self.unknown

    def add_acked(self, records: Columns, at_us: int) -> None:
        """Keep the rows of acknowledged records for the next `write`. at_us: when their reports were read."""
        self._acked.append(records)
        self._acked_us.append(at_us)
        self._waiting += len(records)
        self.acked += len(records)

    def add(
        self,
        seq: int,
        invoked_us: int,
        completed_us: int,
        outcome: Outcome,
        partition: int | None = None,
        offset: int | None = None,
        error: str | None = None,
    ) -> None:
        """Keep the row of one record for the next `write`."""
        self.acked += outcome == "ok"
        self.failed += outcome == "fail"
        self.unknown += outcome == "unknown"
        topic, number, input_offset = self.inputs.pop(seq, _NO_INPUT)
        self._rows.append(
            {
                "producer": self._spec.client,
                "incarnation": self._spec.incarnation,
                "seq": seq,
                "topic": self._spec.topic_of(seq),
                "partition": partition,
                "offset": offset if self._has_offsets else None,
                "outcome": outcome,
                "error": error,
                "txn": self.txn,
                "key": self._keys and self._keys.key(seq),
                "invoked_us": invoked_us,
                "completed_us": completed_us,
                "input_topic": topic,
                "input_partition": number,
                "input_offset": input_offset,
            }
        )

    def write(self, *, now: bool = False) -> None:
        """Write the rows that wait, if there are many, if the last write is long ago, or if `now` is set."""
        if not now and self._waiting + len(self._rows) < WRITE_ROWS and time.monotonic() < self._next_write:
            return
        self._next_write = time.monotonic() + WRITE_EVERY_S
        if self._waiting:
            self._write_acked()
        if self._rows:
            self._writer.append_rows(self._rows)
            self._rows.clear()

    def _write_acked(self) -> None:
        records, n = joined(self._acked), self._waiting
        identities = Identities(records.headers)
        self._writer.append(
            [
                self._client.slice(0, n),
                self._incarnation.slice(0, n),
                identities.seq,
                pa.array(self._in_turn[identities.seq.to_numpy() % len(self._in_turn)], pa.string())
                if len(self._in_turn)
                else self._topic.slice(0, n),
                pa.array(records.partitions.astype(np.int32)),
                # an idempotent producer has none if the answer to a later batch implied this one
                nullable(records.offsets, np.int64) if self._has_offsets else pa.nulls(n, pa.int64()),
                _OK.slice(0, n),
                _NULL.slice(0, n),
                pa.nulls(n, pa.string()) if self._keys is None else self._keys.keys(identities.seq.to_numpy()),
                same(self.txn, pa.int64()).slice(0, n),
                identities.sent_us,
                runs(np.cumsum([len(part) for part in self._acked]), pa.array(self._acked_us)),
                *self._inputs_of(identities.seq),
            ]
        )
        self._acked.clear()
        self._acked_us.clear()
        self._waiting = 0

    def _inputs_of(self, seqs: pa.Array) -> list[pa.Array]:
        """Return the columns of the inputs of these seqs, and forget them."""
        if not self.inputs:
            return [same(None, kind).slice(0, len(seqs)) for kind in _INPUT_TYPES]
        inputs = [self.inputs.pop(seq, _NO_INPUT) for seq in seqs.to_pylist()]
        return [pa.array(column, kind) for column, kind in zip(zip(*inputs, strict=True), _INPUT_TYPES, strict=True)]


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
                identities.known_sent_us(),
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

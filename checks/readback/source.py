"""One task of the read-back: reading an offset range of a partition into Parquet files.

Each task has a consumer that belongs to no group, commits nothing and reads every record, committed or not. If there
are transactions, a second consumer shows which records a read_committed reader gets. Memory is bounded by the queues,
one batch and one row group, whatever the size of the log and its records.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from chaos.errors import ClusterError
from chaos.kafka.security import Security, librdkafka_settings
from chaos.ledger.ids import Ids
from chaos.ledger.record import VERSION, in_headers, parse_count, parse_input
from chaos.ledger.schemas import LOG
from chaos.ledger.seal import parquet_options, part_name
from chaos.values.model import Value
from chaos.values.payloads import Unmarked
from checks.readback.rows import Flags, Records

ROWS_PER_FILE = 1 << 20
COPIES = 100
"""Maximum number of records of a part that are looked for because they are there more than once."""
ROWS_PER_BATCH = 4096  # about what fits a core's cache
BATCH_BYTES = 8 << 20
SILENCE_S = 60.0
ASK_S = 5.0
"""After each silence of this length, the brokers are asked whether the topic exists."""
POLL_S = 0.1
Headers = Sequence[tuple[str, str | bytes | None]] | None
SETTINGS = {
    "group.id": "aftershock-read-back",  # never joined, but librdkafka requires it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "log_level": 0,
    # Memory of prefetched records. With the default backoff of 1 s, a drained queue would fill again too late.
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.message.max.bytes": 4 << 20,
    "fetch.queue.backoff.ms": 2,
}


@dataclass(frozen=True)
class OffsetRange:
    """Offsets from `start` to before `end` of one partition, and the folder of their rows.

    index: position among all ranges; security: names secrets without containing them, so that none passes through
    Spark.
    """

    bootstrap: str
    topic: str
    partition: int
    start: int
    end: int
    folder: Path
    index: int
    security: Security | None = None
    stable: int | None = None
    """The last stable offset if there are transactions, else None."""
    keyed: bool = False
    """Whether the rows have the keys of the records, and whether they are tombstones."""
    marked: bool = False
    """Whether records with values have their identities in headers."""
    unmarked: tuple[Value, ...] = ()
    """The payloads of records that have only ids, which are `ids`."""
    ids: Ids | None = None

    def file(self, number: int) -> Path:
        """Return the path of a file; the names of all files sort by part and offset."""
        return self.folder / f"{part_name(self.index).removesuffix('.parquet')}-{number:05}.parquet"


@dataclass(frozen=True)
class Read:
    """What was read of a part. rows: number of records. copies: offsets of records that are there more than once."""

    rows: int
    copies: tuple[int, ...]


def read(part: OffsetRange) -> Read:
    """Write the records of the part to its files.

    Offsets without a record (compacted, evicted, control records) are skipped; the audit judges them. Raises
    `ClusterError` if the cluster does not return the records.
    """
    rows, number, copies = 0, 0, _Copies()
    writer: pq.ParquetWriter | None = None
    try:
        with without_gc():
            for batch in _batches(part):
                copies.add(batch)
                while batch.num_rows:
                    if writer is None:
                        writer = pq.ParquetWriter(part.file(number), LOG, **parquet_options(LOG))
                    fits = batch.slice(0, (number + 1) * ROWS_PER_FILE - rows)
                    writer.write_batch(fits, row_group_size=ROWS_PER_FILE)
                    rows += fits.num_rows
                    batch = batch.slice(fits.num_rows)
                    if rows == (number + 1) * ROWS_PER_FILE:
                        writer.close()
                        writer, number = None, number + 1
    finally:
        if writer is not None:
            writer.close()
    return Read(rows, copies.offsets([path for i in range(number + 1) if (path := part.file(i)).exists()]))


Sent = tuple[str, int, int]
"""producer, incarnation, seq."""


class _Copies:
    """Candidates for copies: records of a part that stand behind a later record of their producer incarnation.

    Only for such a record, `offsets` reads the files again. A record that the files hold once is no copy: it is out of
    order, or its other copy is in another part.
    """

    def __init__(self) -> None:
        self._highest: dict[tuple[str, int], int] = {}
        self._behind: set[Sent] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        """Note the records of a batch that are not after all earlier ones of their producer incarnation."""
        if batch["seq"].null_count:
            batch = batch.filter(batch["seq"].is_valid())
        producers, seq = batch["producer"].dictionary_encode(), batch["seq"].to_numpy()
        sources = producers.indices.to_numpy().astype(np.int64) << 32 | batch["incarnation"].to_numpy()
        for source in np.unique(sources).tolist():
            of_source = seq[sources == source]
            name = producers.dictionary[source >> 32].as_py(), source & 0xFFFFFFFF
            highest = np.maximum.accumulate(np.concatenate([[self._highest.get(name, -1)], of_source]))
            self._highest[name] = int(highest[-1])
            behind = of_source[of_source <= highest[:-1]][: COPIES - len(self._behind)]
            self._behind |= {(*name, number) for number in behind.tolist()}

    def offsets(self, files: Sequence[Path]) -> tuple[int, ...]:
        """Return the offsets of the records that are in the files more than once."""
        places: dict[Sent, list[int]] = {sent: [] for sent in self._behind}
        numbers = pa.array([seq for _, _, seq in self._behind], pa.int64())
        for path in files if self._behind else ():
            found = pq.read_table(path, columns=["producer", "incarnation", "seq", "offset"], partitioning=None)
            found = found.filter(pc.is_in(found["seq"], numbers))
            for producer, incarnation, seq, offset in zip(*(c.to_pylist() for c in found.columns), strict=True):
                if (producer, incarnation, seq) in places:
                    places[producer, incarnation, seq].append(offset)
        return tuple(sorted(offset for at in places.values() if len(at) > 1 for offset in at))


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable garbage collection meanwhile: searching millions of messages for cycles takes a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _batches(part: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the part in the order of their offsets."""
    unmarked = Unmarked({part.topic: part.unmarked}, part.ids) if part.ids and part.unmarked else None
    try:
        with ExitStack() as stack:
            log = stack.enter_context(closing(PartReader(part, "read_uncommitted")))
            committed: _Committed | None = None
            if part.stable is not None:
                committed = _Committed(stack.enter_context(closing(PartReader(part, "read_committed"))), part.stable)
            largest = 1 << 20
            while log.reached < part.end:
                size = min(ROWS_PER_BATCH, part.end - log.reached, max(16, BATCH_BYTES // largest))
                messages = log.poll(size)
                offsets = list(map(Message.offset, messages))
                if offsets and offsets[-1] >= part.end:
                    offsets = [offset for offset in offsets if offset < part.end]
                    messages = messages[: len(offsets)]
                if not offsets:
                    continue
                times = [time_ms for _, time_ms in map(Message.timestamp, messages)]
                keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
                headers = list(map(Message.headers, messages))
                inputs = list(map(parse_input, headers)) if any(headers) else []
                counts = list(map(parse_count, headers)) if any(headers) and part.keyed else []
                largest = max(map(len, filter(None, values)), default=1)
                decided = committed.of(offsets) if committed else None
                marks = _marks(part, values, headers, unmarked)
                place = part.topic, part.partition
                yield Records(*place, offsets, times, keys, values, inputs, decided, part.keyed, marks, counts).rows()
    except KafkaException as e:
        raise ClusterError(_error(part, str(e.args[0]))) from None


def _marks(
    part: OffsetRange, values: Sequence[bytes | None], headers: Sequence[Headers], unmarked: Unmarked | None
) -> dict[int, bytes]:
    """Return the identities of records that are not in their values, by index."""
    found = {i: in_headers(headers[i]) for i, v in enumerate(values) if v is None or part.marked}
    if unmarked is not None:
        bare = [i for i, v in enumerate(values) if v and found.get(i) is None and not v.startswith(VERSION)]
        found |= {i: unmarked.identity(part.topic, values[i] or b"") for i in bare}
    return {i: mark for i, mark in found.items() if mark is not None}


class PartReader:
    """A consumer of one part. reached: the offset up to which the log has been read."""

    def __init__(self, part: OffsetRange, isolation: str) -> None:
        connection = {"bootstrap.servers": part.bootstrap, **librdkafka_settings(part.security)}
        self._part, self.reached, self._last_answer = part, part.start, time.monotonic()
        self._asked = self._unknown = 0
        self._consumer = Consumer({**SETTINGS, "isolation.level": isolation, **connection})
        self._consumer.assign([TopicPartition(part.topic, part.partition, part.start)])

    def poll(self, size: int) -> list[Message]:
        """Return the next messages with a record, possibly none.

        Raises `ClusterError` after a long silence, or if the topic does not exist any more.
        """
        messages: list[Message] = self._consumer.consume(size, POLL_S)
        if messages:
            self._last_answer, self._asked, self._unknown = time.monotonic(), 0, 0
        else:
            self._note_silence(time.monotonic() - self._last_answer)
        if any(map(Message.error, messages)):
            self.reached = max(self.reached, *(self._end_of_log(m) for m in messages if m.error()))
            messages = [m for m in messages if not m.error()]
        if messages:
            self.reached = max(self.reached, messages[-1].offset() + 1)
        return messages

    def _note_silence(self, silent_s: float) -> None:
        """Raise `ClusterError` if nothing more is to be expected: librdkafka goes on to look for a deleted topic."""
        if silent_s > SILENCE_S:
            reason = f"nothing from offset {self.reached} on for {SILENCE_S:.0f} s"
            raise ClusterError(_error(self._part, reason))
        if silent_s > ASK_S * (self._asked + 1):
            self._asked, self._unknown = self._asked + 1, self._unknown + 1 if self._is_unknown() else 0
            if self._unknown > 1:  # a broker that has just started may not know it yet
                raise ClusterError(_error(self._part, "the topic does not exist any more"))

    def _is_unknown(self) -> bool:
        try:
            topic = self._consumer.list_topics(self._part.topic, ASK_S).topics[self._part.topic]
        except KafkaException:
            return False
        return topic.error is not None and topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def _end_of_log(self, message: Message) -> int:
        """Return the end offset of the log, or 0 for a retriable error. Raises `ClusterError` for any other error."""
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            return int(max(message.offset(), self._part.stable or 0))
        if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return 0  # librdkafka retries; if it cannot recover, `poll` raises after the silence
        raise ClusterError(_error(self._part, error.str()))

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


class _Committed:
    """Visibility of records to a read_committed reader, which reads in parallel; keeps one batch of offsets in memory.

    The brokers' index of aborted transactions decides, as librdkafka applies it. Records at or above the last stable
    offset are undecided, because a transaction is open.
    """

    def __init__(self, reader: PartReader, stable: int) -> None:
        self._reader, self._stable = reader, stable
        self._offsets = np.zeros(0, np.int64)

    def of(self, offsets: Sequence[int]) -> tuple[Flags, Flags]:
        """Return, for records at ascending offsets, whether each is visible and whether that is decided."""
        requested = np.array(offsets, np.int64)
        last = min(offsets[-1], self._stable - 1)
        kept = [self._offsets]
        while self._reader.reached <= last:  # an offset below `reached` that was in no batch is not visible
            kept.append(np.array([m.offset() for m in self._reader.poll(ROWS_PER_BATCH)], np.int64))
        visible = np.concatenate(kept)
        self._offsets = visible[visible > last]
        return np.isin(requested, visible), requested < self._stable


def _error(part: OffsetRange, reason: str) -> str:
    return f"cannot read back {part.topic}/{part.partition}, offsets {part.start} to {part.end}: {reason}"

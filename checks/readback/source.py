"""One task of the read-back: reading an offset range of a partition into Parquet files.

Each task has a consumer that belongs to no group, commits nothing and reads every record, committed or not. If there
are transactions, a second consumer shows which records a read_committed reader gets (`checks.readback.visible`). Memory
is bounded by a queue, one batch and one row group, whatever the size of the log and its records.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from chaos.errors import ClusterError
from chaos.kafka.access import librdkafka
from chaos.kafka.security import Security
from chaos.ledger.schemas import LOG
from chaos.ledger.seal import parquet_options, part_name
from checks.readback.rows import Records
from checks.readback.visible import Visible

ROWS_PER_FILE = 1 << 20
ROWS_PER_BATCH = 4096  # about what fits a core's cache
BATCH_BYTES = 8 << 20
SILENCE_S = 60.0
POLL_S = 0.1
SETTINGS = {
    "group.id": "aftershock-read-back",  # never joined, but librdkafka requires it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
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

    def file(self, number: int) -> Path:
        """Return the path of a file; the names of all files sort by part and offset."""
        return self.folder / f"{part_name(self.index).removesuffix('.parquet')}-{number:05}.parquet"


def read(part: OffsetRange) -> int:
    """Write the records of the part to its files, and return their number.

    Offsets without a record (compacted, evicted, control records) are skipped; the audit judges them. Raises
    `ClusterError` if the cluster does not return the records.
    """
    rows, number = 0, 0
    writer: pq.ParquetWriter | None = None
    try:
        with _without_gc():
            for batch in _batches(part):
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
    return rows


@contextmanager
def _without_gc() -> Iterator[None]:
    """Disable garbage collection: searching millions of messages for cycles takes a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _batches(part: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the part in the order of their offsets."""
    settings = {**SETTINGS, "bootstrap.servers": part.bootstrap, **librdkafka(part.security)}
    consumer = Consumer(settings)
    of_committed: Consumer | None = None
    visible: Visible | None = None
    try:
        if part.stable is not None:
            of_committed = Consumer({**settings, "isolation.level": "read_committed"})
            visible = Visible(of_committed, part.topic, part.partition, part.start, part.stable)
        consumer.assign([TopicPartition(part.topic, part.partition, part.start)])
        following, last_answer, largest = part.start, time.monotonic(), 1 << 20
        while following < part.end:
            size = min(ROWS_PER_BATCH, part.end - following, max(16, BATCH_BYTES // largest))
            messages = consumer.consume(size, POLL_S)
            if not messages:
                _check_silence(part, following, last_answer)
                continue
            last_answer = time.monotonic()
            records, reached = _records(part, messages)
            following = max(following, reached)
            if records.offsets:
                largest = max(map(len, filter(None, records.values)), default=1)
                committed = visible.of(records.offsets) if visible else None
                yield replace(records, committed=committed).rows()
    except KafkaException as e:
        raise ClusterError(_error(part, str(e.args[0]))) from None
    finally:
        consumer.close()
        if of_committed is not None:
            of_committed.close()


def _records(part: OffsetRange, messages: list[Message]) -> tuple[Records, int]:
    """Return the polled records of the part, and the offset up to which the log has been read."""
    reached = 0
    if any(map(Message.error, messages)):
        reached = max(_end_of_log(part, m) for m in messages if m.error())
        messages = [m for m in messages if not m.error()]
    offsets = list(map(Message.offset, messages))
    if offsets:
        reached = max(reached, offsets[-1] + 1)
        if offsets[-1] >= part.end:
            offsets = [offset for offset in offsets if offset < part.end]
            messages = messages[: len(offsets)]
    times = [time_ms for _, time_ms in map(Message.timestamp, messages)]
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    return Records(part.topic, part.partition, offsets, times, keys, values), reached


def _end_of_log(part: OffsetRange, message: Message) -> int:
    """Return the end offset of the log, or 0 for a retriable error. Raises `ClusterError` for any other error."""
    error = message.error()
    if error.code() == KafkaError._PARTITION_EOF:
        return int(message.offset())
    if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        return 0  # librdkafka retries; if it cannot recover, `_check_silence` raises
    raise ClusterError(_error(part, error.str()))


def _check_silence(part: OffsetRange, at: int, since: float) -> None:
    if time.monotonic() - since > SILENCE_S:
        raise ClusterError(_error(part, f"nothing from offset {at} on for {SILENCE_S:.0f} s"))


def _error(part: OffsetRange, reason: str) -> str:
    partition = f"{part.topic}/{part.partition}"
    return f"cannot read back {partition}, offsets {part.start} to {part.end}: {reason}"

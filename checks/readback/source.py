"""Reading one stretch of one partition into Parquet files: what a single task of the read-back does.

Each has a consumer of its own that belongs to no group, commits nothing and sees every record, committed or not; where
transactions are written, a second one says which of them a read_committed reader sees (`logvisible`). What
it holds at a time is bounded, whatever the log and its records weigh: a queue, one batch, one row group being encoded.
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
    "group.id": "aftershock-read-back",  # never joined: librdkafka wants a name
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "error",
    "check.crcs": True,
    "log_level": 0,
    # Memory: what is fetched ahead. At the default of 1 s, a full queue would be noticed to have room again too late.
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.message.max.bytes": 4 << 20,
    "fetch.queue.backoff.ms": 2,
}


@dataclass(frozen=True)
class Stretch:
    """Offsets from `start` to before `end` of one partition, and where their rows go.

    `security` names secrets without holding any, so that none passes through Spark: who reads looks them up.
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
    """The last stable offset, where transactions are written; None where they are not."""

    def file(self, number: int) -> Path:
        """The files of all stretches, by name, are in the order of the stretches and of the offsets in each."""
        return self.folder / f"{part_name(self.index).removesuffix('.parquet')}-{number:05}.parquet"


def read(stretch: Stretch) -> int:
    """Write the records that lie in the stretch to its files, and return their number.

    Offsets without a record (compacted away, evicted, control records) are passed over: they are the audit's to judge.
    Raises `ClusterError` when the cluster does not give them.
    """
    rows, number = 0, 0
    writer: pq.ParquetWriter | None = None
    try:
        with _without_gc():
            for batch in _batches(stretch):
                while batch.num_rows:
                    if writer is None:
                        writer = pq.ParquetWriter(stretch.file(number), LOG, **parquet_options(LOG))
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
    """Looking for cycles among millions of messages, which form none, takes a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _batches(stretch: Stretch) -> Iterator[pa.RecordBatch]:
    """The rows of the stretch, in the order of their offsets."""
    settings = {**SETTINGS, "bootstrap.servers": stretch.bootstrap, **librdkafka(stretch.security)}
    consumer = Consumer(settings)
    of_committed = Consumer({**settings, "isolation.level": "read_committed"}) if stretch.stable is not None else None
    try:
        visible = None
        if of_committed is not None and stretch.stable is not None:
            visible = Visible(of_committed, stretch.topic, stretch.partition, stretch.start, stretch.stable)
        consumer.assign([TopicPartition(stretch.topic, stretch.partition, stretch.start)])
        following, heard, most = stretch.start, time.monotonic(), 1 << 20
        while following < stretch.end:
            wanted = min(ROWS_PER_BATCH, stretch.end - following, max(16, BATCH_BYTES // most))
            messages = consumer.consume(wanted, POLL_S)
            if not messages:
                _check_silence(stretch, following, heard)
                continue
            heard = time.monotonic()
            records, reached = _records(stretch, messages)
            following = max(following, reached)
            if records.offsets:
                most = max(map(len, filter(None, records.values)), default=1)
                committed = visible.of(records.offsets) if visible else None
                yield replace(records, committed=committed).rows()
    except KafkaException as e:
        raise ClusterError(_words(stretch, str(e.args[0]))) from None
    finally:
        consumer.close()
        if of_committed is not None:
            of_committed.close()


def _records(stretch: Stretch, messages: list[Message]) -> tuple[Records, int]:
    """What was polled as records of the stretch, and the offset up to which the log is known now."""
    reached = 0
    if any(map(Message.error, messages)):
        reached = max(_end_of_log(stretch, m) for m in messages if m.error())
        messages = [m for m in messages if not m.error()]
    offsets = list(map(Message.offset, messages))
    if offsets:
        reached = max(reached, offsets[-1] + 1)
        if offsets[-1] >= stretch.end:
            offsets = [offset for offset in offsets if offset < stretch.end]
            messages = messages[: len(offsets)]
    times = [time_ms for _, time_ms in map(Message.timestamp, messages)]
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    return Records(stretch.topic, stretch.partition, offsets, times, keys, values), reached


def _end_of_log(stretch: Stretch, message: Message) -> int:
    """The offset at which the log ends, for that is no error. Others that pass are 0; the rest raise `ClusterError`."""
    error = message.error()
    if error.code() == KafkaError._PARTITION_EOF:
        return int(message.offset())
    if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        return 0  # librdkafka goes on by itself; if it cannot, the silence is noticed
    raise ClusterError(_words(stretch, error.str()))


def _check_silence(stretch: Stretch, at: int, since: float) -> None:
    if time.monotonic() - since > SILENCE_S:
        raise ClusterError(_words(stretch, f"nothing from offset {at} on for {SILENCE_S:.0f} s"))


def _words(stretch: Stretch, why: str) -> str:
    place = f"{stretch.topic}/{stretch.partition}"
    return f"cannot read back {place}, offsets {stretch.start} to {stretch.end}: {why}"

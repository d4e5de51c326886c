"""One task of the reading: records of an offset range as rows of hashes, in files of buckets."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from chaos.errors import AftershockError, ClusterError
from chaos.kafka.security import librdkafka_settings
from checks.compare import buckets
from checks.compare.buckets import Columns
from checks.compare.match import ABSENT, COLUMNS, IDENTITIES, bucket_of, identity
from checks.readback.source import SETTINGS, OffsetRange, PartReader, without_gc

ROWS_PER_BATCH = 8192
ROWS_PER_FILE = 1 << 20
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Task:
    """A range to read. by: the identity by which its rows go to one of `buckets`. rate: bytes a second, None: any."""

    part: OffsetRange
    by: str
    buckets: int
    rate: float | None = None


@dataclass(frozen=True)
class Done:
    """What was read. evicted: the offset up to which retention removed records before they were read; 0 if none."""

    rows: int
    evicted: int = 0
    error: str = ""


def read(task: Task) -> Done:
    """Write the rows of a range; an error is in the result, because the trace of a Spark job would hide it."""
    rows, evicted, at, number = 0, 0, task.part.start, 0
    try:
        with without_gc():
            while True:
                reader = PartReader(replace(task.part, start=at), "read_committed")
                with closing(reader):
                    try:
                        for file in _files(task, reader):
                            _write(task, file, number)
                            rows, number = rows + len(file["offset"]), number + 1
                        return Done(rows, evicted)
                    except ClusterError as e:
                        at = _start(task.part, e)
                        if at <= reader.reached:
                            raise
                        evicted = min(at, task.part.end)  # what was read before is left out when rows are matched
                        if at >= task.part.end:
                            return Done(rows, evicted)
    except AftershockError as e:
        return Done(rows, evicted, str(e))
    except KafkaException as e:
        return Done(rows, evicted, f"cannot read {task.part.topic}/{task.part.partition}: {e.args[0].str()}")


def _start(part: OffsetRange, reason: ClusterError) -> int:
    """Return the offset at which the log begins now. Raises the reason why that is asked if nobody answers."""
    consumer = Consumer({**SETTINGS, "bootstrap.servers": part.bootstrap, **librdkafka_settings(part.security)})
    with closing(consumer):
        try:
            low, _ = consumer.get_watermark_offsets(TopicPartition(part.topic, part.partition), TIMEOUT_S)
        except KafkaException:
            raise reason from None
        return int(low)


def _files(task: Task, reader: PartReader) -> Any:
    """Yield the rows of the range, those of a file at a time."""
    kept: list[Columns] = []
    size, read_bytes, began = 0, 0, time.monotonic()
    while reader.reached < task.part.end:
        messages = reader.poll(ROWS_PER_BATCH)
        if messages and messages[-1].offset() >= task.part.end:
            messages = [m for m in messages if m.offset() < task.part.end]
        if not messages:
            continue
        rows, length = _rows(task.part.partition, messages)
        kept.append(rows)
        size, read_bytes = size + len(messages), read_bytes + length
        if task.rate:
            time.sleep(max(0.0, read_bytes / task.rate - (time.monotonic() - began)))
        if size >= ROWS_PER_FILE:
            yield _joined(kept)
            kept, size = [], 0
    if size:
        yield _joined(kept)


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}


def _rows(partition: int, messages: list[Message]) -> tuple[Columns, int]:
    """Return the rows of messages, and the bytes of their keys and values."""
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    headers = list(map(Message.headers, messages))
    encoded = [h and _encoded(h) for h in headers] if any(headers) else headers
    rows = {
        "partition": np.full(len(messages), partition, np.int64),
        "offset": np.fromiter(map(Message.offset, messages), np.int64, len(messages)),
        "at_ms": np.array(list(map(Message.timestamp, messages)), np.int64).reshape(-1, 2)[:, 1],
        "key": hashes(keys),
        "value": hashes(values),
        "headers": hashes(encoded),
    }
    return rows, sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))


def _encoded(headers: list[tuple[str, bytes | None]]) -> bytes | None:
    """Return headers as bytes, in their order; None if there are none."""
    return repr(headers).encode() if headers else None


def hashes(texts: list[bytes | None]) -> Any:
    """Return the SipHash of each text, `ABSENT` for None."""
    nones = texts.count(None)
    if nones == len(texts):
        return np.full(len(texts), ABSENT, np.int64)
    objects = np.empty(len(texts), object)
    objects[:] = texts
    found = pd.util.hash_array(objects, categorize=False).view(np.int64)
    found[found == ABSENT] = 0
    if nones:
        found[np.fromiter((text is None for text in texts), np.bool_, len(texts))] = ABSENT
    return found


def _write(task: Task, rows: Columns, number: int) -> None:
    place = bucket_of(identity(rows, IDENTITIES[task.by]), task.buckets)
    buckets.write(rows, place, task.buckets, task.part.file(number).with_suffix(".parquet"))

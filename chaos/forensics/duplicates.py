"""Duplicates in a topic: batches with a sequence that the partition has already, and records with equal contents.

Records of aborted transactions are no records, as for a reader with `read_committed`: the records that a producer sends
again after an abort are no duplicates. Their sequences count, because a broker took them.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from kafka.record import MemoryRecords

from chaos.forensics.model import Finding, Findings, Topic
from chaos.forensics.pace import Pace
from chaos.kafka.client import READ_COMMITTED, Kafka
from chaos.kafka.offsets_log import Fetched, fetch
from chaos.kafka.partition import TopicPartition

MOST_BATCHES = 200_000
"""Batches of idempotent producers that are remembered for the place of the first one; the sequences are for all."""
MOST_PRODUCERS = 100_000
MOST_CONTENTS = 500_000
"""Records of one topic that are remembered: equal contents farther apart than this many records are not seen."""
ANSWER_S = 30.0
_PREFIX, _MAGIC, _ATTRIBUTES, _HEADER, _ABORT = struct.Struct(">qi"), 16, 22, 61, 0
_CODEC, _SNAPPY, _LZ4 = 0x07, 2, 3
_XERIAL = b"\x82SNAPPY\x00"
WRAP = 1 << 31
"""Sequences begin again at 0 after the largest number of 31 bits."""


def readable(records: bytes) -> bytes:
    """Return complete batches, those that kafka-python cannot decompress here (Snappy, LZ4) without compression."""
    parts, at = [], 0
    while at + _PREFIX.size < len(records):
        _, length = _PREFIX.unpack_from(records, at)
        batch = records[at : at + length + _PREFIX.size]
        if len(batch) < max(length + _PREFIX.size, _MAGIC + 1):
            break
        if batch[_MAGIC] >= 2 and (codec := batch[_ATTRIBUTES] & _CODEC) in (_SNAPPY, _LZ4):
            plain = _unpacked(batch[_HEADER:], codec)
            head = bytearray(batch[:_HEADER])
            head[_ATTRIBUTES] &= ~_CODEC
            struct.pack_into(">i", head, 8, _HEADER - _PREFIX.size + len(plain))
            batch = bytes(head) + plain
        parts.append(batch)
        at += length + _PREFIX.size
    return b"".join(parts)


def _unpacked(data: bytes, codec: int) -> bytes:
    if codec == _LZ4:
        return bytes(pa.CompressedInputStream(pa.BufferReader(data), "lz4").read())
    if not data.startswith(_XERIAL):
        return _snappy(data)
    parts, at = [], 16  # magic and two versions, then blocks with their lengths
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        parts.append(_snappy(data[at + 4 : at + 4 + length]))
        at += 4 + length
    return b"".join(parts)


def _snappy(block: bytes) -> bytes:
    """Return the contents of a block, which begins with their length."""
    size = shift = 0
    for byte in block:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return bytes(pa.Codec("snappy").decompress(block, decompressed_size=size))


@dataclass
class Contents:
    """The contents of the last records of a topic, by their hash of 128 bits: partition, offset and time of each."""

    most: int = MOST_CONTENTS
    forgotten: bool = False
    _seen: dict[bytes, tuple[int, int, int]] = field(default_factory=dict)

    def first(self, record: Any, partition: int) -> tuple[int, int, int] | None:
        """Return an earlier record with equal contents; None without one, which remembers the record."""
        hashed = hashlib.blake2b(digest_size=16)
        headers = [part for name, value in record.headers for part in (name.encode(), value)]
        for part in (record.key, record.value, *headers):
            hashed.update(struct.pack(">i", -1 if part is None else len(part)) + (part or b""))
        key = hashed.digest()
        if (earlier := self._seen.get(key)) is not None:
            return earlier
        self._seen[key] = partition, record.offset, record.timestamp
        if len(self._seen) > self.most:
            del self._seen[next(iter(self._seen))]
            self.forgotten = True
        return None


@dataclass
class Sequences:
    """The sequences of the producers of one partition, by producer id and epoch."""

    forgotten: bool = False
    _next: dict[tuple[int, int], int] = field(default_factory=dict)
    _batches: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)

    def repeated(self, batch: Any) -> str:
        """Take a batch; return how its sequence is a repeated one, empty if it is not."""
        producer = batch.producer_id, batch.producer_epoch
        begin, following = batch.base_sequence, self._next.get(producer)
        behind = 0 if following is None else (following - begin) % WRAP
        again = 0 < behind <= WRAP // 2
        if again:
            first = self._batches.get((*producer, begin))
            if first is None:
                return "an earlier batch has it; where is not remembered"
            same = "the same bytes" if first[1] == batch.crc else "other bytes"
            return f"the batch at offset {first[0]:,} has it, with {same}"
        self._next.pop(producer, None)
        self._next[producer] = (begin + batch.last_offset_delta + 1) % WRAP
        self._batches[*producer, begin] = batch.base_offset, batch.crc
        if len(self._next) > MOST_PRODUCERS:
            del self._next[next(iter(self._next))]
            self.forgotten = True
        if len(self._batches) > MOST_BATCHES:
            del self._batches[next(iter(self._batches))]  # only the place of a first batch
        return ""


@dataclass
class Search:
    """The search in one partition. aborted: producers with an aborted transaction at the current offset."""

    partition: TopicPartition
    topic: Topic
    contents: Contents
    findings: Findings
    sequences: Sequences = field(default_factory=Sequences)
    aborted: set[int] = field(default_factory=set)
    old: bool = False
    _begins: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def take(self, fetched: Fetched, at: int, end: int) -> int:
        """Take an answer; return the offset behind its last complete batch, `at` without one."""
        for producer, first in fetched.aborted:
            if first not in self._begins[producer]:
                self._begins[producer].append(first)
        for batch in MemoryRecords(readable(fetched.records)):
            if batch.magic < 2:
                self.old, at = True, end
                continue
            if batch.base_offset >= end:
                return max(at, end)
            if batch.last_offset >= at:
                self._take(batch, at, end)
            at = max(at, int(batch.next_offset))
        return at

    def _take(self, batch: Any, at: int, end: int) -> None:
        producer = batch.producer_id
        if begun := [first for first in self._begins[producer] if first <= batch.base_offset]:
            self.aborted.add(producer)
            self._begins[producer] = [f for f in self._begins[producer] if f not in begun]
        if batch.is_control_batch:
            for marker in batch:
                if struct.unpack_from(">hh", bytes(marker.key))[1] == _ABORT:
                    self.aborted.discard(producer)
            return
        if producer >= 0 and batch.base_sequence >= 0 and (how := self.sequences.repeated(batch)):
            words = (
                f"offsets {batch.base_offset:,} to {batch.last_offset:,}: sequence {batch.base_sequence:,} of producer "
                f"id {producer}, epoch {batch.producer_epoch}, again; {how}"
            )
            self._found("sequence", batch.base_offset, batch.max_timestamp, words)
        if batch.is_transactional and producer in self.aborted:
            return
        for record in batch:
            if at <= record.offset < end:
                self._take_record(record)

    def _take_record(self, record: Any) -> None:
        self.topic.records += 1
        if record.value is None or (earlier := self.contents.first(record, self.partition.number)) is None:
            return  # a tombstone of a key equals another one of it
        number, offset, timestamp = earlier
        first = f"{TopicPartition(self.partition.topic, number)}@{offset}"
        when = "the same timestamp" if timestamp == record.timestamp else "another timestamp"
        words = f"offset {record.offset:,} has what {first} has, with {when}; {_key(record.key)}"
        self._found("content", record.offset, record.timestamp, words)

    def _found(self, kind: str, offset: int, at_ms: int, words: str) -> None:
        place = f"{self.partition}@{offset}"
        where = str(self.partition)
        self.findings.add(Finding(kind=kind, where=where, at_us=max(0, at_ms) * 1000, words=words, place=place))


def _key(key: bytes | None) -> str:
    return "no key" if key is None else f"key {key.decode(errors='backslashreplace')[:60]!r}"


def search(
    kafka: Kafka,
    name: str,
    since_ms: int,
    pace: Pace,
    topic: Topic,
    findings: Findings,
    progress: Callable[[str, int, int], None],
) -> list[str]:
    """Read a topic from a time on to its last stable offsets, and return why some of it was not read.

    Raises `UnreadableError`, `ValueError` or `KafkaError`.
    """
    contents, problems = Contents(), list[str]()
    for partition, start, end in _ranges(kafka, name, since_ms, topic, problems):
        found, at = Search(partition, topic, contents, findings), start
        while at < end:
            progress(f"reading {partition}", at - start, end - start)
            with pace.taking() as took:
                until = time.monotonic() + ANSWER_S
                fetched = fetch(kafka, partition, at, until, READ_COMMITTED, pace.size)
                took(len(fetched.records))
            reached = found.take(fetched, at, end)
            if reached == at:
                raise ValueError(f"no complete batch at offset {at} of {partition}")
            at = reached
        if found.old:
            problems.append(f"{partition} has records of a format before Kafka 0.11, which are not searched")
        if found.sequences.forgotten:
            topic.notes.append(f"{partition} has more batches or producers than are remembered")
    if contents.forgotten:
        topic.notes.append(f"equal contents farther apart than {MOST_CONTENTS:,} records are not seen")
    return problems


def _ranges(
    kafka: Kafka, name: str, since_ms: int, topic: Topic, problems: list[str]
) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yield the offsets to read of each partition: from a time on, to the last stable offset."""
    metadata = kafka.metadata()
    partitions = sorted(p for p in metadata.partitions if p.topic == name) if metadata else []
    starts, stable = kafka.start_offsets(partitions), kafka.stable_offsets(partitions)
    since = kafka.offsets_from(partitions, since_ms) if since_ms else starts
    for partition in partitions:
        if partition not in stable or partition not in starts or partition not in since:
            problems.append(f"{partition} was not read: its leader does not answer")
            continue
        high, end = stable[partition]
        if end < high:
            topic.notes.append(f"{partition} is read to offset {end:,}, where a transaction is open")
        start = max(since[partition] if since[partition] >= 0 else end, starts[partition])
        if start == starts[partition] > 0:
            topic.notes.append(f"{partition} begins at offset {start:,}: what was before is gone")
        yield partition, start, end

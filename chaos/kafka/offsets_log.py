"""The offset commits of some groups in the log of `__consumer_offsets`, read over the platform's own connections.

A client library skips control records and hides where compaction removed records. Both decide here: the marker of a
transaction says whether its offsets count, and a missing record proves only something in a log that is whole.

The log also holds members and other state of groups, under keys of other versions than offset commits. The formats are
`OffsetCommitKey` (versions 0 and 1) and `OffsetCommitValue` (0 to 4) of Kafka's group coordinator.
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords

from chaos.kafka import messages
from chaos.kafka.client import EARLIEST, READ_UNCOMMITTED, Kafka
from chaos.kafka.partition import TopicPartition, group_partition
from chaos.kafka.security import Access, Security

COMMIT_KEYS = (0, 1)
"""Versions of the keys of offset commits; other versions are keys of other records."""
NEWEST_VALUE = 4
_FIRST_WITH_EPOCH, _FIRST_FLEXIBLE = 3, 4


@dataclass(frozen=True)
class CommitKey:
    """The key of an offset commit."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True)
class CommitValue:
    """The value of an offset commit. commit_ms: the coordinator's time of the commit, in ms."""

    offset: int
    metadata: str
    commit_ms: int


def parse_key(key: bytes | None) -> CommitKey | None:
    """Return the key of an offset commit; None for another record. Raises `ValueError` if it is damaged."""
    if key is None or len(key) < 2 or struct.unpack_from(">h", key)[0] not in COMMIT_KEYS:
        return None
    group, at = _text(key, 2)
    topic, at = _text(key, at)
    (partition,) = _unpack(">i", key, at)
    return CommitKey(group, topic, partition)


def parse_value(value: bytes) -> CommitValue:
    """Return the value of an offset commit. Raises `ValueError` if it is damaged, or newer than `NEWEST_VALUE`."""
    (version,) = _unpack(">h", value, 0)
    if not 0 <= version <= NEWEST_VALUE:
        raise ValueError(f"offset commits of version {version} are unknown, the newest known one is {NEWEST_VALUE}")
    (offset,) = _unpack(">q", value, 2)
    at = 14 if version >= _FIRST_WITH_EPOCH else 10
    metadata, at = _compact_text(value, at) if version >= _FIRST_FLEXIBLE else _text(value, at)
    (commit_ms,) = _unpack(">q", value, at)
    return CommitValue(offset, metadata, commit_ms)


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Return a text with a length of 16 bits, and the position behind it."""
    (length,) = _unpack(">h", data, at)
    return _decoded(data, at + 2, max(length, 0))


def _compact_text(data: bytes, at: int) -> tuple[str, int]:
    """Return a text with a variable length plus one, and the position behind it."""
    length = shift = 0
    while True:
        (byte,) = _unpack(">B", data, at)
        length, at, shift = length | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return _decoded(data, at, max(length - 1, 0))


def _decoded(data: bytes, at: int, length: int) -> tuple[str, int]:
    if at + length > len(data):
        raise ValueError(f"an offset commit of {len(data)} bytes ends within a text")
    return data[at : at + length].decode("utf-8", "replace"), at + length


def _unpack(form: str, data: bytes, at: int) -> tuple[int]:
    try:
        found: tuple[int] = struct.unpack_from(form, data, at)
    except struct.error:
        raise ValueError(f"an offset commit of {len(data)} bytes ends too early") from None
    return found


OFFSETS_TOPIC = "__consumer_offsets"
MARGIN_MS = 60_000
"""Reading begins this long before the given time: the clocks of brokers and clients may differ."""
MOST_RECORDS = 500_000
"""Number of records of one partition above which it is not read."""
TIMEOUT_S = 60.0
"""Time for all partitions."""
ANSWER_S = 5.0
FETCH_BYTES = 4 << 20
_REFUSED = {1: "its log does not reach that offset any more", 29: "the user may not read it"}
"""Error codes of Fetch that no later request can change."""
_COMMITTED = 1
"""Type of the marker that commits a transaction."""


@dataclass(slots=True)
class LoggedCommit:
    """A record of an offset commit.

    offset: None if the record deletes the committed offset. commit_us: the coordinator's time of the commit.
    transaction: committed, aborted or open; None without a transaction. ended_us: the time of its marker.
    """

    group: str
    topic: str
    partition: int
    offset: int | None
    metadata: str | None
    commit_us: int | None
    appended_us: int
    log_partition: int
    log_offset: int
    transaction: str | None = None
    ended_us: int | None = None


@dataclass(slots=True)
class LogRead:
    """What was read for one group: the offsets from `start` to before `end` of its partition.

    whole: whether the log has all records that were ever written there. error: why nothing was read, else None.
    """

    group: str
    log_partition: int | None = None
    start: int | None = None
    end: int | None = None
    read_us: int | None = None
    whole: bool = False
    error: str | None = None


def read_commits(
    bootstrap: str, security: Security | None, groups: Iterable[str], since_us: int
) -> tuple[list[LoggedCommit], list[LogRead]]:
    """Return the offset commits of the groups since a time, and for each group what was read.

    Each partition is read once. An error of the cluster, such as a missing right, is in the result.
    """
    kafka = Kafka(bootstrap, ANSWER_S, Access.of(security), [OFFSETS_TOPIC])
    try:
        return _read_commits(kafka, groups, since_us)
    finally:
        kafka.close()


def _read_commits(kafka: Kafka, groups: Iterable[str], since_us: int) -> tuple[list[LoggedCommit], list[LogRead]]:
    metadata = kafka.metadata()
    count = sum(p.topic == OFFSETS_TOPIC for p in metadata.partitions) if metadata else 0
    if not count:
        why = f"the brokers list no {OFFSETS_TOPIC}: there is none, or the user may not describe it"
        return [], [LogRead(group, error=why if metadata else "no broker answers") for group in sorted(set(groups))]
    by_partition: dict[int, list[str]] = defaultdict(list)
    for group in sorted(set(groups)):
        by_partition[group_partition(group, count)].append(group)
    deadline = time.monotonic() + TIMEOUT_S
    commits: list[LoggedCommit] = []
    reads: list[LogRead] = []
    for number, here in sorted(by_partition.items()):
        part = Part(TopicPartition(OFFSETS_TOPIC, number), frozenset(here))
        error = None
        try:
            part.read(kafka, max(0, since_us // 1000 - MARGIN_MS), deadline)
            commits += part.commits
        except (UnreadableError, ValueError, KafkaError) as e:
            error = f"{part.partition} cannot be read: {e}"
        whole = part.whole and error is None
        at_us = time.time_ns() // 1000
        reads += [LogRead(group, number, part.start, part.end, at_us, whole, error) for group in here]
    return commits, reads


T = TypeVar("T")


class UnreadableError(Exception):
    """A partition cannot be read."""


@dataclass(frozen=True)
class Fetched:
    """Batches of a partition. aborted: producer ids and first offsets of aborted transactions, if they were asked."""

    records: bytes
    aborted: tuple[tuple[int, int], ...] = ()


def fetch(
    kafka: Kafka,
    partition: TopicPartition,
    at: int,
    deadline: float,
    isolation: int = READ_UNCOMMITTED,
    size: int = FETCH_BYTES,
) -> Fetched:
    """Return batches from the one with an offset on, from the leader; at least one, of whatever size (KIP-74).

    deadline: a time of `time.monotonic()`. Raises `UnreadableError` if the leader refuses, or has none until then.
    """
    part = {"partition": partition.number, "fetch_offset": at, "partition_max_bytes": size}
    request = messages.request(
        FetchRequest[4],
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=size,
        isolation_level=isolation,
        topics=[{"topic": partition.topic, "partitions": [part]}],
    )

    def answer() -> Fetched | None:
        state = kafka.state(partition)
        answer = kafka.ask(state.leader, request) if state else None
        for topic in answer.responses if answer else ():
            for p in topic.partitions:
                if p.error_code in _REFUSED:
                    raise UnreadableError(_REFUSED[p.error_code])
                if not p.error_code and p.records:
                    aborted = tuple((t.producer_id, t.first_offset) for t in p.aborted_transactions or ())
                    return Fetched(bytes(p.records), aborted)
        return None

    return _asked(answer, deadline)


@dataclass
class Part:
    """One partition while it is read. groups: of interest, None for all.

    gap: the last offset up to which records may be missing in the log; the start of the reading counts as one.
    """

    partition: TopicPartition
    groups: frozenset[str] | None
    commits: list[LoggedCommit] = field(default_factory=list)
    start: int | None = None
    end: int | None = None
    whole: bool = True
    gap: int = -1
    _open: dict[int, list[LoggedCommit]] = field(default_factory=lambda: defaultdict(list))
    """Commits in transactions without a marker, by producer id."""

    def read(self, kafka: Kafka, since_ms: int, deadline: float) -> None:
        """Read from the first record since a time to the end of the log."""
        first = _asked(lambda: kafka.offsets_from([self.partition], EARLIEST).get(self.partition), deadline)
        self.end = _asked(lambda: kafka.end_offsets([self.partition]).get(self.partition), deadline)
        found = _asked(lambda: kafka.offsets_from([self.partition], since_ms).get(self.partition), deadline)
        self.start = at = min(found, self.end) if found >= 0 else self.end
        self.gap = self.start - 1
        self._check_size()
        if self.start > first:
            at -= 1  # the record before shows whether some between the two are missing
        elif first:
            self.whole = False
        while at < self.end:
            data = self._fetch(kafka, at, deadline)
            reached = self._add(data, at)
            if reached == at:
                raise UnreadableError(f"no complete batch at offset {at}")
            at = reached
        for commit in (c for commits in self._open.values() for c in commits):
            commit.transaction = "open"

    def _check_size(self) -> None:
        if (self.end or 0) - (self.start or 0) > MOST_RECORDS:
            raise UnreadableError(f"it has {(self.end or 0) - (self.start or 0):,} records since the run began")

    def _fetch(self, kafka: Kafka, at: int, deadline: float) -> bytes:
        """Return batches from the one with an offset on."""
        return fetch(kafka, self.partition, at, deadline).records

    def _add(self, data: bytes, at: int) -> int:
        """Add the commits of complete batches; return the offset behind the last batch, `at` without one."""
        for batch in MemoryRecords(data):
            if batch.magic < 2:
                raise UnreadableError(f"its records have the format {batch.magic} of before Kafka 0.11")
            if batch.base_offset >= (self.end or 0):
                return max(at, self.end or 0)
            dense = batch.records_count == batch.last_offset_delta + 1
            if not dense or batch.base_offset > at:
                self.whole, self.gap = False, int(batch.last_offset if not dense else batch.base_offset - 1)
            self._add_batch(batch)
            at = max(at, int(batch.next_offset))
        return at

    def _add_batch(self, batch: Any) -> None:
        if batch.is_control_batch:
            for record in batch:
                self._end(batch.producer_id, record)
            return
        for commit in self._commits(batch):
            self.commits.append(commit)
            if batch.is_transactional:
                self._open[batch.producer_id].append(commit)

    def _commits(self, batch: Any) -> Iterator[LoggedCommit]:
        for record in batch:
            key = parse_key(record.key)
            if record.offset < (self.start or 0):
                continue
            if key is None:
                self._note(record)
                continue
            if self.groups is not None and key.group not in self.groups:
                continue
            value = None if record.value is None else parse_value(record.value)
            yield LoggedCommit(
                group=key.group,
                topic=key.topic,
                partition=key.partition,
                offset=value.offset if value else None,
                metadata=value.metadata if value else None,
                commit_us=value.commit_ms * 1000 if value else None,
                appended_us=record.timestamp * 1000,
                log_partition=self.partition.number,
                log_offset=record.offset,
            )

    def _note(self, record: Any) -> None:
        """Take a record that is no offset commit: of the members of a group, for example."""

    def _end(self, producer: int, marker: Any) -> None:
        """End the transaction of a producer."""
        _, kind = struct.unpack_from(">hh", bytes(marker.key))
        for commit in self._open.pop(producer, ()):
            commit.transaction = "committed" if kind == _COMMITTED else "aborted"
            commit.ended_us = marker.timestamp * 1000


def _asked(ask: Callable[[], T | None], deadline: float) -> T:
    """Return the first answer that is not None. Raises `UnreadableError` after the deadline."""
    while (answer := ask()) is None:
        if time.monotonic() > deadline:
            raise UnreadableError("its leader did not answer in time")
        time.sleep(0.1)
    return answer

"""Offset commits, with a ledger row for each partition and its outcome."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from chaos.clients.assignments import ReaderKey
from chaos.clients.confluent.outcomes import NOT_A_COMMIT, Outcome, commit_outcome
from chaos.clients.program import log
from chaos.clients.protocol import CommitSpec, Config, Partition
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

BACKOFF_MS, MAX_BACKOFF_MS = 100, 1000
"""librdkafka's defaults of retry.backoff.ms and retry.backoff.max.ms."""


@dataclass(frozen=True)
class _Request:
    """The time and the assignment of a commit request: the answer may arrive under a later assignment."""

    at_us: int
    assignment: int | None


class Committer:
    """Commits as the commit setting says, and writes `commits` for one incarnation of a consumer.

    librdkafka answers an asynchronous or automatic commit during a later poll: `completed_us` is that time. A commit
    without an answer is written as unknown on `close`.
    """

    def __init__(
        self,
        writer: TableWriter,
        key: ReaderKey,
        commit: CommitSpec,
        config: Config,
        assignments: Mapping[Partition, int],
    ) -> None:
        self._writer, self._key, self._commit, self._assignments = writer, asdict(key), commit, assignments
        backoff_ms = float(config.get("retry.backoff.ms", BACKOFF_MS))
        self._backoff_s = min(backoff_ms, float(config.get("retry.backoff.max.ms", MAX_BACKOFF_MS))) / 1000
        self._pending: dict[tuple[str, int, int], deque[_Request]] = defaultdict(deque)
        self._due: dict[Partition, int] = {}
        """Processed offsets to commit at the next interval."""
        self._unconfirmed: dict[Partition, int] = {}
        """Processed offsets without a positive answer, to commit on revocation."""
        self._next = time.monotonic() + (commit.every_s or 0.0)

    def settings(self) -> Config:
        """Return the librdkafka settings for the commit setting."""
        auto = self._commit.kind == "auto" and self._commit.when != "never"
        at_poll = self._commit.when == "before_processing"
        return {"enable.auto.commit": auto, "enable.auto.offset.store": auto and at_poll}

    def before_processing(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        """Commit a batch before it is processed. With kind auto, librdkafka stored its offsets at the poll."""
        if self._commit.kind != "auto":
            self._request(consumer, ends)

    def after_record(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        """Commit after a processed record, if the setting says so."""
        self._keep(ends)
        if self._commit.when == "after_record":
            self._request(consumer, ends)
        else:
            self._later(consumer, ends)

    def at_once(self, consumer: Consumer, ends: Mapping[Partition, int]) -> bool:
        """Commit and wait for the answer. Returns whether every offset was committed."""
        return self._request(consumer, ends, kind="sync")

    def after_batch(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        """Commit after the processed part of a batch, if the setting says so."""
        self._keep(ends)
        if self._commit.when != "after_batch":
            self._later(consumer, ends)
        elif ends:
            self._request(consumer, ends)

    def revoked(self, consumer: Consumer, partitions: Iterable[Partition]) -> None:
        """Commit processed offsets of partitions that are being revoked, if the setting says so.

        An earlier commit of them may be without an answer, or refused: while a cooperative group rebalances, a commit
        of the former generation gets ILLEGAL_GENERATION.
        """
        ends = {p: self._unconfirmed[p] for p in partitions if p in self._unconfirmed}
        self.forget(ends)
        if ends:
            self._request(consumer, ends, kind="sync")

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Drop offsets that are due of partitions that are lost or read from another position."""
        for partition in partitions:
            self._due.pop(partition, None)
            self._unconfirmed.pop(partition, None)

    def _keep(self, ends: Mapping[Partition, int]) -> None:
        if self._commit.on_revoke:
            self._unconfirmed |= ends

    def _later(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        if self._commit.when == "periodic" and self._commit.every_s:
            self._due |= ends
        if self._commit.every_s and self._due and time.monotonic() >= self._next:
            due, self._due = self._due, {}
            self._next = time.monotonic() + self._commit.every_s
            self._request(consumer, due)

    def _request(self, consumer: Consumer, ends: Mapping[Partition, int], kind: str = "") -> bool:
        """Request a commit. Returns whether it is known to be done."""
        kind = kind or self._commit.kind
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        requests = [_Request(now_us(), self._assignments.get((o.topic, o.partition))) for o in offsets]
        try:
            if kind == "auto":
                consumer.store_offsets(offsets=offsets)
            elif kind == "async":
                for o, request in zip(offsets, requests, strict=True):
                    self._pending[o.topic, o.partition, o.offset].append(request)
                consumer.commit(offsets=offsets, asynchronous=True)
            else:
                answers = consumer.commit(offsets=offsets, asynchronous=False)
                by_partition = dict(zip(ends, requests, strict=True))
                return self._write("sync", [(o, None, by_partition[o.topic, o.partition]) for o in answers])
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if kind == "auto":
                log(f"offsets not stored: {error.name()}: {error.str()}")
                return False
            for o in offsets:
                self._pop_request(o)
            self._write(kind, [(o, error, r) for o, r in zip(offsets, requests, strict=True)])
        return False

    def transaction_ended(
        self, ends: Mapping[Partition, int], outcome: Outcome, error: str | None, requested_us: int
    ) -> None:
        """Record offsets that were committed in a transaction, with its outcome."""
        rows = []
        for (topic, number), offset in ends.items():
            request = _Request(requested_us, self._assignments.get((topic, number)))
            rows.append(self._row("transaction", TopicPartition(topic, number, offset), outcome, error, request))
        self._writer.append_rows(rows)

    def on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Record librdkafka's answer to an asynchronous or automatic commit."""
        if error is not None and error.code() in NOT_A_COMMIT:
            return
        kind = "auto" if self._commit.kind == "auto" else "async"
        self._write(kind, [(o, error, self._pop_request(o)) for o in partitions if o.offset >= 0])

    def _pop_request(self, o: TopicPartition) -> _Request | None:
        """Remove and return the oldest request for this offset."""
        key = o.topic, o.partition, o.offset
        requests = self._pending.get(key)
        if not requests:
            return None
        first = requests.popleft()
        if not requests:
            del self._pending[key]
        return first

    def close(self) -> None:
        """Write the requests without an answer. Call it after the consumer was closed."""
        rows = [
            self._row("async", TopicPartition(*key), "unknown", "no answer before the end", request)
            for key, requests in self._pending.items()
            for request in requests
        ]
        self._writer.append_rows(rows)
        self._pending.clear()

    def _write(self, kind: str, answers: Iterable[tuple[TopicPartition, KafkaError | None, _Request | None]]) -> bool:
        """Write a row for each partition, with its own error or else that of the commit. Returns whether all are ok."""
        rows = []
        for o, error, request in answers:
            took_s = None if request is None else (now_us() - request.at_us) / 1e6
            error = o.error or error
            outcome = commit_outcome(error, took_s, self._backoff_s)
            rows.append(self._row(kind, o, outcome, error and error.name(), request))
            if outcome == "ok" and self._unconfirmed.get((o.topic, o.partition)) == o.offset:
                del self._unconfirmed[o.topic, o.partition]
        self._writer.append_rows(rows)
        return all(row["outcome"] == "ok" for row in rows)

    def _row(
        self, kind: str, o: TopicPartition, outcome: Outcome, error: str | None, request: _Request | None
    ) -> dict[str, object]:
        at_us = now_us()
        if request is None:  # librdkafka requested an automatic commit
            request = _Request(at_us, self._assignments.get((o.topic, o.partition)))
        return {
            **self._key,
            "assignment": request.assignment,
            "topic": o.topic,
            "partition": o.partition,
            "offset": o.offset,
            "kind": kind,
            "outcome": outcome,
            "error": error,
            "requested_us": request.at_us,
            "completed_us": at_us,
        }

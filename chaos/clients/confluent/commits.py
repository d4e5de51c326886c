"""Offset commits, each with its outcome as a row per partition."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from chaos.clients.confluent.lifecycle import log
from chaos.clients.confluent.outcomes import NOT_A_COMMIT, commit_outcome
from chaos.clients.protocol import CommitSpec, Config, Partition
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us

BACKOFF_MS, MOST_BACKOFF_MS = 100, 1000
"""librdkafka's defaults."""


@dataclass(frozen=True)
class _Request:
    """When a commit was asked for, and under which assignment: the answer may come when the partition is held anew."""

    at_us: int
    assignment: int | None


class Committer:
    """Commits as its setting says, and writes `commits` for one consumer in one incarnation.

    An asynchronous or automatic commit is answered during a later poll: `completed_us` is when the client was told, not
    when the answer came. A commit that was never answered is written as unknown at the end.
    """

    def __init__(
        self,
        writer: TableWriter,
        who: Mapping[str, object],
        commit: CommitSpec,
        config: Config,
        numbers: Mapping[Partition, int],
    ) -> None:
        self._writer, self._who, self._commit, self._numbers = writer, dict(who), commit, numbers
        backoff_ms = float(config.get("retry.backoff.ms", BACKOFF_MS))
        self._backoff_s = min(backoff_ms, float(config.get("retry.backoff.max.ms", MOST_BACKOFF_MS))) / 1000
        self._pending: dict[tuple[str, int, int], deque[_Request]] = defaultdict(deque)
        self._due: dict[Partition, int] = {}
        """Processed and to be committed later: at the next interval, or when it is taken away."""
        self._next = time.monotonic() + (commit.every_s or 0.0)

    def settings(self) -> Config:
        """What the commit setting means for librdkafka."""
        auto = self._commit.kind == "auto" and self._commit.when != "never"
        at_poll = self._commit.when == "before_processing"
        return {"enable.auto.commit": auto, "enable.auto.offset.store": auto and at_poll}

    def before_processing(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        """A batch is about to be processed. With kind auto, librdkafka stored its offsets when it handed it out."""
        if self._commit.kind != "auto":
            self._request(consumer, ends)

    def after_record(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        """A record is processed."""
        if self._commit.when == "after_record":
            self._request(consumer, ends)
        else:
            self._later(consumer, ends)

    def after_batch(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        """A batch, or as much of it as will be, is processed."""
        if self._commit.when != "after_batch":
            self._later(consumer, ends)
        elif ends:
            self._request(consumer, ends)

    def revoked(self, consumer: Consumer, partitions: Iterable[Partition]) -> None:
        """Partitions are about to be taken away: the last time that their offsets may be committed."""
        due = {p: end for p in partitions if (end := self._due.pop(p, None)) is not None}
        if self._commit.on_revoke and due:
            self._request(consumer, due, kind="sync")

    def forget(self, partitions: Iterable[Partition]) -> None:
        """What was processed of these is not to be committed any more: they are lost, or are read from elsewhere."""
        for partition in partitions:
            self._due.pop(partition, None)

    def _later(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        if self._commit.when in ("periodic", "never") and (self._commit.every_s or self._commit.on_revoke):
            self._due |= ends
        if self._commit.every_s and self._due and time.monotonic() >= self._next:
            due, self._due = self._due, {}
            self._next = time.monotonic() + self._commit.every_s
            self._request(consumer, due)

    def _request(self, consumer: Consumer, ends: Mapping[Partition, int], kind: str = "") -> None:
        kind = kind or self._commit.kind
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        requests = [_Request(now_us(), self._numbers.get((o.topic, o.partition))) for o in offsets]
        try:
            if kind == "auto":
                consumer.store_offsets(offsets=offsets)
            elif kind == "async":
                for o, request in zip(offsets, requests, strict=True):
                    self._pending[o.topic, o.partition, o.offset].append(request)
                consumer.commit(offsets=offsets, asynchronous=True)
            else:
                answers = consumer.commit(offsets=offsets, asynchronous=False)
                asked = dict(zip(ends, requests, strict=True))
                self._write("sync", [(o, None, asked[o.topic, o.partition]) for o in answers])
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if kind == "auto":
                log(f"offsets not stored: {error.name()}: {error.str()}")
                return
            for o in offsets:
                self._take(o)
            self._write(kind, [(o, error, r) for o, r in zip(offsets, requests, strict=True)])

    def on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """librdkafka's answer to an asynchronous or automatic commit."""
        if error is not None and error.code() in NOT_A_COMMIT:
            return
        kind = "auto" if self._commit.kind == "auto" else "async"
        self._write(kind, [(o, error, self._take(o)) for o in partitions if o.offset >= 0])

    def _take(self, o: TopicPartition) -> _Request | None:
        place = o.topic, o.partition, o.offset
        requests = self._pending.get(place)
        if not requests:
            return None
        first = requests.popleft()
        if not requests:
            del self._pending[place]
        return first

    def close(self) -> None:
        """Write what was never answered; nothing is answered any more."""
        rows = [
            self._row("async", TopicPartition(*place), "unknown", "no answer before the end", request)
            for place, requests in self._pending.items()
            for request in requests
        ]
        self._writer.append_rows(rows)
        self._pending.clear()

    def _write(self, kind: str, answers: Iterable[tuple[TopicPartition, KafkaError | None, _Request | None]]) -> None:
        """Write the answers for some partitions: the partition's own error counts, or else that of the whole commit."""
        rows = []
        for o, error, request in answers:
            took_s = None if request is None else (now_us() - request.at_us) / 1e6
            error = o.error or error
            outcome = commit_outcome(error, took_s, self._backoff_s)
            rows.append(self._row(kind, o, outcome, error and error.name(), request))
        self._writer.append_rows(rows)

    def _row(
        self, kind: str, o: TopicPartition, outcome: str, error: str | None, request: _Request | None
    ) -> dict[str, object]:
        at_us = now_us()
        if request is None:  # an automatic commit: nobody here asked for it
            request = _Request(at_us, self._numbers.get((o.topic, o.partition)))
        return {
            **self._who,
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

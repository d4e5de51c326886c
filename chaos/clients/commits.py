"""Offset commits, each with its outcome as a row per partition."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from chaos.clients.lifecycle import log
from chaos.clients.outcomes import NOT_A_COMMIT, commit_outcome
from chaos.clients.protocol import CommitSpec, Config, Partition
from chaos.events import now_us
from chaos.ledger.writer import TableWriter

BACKOFF_MS, MOST_BACKOFF_MS = 100, 1000
"""librdkafka's defaults."""


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
        self._pending: dict[tuple[str, int, int], deque[int]] = defaultdict(deque)

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

    def after_batch(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        """A batch, or as much of it as will be, is processed."""
        if self._commit.when == "after_batch" and ends:
            self._request(consumer, ends)

    def _request(self, consumer: Consumer, ends: Mapping[Partition, int]) -> None:
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        requested_us = now_us()
        try:
            if self._commit.kind == "auto":
                consumer.store_offsets(offsets=offsets)
            elif self._commit.kind == "async":
                for o in offsets:
                    self._pending[o.topic, o.partition, o.offset].append(requested_us)
                consumer.commit(offsets=offsets, asynchronous=True)
            else:
                self._write("sync", consumer.commit(offsets=offsets, asynchronous=False), None, requested_us)
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if self._commit.kind == "auto":
                log(f"offsets not stored: {error.name()}: {error.str()}")
                return
            for o in offsets:
                self._take(o)
            self._write(self._commit.kind, offsets, error, requested_us)

    def on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """librdkafka's answer to an asynchronous or automatic commit."""
        if error is not None and error.code() in NOT_A_COMMIT:
            return
        for o in partitions:
            if o.offset >= 0:
                kind = "auto" if self._commit.kind == "auto" else "async"
                self._write(kind, [o], error, self._take(o))

    def _take(self, o: TopicPartition) -> int | None:
        times = self._pending.get((o.topic, o.partition, o.offset))
        return times.popleft() if times else None

    def close(self) -> None:
        """Write what was never answered; nothing is answered any more."""
        for (topic, partition, offset), times in self._pending.items():
            for requested_us in times:
                o = TopicPartition(topic, partition, offset)
                self._rows([(o, "unknown", "no answer before the end")], "async", requested_us)
        self._pending.clear()

    def _write(
        self, kind: str, offsets: Iterable[TopicPartition], error: KafkaError | None, requested_us: int | None
    ) -> None:
        took_s = None if requested_us is None else (now_us() - requested_us) / 1e6
        rows = []
        for o in offsets:
            its_error = o.error or error
            outcome = commit_outcome(its_error, took_s, self._backoff_s)
            rows.append((o, outcome, its_error and its_error.name()))
        self._rows(rows, kind, requested_us)

    def _rows(
        self, results: Iterable[tuple[TopicPartition, str, str | None]], kind: str, requested_us: int | None
    ) -> None:
        at_us = now_us()
        self._writer.append_rows(
            {
                **self._who,
                "assignment": self._numbers.get((o.topic, o.partition)),
                "topic": o.topic,
                "partition": o.partition,
                "offset": o.offset,
                "kind": kind,
                "outcome": outcome,
                "error": error,
                "requested_us": at_us if requested_us is None else requested_us,
                "completed_us": at_us,
            }
            for o, outcome, error in results
        )

"""The base of both kinds of consumers: poll, process, write and commit, in the order of the commit setting.

A record is processed when its delivery row is in the ledger. With a processing time, rows are written a few at a time
as that time passes, so a SIGKILL in the middle of a batch leaves exactly the rows of the processed records. A consumer
does not poll while it processes: one that exceeds max.poll.interval.ms is evicted as a real application is.

If there is no commit after each batch, the rows of several polls are written together: when there are many, when the
first row has waited for `WRITE_EVERY_US`, when there is nothing to poll, and before a rebalance.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from chaos.clients.assignments import AssignmentLog, ReaderKey, StartPosition
from chaos.clients.confluent.columns import Columns, consumed
from chaos.clients.confluent.commits import Committer
from chaos.clients.confluent.deliveries import DeliveryLog
from chaos.clients.confluent.library import Throttled, connection
from chaos.clients.confluent.outcomes import describe
from chaos.clients.confluent.positions import seek_targets
from chaos.clients.program import Channel, Lifecycle, log
from chaos.clients.protocol import AssignConsumerSpec, GroupConsumerSpec, Partition, partition_name
from chaos.errors import ClientError
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

IDLE_POLL_S = 0.1
ROWS_EVERY_S = 0.02
NAP_S = 0.05
WRITE_EVERY_US = 20_000
WRITE_ROWS = 4096

Spec = TypeVar("Spec", bound=GroupConsumerSpec | AssignConsumerSpec)


class Reader(Generic[Spec]):
    """One incarnation of a consumer, except for the way in which it gets its partitions."""

    def __init__(self, spec: Spec, channel: Channel, lifecycle: Lifecycle, group_id: str) -> None:
        self._spec, self._channel, self._lifecycle = spec, channel, lifecycle
        mode: Literal["subscribe", "assign"] = "subscribe" if isinstance(spec, GroupConsumerSpec) else "assign"
        key = ReaderKey(spec.client, spec.incarnation, spec.group, mode)
        self.assignments = AssignmentLog(TableWriter(spec.ledger, "assignments", spec.writer), key)
        self._deliveries = DeliveryLog(TableWriter(spec.ledger, "deliveries", spec.writer), key, spec.topics)
        commits = TableWriter(spec.ledger, "commits", spec.writer)
        self._committer = Committer(commits, key, spec.commit, spec.config, self.assignments.last_numbers)
        when, kind = spec.commit.when, spec.commit.kind
        self._gathers = when in ("never", "periodic") or (when == "after_batch" and kind == "auto")
        self._slow_s = 0.0
        self._sought: list[tuple[str, int | None, int]] = []
        self.throttled = Throttled("consumer")
        # the scenario's config wins, except over its own commit setting
        self.settings: dict[str, Any] = {
            **connection(spec),
            "group.id": group_id,
            "on_commit": self._committer.on_commit,
            "error_cb": self._on_error,
            "throttle_cb": self.throttled,
            **spec.config,
            **self._committer.settings(),
        }
        self.consumer = Consumer(self.settings)

    def _on_error(self, error: KafkaError) -> None:
        log(f"{error.name()}: {error.str()}")

    def read(self) -> None:
        """Poll and process until the order to stop. Raises `ClientError` if the consumer cannot continue."""
        while not self._channel.stopping:
            # the records that are there, or the next record when it arrives: never wait for a full batch
            batch = self.consumer.consume(self._spec.max_poll_records, 0.0)
            if not batch:
                self.write_all()
                batch = self.consumer.consume(1, IDLE_POLL_S)
            polled_us = now_us()
            if batch:
                self._process(batch, polled_us)
            self._apply_speed()
            self._apply_seeks()
            self.between_polls()
            if self._channel.progress_due():
                self.progress()
        self.settle()

    def settle(self) -> None:
        """Finish the polled records, before partitions are taken away or read from another position."""
        self.write_all()

    def _apply_seeks(self) -> None:
        while self._channel.seeks and self.assignments.numbers:
            order = self._channel.seeks.popleft()
            self.settle()
            try:
                targets = seek_targets(order, list(self.assignments.numbers), self.consumer)
                before = dict(self.assignments.positions)
                for partition, offset in targets.items():
                    self.consumer.seek(TopicPartition(*partition, offset))
            except KafkaException as e:
                self._lifecycle.error(f"seek failed: {e}")
                continue
            self._committer.forget(targets)
            self.assignments.begin("seek", {p: StartPosition(offset, "seek") for p, offset in targets.items()})
            self._sought += [(partition_name(p), before.get(p), offset) for p, offset in targets.items()]
            self.progress()

    def write_all(self) -> None:
        """Write the rows that wait, then commit their offsets if the setting says so."""
        self._committer.after_batch(self.consumer, self._write())

    def _write(self) -> dict[Partition, int]:
        ends = self._deliveries.write(self.assignments.numbers)
        self.assignments.processed(ends)
        return ends

    def look_for_starts(self, batch: Sequence[Message]) -> None:
        """Record the starts that the library chose and that a batch shows."""

    def between_polls(self) -> None:
        """Run after each poll."""

    def close(self) -> None:
        """Close the consumer, write the last rows and send the last progress."""
        self.consumer.close()
        self._committer.close()
        self.progress()

    def progress(self) -> None:
        """Send a progress event."""
        more: dict[str, Any] = {"sought": self._sought} if self._sought else {}
        if sides := self.throttled.progress():
            more["throttled"] = sides
        self._channel.progress(delivered=self._deliveries.delivered, **self.assignments.progress(), **more)

    def _columns(self, batch: Sequence[Message]) -> Columns | None:
        """Return the columns of a batch without its errors, which are reported; None if no record is left."""
        self.look_for_starts(batch)
        records = consumed(batch, self._deliveries.needs_topics)
        if records is not None:
            return records
        self.write_all()
        for message in batch:
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                continue
            text = describe(error)
            if error.fatal() or error.code() == KafkaError._FATAL:  # a poll returns _FATAL without the fatal flag
                raise ClientError(text)
            self._lifecycle.error(text)
        batch = [m for m in batch if m.error() is None]
        return consumed(batch, self._deliveries.needs_topics) if batch else None

    def _process(self, batch: Sequence[Message], polled_us: int) -> None:
        records = self._columns(batch)
        if records is None:
            return
        if self._spec.commit.when == "before_processing":
            self._committer.before_processing(self.consumer, self._deliveries.next_offsets(records))
        if self._gathers and not self._per_record_s():
            self._deliveries.add(records, polled_us)
            if self._deliveries.waiting >= WRITE_ROWS or polled_us - self._deliveries.waiting_since_us > WRITE_EVERY_US:
                self.write_all()
            return
        self.write_all()
        done: dict[Partition, int] = {}
        start = 0
        while start < len(records):
            group = records.cut(start, self._group_size(len(records)))
            if not self._work(len(group)):
                break
            self._deliveries.add(group, polled_us)
            ends = self._write()
            self._committer.after_record(self.consumer, ends)
            done |= ends
            start += len(group)
        self._committer.after_batch(self.consumer, done)

    def _per_record_s(self) -> float:
        return self._spec.per_record_s + self._channel.per_record_s

    def _group_size(self, batch: int) -> int:
        if self._spec.commit.when == "after_record":
            return 1
        per_record_s = self._per_record_s()
        return max(1, int(ROWS_EVERY_S / per_record_s)) if per_record_s else batch

    def _work(self, records: int) -> bool:
        """Let the processing time of records pass. Returns False if the order to stop arrives first."""
        began = time.monotonic()
        while (left := began + records * self._per_record_s() - time.monotonic()) > 0:
            time.sleep(min(left, NAP_S))
            if self._channel.stopping:
                return False
            self._idle()
        return not self._channel.orphaned

    def _idle(self) -> None:
        self._apply_speed()
        if self._channel.progress_due():
            self.progress()

    def _apply_speed(self) -> None:
        ordered = self._channel.per_record_s
        if ordered != self._slow_s:
            self._slow_s = ordered
            self._lifecycle.event("slowed" if ordered else "resumed", per_record_s=ordered)

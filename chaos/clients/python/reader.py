"""The base of both kinds of consumers: poll, process, write and commit, in the order of the commit setting.

A record is processed when its delivery row is in the ledger. With a processing time, rows are written a few at a time
as that time passes, so a SIGKILL in the middle of a batch leaves exactly the rows of the processed records. A consumer
does not poll while it processes: one that exceeds max.poll.interval.ms is evicted as a real application is.

If there is no commit after each batch, the rows of several polls are written together: when there are many, when the
first row has waited for `WRITE_EVERY_US`, when there is nothing to poll, and before a rebalance.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from chaos.clients.protocol import AssignConsumerSpec, GroupConsumerSpec, Partition, partition_name, partition_of
from chaos.clients.python.assignments import AssignmentLog, ReaderKey, StartPosition
from chaos.clients.python.committer import Committer
from chaos.clients.python.library import Library
from chaos.clients.python.program import Channel, Lifecycle, log
from chaos.clients.python.rows import Columns, DeliveryLog
from chaos.clients.python.values import Origins
from chaos.errors import ClientError
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

ERROR_PAUSE_S = 0.1
ROWS_EVERY_S = 0.02
NAP_S = 0.05
WRITE_EVERY_US = 20_000
WRITE_ROWS = 4096

Spec = TypeVar("Spec", bound=GroupConsumerSpec | AssignConsumerSpec)


class Reader(Generic[Spec]):
    """One incarnation of a consumer, except for the way in which it gets its partitions."""

    def __init__(self, library: Library, spec: Spec, channel: Channel, lifecycle: Lifecycle) -> None:
        self._library = library
        self._spec, self._channel, self._lifecycle = spec, channel, lifecycle
        mode: Literal["subscribe", "assign"] = "subscribe" if isinstance(spec, GroupConsumerSpec) else "assign"
        key = ReaderKey(spec.client, spec.incarnation, spec.group, mode)
        self.assignments = AssignmentLog(TableWriter(spec.ledger, "assignments", spec.writer), key)
        self._deliveries = DeliveryLog(TableWriter(spec.ledger, "deliveries", spec.writer), key, spec.topics)
        commits = TableWriter(spec.ledger, "commits", spec.writer)
        self._committer = Committer(commits, key, spec.commit, spec.config, self.assignments.last_numbers, library)
        when, kind = spec.commit.when, spec.commit.kind
        commits_none = when in ("never", "periodic") or (when == "after_batch" and kind == "auto")
        self._gathers = library.gathers and commits_none
        self._slow_s = 0.0
        self._resumed = 0
        self._sought: list[tuple[str, int | None, int]] = []
        self.consumer = library.consumer(spec, self._committer.unasked, self._on_error)
        self.consumer.origins = Origins(spec.run_token, spec.identities)

    def _on_error(self, error: Exception) -> None:
        """Log an error that concerns no single request."""
        log(self._library.describe(error))

    def _poll(self) -> Sequence[Any]:
        """Return the records that are there; none if there are none for a while, or after an error that passes."""
        self._resume()
        self._committer.serve()
        if not self._gathers:
            self.write_all()
        if self._committer.unusable is not None:
            raise ClientError(self._library.describe(self._committer.unusable))
        try:
            batch = self.consumer.poll(self._spec.max_poll_records, self.write_all)
        except self._library.Error as e:
            if not self._library.passes(e):
                raise ClientError(self._library.describe(e)) from None
            self._lifecycle.error(self._library.describe(e))
            time.sleep(ERROR_PAUSE_S)
            return []
        self._committer.serve()
        return batch

    def _resume(self) -> None:
        """Obey the orders to resume all partitions."""
        while self._resumed < self._channel.resumes and self.assignments.numbers:
            self.settle()
            self.consumer.resume(self.assignments.numbers)
            self._resumed += 1

    def _columns(self, batch: Sequence[Any]) -> Columns | None:
        """Return the columns of a batch without its errors, which are reported; None if no record is left."""
        records = self.consumer.columns(batch, self._deliveries.needs_topics)
        if records is not None:
            return records
        self.write_all()
        batch, errors = self.consumer.without_errors(batch)
        for error in errors:
            if self._library.fatal(error):
                raise ClientError(self._library.describe(error))
            self._lifecycle.error(self._library.describe(error))
        return self.consumer.columns(batch, self._deliveries.needs_topics) if batch else None

    def _seek(self, order: dict[str, Any]) -> Mapping[Partition, int]:
        """Obey an order to seek. Returns the target of each partition. Raises an error of the library."""
        targets = self._targets(order)
        for partition, offset in targets.items():
            self.consumer.seek(partition, offset)
        return targets

    def _targets(self, order: dict[str, Any]) -> dict[Partition, int]:
        """Return the target offset of each partition held that an order to seek means."""
        held = list(self.assignments.numbers)
        if "offsets" in order:
            offsets = {partition_of(name): int(offset) for name, offset in order["offsets"].items()}
            return {p: offsets[p] for p in held if p in offsets}
        return self._offsets_at(held, int((time.time() - float(order["ago_s"])) * 1000))

    def _offsets_at(self, partitions: Collection[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """Return the first offset at or after a time, or the high watermark without one."""
        found = self.consumer.offsets_at(partitions, timestamp_ms)
        return {p: self.consumer.watermarks(p)[1] if o is None else o for p, o in found.items()}

    def read(self) -> None:
        """Poll and process until the order to stop. Raises `ClientError` if the consumer cannot continue."""
        while not self._channel.stopping:
            batch = self._poll()
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
        if self._deliveries.waiting:  # else the library may call this where no request may block
            self.write_all()

    def _apply_seeks(self) -> None:
        while self._channel.seeks and self.assignments.numbers:
            order = self._channel.seeks.popleft()
            self.settle()
            before = dict(self.assignments.positions)
            try:
                targets = self._seek(order)
            except self._library.Error as e:
                self._lifecycle.error(f"seek failed: {self._library.describe(e)}")
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

    def between_polls(self) -> None:
        """Run after each poll."""

    def close(self) -> None:
        """Close the consumer, write the last rows and send the last progress."""
        try:
            self.consumer.close()
        except self._library.Error as e:
            self._lifecycle.error(f"close: {self._library.describe(e)}")
        self._given_up_at_close()
        self._committer.close()
        self.progress()

    def _given_up_at_close(self) -> None:
        """Record what the library gave up without a call."""

    def progress(self) -> None:
        """Send a progress event."""
        throttled = self.consumer.throttled()
        some: dict[str, Any] = {"sought": self._sought, "resumed": self._resumed, "throttled": throttled}
        more = {name: value for name, value in some.items() if value}
        self._channel.progress(delivered=self._deliveries.delivered, **self.assignments.progress(), **more)

    def _process(self, batch: Any, polled_us: int) -> None:
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
            self._idle()
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

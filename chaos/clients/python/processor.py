"""The processor, for libraries with `starts` and `send_offsets`.

It reads as a group member, transforms, and writes one record for each record that it reads, with the coordinates of
that record in the header `aftershock-input`. The records written and the offsets read are in one transaction
(`send_offsets_to_transaction`, KIP-98), so a read_committed consumer sees both or none.
After an abort it seeks to the committed offsets of the group and records the seek. Its rows of `commits` have the kind
transaction, and the outcome of the transaction that contains the offsets.

A transaction ends when it has its number of records, when nothing arrives for `IDLE_S`, and before partitions are given
up. The position in the progress event advances only when the transaction is committed.

With `plain` instead of transactions, it commits the offsets of each batch after its outputs are acknowledged, or before
it writes them, as applications without transactions do (at least once, at most once).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Literal

from chaos.clients.protocol import (
    ClientSpec,
    CommitSpec,
    GroupConsumerSpec,
    Outcome,
    Partition,
    PlainSpec,
    ProcessorSpec,
)
from chaos.clients.python.group import GroupConsumer
from chaos.clients.python.library import Library, RecordHeaders
from chaos.clients.python.load import TICK_S
from chaos.clients.python.program import Channel, Lifecycle, log
from chaos.clients.python.rows import Columns
from chaos.clients.python.sender import End, Sender
from chaos.ledger.record import INPUT_HEADER, Input, encode_input
from chaos.run.events import now_us

IDLE_S = 0.1
"""Time without a record after which a transaction ends before it is full."""
COMMIT_OUTCOMES: dict[End, Outcome] = {"committed": "ok", "aborted": "fail", "unknown": "unknown"}
"""Outcome of the offset commits in a transaction, by the end of the transaction."""


class Source(GroupConsumer):
    """The reading side of one incarnation of a processor: a group member that commits only when it is asked to.

    before_release: called before partitions are given up, with whether the other partitions stay assigned.
    read_ends: offset after the last record read of each partition, since the last end of a transaction.
    """

    def __init__(
        self,
        library: Library,
        spec: ProcessorSpec,
        channel: Channel,
        lifecycle: Lifecycle,
        on_error: Callable[[Exception], None],
        before_release: Callable[[bool], None],
    ) -> None:
        self._report, self._before_release = on_error, before_release
        self.read_ends: dict[Partition, int] = {}
        shared = {name: getattr(spec, name) for name in ClientSpec.model_fields if name != "program"}
        never = CommitSpec(when="never", kind="sync")
        reader = {
            **shared,
            "group": spec.group,
            "topics": spec.topics,
            "assign_by": spec.assign_by,
            "config": spec.consumer_config,
            "commit": never,
            "identities": spec.identities,
        }
        super().__init__(library, GroupConsumerSpec.model_validate(reader), channel, lifecycle)

    def _on_error(self, error: Exception) -> None:
        self._report(error)

    def poll(self, limit: int) -> Columns | None:
        """Return up to `limit` records that are there, or the next record if it arrives within `TICK_S`."""
        batch = self.consumer.poll(limit, lambda: None, TICK_S)
        if self._unlocated:
            self.look_for_starts(batch)
        if not batch:
            return None
        if (records := self.consumer.columns(batch, self._deliveries.needs_topics)) is not None:
            return records
        batch, errors = self.consumer.without_errors(batch)
        for error in errors:
            self._on_error(error)
        return self.consumer.columns(batch, self._deliveries.needs_topics) if batch else None

    def deliver(self, records: Columns, polled_us: int) -> None:
        """Write the delivery rows of records."""
        self._deliveries.add(records, polled_us)
        self.read_ends |= self._deliveries.write(self.assignments.numbers)

    def inputs(self, records: Columns) -> list[Input]:
        """Return topic, partition and offset of each record."""
        topics = repeat(self._spec.topics[0]) if records.topics is None else records.topics
        return list(zip(topics, records.partitions.tolist(), records.offsets.tolist(), strict=False))

    def transaction_ended(self, end: End, requested_us: int | None) -> None:
        """Record the end of a transaction. `requested_us`: when its offsets were added; None if they were not."""
        if requested_us is not None:
            error = None if end == "committed" else f"the transaction's end: {end}"
            self._committer.transaction_ended(self.read_ends, COMMIT_OUTCOMES[end], error, requested_us)
        if end == "committed":
            self.assignments.processed(self.read_ends)
        self.read_ends = {}

    def commit(self) -> bool:
        """Commit the offsets after the last records read. Returns whether all of them were committed."""
        return self._committer.at_once(self.consumer, self.read_ends)

    def processed(self) -> None:
        """Advance the position of the progress event: the last records read have their outputs and are committed."""
        self.assignments.processed(self.read_ends)
        self.read_ends = {}

    def rewind(self) -> bool:
        """Seek to the committed offsets, so that the records of an aborted transaction are read again.

        Returns False if that failed and has to be tried again.
        """
        starts = self.consumer.starts(list(self.assignments.numbers))
        offsets = {p: start.offset for p, start in starts.items() if start.offset is not None}
        if len(offsets) < len(starts):
            return False
        try:
            for partition, offset in offsets.items():
                self.consumer.seek(partition, offset)
        except self._library.Error as e:
            log(f"seek failed, trying again: {self._library.describe(e)}")
            return False
        self.assignments.begin("seek", starts)
        return True

    def _give_up(self, event: Literal["revoked", "lost"], partitions: Collection[Partition]) -> None:
        self._before_release(event == "revoked" and self.consumer.incremental)
        super()._give_up(event, partitions)

    def progress(self) -> None:
        """Send nothing: the processor sends the progress of both sides."""

    def reading(self) -> dict[str, Any]:
        """Return the fields of the progress event about reading."""
        return {"delivered": self._deliveries.delivered, **self.assignments.progress()}

    def leave(self) -> None:
        """Leave the group."""
        self.consumer.close()


class Processor(Sender[ProcessorSpec]):
    """One incarnation of a processor."""

    def __init__(self, library: Library, spec: ProcessorSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(library, spec, channel, lifecycle)
        self._source = Source(library, spec, channel, lifecycle, self._on_error, self._end)
        self._records = 0
        self._last_read_s = 0.0
        self._offsets_sent_us: int | None = None

    def run(self) -> bool:
        """Read, transform and write until the order to stop. Returns whether every record has its row."""
        self._init_transactions()
        self._source.subscribe()
        while not (self._channel.stopping or self._fatal):
            self._step()
        self._end(keeps_partitions=False)
        self._source.leave()
        return self._finish()

    def _step(self) -> None:
        """Process the records that are there, and end the transaction if it is due."""
        if self._spec.plain:
            self._step_plainly(self._spec.plain)
            return
        assert self._spec.transactions is not None  # one of the two is set
        batch = self._source.poll(self._spec.transactions.records - self._records)
        if batch is not None:
            polled_us = now_us()
            if not self._open:
                self._begin_transaction()
            self._last_read_s = time.monotonic()
            self._source.deliver(batch, polled_us)
            self._records += len(batch)
            self._write(batch)
        self._serve()
        full = self._records >= self._spec.transactions.records
        idle = time.monotonic() - self._last_read_s > IDLE_S
        if full or (self._open and idle) or self._must_abort():
            self._end()

    def _step_plainly(self, plain: PlainSpec) -> None:
        """Process the records that are there and commit their offsets, without a transaction."""
        batch = self._source.poll(plain.records)
        if batch is None:
            self._serve()
            return
        self._source.deliver(batch, now_us())
        first: Callable[[], bool] = self._source.commit
        last: Callable[[], bool] = partial(self._write_all, batch)
        if plain.commit == "after_output":
            first, last = last, first
        done = first()
        if done:
            self._hold(plain.hold_s)
            done = last() or plain.commit == "before_output"  # outputs that fail then are not written again
        if done:
            self._source.processed()
        else:
            self._rewind()

    def _write_all(self, batch: Columns) -> bool:
        """Write one record for each record of a batch. Returns whether all are acknowledged."""
        failures_before = self._log.failed + self._log.unknown
        self._write(batch)
        self._wait_for_reports()
        self._log.write(now=True)
        return not (self._fatal or self._kafka.waiting() or self._log.failed + self._log.unknown > failures_before)

    def _rewind(self) -> None:
        """Read the partitions that stay assigned from their committed offsets again."""
        self._source.read_ends = {}
        while not (self._source.rewind() or self._giving_up()):
            self._serve(0.1)

    def _hold(self, time_s: float) -> None:
        """Wait between output and commit, or until the order to stop."""
        until = time.monotonic() + time_s
        while time.monotonic() < until and not (self._channel.stopping or self._fatal):
            self._serve(TICK_S)

    def _write(self, batch: Columns) -> None:
        """Write one record for each record of a batch, with the next seqs."""
        end = self._next + len(batch)
        self._log.inputs |= dict(enumerate(self._source.inputs(batch), self._next))
        while self._next < end and not self._fatal and not self._must_abort():
            sent = self._send(end - self._next)
            self._serve(0 if sent else TICK_S)  # nothing is sent if the local queue is full

    def _headers(self, first: int, values: list[Any], keys: Sequence[bytes] | None) -> Sequence[RecordHeaders] | None:
        """Return the header with the input of each record."""
        seqs = range(first, first + len(values))
        return [[(INPUT_HEADER, encode_input(self._log.inputs[seq]))] for seq in seqs]

    def _end(self, keeps_partitions: bool = True) -> None:
        """End the open transaction with its offsets; after an abort, rewind the partitions that stay assigned."""
        if not self._open:
            return
        self._offsets_sent_us = None
        assert self._spec.transactions is not None  # a transaction is open
        end = self._end_transaction(self._spec.transactions, self._send_offsets)
        self._source.transaction_ended(end, self._offsets_sent_us)
        self._records = 0
        if end == "aborted" and keeps_partitions:
            self._rewind()

    def _send_offsets(self) -> bool:
        """Add the offsets read to the transaction. Returns False if it must be aborted."""
        requested_us = now_us()
        while True:
            try:
                self._kafka.send_offsets(self._source.read_ends, self._source.consumer)
                self._offsets_sent_us = requested_us
                return True
            except self._library.Error as e:
                log(f"offsets not sent: {self._library.describe(e)}")
                if self._library.after_end(e) != "again" or self._giving_up():
                    return False

    def _more_progress(self) -> dict[str, Any]:
        return self._source.reading()

    def _throttled(self) -> dict[str, list[int]]:
        return {**super()._throttled(), **self._source.consumer.throttled()}

    def _giving_up(self) -> bool:
        if self._fatal:  # limits the wait, as the order to stop does
            self._limit()
        return super()._giving_up()

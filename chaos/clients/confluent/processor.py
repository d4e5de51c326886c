"""The processor: `python -m chaos.clients.confluent.processor SPEC`.

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

import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count, repeat
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from chaos.clients.committer import Outcome
from chaos.clients.confluent.columns import consumed
from chaos.clients.confluent.group import GroupConsumer
from chaos.clients.confluent.library import VERSIONS
from chaos.clients.confluent.positions import start_positions
from chaos.clients.confluent.sender import CALL_S, Sender, error_of
from chaos.clients.pacer import TICK_S
from chaos.clients.program import Channel, Lifecycle, log, run_clients
from chaos.clients.protocol import ClientSpec, CommitSpec, GroupConsumerSpec, Partition, PlainSpec, ProcessorSpec
from chaos.clients.sender import End
from chaos.ledger.record import INPUT_HEADER, encode_input
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
        spec: ProcessorSpec,
        channel: Channel,
        lifecycle: Lifecycle,
        on_error: Callable[[KafkaError], None],
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
        }
        super().__init__(GroupConsumerSpec.model_validate(reader), channel, lifecycle)

    def _on_error(self, error: KafkaError) -> None:
        self._report(error)

    def poll(self, limit: int) -> list[Message]:
        """Return up to `limit` records that are there, or the next record if it arrives within `TICK_S`."""
        batch = self.consumer.consume(limit, 0.0) or self.consumer.consume(1, TICK_S)
        self.look_for_starts(batch)
        for message in batch:
            if (error := message.error()) is not None and error.code() != KafkaError._PARTITION_EOF:
                self._on_error(error)
        return [m for m in batch if m.error() is None]

    def deliver(self, batch: list[Message], polled_us: int) -> int:
        """Write the delivery rows of a batch. Returns the number of rows."""
        records = consumed(batch, self._deliveries.needs_topics)
        if records is None:
            return 0
        self._deliveries.add(records, polled_us)
        self.read_ends |= self._deliveries.write(self.assignments.numbers)
        return len(records)

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
        held = [TopicPartition(*p) for p in self.assignments.numbers]
        _, starts = start_positions(self.consumer, held, self._spec.config)
        if any(start.offset is None for start in starts.values()):
            return False
        try:
            for partition, start in starts.items():
                self.consumer.seek(TopicPartition(*partition, start.offset))
        except KafkaException as e:
            log(f"seek failed, trying again: {e}")
            return False
        self.assignments.begin("seek", starts)
        return True

    def _give_up(self, event: Literal["revoked", "lost"], partitions: list[Partition]) -> None:
        self._before_release(event == "revoked" and self._incremental)
        self.assignments.end(event, partitions)

    def progress(self) -> None:
        """Send nothing: the processor sends the progress of both sides."""

    def reading(self) -> dict[str, Any]:
        """Return the fields of the progress event about reading."""
        return {"delivered": self._deliveries.delivered, **self.assignments.progress()}


class Processor(Sender[ProcessorSpec]):
    """One incarnation of a processor."""

    def __init__(self, spec: ProcessorSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(spec, channel, lifecycle)
        self._source = Source(spec, channel, lifecycle, self._on_error, self._end)
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
        self._source.consumer.close()
        return self._finish()

    def _step(self) -> None:
        """Process the records that are there, and end the transaction if it is due."""
        if self._spec.plain:
            self._step_plainly(self._spec.plain)
            return
        assert self._spec.transactions is not None  # one of the two is set
        batch = self._source.poll(self._spec.transactions.records - self._records)
        if batch:
            polled_us = now_us()
            if not self._open:
                self._begin_transaction()
            self._last_read_s = time.monotonic()
            self._records += self._source.deliver(batch, polled_us)
            self._write(batch)
        self._serve()
        full = self._records >= self._spec.transactions.records
        idle = time.monotonic() - self._last_read_s > IDLE_S
        if full or (self._open and idle) or self._must_abort():
            self._end()

    def _step_plainly(self, plain: PlainSpec) -> None:
        """Process the records that are there and commit their offsets, without a transaction."""
        batch = self._source.poll(plain.records)
        if not batch:
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

    def _write_all(self, batch: list[Message]) -> bool:
        """Write one record for each record of a batch. Returns whether all are acknowledged."""
        failures_before = self._log.failed + self._log.unknown
        self._write(batch)
        self._wait_for_reports()
        self._log.write(now=True)
        return not (self._fatal or len(self._kafka) or self._log.failed + self._log.unknown > failures_before)

    def _rewind(self) -> None:
        """Read from the committed offsets again, those of partitions that stay assigned."""
        self._source.read_ends = {}
        while not (self._source.rewind() or self._giving_up()):
            self._serve(0.1)

    def _hold(self, time_s: float) -> None:
        """Wait between output and commit, or until the order to stop."""
        until = time.monotonic() + time_s
        while time.monotonic() < until and not (self._channel.stopping or self._fatal):
            self._serve(TICK_S)

    def _write(self, batch: list[Message]) -> None:
        """Write one record for each record of a batch, with the next seqs."""
        end = self._next + len(batch)
        self._log.inputs |= {self._next + i: (m.topic(), m.partition(), m.offset()) for i, m in enumerate(batch)}
        while self._next < end and not self._fatal and not self._must_abort():
            sent = self._send(end - self._next)
            self._serve(0 if sent else TICK_S)  # nothing is sent if the local queue is full

    def _arguments(
        self, first: int, values: list[Any], keys: Iterable[bytes | None], timestamp_ms: int
    ) -> tuple[Iterable[Any], ...]:
        inputs = map(self._log.inputs.__getitem__, count(first))
        headers = ([(INPUT_HEADER, encode_input(source))] for source in inputs)
        return repeat(self._log.on_delivery), repeat(None), repeat(0), headers

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
        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in self._source.read_ends.items()]
        while True:
            try:
                group = self._source.consumer.consumer_group_metadata()
                self._kafka.send_offsets_to_transaction(offsets, group, CALL_S)
                self._offsets_sent_us = requested_us
                return True
            except KafkaException as e:
                error = error_of("offsets not sent", e)
                if not error.retriable() or error.txn_requires_abort() or self._giving_up():
                    return False

    def _more_progress(self) -> dict[str, Any]:
        return self._source.reading()

    def _throttling(self) -> dict[str, list[int]]:
        return {**super()._throttling(), **self._source.throttled.progress()}

    def _giving_up(self) -> bool:
        if self._fatal:  # limits the wait, as the order to stop does
            self._limit()
        return super()._giving_up()


def main(argv: list[str]) -> int:
    """Run a processor. Returns the exit code."""
    spec = ProcessorSpec.load(argv[1])
    return run_clients([spec], Processor, first_seq=spec.first_seq, **VERSIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

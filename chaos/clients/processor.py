"""The processor: `python -m chaos.clients.processor SPEC`. Its protocol is that of `chaos.clients`.

Read-process-write: it reads as a member of a group and writes one record for each one it reads. What it wrote and how
far it read are of one transaction (`send_offsets_to_transaction`), so a reader of committed records sees both or none.
After an abort it goes back to the group's committed offset, a seek in its ledger.

A transaction ends when it has its number of records, when there is nothing to read for a while, and before partitions
are given up. What it has processed moves its position only when the transaction is committed.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import repeat

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka import Producer as KafkaProducer

from chaos.clients.assignments import AssignmentLog, Beginning
from chaos.clients.channel import Channel
from chaos.clients.checkpoint import next_seq_of
from chaos.clients.columns import consumed
from chaos.clients.deliveries import DeliveryLog
from chaos.clients.group_consumer import ASK_TIMEOUT_S, membership
from chaos.clients.identity import ValueFactory
from chaos.clients.lifecycle import Lifecycle, log
from chaos.clients.outcomes import single_attempt
from chaos.clients.protocol import Partition, ProcessorSpec
from chaos.clients.reset import reset_position
from chaos.clients.sends import SendLog
from chaos.clients.transactions import CALL_S, End, Transactions
from chaos.events import now_us
from chaos.ledger.writer import TableWriter

TICK_S = 0.01
IDLE_S = 0.1
"""How long there has to be nothing to read for a transaction to end before it is full."""

COMMITS = {"committed": "ok", "aborted": "fail", "unknown": "unknown"}
"""The outcome of the offsets of a transaction, by how it ended."""


class Processor:
    """One incarnation of a processor."""

    def __init__(self, spec: ProcessorSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        self._spec, self._channel, self._lifecycle = spec, channel, lifecycle
        self._values = ValueFactory(spec.run_token, spec.client, spec.incarnation, spec.value_size)
        self._sends = SendLog(TableWriter(spec.ledger, "sends", spec.writer), spec, None, single_attempt(spec.config))
        writers = {t: TableWriter(spec.ledger, t, spec.writer) for t in ("assignments", "deliveries", "commits")}
        who = (spec.client, spec.incarnation, spec.group, "subscribe")
        self._assignments = AssignmentLog(writers["assignments"], *who)
        self._deliveries = DeliveryLog(writers["deliveries"], *who, spec.topics)
        self._commits = writers["commits"]
        on_error = {"error_cb": self._on_error}
        self._producer = KafkaProducer({**spec.connection(), **on_error, **spec.config, **spec.transactions.settings()})
        self._consumer = Consumer(
            {
                **spec.connection(),
                **on_error,
                **spec.consumer_config,
                "group.id": spec.group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
            }
        )
        strategy = str(spec.consumer_config.get("partition.assignment.strategy", ""))
        self._incremental = "cooperative" in strategy or spec.consumer_config.get("group.protocol") == "consumer"
        self._txns = Transactions(self._producer, spec, spec.transactions, self._giving_up)
        self._next = self._first = spec.first_seq
        self._read: dict[Partition, int] = {}
        """The next offset after what the open transaction has processed of each partition."""
        self._records = 0
        self._failures = 0
        self._last_read_s = 0.0
        self._fatal = False
        self._stop_by: float | None = None

    def run(self) -> int:
        """Read, transform and write until the order to stop; returns the exit code."""
        if self._txns.init() and self._spec.incarnation > 1:
            self._next = self._first = next_seq_of(self._spec.ledger, self._spec.client)
        self._consumer.subscribe(
            self._spec.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        while not (self._channel.stopping or self._fatal):
            self._step()
        self._end(going_on=False)
        self._consumer.close()
        return self._finish()

    def _step(self) -> None:
        """Process what there is, and end the transaction when it is time."""
        room = self._spec.transactions.records - self._records
        batch = self._consumer.consume(room, 0.0) or self._consumer.consume(1, TICK_S)
        if batch:
            self._process(self._without_errors(batch), now_us())
        self._serve()
        full = self._records >= self._spec.transactions.records
        idle = time.monotonic() - self._last_read_s > IDLE_S
        if full or (self._txns.open and idle) or self._must_abort():
            self._end()

    def _without_errors(self, batch: Sequence[Message]) -> list[Message]:
        for message in batch:
            if (error := message.error()) is not None and error.code() != KafkaError._PARTITION_EOF:
                self._on_error(error)
        return [m for m in batch if m.error() is None]

    def _process(self, batch: list[Message], polled_us: int) -> None:
        records = consumed(batch, self._deliveries.needs_topics) if batch else None
        if records is None:
            return
        if not self._txns.open:
            self._sends.txn = self._txns.begin()
            self._failures = self._sends.failed + self._sends.unknown
        self._last_read_s = time.monotonic()
        self._records += len(records)
        self._deliveries.add(records, polled_us)
        self._read |= self._deliveries.write(self._assignments.numbers)
        self._write(len(records))

    def _write(self, count: int) -> None:
        """One record for each that was read, with the next seqs."""
        end = self._next + count
        while self._next < end and not self._fatal and not self._must_abort():
            chunk = min(end - self._next, self._values.room(self._next))
            invoked_us = now_us()
            values = self._values.make(self._next, chunk, invoked_us)
            for value, topic in zip(values, repeat(self._spec.topic)):
                try:
                    self._producer.produce(topic, value, on_delivery=self._sends.on_delivery)
                except BufferError:  # the local queue is full: the same seq comes again
                    self._serve(TICK_S)
                    break
                except KafkaException as e:
                    self._sends.refused_at_once(self._next, invoked_us, e.args[0])
                    self._on_error(e.args[0])
                self._next += 1

    def _must_abort(self) -> bool:
        """Whether a record of the open transaction failed."""
        return self._txns.open and self._sends.failed + self._sends.unknown > self._failures

    def _end(self, *, going_on: bool = True) -> None:
        """End the open transaction, with what it read, and go back if it was aborted."""
        if not self._txns.open:
            return
        while len(self._producer) and not (self._fatal or self._giving_up()):
            self._serve(TICK_S)
        held_until = time.monotonic() + self._spec.transactions.hold_s
        while time.monotonic() < held_until and not (self._channel.stopping or self._must_abort()):
            self._serve(TICK_S)
        self._sends.write(now=True)
        requested_us = now_us()
        sent = not self._must_abort() and self._send_offsets()
        ended = self._txns.end(self._txns.wanted() if sent else "aborted")
        self._sends.served()
        self._sends.write(now=True)
        self._sends.txn = None
        if sent:
            self._write_commits(ended, requested_us)
        if ended == "committed":
            self._assignments.processed(self._read)
        self._read, self._records = {}, 0
        if self._txns.failed is not None:
            self._on_error(self._txns.failed)
            self._fatal = True
        elif ended != "committed" and going_on:
            self._go_back()

    def _send_offsets(self) -> bool:
        """Put the offsets into the transaction; False if it has to be aborted."""
        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in self._read.items()]
        while True:
            try:
                group = self._consumer.consumer_group_metadata()
                self._producer.send_offsets_to_transaction(offsets, group, CALL_S)
                return True
            except KafkaException as e:
                error: KafkaError = e.args[0]
                log(f"offsets not sent: {error.name()}: {error.str()}")
                if not error.retriable() or error.txn_requires_abort() or self._giving_up():
                    return False

    def _write_commits(self, ended: End, requested_us: int) -> None:
        at_us = now_us()
        self._commits.append_rows(
            {
                "consumer": self._spec.client,
                "incarnation": self._spec.incarnation,
                "group": self._spec.group,
                "mode": "subscribe",
                "assignment": self._assignments.last_numbers.get((topic, partition)),
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "kind": "transaction",
                "outcome": COMMITS[ended],
                "error": None if ended == "committed" else f"the transaction's end: {ended}",
                "requested_us": requested_us,
                "completed_us": at_us,
            }
            for (topic, partition), offset in self._read.items()
        )

    def _go_back(self) -> None:
        """Read on from the committed offsets: what the aborted transaction read was not processed."""
        held = [TopicPartition(*p) for p in self._assignments.numbers]
        while held and not self._giving_up():
            targets, beginnings = self._beginnings(held)
            try:
                if all(b.position is not None for b in beginnings.values()):
                    for target in targets:
                        self._consumer.seek(target)
                    self._assignments.sought(beginnings)
                    return
            except KafkaException as e:
                log(f"seeking again: {e}")
            self._serve(0.1)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        member, generation = membership(consumer.consumer_group_metadata())
        self._assignments.member_id, self._assignments.generation = member, generation
        targets, beginnings = self._beginnings(partitions)
        (consumer.incremental_assign if self._incremental else consumer.assign)(targets)
        if beginnings:
            self._assignments.assigned(beginnings)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._end(going_on=self._incremental)
        self._assignments.ended("revoked", [(p.topic, p.partition) for p in partitions])

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._end(going_on=False)
        self._assignments.ended("lost", [(p.topic, p.partition) for p in partitions])

    def _beginnings(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[list[TopicPartition], Mapping[Partition, Beginning]]:
        """Where reading begins, as librdkafka takes it and as the ledger writes it."""
        beginnings = {(p.topic, p.partition): Beginning() for p in partitions}
        if not partitions:
            return [], beginnings
        try:
            answers = self._consumer.committed(list(partitions), timeout=ASK_TIMEOUT_S)
        except KafkaException as e:
            log(f"committed offsets unknown: {e}")
            return [TopicPartition(*p) for p in beginnings], beginnings
        for answer in answers:
            name = answer.topic, answer.partition
            if answer.error is None and answer.offset >= 0:
                beginnings[name] = Beginning(answer.offset, "committed")
            elif answer.error is None:
                position = reset_position(self._consumer, name, self._spec.consumer_config, ASK_TIMEOUT_S)
                beginnings[name] = Beginning() if position is None else Beginning(position, "reset")
        targets = [
            TopicPartition(*p) if b.position is None else TopicPartition(*p, b.position) for p, b in beginnings.items()
        ]
        return targets, beginnings

    def _on_error(self, error: KafkaError) -> None:
        log(f"{error.name()}: {error.str()}")
        if error.fatal() and not self._fatal:
            self._fatal = True
            self._lifecycle.error(f"{error.name()}: {error.str()}", fatal=True)

    def _serve(self, timeout_s: float = 0.0) -> None:
        self._producer.poll(timeout_s)
        self._sends.served()
        self._sends.write()
        if self._channel.progress_due():
            self._progress()

    def _progress(self) -> None:
        sends = self._sends
        self._channel.progress(
            delivered=self._deliveries.delivered,
            sent=self._next - self._first,
            acked=sends.acked,
            failed=sends.failed,
            unknown=sends.unknown,
            **self._assignments.told(),
        )

    def _giving_up(self) -> bool:
        """Whether the order to stop came so long ago that nothing is waited for any more."""
        if self._channel.orphaned:
            return True
        if (self._channel.stopping or self._fatal) and self._stop_by is None:
            self._stop_by = time.monotonic() + self._spec.stop_within_s
        return self._stop_by is not None and time.monotonic() > self._stop_by

    def _finish(self) -> int:
        if len(self._producer):
            self._producer.purge()
            self._producer.flush(1)
        self._sends.served()
        self._sends.write(now=True)
        self._progress()
        if missing := self._next - self._first - self._sends.rows:
            self._lifecycle.error(f"{missing} records have no delivery report", missing=missing)
            return 1
        if self._channel.orphaned or self._fatal:
            return 1
        self._lifecycle.event("stopped")
        return 0


def main(argv: list[str]) -> int:
    """Run a processor; returns the exit code."""
    spec = ProcessorSpec.load(argv[1])
    channel = Channel()
    writer = TableWriter(spec.ledger, "lifecycle", spec.writer)
    lifecycle = Lifecycle(writer, channel, spec.client, "producer", spec.incarnation)
    try:
        processor = Processor(spec, channel, lifecycle)
        lifecycle.event("started", first_seq=spec.first_seq)
        gc.disable()  # messages by the hundred thousand, none in a cycle
        return processor.run()
    except Exception as e:
        lifecycle.error(f"{type(e).__name__}: {e}")
        raise


if __name__ == "__main__":
    sys.exit(main(sys.argv))

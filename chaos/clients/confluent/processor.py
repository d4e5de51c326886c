"""The processor: `python -m chaos.clients.confluent.processor SPEC`. Its protocol is that of `chaos.clients`.

Read-process-write: it reads as a member of a group and writes one record for each one it reads. What it wrote and how
far it read are of one transaction (`send_offsets_to_transaction`), so a reader of committed records sees both or none.
After an abort it goes back to the group's committed offset, a seek in its ledger.

A transaction ends when it has its number of records, when there is nothing to read for a while, and before partitions
are given up. What it has processed moves its position only when the transaction is committed.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from chaos.clients.channel import Channel
from chaos.clients.checkpoint import next_seq_of
from chaos.clients.confluent.lifecycle import Lifecycle, log
from chaos.clients.confluent.sender import Sender, run_sender
from chaos.clients.confluent.source import TICK_S, Source
from chaos.clients.confluent.transactions import CALL_S, Transactions
from chaos.clients.protocol import ProcessorSpec
from chaos.ledger.record_columns import ValueFactory
from chaos.run.events import now_us

IDLE_S = 0.1
"""How long there has to be nothing to read for a transaction to end before it is full."""


class Processor(Sender):
    """One incarnation of a processor."""

    def __init__(self, spec: ProcessorSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(spec, channel, lifecycle)
        self._spec = spec
        self._values = ValueFactory(spec.run_token, spec.client, spec.incarnation, spec.value_size)
        self._source = Source(spec, self._on_error, self._end)
        self._txns = Transactions(self._kafka, spec, spec.transactions, self._giving_up)
        self._records = 0
        self._failures = 0
        self._last_read_s = 0.0

    def run(self) -> int:
        """Read, transform and write until the order to stop; returns the exit code."""
        if self._txns.init() and self._spec.incarnation > 1:
            self._next = self._first = next_seq_of(self._spec.ledger, self._spec.client)
        self._source.subscribe()
        while not (self._channel.stopping or self._fatal):
            self._step()
        self._end(going_on=False)
        self._source.consumer.close()
        return self._finish()

    def _step(self) -> None:
        """Process what there is, and end the transaction when it is time."""
        batch = self._source.poll(self._spec.transactions.records - self._records)
        if batch:
            polled_us = now_us()
            if not self._txns.open:
                self._log.txn = self._txns.begin()
                self._failures = self._log.failed + self._log.unknown
            self._last_read_s = time.monotonic()
            count = self._source.deliver(batch, polled_us)
            self._records += count
            self._write(count)
        self._serve()
        full = self._records >= self._spec.transactions.records
        idle = time.monotonic() - self._last_read_s > IDLE_S
        if full or (self._txns.open and idle) or self._must_abort():
            self._end()

    def _write(self, count: int) -> None:
        """One record for each that was read, with the next seqs."""
        end = self._next + count
        while self._next < end and not self._fatal and not self._must_abort():
            chunk = min(end - self._next, self._values.room(self._next))
            invoked_us = now_us()
            values = self._values.make(self._next, chunk, invoked_us)
            for value in values:
                try:
                    self._kafka.produce(self._spec.topic, value, on_delivery=self._log.on_delivery)
                except BufferError:  # the local queue is full: the same seq comes again
                    self._serve(TICK_S)
                    break
                except KafkaException as e:
                    self._log.refused_at_once(self._next, invoked_us, e.args[0])
                    self._on_error(e.args[0])
                self._next += 1

    def _must_abort(self) -> bool:
        """Whether a record of the open transaction failed."""
        return self._txns.open and self._log.failed + self._log.unknown > self._failures

    def _end(self, going_on: bool = True) -> None:
        """End the open transaction, with what it read, and go back if it was aborted and partitions are still held."""
        if not self._txns.open:
            return
        while len(self._kafka) and not (self._fatal or self._giving_up()):
            self._serve(TICK_S)
        held_until = time.monotonic() + self._spec.transactions.hold_s
        while time.monotonic() < held_until and not (self._channel.stopping or self._must_abort()):
            self._serve(TICK_S)
        self._log.write(now=True)
        requested_us = now_us()
        sent = not self._must_abort() and self._send_offsets()
        ended = self._txns.end(self._txns.wanted() if sent else "aborted")
        self._log.served()
        self._log.write(now=True)
        self._log.txn = None
        self._source.done(ended, requested_us if sent else None)
        self._records = 0
        if self._txns.failed is not None:
            self._on_error(self._txns.failed)
            self._fatal = True
        elif ended != "committed" and going_on:
            while not (self._source.go_back() or self._giving_up()):
                self._serve(0.1)

    def _send_offsets(self) -> bool:
        """Put the offsets into the transaction; False if it has to be aborted."""
        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in self._source.read.items()]
        while True:
            try:
                group = self._source.consumer.consumer_group_metadata()
                self._kafka.send_offsets_to_transaction(offsets, group, CALL_S)
                return True
            except KafkaException as e:
                error: KafkaError = e.args[0]
                log(f"offsets not sent: {error.name()}: {error.str()}")
                if not error.retriable() or error.txn_requires_abort() or self._giving_up():
                    return False

    def _progress(self) -> None:
        sends = self._log
        self._channel.progress(
            sent=self._next - self._first,
            acked=sends.acked,
            failed=sends.failed,
            unknown=sends.unknown,
            **self._source.told(),
        )

    def _giving_up(self) -> bool:
        if self._fatal:  # as good as the order to stop
            self._limit()
        return super()._giving_up()


def main(argv: list[str]) -> int:
    """Run a processor; returns the exit code."""
    return run_sender(ProcessorSpec.load(argv[1]), Processor)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""The processor: `python -m chaos.clients.confluent.processor SPEC`.

It reads as a group member, transforms, and writes one record for each record that it reads. The records written and the
offsets read are in one transaction (`send_offsets_to_transaction`), so a read_committed consumer sees both or none.
After an abort it seeks to the committed offsets of the group and records the seek.

A transaction ends when it has its number of records, when nothing arrives for `IDLE_S`, and before partitions are given
up. The position in the progress event advances only when the transaction is committed.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from chaos.clients.channel import Channel
from chaos.clients.confluent.lifecycle import Lifecycle, log
from chaos.clients.confluent.sender import TICK_S, Sender, run_sender
from chaos.clients.confluent.source import Source
from chaos.clients.confluent.transactions import CALL_S
from chaos.clients.protocol import ProcessorSpec
from chaos.run.events import now_us

IDLE_S = 0.1
"""Time without a record after which a transaction ends before it is full."""


class Processor(Sender[ProcessorSpec]):
    """One incarnation of a processor."""

    def __init__(self, spec: ProcessorSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(spec, channel, lifecycle)
        assert self._txns is not None  # a processor's spec always has transactions
        self._transactions = self._txns
        self._source = Source(spec, self._on_error, self._end)
        self._records = 0
        self._last_read_s = 0.0
        self._offsets_sent_us: int | None = None

    def run(self) -> int:
        """Read, transform and write until the order to stop. Returns the exit code."""
        self._init_transactions()
        self._source.subscribe()
        while not (self._channel.stopping or self._fatal):
            self._step()
        self._end(keeps_partitions=False)
        self._source.consumer.close()
        return self._finish()

    def _step(self) -> None:
        """Process the records that are there, and end the transaction if it is due."""
        batch = self._source.poll(self._spec.transactions.records - self._records)
        if batch:
            polled_us = now_us()
            if not self._transactions.open:
                self._begin_transaction(self._transactions)
            self._last_read_s = time.monotonic()
            count = self._source.deliver(batch, polled_us)
            self._records += count
            self._write(count)
        self._serve()
        full = self._records >= self._spec.transactions.records
        idle = time.monotonic() - self._last_read_s > IDLE_S
        if full or (self._transactions.open and idle) or self._must_abort():
            self._end()

    def _write(self, count: int) -> None:
        """Write `count` records, with the next seqs."""
        end = self._next + count
        while self._next < end and not self._fatal and not self._must_abort():
            chunk = min(end - self._next, self._values.room(self._next))
            invoked_us = now_us()
            values = self._values.make(self._next, chunk, invoked_us)
            for value in values:
                try:
                    self._kafka.produce(self._spec.topic, value, on_delivery=self._log.on_delivery)
                except BufferError:  # the local queue is full: the same seq is sent later
                    self._serve(TICK_S)
                    break
                except KafkaException as e:
                    self._log.refused_at_once(self._next, invoked_us, e.args[0])
                    self._on_error(e.args[0])
                self._next += 1

    def _end(self, keeps_partitions: bool = True) -> None:
        """End the open transaction with its offsets; after an abort, rewind the partitions that stay assigned."""
        if not self._transactions.open:
            return
        self._offsets_sent_us = None
        end = self._end_transaction(self._transactions, self._send_offsets)
        self._source.transaction_ended(end, self._offsets_sent_us)
        self._records = 0
        if self._transactions.failed is None and end != "committed" and keeps_partitions:
            while not (self._source.rewind() or self._giving_up()):
                self._serve(0.1)

    def _send_offsets(self) -> bool:
        """Add the offsets read to the transaction. Returns False if it must be aborted."""
        requested_us = now_us()
        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in self._source.read.items()]
        while True:
            try:
                group = self._source.consumer.consumer_group_metadata()
                self._kafka.send_offsets_to_transaction(offsets, group, CALL_S)
                self._offsets_sent_us = requested_us
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
            **self._source.progress(),
        )

    def _giving_up(self) -> bool:
        if self._fatal:  # limits the wait, as the order to stop does
            self._limit()
        return super()._giving_up()


def main(argv: list[str]) -> int:
    """Run a processor. Returns the exit code."""
    return run_sender(ProcessorSpec.load(argv[1]), Processor)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

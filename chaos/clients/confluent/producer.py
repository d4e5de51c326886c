"""The producer: `python -m chaos.clients.confluent.producer SPEC`.

It sends one seq after the other, at a steady rate or at full speed, and writes a row for each delivery report. The
records of one tick, or of one chunk at full speed, share one time stamp, which is less than about a millisecond off.

After the order to stop it waits for delivery reports, at most `stop_within_s`. Then it purges the remaining records:
librdkafka reports each of them, so they get rows, too. `stopped` is written only if every record has a row.

In transactions, it waits for the reports of all records of a transaction and writes their rows before it ends the
transaction. A later incarnation first initializes the transactional.id, which fences the earlier one, and only then
reads the last seq of the earlier one. An aborted transaction is not repeated.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from itertools import repeat
from operator import length_hint

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from chaos.clients.channel import Channel
from chaos.clients.confluent.lifecycle import Lifecycle
from chaos.clients.confluent.partitioners import partitioner
from chaos.clients.confluent.sender import TICK_S, Sender, run_sender
from chaos.clients.confluent.sends import Keys
from chaos.clients.confluent.transactions import Transactions
from chaos.clients.protocol import ProducerSpec
from chaos.run.events import now_us

CHUNK = 500
CATCH_UP_S = 0.25
"""Missed time that is caught up after a stall; the rest counts as time without load."""


class Pacer:
    """The number of records to send now at a steady rate."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._start = self._next_tick = time.monotonic()
        self._sent = 0

    def due(self) -> int:
        """Return the number of records to send now; 0 before the next tick."""
        now = time.monotonic()
        if now < self._next_tick:
            return 0
        self._next_tick = now + TICK_S
        due = int((now - self._start) * self._rate) - self._sent
        limit = max(1, int(self._rate * CATCH_UP_S))
        if due > limit:
            self._start += (due - limit) / self._rate
            due = limit
        return due

    def sent(self, count: int) -> None:
        """Count records that were sent."""
        self._sent += count


class Producer(Sender[ProducerSpec]):
    """One incarnation of a producer."""

    def __init__(self, spec: ProducerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(spec, channel, lifecycle, Keys(spec.keys, spec.seed) if spec.keys else None)
        self._partition = partitioner(spec.partitioner, spec.partitions)

    def run(self) -> int:
        """Send all records, then wait for the order to stop. Returns the exit code."""
        self._init_transactions()
        while self._spec.hold and not (self._channel.started or self._ending()):
            self._serve(TICK_S)
        pacer = Pacer(self._spec.rate) if self._spec.rate else None
        if self._txns:
            while self._next < self._spec.records and not self._ending():
                self._transaction(self._txns, pacer)
        else:
            self._send_until(self._spec.records, pacer)
        while not self._ending():
            self._serve(TICK_S if len(self._kafka) else 0.1)
        return self._finish()

    def _ending(self) -> bool:
        return self._channel.stopping or self._fatal

    def _send_until(self, end: int, pacer: Pacer | None) -> None:
        """Send the records up to the seq before `end`."""
        synchronous = self._spec.mode == "synchronous"
        while self._next < end and not self._ending() and not self._must_abort():
            due = min(pacer.due() if pacer else CHUNK, end - self._next)
            sent = self._send(1 if synchronous and due else due) if due else 0
            if pacer:
                pacer.sent(sent)
            if synchronous:
                self._wait_for_reports()
            else:
                # do not wait at full speed, unless the local queue is full
                self._serve(0 if pacer is None and sent == due else TICK_S)

    def _transaction(self, txns: Transactions, pacer: Pacer | None) -> None:
        """Send and end one transaction; it is smaller if the order to stop arrives."""
        self._begin_transaction(txns)
        self._send_until(min(self._next + txns.spec.records, self._spec.records), pacer)
        self._end_transaction(txns)

    def _send(self, due: int) -> int:
        """Send up to `due` records with one time stamp. Returns the number that librdkafka took or refused."""
        first = self._next
        count = min(due, CHUNK, self._spec.records - first, self._values.room(first))
        numbers = self._keys.of(np.arange(first, first + count)) if self._keys else None
        invoked_us = now_us()
        values = iter(self._values.make(first, count, invoked_us, numbers))
        keys = [self._keys.bytes[n] for n in numbers] if self._keys and numbers is not None else repeat(None)
        partitions = self._partition(first, count, numbers)
        topic, on_delivery = repeat(self._spec.topic), repeat(self._log.on_delivery)
        calls = map(self._kafka.produce, topic, values, keys, partitions, on_delivery)
        while True:
            try:
                deque(calls, maxlen=0)  # makes the calls without Python code for each record
                self._next = first + count
                break
            except BufferError:  # the local queue is full: nothing was sent, the seq is sent later with a new time
                seq = first + count - length_hint(values) - 1
                if self._spec.mode == "fire_and_forget":  # such an application ignores the error and loses the record
                    self._log.refused_at_once(seq, invoked_us, KafkaError(KafkaError._QUEUE_FULL))
                    continue
                self._next = seq
                break
            except KafkaException as e:
                self._log.refused_at_once(first + count - length_hint(values) - 1, invoked_us, e.args[0])
                self._on_error(e.args[0])
        return self._next - first

    def _progress(self) -> None:
        log, sent = self._log, self._next - self._first
        done = self._next >= self._spec.records and log.rows == sent and not (self._txns and self._txns.open)
        self._channel.progress(sent=sent, acked=log.acked, failed=log.failed, unknown=log.unknown, done=done)

    def _finish(self) -> int:
        self._limit()
        while len(self._kafka) and not self._giving_up():
            self._serve(TICK_S)
        return super()._finish()


def main(argv: list[str]) -> int:
    """Run a producer. Returns the exit code."""
    return run_sender(ProducerSpec.load(argv[1]), Producer)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

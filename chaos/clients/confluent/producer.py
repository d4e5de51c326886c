"""The producer: `python -m chaos.clients.confluent.producer SPEC`. Its protocol is that of `chaos.clients`.

It sends seq after seq, at a steady rate or as fast as it can, and writes a row for each when its delivery report is in.
The time of a call is stamped once for the records of one tick, or at full speed for a chunk of them: it is off by less
than the time of a chunk, about a millisecond.

After the order to stop it waits for outstanding answers, up to `stop_within_s`; then it purges what is still on its
way, which makes librdkafka report each such record, so that these too get their rows. `stopped` is written only if
every record has one.

With transactions, all records of one are waited for, and their rows written, before its end is asked for. A later
incarnation first takes over the transactional.id, which fences the one before, and only then looks where that one
stood. A transaction that had to be aborted is not repeated.
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
from chaos.clients.checkpoint import next_seq_of
from chaos.clients.confluent.lifecycle import Lifecycle
from chaos.clients.confluent.partitioners import chooser
from chaos.clients.confluent.sender import Sender, run_sender
from chaos.clients.confluent.sends import Keys
from chaos.clients.confluent.transactions import Transactions
from chaos.clients.protocol import ProducerSpec
from chaos.ledger.record_columns import ValueFactory
from chaos.run.events import now_us

TICK_S = 0.01
CHUNK = 500
CATCH_UP_S = 0.25
"""After a stall, this much of the missed time is caught up at once; the rest is time in which nothing was sent."""


class Pacer:
    """How many records are due now, at a steady rate."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._start = self._next_tick = time.monotonic()
        self._sent = 0

    def due(self) -> int:
        """Records to send now; none before the next tick."""
        now = time.monotonic()
        if now < self._next_tick:
            return 0
        self._next_tick = now + TICK_S
        due = int((now - self._start) * self._rate) - self._sent
        most = max(1, int(self._rate * CATCH_UP_S))
        if due > most:
            self._start += (due - most) / self._rate
            due = most
        return due

    def sent(self, count: int) -> None:
        """So many were sent."""
        self._sent += count


class Producer(Sender):
    """One incarnation of a producer."""

    def __init__(self, spec: ProducerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        self._spec = spec
        self._keys = Keys(spec.keys, spec.seed) if spec.keys else None
        key_bytes = self._keys.bytes if self._keys else ()
        self._values = ValueFactory(spec.run_token, spec.client, spec.incarnation, spec.value_size, key_bytes)
        super().__init__(spec, channel, lifecycle, self._keys)
        self._choose = chooser(spec.partitioner, spec.partitions)
        self._txns: Transactions | None = None
        if spec.transactions:
            self._txns = Transactions(self._kafka, spec, spec.transactions, self._giving_up)
        self._unanswered = 0

    def run(self) -> int:
        """Send everything, then wait for the order to stop; returns the exit code."""
        if self._txns and self._txns.init() and self._spec.incarnation > 1:
            # only now the life before can add nothing any more
            self._next = self._first = next_seq_of(self._spec.ledger, self._spec.client)
        while self._spec.hold and not (self._channel.started or self._channel.stopping or self._fatal):
            self._serve(TICK_S)
        pacer = Pacer(self._spec.rate) if self._spec.rate else None
        if self._txns:
            while self._next < self._spec.records and not self._channel.stopping and not self._fatal:
                self._transaction(self._txns, pacer)
        else:
            self._send_until(self._spec.records, pacer)
        while not self._channel.stopping and not self._fatal:
            self._serve(TICK_S if len(self._kafka) else 0.1)
        return self._finish()

    def _send_until(self, end: int, pacer: Pacer | None) -> None:
        """Send up to the seq before `end`."""
        synchronous = self._spec.mode == "synchronous"
        while self._next < end and not self._channel.stopping and not self._fatal and not self._must_abort():
            due = min(pacer.due() if pacer else CHUNK, end - self._next)
            sent = self._send(1 if synchronous and due else due) if due else 0
            if pacer:
                pacer.sent(sent)
            if synchronous:
                self._wait_for_answers()
            else:
                # at full speed answers are only picked up; else, or if the queue is full, wait for them
                self._serve(0 if pacer is None and sent == due else TICK_S)

    def _wait_for_answers(self) -> None:
        """Until every record that was sent has its report, or there is no more time."""
        while len(self._kafka) and not self._fatal and not self._giving_up():
            self._serve(TICK_S)

    def _transaction(self, txns: Transactions, pacer: Pacer | None) -> None:
        """One transaction from its beginning to its end; it is smaller if the order to stop comes before."""
        self._log.txn = txns.begin()
        self._unanswered = self._log.failed + self._log.unknown
        self._send_until(min(self._next + txns.how.records, self._spec.records), pacer)
        self._wait_for_answers()
        held_until = time.monotonic() + txns.how.hold_s
        while time.monotonic() < held_until and not (self._channel.stopping or self._fatal or self._must_abort()):
            self._serve(TICK_S)
        self._log.write(now=True)
        txns.end("aborted" if self._must_abort() else txns.wanted())
        self._log.served()  # what was purged with it
        self._log.write(now=True)
        self._log.txn = None
        if txns.failed is not None:
            self._on_error(txns.failed)
            self._fatal = True

    def _must_abort(self) -> bool:
        """Whether a record of the open transaction failed: librdkafka takes no more and commits nothing of it."""
        return bool(self._txns and self._txns.open and self._log.failed + self._log.unknown > self._unanswered)

    def _send(self, due: int) -> int:
        """Send up to `due` records with one time stamp; returns how many were taken or refused."""
        first = self._next
        count = min(due, CHUNK, self._spec.records - first, self._values.room(first))
        numbers = self._keys.of(np.arange(first, first + count)) if self._keys else None
        invoked_us = now_us()
        values = iter(self._values.make(first, count, invoked_us, numbers))
        keys = [self._keys.bytes[n] for n in numbers] if self._keys and numbers is not None else repeat(None)
        partitions = self._choose(first, count, numbers)
        topic, on_delivery = repeat(self._spec.topic), repeat(self._log.on_delivery)
        calls = map(self._kafka.produce, topic, values, keys, partitions, on_delivery)
        while True:
            try:
                deque(calls, maxlen=0)  # makes the calls, without a line of Python for each
                self._next = first + count
                break
            except BufferError:  # the local queue is full: not a send, the same seq comes again with a new time
                seq = first + count - length_hint(values) - 1
                if self._spec.mode == "fire_and_forget":  # nobody looks: this one is given up
                    self._log.refused_at_once(seq, invoked_us, KafkaError(KafkaError._QUEUE_FULL))
                    continue
                self._next = seq
                break
            except KafkaException as e:
                self._refused(first + count - length_hint(values) - 1, invoked_us, e.args[0])
        return self._next - first

    def _refused(self, seq: int, invoked_us: int, error: KafkaError) -> None:
        self._log.refused_at_once(seq, invoked_us, error)
        self._on_error(error)

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
    """Run a producer; returns the exit code."""
    return run_sender(ProducerSpec.load(argv[1]), Producer)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

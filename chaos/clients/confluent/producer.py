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
from typing import Any

from chaos.clients.confluent.library import VERSIONS
from chaos.clients.confluent.sender import CHUNK, Sender, partitioner
from chaos.clients.keys import Keys
from chaos.clients.pacer import TICK_S, Pacer
from chaos.clients.program import Channel, Lifecycle, run_clients
from chaos.clients.protocol import ProducerSpec, TransactionSpec


class Producer(Sender[ProducerSpec]):
    """One incarnation of a producer."""

    def __init__(self, spec: ProducerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(
            spec, channel, lifecycle, Keys(spec.keys, spec.seed, spec.tombstone_every) if spec.keys else None
        )
        self._partition = partitioner(spec.partitioner, spec.partitions)
        self._drops_if_full = spec.mode == "fire_and_forget"

    def run(self) -> bool:
        """Send all records, then wait for the order to stop. Returns whether every record has its row."""
        self._init_transactions()
        while self._spec.hold and not (self._channel.started or self._ending()):
            self._serve(TICK_S)
        pacer = Pacer(self._spec.rate) if self._spec.rate else None
        if self._transactions:
            while self._next < self._spec.records and not self._ending():
                self._transaction(self._transactions, pacer)
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

    def _transaction(self, spec: TransactionSpec, pacer: Pacer | None) -> None:
        """Send and end one transaction; it is smaller if the order to stop arrives."""
        self._begin_transaction()
        self._send_until(min(self._next + spec.records, self._spec.records), pacer)
        self._end_transaction(spec)

    def _more_progress(self) -> dict[str, Any]:
        sent_all = self._next >= self._spec.records and not self._open
        return {"done": sent_all and self._log.rows == self._next - self._first}

    def _finish(self) -> bool:
        self._limit()
        while len(self._kafka) and not self._giving_up():
            self._serve(TICK_S)
        return super()._finish()


def main(argv: list[str]) -> int:
    """Run a producer. Returns the exit code."""
    spec = ProducerSpec.load(argv[1])
    return run_clients([spec], Producer, first_seq=spec.first_seq, **VERSIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

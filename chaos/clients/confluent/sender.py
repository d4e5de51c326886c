"""The base of the programs that write: a Kafka producer, its send rows, its transactions and its shutdown."""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka import Producer as KafkaProducer

from chaos.clients.channel import Channel, listen_for
from chaos.clients.checkpoint import next_seq_of
from chaos.clients.confluent.lifecycle import Lifecycle, incarnation, log
from chaos.clients.confluent.outcomes import single_attempt
from chaos.clients.confluent.sends import Keys, SendLog
from chaos.clients.confluent.transactions import End, Transactions
from chaos.clients.protocol import WriterSpec
from chaos.ledger.record_columns import ValueFactory
from chaos.ledger.writer import TableWriter

TICK_S = 0.01

Spec = TypeVar("Spec", bound=WriterSpec)


class Sender(ABC, Generic[Spec]):
    """One incarnation of a client that writes; subclasses choose the records and the time.

    `_next` is the next seq. `_fatal` is true after an error that makes the Kafka producer unusable.
    """

    def __init__(self, spec: Spec, channel: Channel, lifecycle: Lifecycle, keys: Keys | None = None) -> None:
        self._spec, self._channel, self._lifecycle, self._keys = spec, channel, lifecycle, keys
        self._values = ValueFactory(
            spec.run_token, spec.client, spec.incarnation, spec.value_size, keys.bytes if keys else ()
        )
        self._log = SendLog(TableWriter(spec.ledger, "sends", spec.writer), spec, keys, single_attempt(spec.config))
        settings = spec.transactions.settings() if spec.transactions else {}
        self._kafka = KafkaProducer({**spec.connection(), "error_cb": self._on_error, **spec.config, **settings})
        self._txns = Transactions(self._kafka, spec, spec.transactions, self._giving_up) if spec.transactions else None
        self._failures_before = 0
        self._next = self._first = spec.first_seq
        self._fatal = False
        self._stop_by: float | None = None

    @abstractmethod
    def run(self) -> int:
        """Run until the order to stop. Returns the exit code."""

    @abstractmethod
    def _progress(self) -> None:
        """Send a progress event."""

    def _serve(self, timeout_s: float = 0.0) -> None:
        """Poll delivery reports for at most `timeout_s`; then write rows and send progress if they are due."""
        if self._channel.ignoring_reports:
            time.sleep(timeout_s)
        else:
            self._kafka.poll(timeout_s)
        self._log.served()
        self._log.write()
        if self._channel.progress_due():
            self._progress()

    def _wait_for_reports(self) -> None:
        """Wait until every record has its report, an error is fatal, or the time to wait is over."""
        while len(self._kafka) and not self._fatal and not self._giving_up():
            self._serve(TICK_S)

    def _on_error(self, error: KafkaError) -> None:
        log(f"{error.name()}: {error.str()}")
        if error.fatal() and not self._fatal:  # an idempotent producer that can no longer keep its guarantees
            self._fatal = True
            self._lifecycle.error(f"{error.name()}: {error.str()}", fatal=True)

    def _init_transactions(self) -> None:
        if self._txns and self._txns.init() and self._spec.incarnation > 1:
            # read the rows only now: the earlier incarnation is fenced and adds none
            self._next = self._first = next_seq_of(self._spec.ledger, self._spec.client)

    def _begin_transaction(self, txns: Transactions) -> None:
        self._log.txn = txns.begin()
        self._failures_before = self._log.failed + self._log.unknown

    def _must_abort(self) -> bool:
        """Return whether a record of the open transaction failed: librdkafka then commits nothing of it."""
        txns = self._txns
        return bool(txns and txns.open and self._log.failed + self._log.unknown > self._failures_before)

    def _end_transaction(self, txns: Transactions, add_offsets: Callable[[], bool] = lambda: True) -> End:
        """Wait for all reports, hold the transaction open, then end it; it is aborted if `add_offsets` fails."""
        self._wait_for_reports()
        held_until = time.monotonic() + txns.spec.hold_s
        while time.monotonic() < held_until and not (self._channel.stopping or self._fatal or self._must_abort()):
            self._serve(TICK_S)
        self._log.write(now=True)
        ended = txns.end(txns.planned_end() if not self._must_abort() and add_offsets() else "aborted")
        self._log.served()  # reports of records that the abort purged
        self._log.write(now=True)
        self._log.txn = None
        if txns.failed is not None:
            self._on_error(txns.failed)
            self._fatal = True
        return ended

    def _limit(self) -> None:
        """Start the time limit `stop_within_s`, unless it runs."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + self._spec.stop_within_s

    def _giving_up(self) -> bool:
        """Return whether the time to wait after the order to stop is over."""
        if self._channel.orphaned:
            return True
        if self._channel.stopping:
            self._limit()
        return self._stop_by is not None and time.monotonic() > self._stop_by

    def _finish(self) -> int:
        """Purge records without a report, and check that every record has its row. Returns the exit code."""
        if len(self._kafka):
            self._kafka.purge()
            self._kafka.flush(1)
        self._log.served()
        self._log.write(now=True)
        self._progress()
        if missing := self._next - self._first - self._log.rows:
            self._lifecycle.error(f"{missing} records have no delivery report", missing=missing)
            return 1
        if self._channel.orphaned or self._fatal:
            return 1
        self._lifecycle.event("stopped")
        return 0


def run_sender(spec: Spec, build: Callable[[Spec, Channel, Lifecycle], Sender[Spec]]) -> int:
    """Run one incarnation of a producer or processor. Returns the exit code."""
    channel = Channel()
    listen_for([channel])
    with incarnation(spec, "producer", channel) as lifecycle:
        sender = build(spec, channel, lifecycle)
        lifecycle.event("started", first_seq=spec.first_seq)
        gc.disable()  # cycle detection took a third of the time; the many messages form no cycles
        code = sender.run()
    return code

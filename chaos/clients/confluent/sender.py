"""The base of the programs that write: a Kafka producer, its send rows, its transactions and its shutdown.

The coordinator of a transaction may answer late, through another broker, or never. For each error, librdkafka says
whether the call can be retried, whether the transaction must be aborted, or whether the producer is unusable (fenced by
its next incarnation, for example). A call that timed out continues in the background; calling again only waits for it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import length_hint
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer

from chaos.clients.checkpoint import next_seq_of
from chaos.clients.confluent.library import Throttled, connection
from chaos.clients.confluent.outcomes import kept_by
from chaos.clients.confluent.sends import SendLog
from chaos.clients.keys import Keys
from chaos.clients.pacer import TICK_S
from chaos.clients.program import Channel, Lifecycle, log
from chaos.clients.protocol import TransactionSpec, WriterSpec
from chaos.ledger.record import IDENTITY_HEADER, of_tombstone
from chaos.ledger.record_columns import Ints, ValueFactory
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

CHUNK = 500
"""Most records with one time stamp."""
CALL_S = 1.0
"""Longest time in one call about a transaction; between calls the client checks for the order to stop."""
UNASSIGNED = -1
"""Partition number with which librdkafka's own partitioner chooses."""

Spec = TypeVar("Spec", bound=WriterSpec)

End = Literal["committed", "aborted", "unknown"]
"""How a transaction ended."""

Partitioner = Callable[[int, int, Ints | None], Iterable[int]]
"""Maps first seq, number of records and numbers of their keys to the partitions."""


def partitioner(name: Literal["round_robin", "by_key_number"] | None, partitions: int) -> Partitioner:
    """Return the partitioner with that name for a topic of `partitions` partitions; None is librdkafka's."""
    if name == "round_robin":
        return lambda first, count, _: (np.arange(first, first + count) % partitions).tolist()
    if name == "by_key_number":
        return lambda first, count, keys: [] if keys is None else (keys % partitions).tolist()
    return lambda first, count, keys: repeat(UNASSIGNED)


def error_of(request: str, exception: KafkaException) -> KafkaError:
    """Write the error of a request to the log, and return it."""
    error: KafkaError = exception.args[0]
    log(f"{request}: {error.name()}: {error.str()}")
    return error


class Sender(ABC, Generic[Spec]):
    """One incarnation of a client that writes; subclasses choose the records and the time.

    _next: the next seq.
    _drops_if_full: drop the records that a full local queue refuses, and do not send them later.
    _fatal: whether an error has made the Kafka producer unusable.
    _transactions: how records are divided into transactions; None if they are not.
    _open: whether a transaction is open.
    """

    def __init__(self, spec: Spec, channel: Channel, lifecycle: Lifecycle, keys: Keys | None = None) -> None:
        self._spec, self._channel, self._lifecycle, self._keys = spec, channel, lifecycle, keys
        self._partition, self._drops_if_full = partitioner(None, 0), False
        self._values = ValueFactory(
            spec.run_token, spec.client, spec.incarnation, spec.value_size, keys.bytes if keys else ()
        )
        kept = kept_by(spec.config, spec.transactions is not None, spec.steady)
        self._log = SendLog(TableWriter(spec.ledger, "sends", spec.writer), spec, keys, kept)
        self._throttled = Throttled("producer")
        callbacks = {"error_cb": self._on_error, "throttle_cb": self._throttled}
        settings = {**connection(spec), **callbacks, **spec.config}
        self._transactions: TransactionSpec | None = spec.transactions
        if txns := spec.transactions:
            settings |= {"transactional.id": txns.id, "transaction.timeout.ms": round(txns.timeout_s * 1000)}
            self._ends = TableWriter(spec.ledger, "transactions", spec.writer)
        self._kafka = KafkaProducer(settings)
        self._number = self._began_us = self._failures_before = 0
        self._open = False
        self._next = self._first = spec.first_seq
        self._fatal = False
        self._stop_by: float | None = None

    @abstractmethod
    def run(self) -> bool:
        """Run until the order to stop. Returns whether every record has its row, and no error was fatal."""

    @abstractmethod
    def _more_progress(self) -> dict[str, Any]:
        """Return the fields of the progress event that only this kind of client has."""

    def _throttling(self) -> dict[str, list[int]]:
        """Return the throttled responses of each Kafka client that this client has."""
        return self._throttled.progress()

    def _progress(self) -> None:
        sends, sent = self._log, self._next - self._first
        counts = {"sent": sent, "acked": sends.acked, "failed": sends.failed, "unknown": sends.unknown}
        throttled = {"throttled": sides} if (sides := self._throttling()) else {}
        self._channel.progress(**counts, **self._more_progress(), **throttled)

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

    def _send(self, due: int) -> int:
        """Send up to `due` records with one time stamp. Returns the number that librdkafka took or refused."""
        first = self._next
        count = min(due, CHUNK, self._values.room(first))
        numbers = self._keys.of(np.arange(first, first + count)) if self._keys else None
        invoked_us = now_us()
        made: list[Any] = self._values.make(first, count, invoked_us, numbers)
        keys = [self._keys.bytes[n] for n in numbers] if self._keys and numbers is not None else repeat(None)
        partitions = self._partition(first, count, numbers)
        more = self._arguments(first, made, keys)
        values = iter(made)
        calls = map(self._kafka.produce, repeat(self._spec.topic), values, keys, partitions, *more)
        while True:
            try:
                deque(calls, maxlen=0)  # makes the calls without Python code for each record
                self._next = first + count
                break
            except BufferError:  # the local queue is full: nothing was sent, the seq is sent later with a new time
                seq = first + count - length_hint(values) - 1
                if self._drops_if_full:
                    self._log.refused_at_once(seq, invoked_us, KafkaError(KafkaError._QUEUE_FULL))
                    continue
                self._next = seq
                break
            except KafkaException as e:
                self._log.refused_at_once(first + count - length_hint(values) - 1, invoked_us, e.args[0])
                self._on_error(e.args[0])
        return self._next - first

    def _arguments(self, first: int, values: list[Any], keys: Iterable[bytes | None]) -> tuple[Iterable[Any], ...]:
        """Return the arguments of `produce` from the callback on. Takes the values from tombstones."""
        marked = self._keys.tombstones(first, len(values)) if self._keys else []
        if not any(marked):
            return (repeat(self._log.on_delivery),)
        callbacks: list[Any] = [self._log.on_delivery] * len(values)
        headers: list[list[tuple[str, bytes]] | None] = [None] * len(values)
        for i, (key, value) in enumerate(zip(keys, values, strict=True)):
            if marked[i]:
                identity = of_tombstone(value, key)
                values[i], headers[i] = None, [(IDENTITY_HEADER, identity)]
                callbacks[i] = self._log.on_delivery_of(identity)
        return callbacks, repeat(None), repeat(0), headers

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
        """Fence earlier incarnations and abort their open transaction; no-op without transactions.

        Returns early after the order to stop. Raises `KafkaException` for an error that a retry does not clear.
        """
        while self._transactions:
            try:
                self._kafka.init_transactions(CALL_S)
            except KafkaException as e:
                error = error_of("init_transactions", e)
                if self._giving_up():
                    return
                if not error.retriable():
                    raise
            else:
                if self._spec.incarnation > 1:
                    # read the rows only now: the earlier incarnation is fenced and adds none
                    self._next = self._first = next_seq_of(self._spec.ledger, self._spec.client)
                return

    def _begin_transaction(self) -> None:
        self._kafka.begin_transaction()
        self._number += 1
        self._open, self._began_us, self._log.txn = True, now_us(), self._number
        self._failures_before = self._log.failed + self._log.unknown

    def _must_abort(self) -> bool:
        """Return whether a record of the open transaction failed: librdkafka then commits nothing of it."""
        return self._open and self._log.failed + self._log.unknown > self._failures_before

    def _end_transaction(self, spec: TransactionSpec, add_offsets: Callable[[], bool] = lambda: True) -> End:
        """Wait for all reports, hold the transaction open, then end it and write its row. Returns how it ended.

        Each `abort_every`-th transaction is aborted; others too if a record failed, or if `add_offsets` fails.
        """
        self._wait_for_reports()
        held_until = time.monotonic() + spec.hold_s
        while time.monotonic() < held_until and not (self._channel.stopping or self._fatal or self._must_abort()):
            self._serve(TICK_S)
        self._log.write(now=True)
        planned: End = "aborted" if spec.abort_every and self._number % spec.abort_every == 0 else "committed"
        ended = self._call_end(planned if not self._must_abort() and add_offsets() else "aborted")
        self._open = False
        self._ends.append_rows(
            [
                {
                    "producer": self._spec.client,
                    "incarnation": self._spec.incarnation,
                    "txn": self._number,
                    "outcome": ended,
                    "began_us": self._began_us,
                    "ended_us": now_us(),
                }
            ]
        )
        self._log.served()  # reports of records that the abort purged
        self._log.write(now=True)
        self._log.txn = None
        return ended

    def _call_end(self, end: End) -> End:
        while True:
            try:
                (self._kafka.commit_transaction if end == "committed" else self._kafka.abort_transaction)(CALL_S)
                return end
            except KafkaException as e:
                error = error_of(f"transaction {self._number} not {end}", e)
                if error.txn_requires_abort() and end == "committed" and not error.fatal():
                    end = "aborted"
                elif error.fatal() or not error.retriable() or self._giving_up():
                    self._on_error(error)
                    self._fatal = True
                    return "unknown"

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

    def _finish(self) -> bool:
        """Purge records without a report, and check that every record has its row. Returns as `run`."""
        if len(self._kafka):
            self._kafka.purge()
            self._kafka.flush(1)
        self._log.served()
        self._log.write(now=True)
        self._progress()
        if missing := self._next - self._first - self._log.rows:
            self._lifecycle.error(f"{missing} records have no delivery report", missing=missing)
        return not missing and not self._fatal

"""The producer, and the base of the programs that write: send rows, transactions and the shutdown.

The records of one tick, or of one chunk at full speed, share one time stamp, which is less than about a millisecond
off. The coordinator of a transaction may answer late, through another broker, or never.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from chaos.clients.checkpoint import next_seq_of
from chaos.clients.protocol import ProducerSpec, TransactionSpec, WriterSpec
from chaos.clients.python.library import Batch, Library, RecordHeaders
from chaos.clients.python.load import TICK_S, Keys, Pacer, Schedule, pacer, partitioner
from chaos.clients.python.program import Channel, Lifecycle, log
from chaos.clients.python.rows import SendLog
from chaos.clients.python.values import UserValues
from chaos.errors import ClientError
from chaos.ledger.record import IDENTITY_HEADER, of_tombstone
from chaos.ledger.record_columns import ValueFactory
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

CLOSE_S = 2.0
CHUNK = 500
"""Most records with one time stamp."""

Spec = TypeVar("Spec", bound=WriterSpec)

End = Literal["committed", "aborted", "unknown"]
"""How a transaction ended."""


class Sender(Generic[Spec]):
    """One incarnation of a client that writes; subclasses choose the records and the time.

    _next: the next seq.
    _fatal: whether an error has made the producer of the library unusable.
    _transactions: how records are divided into transactions; None if they are not.
    _open: whether a transaction is open.
    """

    def __init__(
        self,
        library: Library,
        spec: Spec,
        channel: Channel,
        lifecycle: Lifecycle,
        keys: Keys | None = None,
        user: UserValues | None = None,
    ) -> None:
        self._library, self._keys, self._user = library, keys, user
        self._spec, self._channel, self._lifecycle = spec, channel, lifecycle
        self._transactions: TransactionSpec | None = spec.transactions
        if spec.transactions:
            self._ends = TableWriter(spec.ledger, "transactions", spec.writer)
        self._number = self._began_us = self._failures_before = 0
        self._open = False
        self._next = self._first = spec.first_seq
        self._fatal = False
        self._stop_by: float | None = None
        self._partition = partitioner(None, 0, library.unassigned)
        self._values = ValueFactory(
            spec.run_token, spec.client, spec.incarnation, spec.value_size, keys.bytes if keys else ()
        )
        sends = TableWriter(spec.ledger, spec.table, spec.writer)
        self._log = SendLog(sends, spec, user or keys, library.has_offsets(spec))
        self._kafka = library.producer(spec, self._log, self._on_error)

    def _more_progress(self) -> dict[str, Any]:
        """Return the fields of the progress event that only this kind of client has."""
        return {}

    def _send(self, due: int) -> int:
        """Send up to `due` records with one time stamp, from `_next` on, which it advances. Returns their number."""
        count = min(due, CHUNK, self._values.room(self._next))
        make = self._batch if self._user is None else self._batch_of_user
        taken = self._kafka.send(make(self._next, count, now_us()), self._serve)
        self._next += taken
        return taken

    def _batch(self, first: int, count: int, invoked_us: int) -> Batch:
        numbers = self._keys.of(np.arange(first, first + count)) if self._keys else None
        values: list[Any] = self._values.make(first, count, invoked_us, numbers)
        keys = [self._keys.bytes[n] for n in numbers] if self._keys and numbers is not None else None
        headers = self._headers(first, values, keys)
        return Batch(
            first,
            invoked_us,
            self._spec.topics_from(first),
            values,
            repeat(None) if keys is None else keys,
            self._partition(first, count, numbers),
            headers,
            self._timestamp_ms(invoked_us),
        )

    def _batch_of_user(self, first: int, count: int, invoked_us: int) -> Batch:
        assert self._user is not None  # the caller looked
        values, keys, headers, identities = zip(*self._user.make(first, count, invoked_us), strict=True)
        return Batch(
            first,
            invoked_us,
            self._spec.topics_from(first),
            list(values),
            keys,
            self._partition(first, count, None),
            headers,
            self._timestamp_ms(invoked_us),
            identities,
        )

    def _headers(self, first: int, values: list[Any], keys: Sequence[bytes] | None) -> Sequence[RecordHeaders] | None:
        """Return the headers of records; None if none has any."""
        return None

    def _timestamp_ms(self, call_us: int) -> int | None:
        """Return the timestamp of records that are sent now; None if the library sets it."""
        return None

    def _on_error(self, error: Exception) -> None:
        """Log an error that concerns no single record, and end the client if its producer is unusable then."""
        log(self._library.describe(error))
        if self._library.fatal(error):  # such as an idempotent producer that can no longer keep its guarantees
            self._unusable(error)

    def _unusable(self, error: Exception) -> End:
        """Report an error, once, after which the producer cannot go on and nobody knows how its transaction ended."""
        if not self._fatal:
            self._fatal = True
            before = f"; before: {self._log.last_failure}" if self._log.last_failure else ""
            self._lifecycle.error(f"{self._library.describe(error)}{before}", fatal=True)
        return "unknown"

    def _call_init(self) -> bool:
        """Initialize the transactional.id. Returns False if that has to be tried again; raises if it is in vain."""
        try:
            self._kafka.init_transactions()
            return True
        except self._library.Error as e:
            log(f"transactions not initialized: {self._library.describe(e)}")
            if not self._library.passes(e) and not self._giving_up():
                raise ClientError(self._library.describe(e)) from None
            return False

    def _call_end(self, end: End) -> End:
        """End the open transaction. Returns how it ended."""
        while True:
            try:
                (self._kafka.commit if end == "committed" else self._kafka.abort)()
                return end
            except self._library.Error as e:
                text, step = self._library.describe(e), self._library.after_end(e)
                log(f"transaction {self._number} not {end}: {text}")
                if step == "abort" and end == "committed":
                    end, self._log.last_failure = "aborted", text
                elif step != "again" or self._giving_up():
                    return self._unusable(e)

    def _progress(self) -> None:
        sends, sent = self._log, self._next - self._first
        counts = {"sent": sent, "acked": sends.acked, "failed": sends.failed, "unknown": sends.unknown}
        throttled = {"throttled": sides} if (sides := self._throttled()) else {}
        self._channel.progress(**counts, **self._more_progress(), **throttled)

    def _throttled(self) -> dict[str, list[int]]:
        """Return the throttled responses of each Kafka client that this client has."""
        return self._kafka.throttled()

    def _serve(self, timeout_s: float = 0.0) -> None:
        """Let reports arrive for at most `timeout_s`; then write rows and send progress if they are due."""
        if self._channel.ignoring_reports:
            time.sleep(timeout_s)
        else:
            self._kafka.wait(timeout_s)
            self._kafka.collect()
        self._log.write()
        if self._channel.progress_due():
            self._progress()

    def _wait_for_reports(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Wait until every record has its report, or `enough`, an error is fatal, or the time to wait is over."""
        while self._kafka.waiting() and not (enough() or self._fatal or self._giving_up()):
            self._serve(TICK_S)

    def _init_transactions(self) -> None:
        """Fence earlier incarnations and abort their open transaction; no-op without transactions.

        Returns early after the order to stop. Raises the library's error if a retry does not clear it.
        """
        while self._transactions and not self._call_init():
            if self._giving_up():
                return
        if self._transactions and self._spec.incarnation > 1:
            # read the rows only now: the earlier incarnation is fenced and adds none
            self._next = self._first = next_seq_of(self._spec.ledger, self._spec.client)

    def _begin_transaction(self) -> None:
        try:
            self._kafka.begin()
        except self._library.Error as e:
            raise ClientError(self._library.describe(e)) from None
        self._number += 1
        self._open, self._began_us, self._log.txn = True, now_us(), self._number
        self._failures_before = self._log.failed + self._log.unknown

    def _must_abort(self) -> bool:
        """Return whether a record of the open transaction failed: nothing of it may be committed."""
        return self._open and self._log.failed + self._log.unknown > self._failures_before

    def _end_transaction(self, spec: TransactionSpec, add_offsets: Callable[[], bool] = lambda: True) -> End:
        """Wait for all reports, hold the transaction open, then end it and write its row. Returns how it ended.

        Each `abort_every`-th transaction is aborted; others too if a record failed, or if `add_offsets` fails. After a
        failure a library sends nothing more of the transaction: the abort is what gives the other records a report.
        """
        self._wait_for_reports(self._must_abort)
        held_until = time.monotonic() + spec.hold_s
        while time.monotonic() < held_until and not (self._channel.stopping or self._fatal or self._must_abort()):
            self._serve(TICK_S)
        self._log.write(now=True)
        planned: End = "aborted" if spec.abort_every and self._number % spec.abort_every == 0 else "committed"
        end = planned if not self._must_abort() and add_offsets() else "aborted"
        requested_us = now_us()
        ended = self._call_end(end)
        self._wait_for_reports()
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
                    "requested_us": requested_us,
                }
            ]
        )
        self._kafka.collect()  # reports of records that the abort purged
        self._log.write(now=True)
        self._log.txn = None
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

    def _finish(self) -> bool:
        """Purge records without a report, and check that every record has its row. Returns as `run`."""
        if self._kafka.waiting():
            self._kafka.purge()
        self._kafka.collect()
        self._log.write(now=True)
        self._progress()
        if missing := self._next - self._first - self._log.rows:
            self._lifecycle.error(f"{missing} records have no delivery report", missing=missing)
        return not missing and not self._fatal


class Producer(Sender[ProducerSpec]):
    """One incarnation of a producer, which sends one seq after the other, at a steady rate or at full speed.

    After the order to stop it waits for reports, at most `stop_within_s`. Then it gives up the remaining records, which
    get rows, too. `stopped` is written only if every record has a row.

    In transactions, it waits for the reports of all records of a transaction and writes their rows before it ends the
    transaction. A later incarnation first initializes the transactional.id, which fences the earlier one, and only then
    reads the last seq of the earlier one. An aborted transaction is not repeated.
    """

    def __init__(self, library: Library, spec: ProducerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        keys = Keys(spec.keys, spec.seed, spec.tombstone_every) if spec.keys else None
        super().__init__(library, spec, channel, lifecycle, keys, UserValues(spec) if spec.value else None)
        self._partition = partitioner(spec.partitioner, spec.partitions, library.unassigned)

    def _timestamp_ms(self, call_us: int) -> int | None:
        return self._spec.timestamps.of(call_us) if self._spec.timestamps else None

    def _headers(self, first: int, values: list[Any], keys: Sequence[bytes] | None) -> Sequence[RecordHeaders] | None:
        """Return the headers of records: only tombstones have one. Takes the values from tombstones."""
        marked = self._keys.tombstones(first, len(values)) if self._keys else []
        if keys is None or not any(marked):
            return None
        headers: list[RecordHeaders] = [[] for _ in values]
        for i in np.flatnonzero(marked).tolist():
            headers[i] = [(IDENTITY_HEADER, of_tombstone(values[i], keys[i]))]
            values[i] = None
        return headers

    def run(self) -> bool:
        """Send all records, then wait for the order to stop. Returns whether every record has its row."""
        self._init_transactions()
        while self._spec.hold and not (self._channel.started or self._ending()):
            self._serve(TICK_S)
        pace = pacer(self._spec, self._next)
        if self._transactions:
            while self._next < self._spec.records and not self._ending():
                self._transaction(self._transactions, pace)
        else:
            self._send_until(self._spec.records, pace)
        while not self._ending():
            self._serve(TICK_S if self._kafka.waiting() else 0.1)
        return self._finish()

    def _ending(self) -> bool:
        return self._channel.stopping or self._fatal

    def _send_until(self, end: int, pacer: Pacer | Schedule | None) -> None:
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

    def _transaction(self, spec: TransactionSpec, pacer: Pacer | Schedule | None) -> None:
        """Send and end one transaction; it is smaller if the order to stop arrives."""
        self._begin_transaction()
        self._send_until(min(self._next + spec.records, self._spec.records), pacer)
        self._end_transaction(spec)

    def _more_progress(self) -> dict[str, Any]:
        sent_all = self._next >= self._spec.records and not self._open
        return {"done": sent_all and self._log.rows == self._next - self._first}

    def _finish(self) -> bool:
        self._limit()
        while self._kafka.waiting() and not self._giving_up():
            self._serve(TICK_S)
        done = super()._finish()
        try:
            self._kafka.close(CLOSE_S)
        except self._library.Error as e:  # every record has its row already
            log(f"close: {self._library.describe(e)}")
        return done

"""The producer on a library in Python; see `chaos.clients.sender`."""

from __future__ import annotations

import numpy as np

from chaos.clients.keys import Keys
from chaos.clients.partitioner import partitioner
from chaos.clients.program import Channel, Lifecycle, log
from chaos.clients.protocol import ProducerSpec
from chaos.clients.python.library import Library, Outgoing, Report
from chaos.clients.python.outcomes import describe, error_name, kept_by, send_outcome
from chaos.clients.python.sends import SendLog
from chaos.clients.python.settings import connection, own_settings
from chaos.clients.sender import CHUNK, End, PacedSender
from chaos.errors import ClientError
from chaos.ledger.record import IDENTITY_HEADER, of_tombstone
from chaos.ledger.record_columns import ValueFactory
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

CLOSE_S = 2.0


class Producer(PacedSender):
    """One incarnation of a producer."""

    _log: SendLog

    def __init__(self, library: Library, spec: ProducerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(spec, channel, lifecycle)
        self._library = library
        self._keys = Keys(spec.keys, spec.seed, spec.tombstone_every) if spec.keys else None
        self._partition = partitioner(spec.partitioner, spec.partitions)
        self._values = ValueFactory(
            spec.run_token, spec.client, spec.incarnation, spec.value_size, self._keys.bytes if self._keys else ()
        )
        self._log = SendLog(TableWriter(spec.ledger, "sends", spec.writer), spec, self._keys)
        self._kept = kept_by(spec.config, library.traits, library.release, spec.steady)
        self._invoked_us: dict[int, int] = {}
        """Time of the call, by the seq of each record without a report."""
        settings = {**connection(spec, library), **own_settings(spec.config, library, library.producer_settings)}
        if txns := spec.transactions:
            settings |= {"transactional_id": txns.id, "transaction_timeout_ms": round(txns.timeout_s * 1000)}
        self._last_failure = ""
        self._has_offsets = str(settings.get("acks")) != "0"
        self._kafka = library.producer(settings)

    def run(self) -> bool:
        """Send until the order to stop, then close the producer. Returns whether every record has its row."""
        done = super().run()
        try:
            self._kafka.close(CLOSE_S)
        except self._library.Error as e:  # every record has its row already
            log(f"close: {describe(e)}")
        return done

    def _send(self, due: int) -> int:
        first = self._next
        count = min(due, CHUNK, self._values.room(first))
        numbers = self._keys.of(np.arange(first, first + count)) if self._keys else None
        invoked_us = now_us()
        records = []
        timestamp_ms = self._spec.timestamps.of(invoked_us) if self._spec.timestamps else None
        values = self._values.make(first, count, invoked_us, numbers)
        marked = self._keys.tombstones(first, count) if self._keys else []
        for i, (value, partition) in enumerate(
            zip(values, self._partition(first, count, numbers), strict=False)  # partitions without end
        ):
            key = self._keys.bytes[numbers[i]] if self._keys and numbers is not None else None
            tombstone = bool(marked) and marked[i]
            headers = [(IDENTITY_HEADER, of_tombstone(value, key))] if tombstone else []
            topic, sent = self._spec.topic_of(first + i), None if tombstone else value
            records.append(Outgoing(first + i, topic, sent, key, partition, headers, timestamp_ms))
        self._invoked_us.update((record.seq, invoked_us) for record in records)
        taken = self._kafka.send(records, self._serve)
        for record in records[taken:]:  # sent later with a new time
            del self._invoked_us[record.seq]
        self._next = first + taken
        return taken

    def _waiting(self) -> int:
        return len(self._invoked_us)

    def _wait(self, timeout_s: float) -> None:
        self._kafka.wait(timeout_s)
        reports = self._kafka.reports
        while reports:
            self._answered(reports.popleft())

    def _answered(self, report: Report) -> None:
        invoked_us = self._invoked_us.pop(report.seq, None)
        if invoked_us is None:  # it was given up
            return
        if report.error is None:
            known = self._has_offsets and report.offset is not None and report.offset >= 0
            offset = report.offset if known else None
            self._log.add(report.seq, invoked_us, report.at_us, "ok", report.partition, offset)
            return
        outcome = send_outcome(report.error, self._kept, self._library.traits.sends) if report.taken else "fail"
        name = error_name(report.error)
        self._last_failure = describe(report.error)
        log(f"seq {report.seq}: {self._last_failure}")
        self._log.add(report.seq, invoked_us, report.at_us, outcome, report.partition, error=name)

    def _purge(self) -> None:
        for seq, invoked_us in self._invoked_us.items():
            self._log.add(seq, invoked_us, now_us(), "unknown", error="no answer before the end")
        self._invoked_us.clear()

    def _call_init(self) -> bool:
        try:
            self._kafka.init_transactions()
            return True
        except self._library.Error as e:
            if not self._library.passes(e):
                raise ClientError(describe(e)) from None
            log(f"transactions not initialized, trying again: {describe(e)}")
            return False

    def _call_begin(self) -> None:
        try:
            self._kafka.begin()
        except self._library.Error as e:
            raise ClientError(describe(e)) from None

    def _call_end(self, end: End) -> End:
        """End the transaction. A commit that is refused is followed by an abort, which proves that it failed."""
        if end == "committed":
            try:
                self._kafka.commit()
                return "committed"
            except self._library.Timeout as e:
                return self._unusable(e)
            except self._library.Error as e:
                self._last_failure = describe(e)
                log(f"transaction {self._number} not committed: {self._last_failure}")
        try:
            self._kafka.abort()
            return "aborted"
        except self._library.Error as e:
            return self._unusable(e)

    def _unusable(self, error: Exception) -> End:
        """Report an error after which nobody knows how the transaction ended, and end the producer."""
        self._fatal = True
        before = f"; before: {self._last_failure}" if self._last_failure else ""
        self._lifecycle.error(f"{describe(error)}{before}", fatal=True)
        return "unknown"

"""The transactions of one client, with a ledger row for each end.

The coordinator may answer late, through another broker, or never. For each error, librdkafka says whether the call can
be retried, whether the transaction must be aborted, or whether the producer is unusable (fenced by its next
incarnation, for example). A call that timed out continues in the background; calling again only waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer

from chaos.clients.confluent.lifecycle import log
from chaos.clients.protocol import TransactionSpec, WriterSpec
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us

CALL_S = 1.0
"""Longest time in one call; between calls the client checks for the order to stop."""

End = Literal["committed", "aborted", "unknown"]


class Transactions:
    """The transactions of one incarnation, numbered from 1. `giving_up` returns whether the time to wait is over.

    failed: the error that made the producer unusable, or None.
    """

    def __init__(
        self, kafka: KafkaProducer, client: WriterSpec, spec: TransactionSpec, giving_up: Callable[[], bool]
    ) -> None:
        self._kafka, self._client, self.spec, self._giving_up = kafka, client, spec, giving_up
        self._writer = TableWriter(client.ledger, "transactions", client.writer)
        self.number = 0
        self.open = False
        self.failed: KafkaError | None = None
        self._began_us = 0

    def init(self) -> bool:
        """Fence earlier incarnations and abort their open transaction. Returns False if the order to stop came first.

        Raises `KafkaException` for an error that a retry does not clear.
        """
        while True:
            try:
                self._kafka.init_transactions(CALL_S)
                return True
            except KafkaException as e:
                error: KafkaError = e.args[0]
                log(f"init_transactions: {error.name()}: {error.str()}")
                if self._giving_up():
                    return False
                if not error.retriable():
                    raise

    def begin(self) -> int:
        """Begin the next transaction and return its number."""
        self._kafka.begin_transaction()
        self.number += 1
        self.open = True
        self._began_us = now_us()
        return self.number

    def planned_end(self) -> End:
        """Return how the open transaction ends if no error occurs."""
        every = self.spec.abort_every
        return "aborted" if every is not None and self.number % every == 0 else "committed"

    def end(self, planned: End) -> End:
        """End the open transaction and write its row. Returns how it ended, which may differ from `planned`."""
        ended = self._call(planned)
        self.open = False
        self._writer.append_rows(
            [
                {
                    "producer": self._client.client,
                    "incarnation": self._client.incarnation,
                    "txn": self.number,
                    "outcome": ended,
                    "began_us": self._began_us,
                    "ended_us": now_us(),
                }
            ]
        )
        return ended

    def _call(self, end: End) -> End:
        while True:
            try:
                if end == "committed":
                    self._kafka.commit_transaction(CALL_S)
                else:
                    self._kafka.abort_transaction(CALL_S)
                return end
            except KafkaException as e:
                error: KafkaError = e.args[0]
                log(f"transaction {self.number} not {end}: {error.name()}: {error.str()}")
                if error.txn_requires_abort() and end == "committed" and not error.fatal():
                    end = "aborted"
                elif error.fatal() or not error.retriable() or self._giving_up():
                    self.failed = error
                    return "unknown"

"""Transactions of one client: begun, committed or aborted, each end with its row.

What is asked of the coordinator may be answered late, by another broker, or never: librdkafka says of each error
whether the call may be repeated, whether the transaction has to be aborted, or whether the producer is finished (fenced
by its next incarnation, for one). A call that timed out goes on in the background, and asking again only waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer

from chaos.clients.confluent.lifecycle import log
from chaos.clients.protocol import ProcessorSpec, ProducerSpec, TransactionSpec
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us

CALL_S = 1.0
"""How long one call may block; in between the client looks whether it was told to stop."""

End = Literal["committed", "aborted", "unknown"]


class Transactions:
    """The transactions of one incarnation, numbered from 1. `giving_up` tells that there is no more time to wait.

    `failed` is the error that finished the producer, once one has.
    """

    def __init__(
        self,
        kafka: KafkaProducer,
        spec: ProducerSpec | ProcessorSpec,
        how: TransactionSpec,
        giving_up: Callable[[], bool],
    ) -> None:
        self._kafka, self._spec, self.how, self._giving_up = kafka, spec, how, giving_up
        self._writer = TableWriter(spec.ledger, "transactions", spec.writer)
        self.number = 0
        self.open = False
        self.failed: KafkaError | None = None
        self._began_us = 0

    def init(self) -> bool:
        """Take over from earlier incarnations, which fences them and aborts what they left open; False if told to stop.

        Raises `KafkaException` where no repeating helps.
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
        """Begin the next one and return its number."""
        self._kafka.begin_transaction()
        self.number += 1
        self.open = True
        self._began_us = now_us()
        return self.number

    def wanted(self) -> End:
        """How the open transaction is to end if nothing goes wrong."""
        every = self.how.abort_every
        return "aborted" if every is not None and self.number % every == 0 else "committed"

    def end(self, wanted: End) -> End:
        """End the open one and write its row; returns how it ended, which may be otherwise than wanted."""
        ended = self._ask(wanted)
        self.open = False
        self._writer.append_rows(
            [
                {
                    "producer": self._spec.client,
                    "incarnation": self._spec.incarnation,
                    "txn": self.number,
                    "outcome": ended,
                    "began_us": self._began_us,
                    "ended_us": now_us(),
                }
            ]
        )
        return ended

    def _ask(self, wanted: End) -> End:
        while True:
            try:
                if wanted == "committed":
                    self._kafka.commit_transaction(CALL_S)
                else:
                    self._kafka.abort_transaction(CALL_S)
                return wanted
            except KafkaException as e:
                error: KafkaError = e.args[0]
                log(f"transaction {self.number} not {wanted}: {error.name()}: {error.str()}")
                if error.fatal():
                    self.failed = error
                    return "unknown"
                if error.txn_requires_abort() and wanted == "committed":
                    wanted = "aborted"
                elif not error.retriable() or self._giving_up():
                    self.failed = error
                    return "unknown"

"""What the producer and the processor share: a Kafka producer, the rows of its sends, its errors, and how it ends."""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError
from confluent_kafka import Producer as KafkaProducer

from chaos.clients.channel import Channel
from chaos.clients.confluent.lifecycle import Lifecycle, life, log
from chaos.clients.confluent.outcomes import single_attempt
from chaos.clients.confluent.sends import Keys, SendLog
from chaos.clients.protocol import ProcessorSpec, ProducerSpec
from chaos.ledger.writer import TableWriter

Spec = TypeVar("Spec", bound=ProducerSpec | ProcessorSpec)


class Sender(ABC):
    """One incarnation of a client that writes, but for what it writes and when.

    `_next` is the next seq. `_fatal` turns true with the error after which its Kafka producer is of no use any more.
    """

    def __init__(
        self, spec: ProducerSpec | ProcessorSpec, channel: Channel, lifecycle: Lifecycle, keys: Keys | None = None
    ) -> None:
        self._channel, self._lifecycle = channel, lifecycle
        self._stop_within_s = spec.stop_within_s
        writer = TableWriter(spec.ledger, "sends", spec.writer)
        self._log = SendLog(writer, spec, keys, single_attempt(spec.config))
        transactions = spec.transactions.settings() if spec.transactions else {}
        self._kafka = KafkaProducer({**spec.connection(), "error_cb": self._on_error, **spec.config, **transactions})
        self._next = self._first = spec.first_seq
        self._fatal = False
        self._stop_by: float | None = None

    @abstractmethod
    def run(self) -> int:
        """Live until the order to stop; returns the exit code."""

    @abstractmethod
    def _progress(self) -> None:
        """Tell how far it is."""

    def _serve(self, timeout_s: float = 0.0) -> None:
        """Look at delivery reports, for so long at the most, and write and tell what is due."""
        if self._channel.ignoring_reports:
            time.sleep(timeout_s)
        else:
            self._kafka.poll(timeout_s)
        self._log.served()
        self._log.write()
        if self._channel.progress_due():
            self._progress()

    def _on_error(self, error: KafkaError) -> None:
        log(f"{error.name()}: {error.str()}")
        if error.fatal() and not self._fatal:  # an idempotent producer that can promise nothing any more
            self._fatal = True
            self._lifecycle.error(f"{error.name()}: {error.str()}", fatal=True)

    def _limit(self) -> None:
        """From now on answers are waited for only so long."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + self._stop_within_s

    def _giving_up(self) -> bool:
        """Whether the order to stop came so long ago that nothing is waited for any more."""
        if self._channel.orphaned:
            return True
        if self._channel.stopping:
            self._limit()
        return self._stop_by is not None and time.monotonic() > self._stop_by

    def _finish(self) -> int:
        """Purge what is still on its way, and see that every record has its row; returns the exit code."""
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


def run_sender(spec: Spec, build: Callable[[Spec, Channel, Lifecycle], Sender]) -> int:
    """Run one life of a producer or processor; returns the exit code."""
    channel = Channel()
    with life(spec, "producer", channel) as lifecycle:
        sender = build(spec, channel, lifecycle)
        lifecycle.event("started", first_seq=spec.first_seq)
        gc.disable()  # messages by the hundred thousand, none in a cycle: looking for cycles took a third of the time
        code = sender.run()
    return code

"""The base of the programs that write with librdkafka; see `chaos.clients.sender`.

For each error, librdkafka says whether the call can be retried, whether the transaction must be aborted, or whether the
producer is unusable (fenced by its next incarnation, for example). A call that timed out continues in the background;
calling again only waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import repeat
from operator import length_hint
from typing import Any, TypeVar

import numpy as np
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer

from chaos.clients import sender
from chaos.clients.confluent.library import Throttled, connection
from chaos.clients.confluent.outcomes import kept_by
from chaos.clients.confluent.sends import SendLog
from chaos.clients.keys import Keys
from chaos.clients.partitioner import partitioner
from chaos.clients.program import Channel, Lifecycle, log
from chaos.clients.protocol import WriterSpec
from chaos.clients.sender import CHUNK, End
from chaos.ledger.record import IDENTITY_HEADER, of_tombstone
from chaos.ledger.record_columns import ValueFactory
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

CALL_S = 1.0
"""Longest time in one call about a transaction; between calls the client checks for the order to stop."""
UNASSIGNED = -1
"""Partition number with which librdkafka's own partitioner chooses."""

Spec = TypeVar("Spec", bound=WriterSpec)


def error_of(request: str, exception: KafkaException) -> KafkaError:
    """Write the error of a request to the log, and return it."""
    error: KafkaError = exception.args[0]
    log(f"{request}: {error.name()}: {error.str()}")
    return error


class Sender(sender.Sender[Spec]):
    """One incarnation of a client that writes; subclasses choose the records and the time.

    _drops_if_full: drop the records that a full local queue refuses, and do not send them later.
    """

    _log: SendLog

    def __init__(self, spec: Spec, channel: Channel, lifecycle: Lifecycle, keys: Keys | None = None) -> None:
        super().__init__(spec, channel, lifecycle)
        self._keys = keys
        self._partition, self._drops_if_full = partitioner(None, 0, UNASSIGNED), False
        self._values = ValueFactory(
            spec.run_token, spec.client, spec.incarnation, spec.value_size, keys.bytes if keys else ()
        )
        kept = kept_by(spec.config, spec.transactions is not None, spec.steady)
        self._log = SendLog(TableWriter(spec.ledger, "sends", spec.writer), spec, keys, kept)
        self._throttled = Throttled("producer")
        callbacks = {"error_cb": self._on_error, "throttle_cb": self._throttled}
        settings = {**connection(spec), **callbacks, **spec.config}
        if txns := spec.transactions:
            settings |= {"transactional.id": txns.id, "transaction.timeout.ms": round(txns.timeout_s * 1000)}
        self._kafka = KafkaProducer(settings)

    def _send(self, due: int) -> int:
        """Send up to `due` records with one time stamp. Returns the number that librdkafka took or refused."""
        first = self._next
        count = min(due, CHUNK, self._values.room(first))
        numbers = self._keys.of(np.arange(first, first + count)) if self._keys else None
        invoked_us = now_us()
        made: list[Any] = self._values.make(first, count, invoked_us, numbers)
        keys = [self._keys.bytes[n] for n in numbers] if self._keys and numbers is not None else repeat(None)
        partitions = self._partition(first, count, numbers)
        more = self._arguments(first, made, keys, self._timestamp_ms(invoked_us))
        values = iter(made)
        calls = map(self._kafka.produce, self._spec.topics_from(first), values, keys, partitions, *more)
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

    def _timestamp_ms(self, call_us: int) -> int:
        """Return the timestamp of records that are sent now; 0 if librdkafka sets it."""
        return 0

    def _arguments(
        self, first: int, values: list[Any], keys: Iterable[bytes | None], timestamp_ms: int
    ) -> tuple[Iterable[Any], ...]:
        """Return the arguments of `produce` from the callback on. Takes the values from tombstones."""
        marked = self._keys.tombstones(first, len(values)) if self._keys else []
        if not any(marked):
            callback = repeat(self._log.on_delivery)
            return (callback, repeat(None), repeat(timestamp_ms)) if timestamp_ms else (callback,)
        callbacks: list[Any] = [self._log.on_delivery] * len(values)
        headers: list[list[tuple[str, bytes]] | None] = [None] * len(values)
        for i, (key, value) in enumerate(zip(keys, values, strict=True)):
            if marked[i]:
                identity = of_tombstone(value, key)
                values[i], headers[i] = None, [(IDENTITY_HEADER, identity)]
                callbacks[i] = self._log.on_delivery_of(identity)
        return callbacks, repeat(None), repeat(timestamp_ms), headers

    def _waiting(self) -> int:
        return len(self._kafka)

    def _wait(self, timeout_s: float) -> None:
        self._kafka.poll(timeout_s)

    def _purge(self) -> None:
        self._kafka.purge()
        self._kafka.flush(1)

    def _throttling(self) -> dict[str, list[int]]:
        return self._throttled.progress()

    def _on_error(self, error: KafkaError) -> None:
        log(f"{error.name()}: {error.str()}")
        if error.fatal() and not self._fatal:  # an idempotent producer that can no longer keep its guarantees
            self._fatal = True
            self._lifecycle.error(f"{error.name()}: {error.str()}", fatal=True)

    def _call_init(self) -> bool:
        try:
            self._kafka.init_transactions(CALL_S)
            return True
        except KafkaException as e:
            error = error_of("init_transactions", e)
            if not error.retriable() and not self._giving_up():
                raise
            return False

    def _call_begin(self) -> None:
        self._kafka.begin_transaction()

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

"""kafka-python's producer, for the programs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from chaos.clients.pacer import TICK_S
from chaos.clients.python.library import END_S, Outgoing, ProducerAdapter, Report, Settings
from chaos.run.events import now_us


def _limited(call: Callable[[], None]) -> None:
    """Make a call in a thread. Raises the error of the call, and `KafkaTimeoutError` if it did not end within `END_S`.

    Releases 2.2.x may wait without end when the producer is fenced.
    """
    ends: list[KafkaError | None] = []

    def run() -> None:
        try:
            call()
        except KafkaError as e:
            ends.append(e)
        else:
            ends.append(None)

    thread = threading.Thread(target=run, name="end of transaction", daemon=True)
    thread.start()
    thread.join(END_S)
    if not ends:  # also if another exception ended the thread: then nobody knows the outcome
        raise KafkaTimeoutError(f"the transaction did not end within {END_S:g} s")
    if ends[0] is not None:
        raise ends[0]


class Producer(ProducerAdapter):
    """A KafkaProducer, which sends in a thread.

    The futures are looked at, and have no callbacks: early releases may lose a callback that is added while the answer
    arrives.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._kafka = KafkaProducer(**settings)
        self._futures: dict[int, Any] = {}

    def send(self, records: Sequence[Outgoing], idle: Callable[[], None]) -> int:
        """Hand records over. It blocks while there is no room or no metadata, for at most max_block_ms."""
        for taken, record in enumerate(records):
            try:
                future = self._kafka.send(
                    record.topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
            except KafkaTimeoutError:
                return taken
            except (KafkaError, AssertionError) as e:
                self.reports.append(Report(record.seq, now_us(), error=e, taken=False))
                continue
            if future.is_done and isinstance(future.exception, MessageSizeTooLargeError):
                self.reports.append(Report(record.seq, now_us(), error=future.exception, taken=False))
            else:
                self._futures[record.seq] = future
        return len(records)

    def wait(self, timeout_s: float) -> None:
        """Let reports arrive for at most `timeout_s`."""
        until = time.monotonic() + timeout_s
        while not self._collect() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, TICK_S / 4))

    def _collect(self) -> bool:
        """Read the futures that have an answer. Returns whether there are any."""
        done = [seq for seq, future in self._futures.items() if future.is_done]
        at_us = now_us()
        for seq in done:
            future = self._futures.pop(seq)
            if future.exception is not None:
                self.reports.append(Report(seq, at_us, error=future.exception))
            else:
                self.reports.append(Report(seq, at_us, future.value.partition, future.value.offset))
        return bool(done)

    def init_transactions(self) -> None:
        """Fence earlier producers with the same transactional.id."""
        self._kafka.init_transactions()

    def begin(self) -> None:
        """Begin a transaction."""
        self._kafka.begin_transaction()

    def commit(self) -> None:
        """Commit the transaction."""
        _limited(self._kafka.commit_transaction)

    def abort(self) -> None:
        """Abort the transaction."""
        _limited(self._kafka.abort_transaction)

    def close(self, timeout_s: float) -> None:
        """Close the producer within a time."""
        self._kafka.close(timeout_s)

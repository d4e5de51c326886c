"""aiokafka's producer, for the programs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError

from chaos.clients.aiokafka.event_loop import EventLoop
from chaos.clients.python.library import END_S, Outgoing, ProducerAdapter, Report, Settings
from chaos.run.events import now_us


class Producer(ProducerAdapter):
    """An AIOKafkaProducer on an event loop."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._loop = EventLoop()
        self._arrived = threading.Event()
        self._transactional = "transactional_id" in settings
        self._kafka: Any = None
        self._settings = settings
        if not self._transactional:
            self._start()

    def _start(self) -> None:
        async def start() -> Any:
            producer = AIOKafkaProducer(**self._settings)
            try:
                await producer.start()
            except BaseException:
                await producer.stop()
                raise
            return producer

        self._kafka = self._loop.call(start())

    def send(self, records: Sequence[Outgoing], idle: Callable[[], None]) -> int:
        """Hand records over. The library waits while a partition has no room."""
        return self._loop.call(self._send_all(records), idle)

    async def _send_all(self, records: Sequence[Outgoing]) -> int:
        for taken, record in enumerate(records):
            try:
                future = await self._kafka.send(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    record.timestamp_ms,
                    record.headers or None,
                )
            except KafkaTimeoutError:
                return taken
            except (KafkaError, ValueError) as e:
                self._report(Report(record.seq, now_us(), error=e, taken=False))
                continue
            future.add_done_callback(partial(self._answered, record.seq))
        return len(records)

    def _answered(self, seq: int, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            self._report(Report(seq, now_us(), error=asyncio.CancelledError()))
        elif (error := future.exception()) is not None:
            self._report(Report(seq, now_us(), error=error))
        elif (metadata := future.result()) is None:  # acks=0
            self._report(Report(seq, now_us()))
        else:
            # a duplicate of an idempotent producer has no offset; the library counts up from -1
            start = metadata.log_start_offset
            offset = None if start is not None and start < 0 else metadata.offset
            self._report(Report(seq, now_us(), metadata.partition, offset))

    def _report(self, report: Report) -> None:
        self.reports.append(report)
        self._arrived.set()

    def wait(self, timeout_s: float) -> None:
        """Let reports arrive for at most `timeout_s`."""
        if not self.reports and timeout_s:
            self._arrived.wait(timeout_s)
        self._arrived.clear()

    def init_transactions(self) -> None:
        """Fence earlier producers with the same transactional.id: the start of the producer does it."""
        if self._kafka is None:
            self._start()

    def begin(self) -> None:
        """Begin a transaction."""
        self._loop.call(self._kafka.begin_transaction())

    def commit(self) -> None:
        """Commit the transaction."""
        self._ended(self._kafka.commit_transaction())

    def abort(self) -> None:
        """Abort the transaction. The library asserts that no error was fatal: a fence is."""
        try:
            self._ended(self._kafka.abort_transaction())
        except AssertionError as e:
            raise KafkaError(str(e)) from None

    def _ended(self, request: Coroutine[Any, Any, None]) -> None:
        """Wait for the end of a transaction. Raises `KafkaTimeoutError` after `END_S`."""
        try:
            self._loop.start(request).result(END_S)
        except TimeoutError:
            raise KafkaTimeoutError(f"the transaction did not end within {END_S:g} s") from None

    def close(self, timeout_s: float) -> None:
        """Close the producer within a time, unless it hangs."""
        if self._kafka is None:
            return
        future = self._loop.start(self._kafka.stop())
        try:
            future.result(timeout_s)
        except TimeoutError:
            future.cancel()

"""aiokafka for the programs of `chaos.clients.python`: its consumer and its producer, on an event loop in a thread."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError

from chaos.clients.aiokafka.traits import TRAITS
from chaos.clients.protocol import Partition, WriterSpec
from chaos.clients.python.assignments import StartPosition
from chaos.clients.python.library import (
    END_S,
    IDLE_POLL_S,
    Batch,
    ConsumerAdapter,
    Done,
    Library,
    Listener,
    PurePython,
    Report,
    ReportingProducer,
    Settings,
)
from chaos.clients.python.rows import SendLog
from chaos.clients.traits import number
from chaos.run.events import now_us

try:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
except ImportError:  # before 0.9.0
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

T = TypeVar("T")

QUOTES_NAMES_SINCE = (0, 12, 0)
CHECK_S = 0.01
KNOWN_WITHIN_S = 0.02
"""Longest wait for a position that the library has: it answers such a request at once."""
PAUSE_S = 0.01

Job = tuple[Future[None], Callable[[Collection[Partition]], None], list[Partition]]


class EventLoop:
    """An event loop that runs until the process ends."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="event loop", daemon=True).start()

    def start(self, request: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, and return its future."""
        return asyncio.run_coroutine_threadsafe(request, self._loop)

    def call(self, request: Coroutine[Any, Any, T], meanwhile: Callable[[], object] | None = None) -> T:
        """Run a coroutine, and return its result. meanwhile: called now and then until it is there."""
        future = self.start(request)
        while meanwhile is not None and not future.done():
            meanwhile()
            try:
                return future.result(CHECK_S)
            except TimeoutError:
                if future.done():  # the coroutine raised it
                    raise
        return future.result()


class Consumer(ConsumerAdapter):
    """An AIOKafkaConsumer on an event loop.

    The library calls listeners while the program processes records. They wait until it polls or closes, and run there,
    as an application does that locks its processing against rebalances.
    """

    def __init__(self, settings: Settings) -> None:
        self._loop = EventLoop()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._taken: set[Partition] = set()
        """Partitions that were taken away during the current poll."""
        self._kafka: Any = self._loop.call(self._started(settings))

    async def _started(self, settings: Settings) -> Any:
        consumer = AIOKafkaConsumer(**settings)
        await consumer.start()
        return consumer

    def subscribe(self, topics: Sequence[str], pattern: str | None, listener: Listener) -> None:
        """Join the group, with topics or with a pattern."""

        async def subscribe() -> None:
            handed_over = _listener(self._hand_over, listener, self._taken)
            self._kafka.subscribe(topics=() if pattern else list(topics), pattern=pattern, listener=handed_over)

        self._loop.call(subscribe())

    def _hand_over(self, call: Callable[[Collection[Partition]], None], partitions: list[Partition]) -> Future[None]:
        """Let the thread of the program make a call. Returns the future of its end."""
        future: Future[None] = Future()
        self._jobs.put((future, call, partitions))
        return future

    def _run_jobs(self) -> None:
        while not self._jobs.empty():
            future, call, partitions = self._jobs.get()
            try:
                call(partitions)
            except BaseException as e:
                future.set_exception(e)
                raise
            future.set_result(None)

    def assign(self, starts: Mapping[Partition, int], held: Collection[Partition]) -> None:
        """Read partitions from an offset. The library forgets all positions, so they are set again."""
        positions = {p: o for p in held if (o := self._position(p)) is not None} | dict(starts)

        async def assign() -> None:
            self._kafka.assign([TopicPartition(*p) for p in (*held, *starts)])
            for partition, offset in positions.items():
                self._kafka.seek(TopicPartition(*partition), offset)

        self._loop.call(assign())

    def poll(self, most: int, idle: Callable[[], None], wait_s: float = IDLE_POLL_S) -> Sequence[Any]:
        """Return up to `most` records that are there, or the first ones that arrive within `wait_s`."""
        until = time.monotonic() + wait_s
        while True:
            self._run_jobs()
            self._taken.clear()
            # during a rebalance it returns only when that is done, which needs the listener
            found = self._loop.call(self._kafka.getmany(timeout_ms=0, max_records=most), self._run_jobs)
            self._run_jobs()
            records = [r for r in chain.from_iterable(found.values()) if (r.topic, r.partition) not in self._taken]
            if records or time.monotonic() >= until:
                return records
            time.sleep(PAUSE_S)

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at an offset."""

        async def seek() -> None:
            self._kafka.seek(TopicPartition(*partition), offset)

        self._loop.call(seek())

    def take(self, partitions: Collection[Partition]) -> dict[Partition, StartPosition]:
        """Pause new partitions until they are located."""

        async def pause() -> None:
            self._kafka.pause(*[TopicPartition(*p) for p in partitions])

        self._loop.call(pause())
        return {}

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""

        async def resume() -> None:
            self._kafka.resume(*[TopicPartition(*p) for p in partitions])

        self._loop.call(resume())

    def located(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the next offset of each partition for which the library has determined it. Asks no broker."""
        return {p: offset for p in partitions if (offset := self._position(p)) is not None}

    def _position(self, partition: Partition) -> int | None:
        async def position() -> int | None:
            try:
                return int(await asyncio.wait_for(self._kafka.position(TopicPartition(*partition)), KNOWN_WITHIN_S))
            except (TimeoutError, IllegalStateError, AttributeError):  # the last one: nothing is assigned yet
                return None

        return self._loop.call(position())

    def committed(self, partition: Partition) -> int | None:
        """Return the committed offset; None without one."""
        offset: int | None = self._loop.call(self._kafka.committed(TopicPartition(*partition)))
        return offset

    def partitions_of(self, topic: str) -> Collection[int]:
        """Return the partitions of a topic, asked for now; empty if it has none.

        `partitions_for_topic` knows the topics only that the consumer has.
        """
        metadata = self._loop.call(self._kafka._client.fetch_all_metadata())
        return metadata.partitions_for_topic(topic) or ()

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        """Return log start offset and high watermark."""
        tp = TopicPartition(*partition)
        low = self._loop.call(self._kafka.beginning_offsets([tp]))
        return int(low[tp]), int(self._loop.call(self._kafka.end_offsets([tp]))[tp])

    def offsets_at(self, partitions: Collection[Partition], timestamp_ms: int) -> dict[Partition, int | None]:
        """Return the first offset at or after a time; None without one."""
        asked = {TopicPartition(*p): timestamp_ms for p in partitions}
        found = self._loop.call(self._kafka.offsets_for_times(asked))
        answers = {p: found.get(TopicPartition(*p)) for p in partitions}
        return {p: None if answer is None else int(answer.offset) for p, answer in answers.items()}

    def commit(self, offsets: Mapping[Partition, int]) -> Mapping[Partition, Exception]:
        """Commit, and wait for the answer."""
        self._loop.call(self._kafka.commit({TopicPartition(*p): o for p, o in offsets.items()}))
        return {}

    def commit_later(self, offsets: Mapping[Partition, int], done: Done) -> None:
        """Commit without waiting."""
        future = self._loop.start(self._kafka.commit({TopicPartition(*p): o for p, o in offsets.items()}))
        future.add_done_callback(lambda answer: done(answer.exception(), None))

    def membership(self) -> tuple[str | None, int | None]:
        """Return member id and generation; None outside of a group. The library has no public way."""
        coordinator = self._kafka._coordinator
        generation = coordinator.generation
        return coordinator.member_id or None, generation if generation >= 0 else None

    def close(self) -> None:
        """Close the consumer; a group member leaves its group."""
        self._loop.call(self._kafka.stop(), self._run_jobs)


def _listener(
    hand_over: Callable[[Callable[[Collection[Partition]], None], list[Partition]], Future[None]],
    listener: Listener,
    taken: set[Partition],
) -> ConsumerRebalanceListener:
    """Return a listener with calls in the thread of the program. The library never says what is lost."""

    class HandedOver(ConsumerRebalanceListener):  # type: ignore[misc]  # its types are not part of this environment
        async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            partitions = [(p.topic, p.partition) for p in assigned]
            await asyncio.wrap_future(hand_over(listener.assigned, partitions))

        async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            partitions = [(p.topic, p.partition) for p in revoked]
            await asyncio.wrap_future(hand_over(listener.revoked, partitions))
            taken.update(partitions)

    return HandedOver()


class Producer(ReportingProducer):
    """An AIOKafkaProducer on an event loop."""

    def __init__(self, library: Library, spec: WriterSpec, log: SendLog, settings: Settings) -> None:
        super().__init__(library, spec, log)
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

    def _hand_over(self, batch: Batch, idle: Callable[[], None]) -> int:
        """Hand records over. The library waits while a partition has no room."""
        return self._loop.call(self._send_all(batch), idle)

    async def _send_all(self, batch: Batch) -> int:
        for taken, (seq, topic, value, key, partition, headers) in enumerate(batch.records()):
            try:
                future = await self._kafka.send(topic, value, key, partition, batch.timestamp_ms, headers or None)
            except KafkaTimeoutError:
                return taken
            except (KafkaError, ValueError) as e:
                self._report(Report(seq, now_us(), error=e, taken=False))
                continue
            future.add_done_callback(partial(self._report_of, seq))
        return len(batch.values)

    def _report_of(self, seq: int, future: asyncio.Future[Any]) -> None:
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


def _settings(client: Callable[..., object]) -> dict[str, Any]:
    """Return the settings of a client, with their defaults."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(client).parameters.items()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    }


LIBRARY = PurePython(
    TRAITS,
    aiokafka.__version__,
    errors=(KafkaError, KafkaTimeoutError),
    producer=(Producer, _settings(AIOKafkaProducer)),
    consumer=(Consumer, _settings(AIOKafkaConsumer)),
    assignors={
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    },
    quotes_names=number(aiokafka.__version__) >= QUOTES_NAMES_SINCE,
)

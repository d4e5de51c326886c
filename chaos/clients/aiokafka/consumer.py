"""aiokafka's consumer, for the programs."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError

from chaos.clients.aiokafka.event_loop import EventLoop
from chaos.clients.protocol import Partition
from chaos.clients.python.library import ConsumerAdapter, Done, Listener, Settings
from chaos.clients.reader import IDLE_POLL_S

KNOWN_WITHIN_S = 0.02
"""Longest wait for a position that the library has: it answers such a request at once."""
PAUSE_S = 0.01

Job = tuple[Future[None], Callable[[Collection[Partition]], None], list[Partition]]


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

    def assign(self, partitions: Collection[Partition]) -> None:
        """Read these partitions, without a group. The library forgets all positions, so they are set again."""
        kept = {p: o for p in partitions if (o := self.position(p)) is not None}

        async def assign() -> None:
            self._kafka.assign([TopicPartition(*p) for p in partitions])
            for partition, offset in kept.items():
                self._kafka.seek(TopicPartition(*partition), offset)

        self._loop.call(assign())

    def poll(self, most: int) -> Sequence[Any]:
        """Return up to `most` records that are there, or the first ones that arrive within `IDLE_POLL_S`."""
        until = time.monotonic() + IDLE_POLL_S
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

    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no records of these partitions."""

        async def pause() -> None:
            self._kafka.pause(*[TopicPartition(*p) for p in partitions])

        self._loop.call(pause())

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""

        async def resume() -> None:
            self._kafka.resume(*[TopicPartition(*p) for p in partitions])

        self._loop.call(resume())

    def position(self, partition: Partition) -> int | None:
        """Return the next offset; None if the library has not determined it yet. Asks no broker."""

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

    def offset_at(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a time; None without one."""
        tp = TopicPartition(*partition)
        found = self._loop.call(self._kafka.offsets_for_times({tp: timestamp_ms})).get(tp)
        return None if found is None else int(found.offset)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit, and wait for the answer."""
        self._loop.call(self._kafka.commit({TopicPartition(*p): o for p, o in offsets.items()}))

    def commit_later(self, offsets: Mapping[Partition, int], done: Done) -> None:
        """Commit without waiting."""
        future = self._loop.start(self._kafka.commit({TopicPartition(*p): o for p, o in offsets.items()}))
        future.add_done_callback(lambda answer: done(answer.exception()))

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
    """Return a listener whose calls run in the thread of the program. The library never says what is lost."""

    class HandedOver(ConsumerRebalanceListener):  # type: ignore[misc]  # its types are not part of this environment
        async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            partitions = [(p.topic, p.partition) for p in assigned]
            await asyncio.wrap_future(hand_over(listener.assigned, partitions))

        async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            partitions = [(p.topic, p.partition) for p in revoked]
            await asyncio.wrap_future(hand_over(listener.revoked, partitions))
            taken.update(partitions)

    return HandedOver()

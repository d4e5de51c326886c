"""kafka-python for the programs of `chaos.clients.python`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import Any

import kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from chaos.clients.kafka_python.traits import ASYNC_LISTENER_SINCE, TRAITS
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
from chaos.clients.python.load import TICK_S
from chaos.clients.python.rows import SendLog
from chaos.clients.traits import number
from chaos.run.events import now_us

RELEASE: str = kafka.__version__
BY_EVENT_LOOP = number(RELEASE) >= number(ASYNC_LISTENER_SINCE)
"""Whether listeners run in the event loop of the library, where a blocking request would wait for itself."""
HAS_TIMEOUTS = number(RELEASE) >= (2, 1, 0)
ANSWER_MS = 5000
"""Longest wait for a committed offset, in releases that can limit it."""


class Consumer(ConsumerAdapter):
    """A KafkaConsumer."""

    def __init__(self, settings: Settings) -> None:
        self._kafka = KafkaConsumer(**settings)

    def subscribe(self, topics: Sequence[str], pattern: str | None, listener: Listener) -> None:
        """Join the group, with topics or with a pattern."""
        build = _loop_listener if BY_EVENT_LOOP else _blocking_listener
        self._kafka.subscribe(topics=() if pattern else topics, pattern=pattern, listener=build(listener, self._kafka))

    def assign(self, starts: Mapping[Partition, int], held: Collection[Partition]) -> None:
        """Read partitions from an offset."""
        self._kafka.assign([TopicPartition(*p) for p in (*held, *starts)])
        for partition, offset in starts.items():
            self.seek(partition, offset)

    def poll(self, most: int, idle: Callable[[], None], wait_s: float = IDLE_POLL_S) -> Sequence[Any]:
        """Return up to `most` records that are there, or the first ones that arrive within `wait_s`."""
        records = self._kafka.poll(timeout_ms=round(wait_s * 1000), max_records=most)
        return list(chain.from_iterable(records.values()))

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at an offset."""
        self._kafka.seek(TopicPartition(*partition), offset)

    def take(self, partitions: Collection[Partition]) -> dict[Partition, StartPosition]:
        """Pause new partitions until they are located."""
        self._kafka.pause(*[TopicPartition(*p) for p in partitions])
        return {}

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""
        self._kafka.resume(*[TopicPartition(*p) for p in partitions])

    def located(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the next offset of each partition for which the library has determined it. Asks no broker.

        `KafkaConsumer.position` would determine it, and so hide how the library does that in its polls.
        """
        states = {p: self._kafka._subscription.assignment.get(TopicPartition(*p)) for p in partitions}
        positions = {p: state.position for p, state in states.items() if state is not None}
        return {p: int(getattr(found, "offset", found)) for p, found in positions.items() if found is not None}

    def committed(self, partition: Partition) -> int | None:
        """Return the committed offset; None without one."""
        limit = {"timeout_ms": ANSWER_MS} if HAS_TIMEOUTS else {}
        offset: int | None = self._kafka.committed(TopicPartition(*partition), **limit)
        return offset

    def partitions_of(self, topic: str) -> Collection[int]:
        """Return the partitions of a topic, asked for now; empty if it has none."""
        self._kafka.topics()  # refreshes the metadata
        return self._kafka.partitions_for_topic(topic) or ()

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        """Return log start offset and high watermark."""
        tp = TopicPartition(*partition)
        return int(self._kafka.beginning_offsets([tp])[tp]), int(self._kafka.end_offsets([tp])[tp])

    def offsets_at(self, partitions: Collection[Partition], timestamp_ms: int) -> dict[Partition, int | None]:
        """Return the first offset at or after a time; None without one."""
        found = self._kafka.offsets_for_times({TopicPartition(*p): timestamp_ms for p in partitions})
        answers = {p: found.get(TopicPartition(*p)) for p in partitions}
        return {p: None if answer is None else int(answer.offset) for p, answer in answers.items()}

    def commit(self, offsets: Mapping[Partition, int]) -> Mapping[Partition, Exception]:
        """Commit, and wait for the answer."""
        self._kafka.commit(_structures(offsets))
        return {}

    def commit_later(self, offsets: Mapping[Partition, int], done: Done) -> None:
        """Commit without waiting. The answer arrives during a later poll."""

        def answered(_: object, answer: object) -> None:
            done(answer if isinstance(answer, Exception) else None, None)

        self._kafka.commit_async(_structures(offsets), callback=answered)

    def membership(self) -> tuple[str | None, int | None]:
        """Return member id and generation; None outside of a group. Only 3.0 and later have a public way."""
        generation = self._kafka._coordinator._generation
        return generation.member_id or None, generation.generation_id if generation.generation_id >= 0 else None

    def close(self) -> None:
        """Close the consumer; a group member leaves its group."""
        self._kafka.close()


def _structures(offsets: Mapping[Partition, int]) -> dict[TopicPartition, Any]:
    """Return offsets in the form of the library; the leader epoch is in releases from 2.1.0 on."""
    more = ("", -1) if HAS_TIMEOUTS else ("",)
    return {TopicPartition(*p): OffsetAndMetadata(offset, *more) for p, offset in offsets.items()}


def _plain(partitions: Collection[TopicPartition]) -> list[Partition]:
    return [(p.topic, p.partition) for p in partitions]


def _blocking_listener(listener: Listener, _: KafkaConsumer) -> ConsumerRebalanceListener:
    """Return a listener for releases that call it where requests may block. They never say that partitions are lost."""

    class Blocking(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
        def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            listener.assigned(_plain(assigned))

        def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            listener.revoked(_plain(revoked))

    return Blocking()


def _loop_listener(listener: Listener, consumer: KafkaConsumer) -> object:
    """Return a listener for releases that call it in their event loop: it awaits the commit."""
    from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener

    class Awaiting(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
        async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            listener.assigned(_plain(assigned))

        async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            if ends := listener.offsets_to_commit(_plain(revoked)):
                error: KafkaError | None = None
                try:
                    await consumer.commit_async(_structures(ends))
                except KafkaError as e:
                    error = e
                listener.committed_on_revocation(ends, error)
            listener.revoked(_plain(revoked))

        async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
            listener.lost(_plain(lost))

    return Awaiting()


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


class Producer(ReportingProducer):
    """A KafkaProducer, which sends in a thread.

    The futures are looked at, and have no callbacks: early releases may lose a callback that is added while the answer
    arrives.
    """

    def __init__(self, library: Library, spec: WriterSpec, log: SendLog, settings: Settings) -> None:
        super().__init__(library, spec, log)
        self._kafka = KafkaProducer(**settings)
        self._futures: dict[int, Any] = {}

    def _hand_over(self, batch: Batch, idle: Callable[[], None]) -> int:
        """Hand records over. It blocks while there is no room or no metadata, for at most max_block_ms."""
        for taken, (seq, topic, value, key, partition, headers) in enumerate(batch.records()):
            try:
                future = self._kafka.send(
                    topic,
                    value=value,
                    key=key,
                    headers=headers,
                    partition=partition,
                    timestamp_ms=batch.timestamp_ms,
                )
            except KafkaTimeoutError:
                return taken
            except (KafkaError, AssertionError) as e:
                self.reports.append(Report(seq, now_us(), error=e, taken=False))
                continue
            if future.is_done and isinstance(future.exception, MessageSizeTooLargeError):
                self.reports.append(Report(seq, now_us(), error=future.exception, taken=False))
            else:
                self._futures[seq] = future
        return len(batch.values)

    def wait(self, timeout_s: float) -> None:
        """Let reports arrive for at most `timeout_s`."""
        until = time.monotonic() + timeout_s
        while not self._read_futures() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, TICK_S / 4))

    def _read_futures(self) -> bool:
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


PACKAGE = "kafka.coordinator.assignors"
ASSIGNORS = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky", "sticky_assignor.StickyPartitionAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}
"""The module and the class of each assignor; sticky is in 2.0.2 and later, cooperative-sticky in 3.0.0 and later."""


def _assignors() -> dict[str, type]:
    """Return the assignors that this release has."""
    found = {}
    for name, (module, path) in ASSIGNORS.items():
        if find_spec(f"{PACKAGE}.{module}"):
            inner, _, own = path.rpartition(".")
            found[name] = getattr(import_module(".".join(filter(None, [PACKAGE, module, inner]))), own)
    return found


LIBRARY = PurePython(
    TRAITS,
    RELEASE,
    errors=(KafkaError, KafkaTimeoutError),
    producer=(Producer, KafkaProducer.DEFAULT_CONFIG),
    consumer=(Consumer, KafkaConsumer.DEFAULT_CONFIG),
    assignors=_assignors(),
)

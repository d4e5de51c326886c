"""kafka-python's consumer, for the programs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from chaos.clients.kafka_python.traits import ASYNC_LISTENER_SINCE
from chaos.clients.protocol import Partition
from chaos.clients.python.library import ConsumerAdapter, Done, Listener, Settings
from chaos.clients.reader import IDLE_POLL_S
from chaos.clients.traits import number

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

    def assign(self, partitions: Collection[Partition]) -> None:
        """Read these partitions, without a group."""
        self._kafka.assign([TopicPartition(*p) for p in partitions])

    def poll(self, most: int) -> Sequence[Any]:
        """Return up to `most` records that are there, or the first ones that arrive within `IDLE_POLL_S`."""
        records = self._kafka.poll(timeout_ms=round(IDLE_POLL_S * 1000), max_records=most)
        return list(chain.from_iterable(records.values()))

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at an offset."""
        self._kafka.seek(TopicPartition(*partition), offset)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no records of these partitions."""
        self._kafka.pause(*[TopicPartition(*p) for p in partitions])

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""
        self._kafka.resume(*[TopicPartition(*p) for p in partitions])

    def position(self, partition: Partition) -> int | None:
        """Return the next offset; None if the library has not determined it yet. Asks no broker.

        `KafkaConsumer.position` would determine it, and so hide how the library does that in its polls.
        """
        state = self._kafka._subscription.assignment.get(TopicPartition(*partition))
        position = None if state is None else state.position
        return None if position is None else int(getattr(position, "offset", position))

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

    def offset_at(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a time; None without one."""
        tp = TopicPartition(*partition)
        found = self._kafka.offsets_for_times({tp: timestamp_ms}).get(tp)
        return None if found is None else int(found.offset)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit, and wait for the answer."""
        self._kafka.commit(_structures(offsets))

    def commit_later(self, offsets: Mapping[Partition, int], done: Done) -> None:
        """Commit without waiting. The answer arrives during a later poll."""

        def answered(_: object, answer: object) -> None:
            done(answer if isinstance(answer, Exception) else None)

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

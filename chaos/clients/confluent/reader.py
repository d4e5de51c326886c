"""The base of both kinds of consumers on librdkafka; see `chaos.clients.reader`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from chaos.clients import reader
from chaos.clients.columns import Columns
from chaos.clients.confluent.columns import consumed
from chaos.clients.confluent.commits import Committer
from chaos.clients.confluent.library import Throttled, connection
from chaos.clients.confluent.outcomes import describe
from chaos.clients.confluent.positions import seek_targets
from chaos.clients.program import Channel, Lifecycle, log
from chaos.clients.protocol import AssignConsumerSpec, GroupConsumerSpec, Partition
from chaos.errors import ClientError

Spec = TypeVar("Spec", bound=GroupConsumerSpec | AssignConsumerSpec)


class Reader(reader.Reader[Spec, Committer]):
    """One incarnation of a consumer, except for the way in which it gets its partitions."""

    Errors = (KafkaException,)

    def __init__(self, spec: Spec, channel: Channel, lifecycle: Lifecycle, group_id: str) -> None:
        super().__init__(spec, channel, lifecycle, Committer)
        self.throttled = Throttled("consumer")
        self._resumed = 0
        # the scenario's config wins, except over its own commit setting
        self.settings: dict[str, Any] = {
            **connection(spec),
            "group.id": group_id,
            "on_commit": self._committer.on_commit,
            "error_cb": self._on_error,
            "throttle_cb": self.throttled,
            **spec.config,
            **self._committer.settings(),
        }
        self.consumer = Consumer(self.settings)

    def _on_error(self, error: KafkaError) -> None:
        log(f"{error.name()}: {error.str()}")

    def _poll(self) -> list[Message]:
        """Return the records that are there, or the next record when it arrives: never wait for a full batch."""
        self._resume()
        batch: list[Message] = self.consumer.consume(self._spec.max_poll_records, 0.0)
        if not batch:
            self.write_all()
            batch = self.consumer.consume(1, reader.IDLE_POLL_S)
        return batch

    def _resume(self) -> None:
        """Obey the orders to resume all partitions."""
        while self._resumed < self._channel.resumes and self.assignments.numbers:
            self.settle()
            self.consumer.resume([TopicPartition(*partition) for partition in self.assignments.numbers])
            self._resumed += 1

    def _seek(self, order: dict[str, Any]) -> Mapping[Partition, int]:
        targets = seek_targets(order, list(self.assignments.numbers), self.consumer)
        for partition, offset in targets.items():
            self.consumer.seek(TopicPartition(*partition, offset))
        return targets

    def look_for_starts(self, batch: Sequence[Message]) -> None:
        """Record the starts that the library chose and that a batch shows."""

    def _close_consumer(self) -> None:
        self.consumer.close()

    def more_progress(self) -> dict[str, Any]:
        """Return the throttled responses, and the number of orders to resume that it has obeyed."""
        sides = self.throttled.progress()
        resumed = {"resumed": self._resumed} if self._resumed else {}
        return resumed | ({"throttled": sides} if sides else {})

    def _columns(self, batch: Sequence[Message]) -> Columns | None:
        self.look_for_starts(batch)
        records = consumed(batch, self._deliveries.needs_topics)
        if records is not None:
            return records
        self.write_all()
        for message in batch:
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                continue
            text = describe(error)
            if error.fatal() or error.code() == KafkaError._FATAL:  # a poll returns _FATAL without the fatal flag
                raise ClientError(text)
            self._lifecycle.error(text)
        batch = [m for m in batch if m.error() is None]
        return consumed(batch, self._deliveries.needs_topics) if batch else None

"""The reading side of a processor: a group member that writes the same rows as a group consumer.

Rows of `commits` have the kind transaction and the outcome of the transaction that contains the offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from chaos.clients.confluent import group
from chaos.clients.confluent.assignments import AssignmentLog, ReaderKey
from chaos.clients.confluent.columns import consumed
from chaos.clients.confluent.deliveries import DeliveryLog
from chaos.clients.confluent.lifecycle import log
from chaos.clients.confluent.sender import TICK_S
from chaos.clients.confluent.transactions import End
from chaos.clients.protocol import Partition, ProcessorSpec
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us

COMMIT_OUTCOMES = {"committed": "ok", "aborted": "fail", "unknown": "unknown"}
"""Outcome of the offset commits in a transaction, by the end of the transaction."""


class Source:
    """The reading side of one incarnation of a processor.

    before_release: called before partitions are given up, with whether the other partitions stay assigned.
    read: offset after the last record read of each partition, since the last end of a transaction.
    """

    def __init__(
        self, spec: ProcessorSpec, on_error: Callable[[KafkaError], None], before_release: Callable[[bool], None]
    ) -> None:
        self._spec, self._on_error, self._before_release = spec, on_error, before_release
        self._key = ReaderKey(spec.client, spec.incarnation, spec.group, "subscribe")
        self._assignments = AssignmentLog(TableWriter(spec.ledger, "assignments", spec.writer), self._key)
        self._deliveries = DeliveryLog(TableWriter(spec.ledger, "deliveries", spec.writer), self._key, spec.topics)
        self._commits = TableWriter(spec.ledger, "commits", spec.writer)
        self.consumer = Consumer(
            {
                **spec.connection(),
                "error_cb": on_error,
                **spec.consumer_config,
                "group.id": spec.group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
            }
        )
        self.read: dict[Partition, int] = {}

    def subscribe(self) -> None:
        """Join the group."""
        group.subscribe(self.consumer, self._spec.topics, self._on_assign, self._on_release)

    def poll(self, limit: int) -> list[Message]:
        """Return up to `limit` records that are there, or the next record if it arrives within `TICK_S`."""
        batch = self.consumer.consume(limit, 0.0) or self.consumer.consume(1, TICK_S)
        for message in batch:
            if (error := message.error()) is not None and error.code() != KafkaError._PARTITION_EOF:
                self._on_error(error)
        return [m for m in batch if m.error() is None]

    def deliver(self, batch: list[Message], polled_us: int) -> int:
        """Write the delivery rows of a batch. Returns the number of rows."""
        records = consumed(batch, self._deliveries.needs_topics)
        if records is None:
            return 0
        self._deliveries.add(records, polled_us)
        self.read |= self._deliveries.write(self._assignments.numbers)
        return len(records)

    def transaction_ended(self, end: End, requested_us: int | None) -> None:
        """Record the end of a transaction. `requested_us`: when its offsets were added; None if they were not."""
        if requested_us is not None:
            completed_us = now_us()
            self._commits.append_rows(
                {
                    **asdict(self._key),
                    "assignment": self._assignments.last_numbers.get((topic, partition)),
                    "topic": topic,
                    "partition": partition,
                    "offset": offset,
                    "kind": "transaction",
                    "outcome": COMMIT_OUTCOMES[end],
                    "error": None if end == "committed" else f"the transaction's end: {end}",
                    "requested_us": requested_us,
                    "completed_us": completed_us,
                }
                for (topic, partition), offset in self.read.items()
            )
        if end == "committed":
            self._assignments.processed(self.read)
        self.read = {}

    def rewind(self) -> bool:
        """Seek to the committed offsets, so that the records of an aborted transaction are read again.

        Returns False if that failed and has to be tried again.
        """
        held = [TopicPartition(*p) for p in self._assignments.numbers]
        _, starts = group.start_positions(self.consumer, held, self._spec.consumer_config)
        if any(start.offset is None for start in starts.values()):
            return False
        try:
            for partition, start in starts.items():
                self.consumer.seek(TopicPartition(*partition, start.offset))
        except KafkaException as e:
            log(f"seek failed, trying again: {e}")
            return False
        self._assignments.begin("seek", starts)
        return True

    def _on_assign(self, partitions: list[TopicPartition]) -> None:
        group.take(self.consumer, partitions, self._spec.consumer_config, self._assignments)

    def _on_release(self, event: Literal["revoked", "lost"], partitions: list[Partition]) -> None:
        self._before_release(event == "revoked" and group.is_incremental(self._spec.consumer_config))
        self._assignments.end(event, partitions)

    def progress(self) -> dict[str, Any]:
        """Return the fields of the progress event about reading."""
        return {"delivered": self._deliveries.delivered, **self._assignments.progress()}

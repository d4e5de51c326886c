"""What a processor reads: its side in the consumer group, with every row that a group consumer would write.

Rows of `commits` are of kind transaction, and have the outcome of the transaction that the offsets were part of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from chaos.clients.confluent.assignments import AssignmentLog, Beginning
from chaos.clients.confluent.columns import consumed
from chaos.clients.confluent.deliveries import DeliveryLog
from chaos.clients.confluent.group_consumer import ASK_TIMEOUT_S, membership
from chaos.clients.confluent.lifecycle import log
from chaos.clients.confluent.reset import reset_position
from chaos.clients.confluent.transactions import End
from chaos.clients.protocol import Partition, ProcessorSpec
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us

TICK_S = 0.01

COMMITS = {"committed": "ok", "aborted": "fail", "unknown": "unknown"}
"""The outcome of the offsets of a transaction, by how it ended."""


class Source:
    """The reading side of one incarnation of a processor.

    `give_up` is called before partitions are given up, and told whether others stay. `read` is the next offset after
    what was read of each partition since the last `done`.
    """

    def __init__(
        self, spec: ProcessorSpec, on_error: Callable[[KafkaError], None], give_up: Callable[[bool], None]
    ) -> None:
        self._spec, self._on_error, self._give_up = spec, on_error, give_up
        writers = {t: TableWriter(spec.ledger, t, spec.writer) for t in ("assignments", "deliveries", "commits")}
        who = (spec.client, spec.incarnation, spec.group, "subscribe")
        self._assignments = AssignmentLog(writers["assignments"], *who)
        self._deliveries = DeliveryLog(writers["deliveries"], *who, spec.topics)
        self._commits = writers["commits"]
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
        strategy = str(spec.consumer_config.get("partition.assignment.strategy", ""))
        self._incremental = "cooperative" in strategy or spec.consumer_config.get("group.protocol") == "consumer"
        self.read: dict[Partition, int] = {}

    def subscribe(self) -> None:
        """Join the group."""
        self.consumer.subscribe(
            self._spec.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def poll(self, most: int) -> list[Message]:
        """The records that are there, or the next one if it comes soon."""
        batch = self.consumer.consume(most, 0.0) or self.consumer.consume(1, TICK_S)
        for message in batch:
            if (error := message.error()) is not None and error.code() != KafkaError._PARTITION_EOF:
                self._on_error(error)
        return [m for m in batch if m.error() is None]

    def deliver(self, batch: list[Message], polled_us: int) -> int:
        """Write the rows of some records; returns their number."""
        records = consumed(batch, self._deliveries.needs_topics)
        if records is None:
            return 0
        self._deliveries.add(records, polled_us)
        self.read |= self._deliveries.write(self._assignments.numbers)
        return len(records)

    def done(self, ended: End, requested_us: int | None) -> None:
        """The transaction that what was read is part of has ended. requested_us: when its offsets went into it."""
        if requested_us is not None:
            self._commits.append_rows(self._commit_rows(ended, requested_us))
        if ended == "committed":
            self._assignments.processed(self.read)
        self.read = {}

    def _commit_rows(self, ended: End, requested_us: int) -> list[dict[str, object]]:
        at_us = now_us()
        return [
            {
                "consumer": self._spec.client,
                "incarnation": self._spec.incarnation,
                "group": self._spec.group,
                "mode": "subscribe",
                "assignment": self._assignments.last_numbers.get((topic, partition)),
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "kind": "transaction",
                "outcome": COMMITS[ended],
                "error": None if ended == "committed" else f"the transaction's end: {ended}",
                "requested_us": requested_us,
                "completed_us": at_us,
            }
            for (topic, partition), offset in self.read.items()
        ]

    def go_back(self) -> bool:
        """Read on from the committed offsets: what an aborted transaction read was not processed. False: try again."""
        held = [TopicPartition(*p) for p in self._assignments.numbers]
        targets, beginnings = self._beginnings(held)
        if any(b.position is None for b in beginnings.values()):
            return False
        try:
            for target in targets:
                self.consumer.seek(target)
        except KafkaException as e:
            log(f"seeking again: {e}")
            return False
        self._assignments.sought(beginnings)
        return True

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        member, generation = membership(consumer.consumer_group_metadata())
        self._assignments.member_id, self._assignments.generation = member, generation
        targets, beginnings = self._beginnings(partitions)
        (consumer.incremental_assign if self._incremental else consumer.assign)(targets)
        if beginnings:
            self._assignments.assigned(beginnings)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(self._incremental)
        self._assignments.ended("revoked", [(p.topic, p.partition) for p in partitions])

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(False)
        self._assignments.ended("lost", [(p.topic, p.partition) for p in partitions])

    def _beginnings(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[list[TopicPartition], Mapping[Partition, Beginning]]:
        """Where reading begins, as librdkafka takes it and as the ledger writes it."""
        beginnings = {(p.topic, p.partition): Beginning() for p in partitions}
        if not partitions:
            return [], beginnings
        try:
            answers = self.consumer.committed(list(partitions), timeout=ASK_TIMEOUT_S)
        except KafkaException as e:
            log(f"committed offsets unknown: {e}")
            return [TopicPartition(*p) for p in beginnings], beginnings
        for answer in answers:
            name = answer.topic, answer.partition
            if answer.error is None and answer.offset >= 0:
                beginnings[name] = Beginning(answer.offset, "committed")
            elif answer.error is None:
                position = reset_position(self.consumer, name, self._spec.consumer_config, ASK_TIMEOUT_S)
                beginnings[name] = Beginning() if position is None else Beginning(position, "reset")
        targets = [
            TopicPartition(*p) if b.position is None else TopicPartition(*p, b.position) for p, b in beginnings.items()
        ]
        return targets, beginnings

    def told(self) -> dict[str, Any]:
        """The part of the progress event that is about reading."""
        return {"delivered": self._deliveries.delivered, **self._assignments.told()}

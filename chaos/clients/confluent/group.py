"""The member of a consumer group: it subscribes, and reads the partitions that rebalances assign.

Each partition is read from an offset that the rebalance callback asked for, so it is on record. With `assign_by:
client`, the callback assigns the partitions without offsets, as applications do that leave it to librdkafka.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from chaos.clients.confluent.positions import left_to_library, start_positions
from chaos.clients.confluent.reader import Reader
from chaos.clients.program import Channel, Lifecycle
from chaos.clients.protocol import GroupConsumerSpec, Partition


class GroupConsumer(Reader[GroupConsumerSpec]):
    """One incarnation of a group member."""

    def __init__(self, spec: GroupConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        if spec.assign_by == "client":
            # without it, a start at the end of the log would never show
            spec = spec.model_copy(update={"config": {"enable.partition.eof": True, **spec.config}})
        super().__init__(spec, channel, lifecycle, spec.group)
        self.assignments.instance_id = str(spec.config.get("group.instance.id") or "") or None
        strategy = str(spec.config.get("partition.assignment.strategy", ""))
        self._incremental = "cooperative" in strategy or spec.config.get("group.protocol") == "consumer"
        """Whether partitions are assigned and revoked one by one: cooperative assignors and KIP-848."""
        self._unlocated: set[Partition] = set()
        """Assigned partitions that librdkafka starts to read where it chooses, until a batch shows where."""

    def run(self) -> bool:
        """Subscribe and read until the order to stop, then leave the group."""
        self.subscribe()
        self.read()
        self.close()
        return True

    def subscribe(self) -> None:
        """Join the group."""
        self.consumer.subscribe(
            self._spec.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Start to read newly assigned partitions, and record the assignment."""
        self.settle()
        self.assignments.member_id, self.assignments.generation = membership(consumer.consumer_group_metadata())
        if self._spec.assign_by == "client":
            targets, starts = left_to_library(partitions)
            self._unlocated.update(starts)
        else:
            targets, starts = start_positions(consumer, partitions, self._spec.config)
        (consumer.incremental_assign if self._incremental else consumer.assign)(targets)
        if starts:
            self.assignments.begin("assigned", starts)
        self.progress()

    def look_for_starts(self, batch: Sequence[Message]) -> None:
        """Record where reading began if it was at the end of the log; otherwise the first record shows it."""
        for message in batch if self._unlocated else ():
            partition = str(message.topic()), int(message.partition() or 0)
            error = message.error()
            at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if partition not in self._unlocated or (error is not None and not at_end):
                continue
            self._unlocated.discard(partition)
            if at_end and self.assignments.positions.get(partition) is None:
                self.assignments.locate(partition, int(message.offset() or 0))

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up("revoked", [(p.topic, p.partition) for p in partitions])

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up("lost", [(p.topic, p.partition) for p in partitions])

    def _give_up(self, event: Literal["revoked", "lost"], partitions: list[Partition]) -> None:
        """Write the last rows of partitions that are taken away; commit their offsets unless they are lost."""
        self.settle()
        if event == "revoked":
            self._committer.revoked(self.consumer, partitions)
        else:
            self._committer.forget(partitions)
        self._unlocated.difference_update(partitions)
        self.assignments.end(event, partitions)
        self.progress()


def membership(metadata: object) -> tuple[str | None, int | None]:
    """Return member id and generation from `Consumer.consumer_group_metadata()`; None if the format is unknown.

    confluent-kafka 2.x returns librdkafka's serialized form: `CGMDv2:`, the generation as a native int32, the group id
    and the member id, each with a trailing zero byte.
    """
    magic = b"CGMDv2:"
    if not isinstance(metadata, bytes) or not metadata.startswith(magic):
        return None, None
    rest = metadata[len(magic) :]
    names = rest[4:].split(b"\0")
    if len(rest) < 4 or len(names) < 3:
        return None, None
    (generation,) = struct.unpack("=i", rest[:4])
    return names[1].decode("utf-8", "replace") or None, generation if generation >= 0 else None

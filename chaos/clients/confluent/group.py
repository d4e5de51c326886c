"""The member of a consumer group: it subscribes, and reads each assigned partition from a known offset."""

from __future__ import annotations

import struct
from typing import Literal

from confluent_kafka import Consumer, TopicPartition

from chaos.clients.confluent.positions import start_positions
from chaos.clients.confluent.reader import Reader
from chaos.clients.program import Channel, Lifecycle
from chaos.clients.protocol import GroupConsumerSpec, Partition


class GroupConsumer(Reader[GroupConsumerSpec]):
    """One incarnation of a group member."""

    def __init__(self, spec: GroupConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(spec, channel, lifecycle, spec.group)
        self.assignments.instance_id = str(spec.config.get("group.instance.id") or "") or None
        strategy = str(spec.config.get("partition.assignment.strategy", ""))
        self._incremental = "cooperative" in strategy or spec.config.get("group.protocol") == "consumer"
        """Whether partitions are assigned and revoked one by one: cooperative assignors and KIP-848."""

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
        targets, starts = start_positions(consumer, partitions, self._spec.config)
        (consumer.incremental_assign if self._incremental else consumer.assign)(targets)
        if starts:
            self.assignments.begin("assigned", starts)
        self.progress()

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

"""The group consumer: `python -m chaos.clients.confluent.group_consumer SPEC`. Its protocol is that of `chaos.clients`.

It subscribes, and for each grant of partitions finds out where reading begins: it asks for the committed offset, or
else for what auto.offset.reset means at that moment, and assigns exactly that, so that the position in the ledger is
the position that was read from. Only when nobody answers it leaves the beginning to librdkafka, and the position is
null.

Commits happen as the commit setting says and at no other time: on revocation only where it says so. With kind auto,
librdkafka itself commits on revocation and on close.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from chaos.clients.channel import Channel
from chaos.clients.confluent.assignments import Beginning
from chaos.clients.confluent.lifecycle import Lifecycle, log
from chaos.clients.confluent.pool import PooledReader
from chaos.clients.confluent.reader import Reader, run_consumer, run_threads
from chaos.clients.confluent.reset import reset_position
from chaos.clients.protocol import GroupConsumerSpec, Partition

ASK_TIMEOUT_S = 5.0


class GroupConsumer:
    """One incarnation of a member of a group."""

    def __init__(self, spec: GroupConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        self._spec = spec
        kind = PooledReader if spec.workers else Reader
        self._reader: Reader = kind(spec, "subscribe", channel, lifecycle)
        self._consumer = Consumer(self._reader.settings(spec.group))
        strategy = str(spec.config.get("partition.assignment.strategy", ""))
        # the consumer protocol of KIP-848 hands out and takes away one by one, too
        self._incremental = "cooperative" in strategy or spec.config.get("group.protocol") == "consumer"

    def run(self) -> None:
        """Subscribe and read until the order to stop, then leave the group."""
        self._consumer.subscribe(
            self._spec.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self._reader.read(self._consumer)
        self._consumer.close()
        self._reader.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._reader.settle(consumer)
        self._learn_membership(consumer)
        targets, beginnings = self._beginnings(consumer, partitions)
        if self._incremental:
            consumer.incremental_assign(targets)
        else:
            consumer.assign(targets)
        if beginnings:
            self._reader.assignments.assigned(beginnings)
        self._reader.progress()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._reader.ended(consumer, "revoked", [(p.topic, p.partition) for p in partitions])

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._reader.ended(consumer, "lost", [(p.topic, p.partition) for p in partitions])

    def _beginnings(
        self, consumer: Consumer, partitions: Sequence[TopicPartition]
    ) -> tuple[list[TopicPartition], dict[Partition, Beginning]]:
        """Where reading begins, as librdkafka takes it and as the ledger writes it."""
        if not partitions:
            return [], {}
        try:
            answers = consumer.committed(partitions, timeout=ASK_TIMEOUT_S)
        except KafkaException as e:
            log(f"committed offsets unknown, librdkafka is to find them: {e}")
            return list(partitions), {(p.topic, p.partition): Beginning() for p in partitions}
        beginnings: dict[Partition, Beginning] = {}
        for answer in answers:
            name = answer.topic, answer.partition
            if answer.error is not None:
                beginnings[name] = Beginning()
            elif answer.offset >= 0:
                beginnings[name] = Beginning(answer.offset, "committed")
            else:
                position = reset_position(consumer, name, self._spec.config, ASK_TIMEOUT_S)
                beginnings[name] = Beginning() if position is None else Beginning(position, "reset")
                if position is not None:
                    answer.offset = position
        # an answer carries the leader epoch of its commit too, by which librdkafka finds a truncated log
        targets = [a if a.offset >= 0 and a.error is None else TopicPartition(a.topic, a.partition) for a in answers]
        return targets, beginnings

    def _learn_membership(self, consumer: Consumer) -> None:
        member_id, generation = membership(consumer.consumer_group_metadata())
        self._reader.assignments.member_id = member_id
        self._reader.assignments.generation = generation


def membership(metadata: object) -> tuple[str | None, int | None]:
    """Member id and generation from `Consumer.consumer_group_metadata()`; None where it is of no known format.

    confluent-kafka 2.x gives librdkafka's serialized form: `CGMDv2:`, the generation as a native int32, then the group
    id and the member id, each ended by a zero byte.
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


def main(argv: list[str]) -> int:
    """Run a group consumer; returns the exit code."""
    spec = GroupConsumerSpec.load(argv[1])
    if spec.threads:
        return run_threads([spec.model_copy(update={"client": c, "threads": []}) for c in spec.threads], GroupConsumer)
    return run_consumer(spec, GroupConsumer)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

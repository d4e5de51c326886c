"""The group consumer: `python -m chaos.clients.confluent.group_consumer SPEC`.

It subscribes, and for each assignment asks for the committed offset of each partition, or else for the offset that
auto.offset.reset means at that moment. It assigns exactly that offset, so the position in the ledger is the position
that it reads from.

It commits as the commit setting says and at no other time; on revocation only with `on_revoke`. With kind auto,
librdkafka itself commits on revocation and on close.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, TopicPartition

from chaos.clients.channel import Channel
from chaos.clients.confluent import group
from chaos.clients.confluent.lifecycle import Lifecycle
from chaos.clients.confluent.pool import PooledReader
from chaos.clients.confluent.reader import Reader, run_consumer, run_threads
from chaos.clients.protocol import GroupConsumerSpec


class GroupConsumer:
    """One incarnation of a group member."""

    def __init__(self, spec: GroupConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        self._spec = spec
        reader = PooledReader if spec.workers else Reader
        self._reader: Reader = reader(spec, "subscribe", channel, lifecycle)
        self._consumer = Consumer(self._reader.settings(spec.group))

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
        group.take(consumer, partitions, self._spec.config, self._reader.assignments)
        self._reader.progress()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._reader.give_up(consumer, "revoked", [(p.topic, p.partition) for p in partitions])

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._reader.give_up(consumer, "lost", [(p.topic, p.partition) for p in partitions])


def main(argv: list[str]) -> int:
    """Run a group consumer. Returns the exit code."""
    spec = GroupConsumerSpec.load(argv[1])
    if spec.threads:
        return run_threads([spec.model_copy(update={"client": c, "threads": []}) for c in spec.threads], GroupConsumer)
    return run_consumer(spec, GroupConsumer)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

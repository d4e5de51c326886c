"""The group consumer: `python -m chaos.clients.confluent.group_consumer SPEC`.

It subscribes, and for each assignment asks for the committed offset of each partition, or else for the offset that
auto.offset.reset means at that moment. It assigns exactly that offset, so the position in the ledger is the position
that it reads from.

It commits as the commit setting says and at no other time; on revocation only with `on_revoke`. With kind auto,
librdkafka itself commits on revocation and on close.
"""

from __future__ import annotations

import sys
from typing import Literal

from confluent_kafka import Consumer, TopicPartition

from chaos.clients.channel import Channel
from chaos.clients.confluent import group
from chaos.clients.confluent.lifecycle import Lifecycle
from chaos.clients.confluent.pool import PooledReader
from chaos.clients.confluent.reader import Reader, run_consumers
from chaos.clients.protocol import GroupConsumerSpec, Partition


class GroupConsumer:
    """One incarnation of a group member."""

    def __init__(self, spec: GroupConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        self._spec = spec
        reader = PooledReader if spec.workers else Reader
        self._reader: Reader = reader(spec, "subscribe", channel, lifecycle)
        self._consumer = Consumer(self._reader.settings(spec.group))

    def run(self) -> None:
        """Subscribe and read until the order to stop, then leave the group."""
        group.subscribe(self._consumer, self._spec.topics, self._on_assign, self._on_release)
        self._reader.read(self._consumer)
        self._consumer.close()
        self._reader.close()

    def _on_assign(self, partitions: list[TopicPartition]) -> None:
        self._reader.settle(self._consumer)
        group.take(self._consumer, partitions, self._spec.config, self._reader.assignments)
        self._reader.progress()

    def _on_release(self, event: Literal["revoked", "lost"], partitions: list[Partition]) -> None:
        self._reader.give_up(self._consumer, event, partitions)


def main(argv: list[str]) -> int:
    """Run a group consumer. Returns the exit code."""
    spec = GroupConsumerSpec.load(argv[1])
    members = [spec.model_copy(update={"client": c, "threads": []}) for c in spec.threads]
    return run_consumers(members or [spec], GroupConsumer)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

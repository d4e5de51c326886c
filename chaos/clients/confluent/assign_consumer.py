"""The assign consumer: `python -m chaos.clients.confluent.assign_consumer SPEC`. See `chaos.clients` for its protocol.

It reads every partition that its topics have when it starts, each from a position that it finds out first, as a
number; those that are added later only where it is told to discover them, and then from their start. No group
coordinator assigns or takes away anything. It goes on from its own checkpoint after a crash; it commits only if its
commit setting says so, for others to see.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from chaos.clients.channel import Channel
from chaos.clients.confluent.assignments import Beginning
from chaos.clients.confluent.lifecycle import Lifecycle, log
from chaos.clients.confluent.reader import Reader, run_consumer
from chaos.clients.confluent.reset import reset_position, watermarks
from chaos.clients.protocol import AssignConsumerSpec, Partition, partition_name
from chaos.errors import ClientError

ASK_TIMEOUT_S = 5.0
ASK_AGAIN_S = 0.2
ASK_PROCESS_TIMEOUT_S = 20.0

T = TypeVar("T")


class AssignConsumer:
    """One incarnation of an assign consumer."""

    def __init__(self, spec: AssignConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        self._spec, self._channel = spec, channel
        self._reader = Reader(spec, "assign", channel, lifecycle)
        if spec.no_group_id is not None:
            lifecycle.error(said_without_group_id(self._reader.settings(""), spec.no_group_id))
        self._consumer = Consumer(self._reader.settings(group_id(spec)))
        self._next_look = 0.0

    def run(self) -> None:
        """Find out where to begin, and read until the order to stop."""
        partitions = self._ask(self._partitions) or []
        beginnings = {p: b for p in partitions if (b := self._ask(partial(self._beginning, p))) is not None}
        if not self._channel.stopping:
            self._consumer.assign([TopicPartition(*p, b.position) for p, b in beginnings.items()])
            self._reader.assignments.assigned(beginnings)
            self._reader.progress()
            if self._spec.discover_s is not None:
                self._reader.between_polls = self._discover
            self._reader.read(self._consumer)
        self._consumer.close()
        self._reader.close()

    def _discover(self, consumer: Consumer) -> None:
        """Look for partitions that were added, now and then, and read them from their start."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + (self._spec.discover_s or 0.0)
        try:
            new = [p for p in self._partitions() if p not in self._reader.assignments.numbers]
            beginnings = {p: Beginning(watermarks(consumer, p, ASK_TIMEOUT_S)[0], "start") for p in new}
        except KafkaException as e:
            log(f"looking for new partitions again: {e}")
            return
        if beginnings:
            self._reader.settle(consumer)
            consumer.incremental_assign([TopicPartition(*p, b.position) for p, b in beginnings.items()])
            self._reader.assignments.assigned(beginnings)
            self._reader.progress()

    def _ask(self, question: Callable[[], T]) -> T | None:
        """Ask until there is an answer, for brokers may be down just now; None if ordered to stop before."""
        while not self._channel.stopping:
            try:
                return question()
            except KafkaException as e:
                log(f"asking again: {e}")
                time.sleep(ASK_AGAIN_S)
        return None

    def _partitions(self) -> list[Partition]:
        found = []
        for name in self._spec.topics:
            topic = self._consumer.list_topics(name, timeout=ASK_TIMEOUT_S).topics[name]
            if topic.error is not None or not topic.partitions:
                raise KafkaException(topic.error or f"{name} has no partitions yet")
            found += [(name, number) for number in sorted(topic.partitions)]
        return found

    def _beginning(self, partition: Partition) -> Beginning:
        spec, name = self._spec, partition_name(partition)
        if name in spec.checkpoint:
            return Beginning(spec.checkpoint[name], "checkpoint")
        if spec.start == "group":
            return self._group_offset(partition)
        if spec.start == "timestamp":
            return Beginning(self._at_time(partition), "start")
        low, high = watermarks(self._consumer, partition, ASK_TIMEOUT_S)
        if name in spec.offsets:
            while high < spec.offsets[name] and not self._channel.stopping:  # not there yet
                time.sleep(0.05)
                low, high = watermarks(self._consumer, partition, ASK_TIMEOUT_S)
            return Beginning(spec.offsets[name], "start")
        return Beginning(high if spec.start == "latest" else low, "start")

    def _group_offset(self, partition: Partition) -> Beginning:
        (answer,) = self._consumer.committed([TopicPartition(*partition)], timeout=ASK_TIMEOUT_S)
        if answer.error is not None:
            raise KafkaException(answer.error)
        if answer.offset >= 0:
            return Beginning(answer.offset, "committed")
        position = reset_position(self._consumer, partition, self._spec.config, ASK_TIMEOUT_S)
        if position is None and self._spec.config.get("auto.offset.reset") == "error":
            raise ClientError(f"no committed offset for {partition_name(partition)}, and auto.offset.reset is error")
        if position is None:
            raise KafkaException(f"no position for {partition_name(partition)} yet")
        return Beginning(position, "reset")

    def _at_time(self, partition: Partition) -> int:
        """The first offset of the time or later; the end, if there is none yet. A time to come is waited for."""
        timestamp_ms = self._spec.timestamp_ms
        assert timestamp_ms is not None  # the spec's own rule
        while time.time() * 1000 <= timestamp_ms and not self._channel.stopping:
            time.sleep(0.02)
        (found,) = self._consumer.offsets_for_times([TopicPartition(*partition, timestamp_ms)], timeout=ASK_TIMEOUT_S)
        if found.error is not None:
            raise KafkaException(found.error)
        if found.offset >= 0 and found.offset != OFFSET_END:
            return int(found.offset)
        return watermarks(self._consumer, partition, ASK_TIMEOUT_S)[1]


def group_id(spec: AssignConsumerSpec) -> str:
    """Its group id. librdkafka demands one of every consumer; one that is not the scenario's is never committed to."""
    return spec.group if spec.group is not None else f"aftershock-none-{spec.client.replace('/', '-')}"


def said_without_group_id(settings: dict[str, Any], which: Literal["absent", "empty"]) -> str:
    """What the client library says to no group.id, or to an empty one; asked in a process of its own, for it may abort.

    Nothing is connected to: what is asked for is only whether there can be such a consumer.
    """
    plain = {key: value for key, value in settings.items() if isinstance(value, bool | int | float | str)}
    plain |= {"group.id": "", "bootstrap.servers": "", "enable.auto.commit": True}
    if which == "absent":
        del plain["group.id"]
    asked = subprocess.run(
        [sys.executable, "-c", "import json, sys, confluent_kafka as c; c.Consumer(json.load(sys.stdin))"],
        input=json.dumps(plain),
        capture_output=True,
        text=True,
        timeout=ASK_PROCESS_TIMEOUT_S,
        check=False,
    )
    last = (asked.stderr.strip().splitlines() or ["nothing"])[-1]
    if asked.returncode == 0:
        return f"with group.id {which}: the client takes it"
    ended = f"aborted with signal {-asked.returncode}" if asked.returncode < 0 else "refused"
    return f"with group.id {which}: {ended}: {last}"


def main(argv: list[str]) -> int:
    """Run an assign consumer; returns the exit code."""
    spec = AssignConsumerSpec.load(argv[1])
    return run_consumer(spec, AssignConsumer, group_id=group_id(spec), checkpoint=spec.checkpoint)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

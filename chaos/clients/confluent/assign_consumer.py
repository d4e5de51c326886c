"""The assign consumer: `python -m chaos.clients.confluent.assign_consumer SPEC`.

It assigns itself every partition that its topics have at its start, each at an offset that it determines first. With
`discover_s`, it also reads partitions that are added later, from their start. No group coordinator assigns or revokes
anything. After a crash it continues at its checkpoint. It commits only if the commit setting says so, to show its
progress to other tools.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar

from confluent_kafka import KafkaException, TopicPartition

from chaos.clients.assignments import StartPosition
from chaos.clients.confluent.library import VERSIONS
from chaos.clients.confluent.positions import TIMEOUT_S, offsets_at, reset_position, watermarks
from chaos.clients.confluent.reader import Reader
from chaos.clients.program import Channel, Lifecycle, log, run_clients
from chaos.clients.protocol import AssignConsumerSpec, Partition, partition_name
from chaos.errors import ClientError

RETRY_S = 0.2
PROBE_TIMEOUT_S = 20.0

T = TypeVar("T")


class AssignConsumer(Reader[AssignConsumerSpec]):
    """One incarnation of an assign consumer."""

    def __init__(self, spec: AssignConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(spec, channel, lifecycle, group_id(spec))
        if spec.no_group_id is not None:
            lifecycle.error(probe_group_id(self.settings, spec.no_group_id))
        self._next_search = 0.0
        self._next_checkpoint = time.monotonic() + (spec.checkpoint_every_s or 0)

    def run(self) -> bool:
        """Determine the start positions, and read until the order to stop."""
        partitions = self._retry(self._partitions) or []
        starts = {p: s for p in partitions if (s := self._retry(partial(self._start, p))) is not None}
        if not self._channel.stopping:
            self.consumer.assign([TopicPartition(*p, s.offset) for p, s in starts.items()])
            self.assignments.begin("assigned", starts)
            self.progress()
            self.read()
        self.close()
        return True

    def between_polls(self) -> None:
        """Store a checkpoint and look for new partitions, each if it is due."""
        self._store()
        self._search()

    def _store(self) -> None:
        """Every `checkpoint_every_s` seconds, store the positions after all rows that precede them."""
        if self._spec.checkpoint_every_s is None or time.monotonic() < self._next_checkpoint:
            return
        self._next_checkpoint = time.monotonic() + self._spec.checkpoint_every_s
        self.settle()
        self.assignments.checkpoint()

    def _search(self) -> None:
        """Every `discover_s` seconds, assign partitions that were added, from their start."""
        if self._spec.discover_s is None or time.monotonic() < self._next_search:
            return
        self._next_search = time.monotonic() + self._spec.discover_s
        try:
            new = [p for p in self._partitions() if p not in self.assignments.numbers]
            starts = {p: StartPosition(watermarks(self.consumer, p)[0], "start") for p in new}
        except KafkaException as e:
            log(f"search for new partitions failed, trying again: {e}")
            return
        if starts:
            self.settle()
            self.consumer.incremental_assign([TopicPartition(*p, s.offset) for p, s in starts.items()])
            self.assignments.begin("assigned", starts)
            self.progress()

    def _retry(self, request: Callable[[], T]) -> T | None:
        """Repeat a request until it succeeds; brokers may be down. Returns None after the order to stop."""
        while not self._channel.stopping:
            try:
                return request()
            except KafkaException as e:
                log(f"trying again: {e}")
                time.sleep(RETRY_S)
        return None

    def _partitions(self) -> list[Partition]:
        partitions = []
        for name in self._spec.topics:
            topic = self.consumer.list_topics(name, timeout=TIMEOUT_S).topics[name]
            if topic.error is not None or not topic.partitions:
                raise KafkaException(topic.error or f"{name} has no partitions yet")
            partitions += [(name, number) for number in sorted(topic.partitions)]
        return partitions

    def _start(self, partition: Partition) -> StartPosition:
        spec, name = self._spec, partition_name(partition)
        if name in spec.checkpoint:
            return StartPosition(spec.checkpoint[name], "checkpoint")
        if spec.start == "group":
            return self._group_offset(partition)
        if spec.start == "timestamp":
            return StartPosition(self._offset_at_time(partition), "start")
        low, high = watermarks(self.consumer, partition)
        if name in spec.offsets:
            while high < spec.offsets[name] and not self._channel.stopping:  # wait for an offset in the future
                time.sleep(0.05)
                low, high = watermarks(self.consumer, partition)
            return StartPosition(spec.offsets[name], "start")
        return StartPosition(high if spec.start == "latest" else low, "start")

    def _group_offset(self, partition: Partition) -> StartPosition:
        (answer,) = self.consumer.committed([TopicPartition(*partition)], timeout=TIMEOUT_S)
        if answer.error is not None:
            raise KafkaException(answer.error)
        if answer.offset >= 0:
            return StartPosition(answer.offset, "committed")
        position = reset_position(self.consumer, partition, self._spec.config)
        if position is None and self._spec.config.get("auto.offset.reset") == "error":
            raise ClientError(f"no committed offset for {partition_name(partition)}, and auto.offset.reset is error")
        if position is None:
            raise KafkaException(f"no position for {partition_name(partition)} yet")
        return StartPosition(position, "reset")

    def _offset_at_time(self, partition: Partition) -> int:
        """Wait for a time in the future, then return the first offset at or after it, or the end without one."""
        timestamp_ms = self._spec.timestamp_ms
        assert timestamp_ms is not None  # the spec validates it
        while time.time() * 1000 <= timestamp_ms and not self._channel.stopping:
            time.sleep(0.02)
        return offsets_at(self.consumer, [partition], timestamp_ms)[partition]


def group_id(spec: AssignConsumerSpec) -> str:
    """Return the group id. librdkafka requires one; without a group in the scenario, nothing is committed to it."""
    return spec.group if spec.group is not None else f"aftershock-none-{spec.client.replace('/', '-')}"


def probe_group_id(settings: dict[str, Any], group_id: Literal["absent", "empty"]) -> str:
    """Return how the client library reacts to no group.id or an empty one.

    The probe creates a consumer in another process, because the library may abort; it connects to no broker.
    """
    plain = {key: value for key, value in settings.items() if isinstance(value, bool | int | float | str)}
    plain |= {"group.id": "", "bootstrap.servers": "", "enable.auto.commit": True}
    if group_id == "absent":
        del plain["group.id"]
    done = subprocess.run(
        [sys.executable, "-c", "import json, sys, confluent_kafka as c; c.Consumer(json.load(sys.stdin))"],
        input=json.dumps(plain),
        capture_output=True,
        text=True,
        timeout=PROBE_TIMEOUT_S,
        check=False,
    )
    last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
    if done.returncode == 0:
        return f"with group.id {group_id}: the client takes it"
    reaction = f"aborted with signal {-done.returncode}" if done.returncode < 0 else "refused"
    return f"with group.id {group_id}: {reaction}: {last}"


def main(argv: list[str]) -> int:
    """Run an assign consumer. Returns the exit code."""
    spec = AssignConsumerSpec.load(argv[1])
    return run_clients([spec], AssignConsumer, group_id=group_id(spec), checkpoint=spec.checkpoint, **VERSIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

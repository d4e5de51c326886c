"""A consumer that assigns itself every partition of its topics: where each starts, its checkpoints, new partitions.

Each partition starts at an offset that the program determines first. With `discover_s`, it also reads partitions that
are added later, from their start. No group coordinator assigns or revokes anything. After a crash it continues at its
checkpoint. It commits only if the commit setting says so, to show its progress to other tools.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from chaos.clients.protocol import AssignConsumerSpec, Partition, partition_name
from chaos.clients.python.assignments import StartPosition
from chaos.clients.python.library import Library
from chaos.clients.python.program import Channel, Lifecycle, log
from chaos.clients.python.reader import Reader
from chaos.errors import ClientError

RETRY_S = 0.2

T = TypeVar("T")


class AssignConsumer(Reader[AssignConsumerSpec]):
    """One incarnation of an assign consumer."""

    def __init__(self, library: Library, spec: AssignConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(library, spec, channel, lifecycle)
        self._next_search = 0.0
        self._next_checkpoint = time.monotonic() + (spec.checkpoint_every_s or 0)
        if spec.no_group_id is not None:
            lifecycle.error(library.probe_group_id(spec))

    def run(self) -> bool:
        """Determine the start positions, and read until the order to stop."""
        partitions = self._retry(self._partitions) or []
        starts = {p: s for p in partitions if (s := self._retry(partial(self._start, p))) is not None}
        if not self._channel.stopping:
            self._begin(starts)
            self.read()
        self.close()
        return True

    def _partitions(self) -> list[Partition]:
        """Return every partition of the topics; fails for a topic without partitions."""
        partitions = []
        for topic in self._spec.topics:
            numbers = self.consumer.partitions_of(topic)
            if not numbers:
                raise self._library.Error(f"{topic} has no partitions yet")
            partitions += [(topic, number) for number in sorted(numbers)]
        return partitions

    def _begin(self, starts: Mapping[Partition, StartPosition]) -> None:
        """Assign partitions, each at its start, in addition to the held partitions."""
        offsets = {p: start.offset for p, start in starts.items() if start.offset is not None}
        self.consumer.assign(offsets, list(self.assignments.numbers))
        self.assignments.begin("assigned", starts)
        self.progress()

    def _seek(self, order: dict[str, Any]) -> Mapping[Partition, int]:
        """Obey an order to seek. With `lookup_first_s`, assign twice: without offsets, and then at the targets.

        Partitions without a target continue at their positions.
        """
        if "lookup_first_s" not in order:
            return super()._seek(order)
        targets = self._targets(order)
        offsets = {p: int(o or 0) for p, o in self.assignments.positions.items()} | targets
        self.consumer.assign_again(offsets, float(order["lookup_first_s"]))
        return offsets

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
            starts = {p: StartPosition(self.consumer.watermarks(p)[0], "start") for p in new}
        except self._library.Error as e:
            log(f"search for new partitions failed, trying again: {self._library.describe(e)}")
            return
        if starts:
            self.settle()
            self._begin(starts)

    def _retry(self, request: Callable[[], T]) -> T | None:
        """Repeat a request until it succeeds; brokers may be down. Returns None after the order to stop."""
        while not self._channel.stopping:
            try:
                return request()
            except self._library.Error as e:
                log(f"trying again: {self._library.describe(e)}")
                time.sleep(RETRY_S)
        return None

    def _start(self, partition: Partition) -> StartPosition:
        spec, name = self._spec, partition_name(partition)
        if name in spec.checkpoint:
            return StartPosition(spec.checkpoint[name], "checkpoint")
        if spec.start == "group":
            return self._group_offset(partition)
        if spec.start == "timestamp":
            return StartPosition(self._offset_at_time(partition), "start")
        low, high = self.consumer.watermarks(partition)
        if name in spec.offsets:
            while high < spec.offsets[name] and not self._channel.stopping:  # wait for an offset in the future
                time.sleep(0.05)
                low, high = self.consumer.watermarks(partition)
            return StartPosition(spec.offsets[name], "start")
        return StartPosition(high if spec.start == "latest" else low, "start")

    def _group_offset(self, partition: Partition) -> StartPosition:
        if (committed := self.consumer.committed(partition)) is not None:
            return StartPosition(committed, "committed")
        if (reset := self._library.reset(self._spec.config)) is None:
            raise ClientError(f"no committed offset for {partition_name(partition)}, and auto.offset.reset is error")
        return StartPosition(self.consumer.watermarks(partition)[reset == "latest"], "reset")

    def _offset_at_time(self, partition: Partition) -> int:
        """Wait for a time in the future, then return the first offset at or after it, or the end without one."""
        timestamp_ms = self._spec.timestamp_ms
        assert timestamp_ms is not None  # the spec validates it
        while time.time() * 1000 <= timestamp_ms and not self._channel.stopping:
            time.sleep(0.02)
        return self._offsets_at([partition], timestamp_ms)[partition]

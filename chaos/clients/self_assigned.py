"""A consumer that assigns itself every partition of its topics: where each starts, its checkpoints, new partitions.

Each partition starts at an offset that the program determines first. With `discover_s`, it also reads partitions that
are added later, from their start. No group coordinator assigns or revokes anything. After a crash it continues at its
checkpoint. It commits only if the commit setting says so, to show its progress to other tools.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from chaos.clients.assignments import StartPosition
from chaos.clients.program import Channel, Lifecycle, log
from chaos.clients.protocol import AssignConsumerSpec, Partition, partition_name
from chaos.clients.reader import Commits, Reader
from chaos.errors import ClientError

RETRY_S = 0.2

T = TypeVar("T")


class SelfAssigned(Reader[AssignConsumerSpec, Commits]):
    """One incarnation of an assign consumer. The requests raise one of `Errors`."""

    def __init__(
        self, spec: AssignConsumerSpec, channel: Channel, lifecycle: Lifecycle, committer: type[Commits]
    ) -> None:
        super().__init__(spec, channel, lifecycle, committer)
        self._next_search = 0.0
        self._next_checkpoint = time.monotonic() + (spec.checkpoint_every_s or 0)

    @abstractmethod
    def _partitions(self) -> list[Partition]:
        """Return every partition of the topics; fails for a topic without partitions."""

    @abstractmethod
    def _watermarks(self, partition: Partition) -> tuple[int, int]:
        """Return log start offset and high watermark."""

    @abstractmethod
    def _committed(self, partition: Partition) -> int | None:
        """Return the committed offset of the group; None without one."""

    @abstractmethod
    def _reset_position(self, partition: Partition) -> int | None:
        """Return the offset that auto.offset.reset means now; None if it is an error."""

    @abstractmethod
    def _offset_at(self, partition: Partition, timestamp_ms: int) -> int:
        """Return the first offset at or after a time, or the high watermark without one."""

    @abstractmethod
    def _assign(self, starts: Mapping[Partition, StartPosition], *, more: bool) -> None:
        """Assign partitions to the consumer, each at its start. more: in addition to those that it has."""

    def run(self) -> bool:
        """Determine the start positions, and read until the order to stop."""
        partitions = self._retry(self._partitions) or []
        starts = {p: s for p in partitions if (s := self._retry(partial(self._start, p))) is not None}
        if not self._channel.stopping:
            self._assign(starts, more=False)
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
            starts = {p: StartPosition(self._watermarks(p)[0], "start") for p in new}
        except self.Errors as e:
            log(f"search for new partitions failed, trying again: {e}")
            return
        if starts:
            self.settle()
            self._assign(starts, more=True)
            self.assignments.begin("assigned", starts)
            self.progress()

    def _retry(self, request: Callable[[], T]) -> T | None:
        """Repeat a request until it succeeds; brokers may be down. Returns None after the order to stop."""
        while not self._channel.stopping:
            try:
                return request()
            except self.Errors as e:
                log(f"trying again: {e}")
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
        low, high = self._watermarks(partition)
        if name in spec.offsets:
            while high < spec.offsets[name] and not self._channel.stopping:  # wait for an offset in the future
                time.sleep(0.05)
                low, high = self._watermarks(partition)
            return StartPosition(spec.offsets[name], "start")
        return StartPosition(high if spec.start == "latest" else low, "start")

    def _group_offset(self, partition: Partition) -> StartPosition:
        if (committed := self._committed(partition)) is not None:
            return StartPosition(committed, "committed")
        if (position := self._reset_position(partition)) is None:
            raise ClientError(f"no committed offset for {partition_name(partition)}, and auto.offset.reset is error")
        return StartPosition(position, "reset")

    def _offset_at_time(self, partition: Partition) -> int:
        """Wait for a time in the future, then return the first offset at or after it, or the end without one."""
        timestamp_ms = self._spec.timestamp_ms
        assert timestamp_ms is not None  # the spec validates it
        while time.time() * 1000 <= timestamp_ms and not self._channel.stopping:
            time.sleep(0.02)
        return self._offset_at(partition, timestamp_ms)

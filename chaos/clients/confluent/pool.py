"""A consumer that polls in one thread and processes in several: records of one partition at the same time, too.

Records are done in another order than they were polled, so the offset to commit has to be tracked. The sliding window
ends before the first record that is not done; the naive way, after the highest that is, which gives away those below
that are still worked on when the process dies.

Delivery rows are written as records are done, and their `ordinal` is that of the poll.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from confluent_kafka import Consumer, Message

from chaos.clients.channel import Channel
from chaos.clients.confluent.columns import Columns, consumed
from chaos.clients.confluent.lifecycle import Lifecycle
from chaos.clients.confluent.reader import NAP_S, Reader
from chaos.clients.protocol import GroupConsumerSpec, Partition, WorkersSpec


@dataclass
class Tracking:
    """What of one partition is polled and not done, in the order of the poll."""

    undone: deque[int] = field(default_factory=deque)
    done: set[int] = field(default_factory=set)
    prefix: int | None = None
    """The next offset after all that is done without a gap."""
    highest: int | None = None
    """The next offset after the highest that is done."""

    def polled(self, offset: int) -> None:
        """A record is given to the workers."""
        self.undone.append(offset)

    def finished(self, offset: int) -> None:
        """A record is done."""
        self.done.add(offset)
        self.highest = max(self.highest or 0, offset + 1)
        while self.undone and self.undone[0] in self.done:
            first = self.undone.popleft()
            self.done.remove(first)
            self.prefix = first + 1


@dataclass(frozen=True)
class _Task:
    record: Columns
    partition: Partition
    offset: int
    polled_us: int
    ordinal: int


class PooledReader(Reader):
    """A reader with worker threads."""

    def __init__(
        self, spec: GroupConsumerSpec, mode: Literal["subscribe", "assign"], channel: Channel, lifecycle: Lifecycle
    ) -> None:
        super().__init__(spec, mode, channel, lifecycle)
        assert spec.workers is not None  # what makes it one
        self._workers: WorkersSpec = spec.workers
        self._most = spec.max_poll_records
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._tracking: dict[Partition, Tracking] = {}
        self._committed: dict[Partition, int] = {}
        self._in_flight = 0
        self._polled = 0
        for n in range(self._workers.count):
            threading.Thread(target=self._labour, name=f"worker-{n}", daemon=True).start()

    def settle(self, consumer: Consumer) -> None:
        """Wait until all that was polled is done, and forget the partitions: each grant is tracked anew."""
        while self._in_flight and not self._channel.stopping:
            time.sleep(0.002)
            self._idle()
        self.write_all(consumer)
        with self._lock:
            if not self._in_flight:
                self._tracking.clear()
                self._committed.clear()

    def write_all(self, consumer: Consumer) -> None:
        """Commit what the tracking allows by now; rows are written by the workers."""
        with self._lock:
            naive = self._workers.tracking == "naive"
            ends = {p: t.highest if naive else t.prefix for p, t in self._tracking.items()}
            reached = {p: t.prefix for p, t in self._tracking.items() if t.prefix is not None}
        self.assignments.processed(reached)
        due = {p: end for p, end in ends.items() if end is not None and end > self._committed.get(p, -1)}
        self._committed |= due
        self._committer.after_batch(consumer, due)

    def _process(self, consumer: Consumer, batch: Sequence[Message], polled_us: int) -> None:
        records = consumed(batch, self._deliveries.needs_topics)
        if records is None:
            batch = self._without_errors(batch)
            records = consumed(batch, self._deliveries.needs_topics) if batch else None
        for n in range(len(records) if records is not None else 0):
            assert records is not None
            record = records.cut(n, 1)
            ((partition, end),) = self._deliveries.next_offsets(record).items()
            with self._lock:
                self._tracking.setdefault(partition, Tracking()).polled(end - 1)
                self._in_flight += 1
            self._tasks.put(_Task(record, partition, end - 1, polled_us, self._polled))
            self._polled += 1
        while self._in_flight >= self._most and not self._channel.stopping:
            time.sleep(0.002)
            self._idle()
            self.write_all(consumer)
        self.write_all(consumer)

    def _idle(self) -> None:
        self._notice_speed()
        if self._channel.progress_due():
            self.progress()

    def _labour(self) -> None:
        while True:
            task = self._tasks.get()
            done = self._take_time(task)
            with self._lock:
                self._in_flight -= 1
                if done:
                    self._deliveries.add(task.record, task.polled_us, task.ordinal)
                    self._deliveries.write(self.assignments.numbers)
                    self._tracking[task.partition].finished(task.offset)

    def _take_time(self, task: _Task) -> bool:
        """Let the record's processing time pass; False if the order to stop came first."""
        every = self._workers.straggle_every
        extra_s = self._workers.straggle_s if every and task.offset % every == every - 1 else 0.0
        began = time.monotonic()
        while (left := began + self._per_record_s() + extra_s - time.monotonic()) > 0:
            if self._channel.stopping:
                return False
            time.sleep(min(left, NAP_S))
        return not self._channel.stopping

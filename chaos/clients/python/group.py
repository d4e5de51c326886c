"""The group consumer: a member that subscribes, and reads the partitions that rebalances assign.

Where a partition begins is in the ledger before it is read. librdkafka asks for the offset in its rebalance callback
and assigns exactly that offset. kafka-python and aiokafka look the offset up themselves: new partitions are paused
until the library has their positions. With `assign_by: client`, librdkafka looks the offset up, too, and the position
in the ledger is null; a start at the end of the log has a row of the event `position`.

It commits as the commit setting says and at no other time; on revocation only with `on_revoke`. With kind auto, the
library itself commits on revocation and on close.

With `workers`, it polls in one thread and processes in several, also records of one partition. Records are finished in
another order than they are polled, so the offset to commit is tracked. `window` commits up to the first unfinished
record. `naive` commits after the highest finished record: if the process dies, unfinished records below that offset are
lost. Delivery rows are written as records are finished; their `ordinal` is the order of the poll.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from chaos.clients.protocol import GroupConsumerSpec, Partition, WorkersSpec
from chaos.clients.python.assignments import StartPosition
from chaos.clients.python.committer import CommitRequest
from chaos.clients.python.library import Library
from chaos.clients.python.program import Channel, Lifecycle, log
from chaos.clients.python.reader import NAP_S, Reader
from chaos.clients.python.rows import Columns


class GroupConsumer(Reader[GroupConsumerSpec]):
    """One incarnation of a group member; also the `Listener` of its library."""

    def __init__(self, library: Library, spec: GroupConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(library, spec, channel, lifecycle)
        name = library.traits.common(spec.config).get("group.instance.id")
        self.assignments.instance_id = str(name or "") or None
        self._unlocated: set[Partition] = set()
        """Assigned partitions that begin where the library chooses, until that is known."""
        self._number: int | None = None
        """The number of the last assignment, once it has a row."""
        self._requests: Mapping[Partition, CommitRequest] = {}

    def run(self) -> bool:
        """Subscribe and read until the order to stop, then leave the group."""
        self.subscribe()
        self.read()
        self.close()
        return True

    def subscribe(self) -> None:
        """Join the group."""
        pattern = self._spec.topics[0] if self._spec.topics[0].startswith("^") else None
        self.consumer.subscribe(self._spec.topics, pattern, self)

    def assigned(self, partitions: Collection[Partition]) -> None:
        """Begin to read new partitions, and record those with a known start."""
        self.settle()
        self._committer.serve()
        self.assignments.member_id, self.assignments.generation = self.consumer.membership()
        self._number = None
        starts = self.consumer.take(partitions)
        by_library = self._spec.assign_by == "client"
        self._unlocated.update(p for p in partitions if by_library or p not in starts)
        if starts:
            self._number = self.assignments.begin("assigned", starts)
        self.progress()

    def between_polls(self) -> None:
        """Record the paused partitions that the library has located now, and read them."""
        paused = [p for p in sorted(self._unlocated) if p not in self.assignments.numbers]
        if not paused or not (found := self.consumer.located(paused)):
            return
        starts = {p: StartPosition(offset, self._source(p, offset)) for p, offset in found.items()}
        started = {p: s for p, s in starts.items() if p in self._unlocated}  # not taken away meanwhile
        if started:
            self._begin(started)
            self.consumer.resume(started)
        self.progress()

    def _begin(self, starts: Mapping[Partition, StartPosition]) -> None:
        """Record partitions of the last assignment, all with its number."""
        self._number = self.assignments.begin("assigned", starts, self._number)
        self._unlocated.difference_update(starts)

    def _columns(self, batch: Sequence[Any]) -> Columns | None:
        """Return the columns of a batch, which may show where partitions began."""
        if self._unlocated:
            self.look_for_starts(batch)
        return super()._columns(batch)

    def look_for_starts(self, batch: Sequence[Any]) -> None:
        """Record the starts that a batch shows: the end of a log, or records of partitions before they were paused."""
        shown = {p: end for p, end in self.consumer.starts_in(batch).items() if p in self._unlocated}
        if early := {p: StartPosition() for p in sorted(shown) if p not in self.assignments.numbers}:
            self._begin(early)
            self.consumer.resume(early)
        for partition, end in shown.items():
            self._unlocated.discard(partition)
            if end is not None and self.assignments.positions.get(partition) is None:
                self.assignments.locate(partition, end)

    def _source(self, partition: Partition, offset: int) -> Literal["committed", "reset"] | None:
        """Return why a partition begins at an offset; None if no broker says what is committed."""
        try:
            return "committed" if self.consumer.committed(partition) == offset else "reset"
        except self._library.Error as e:
            log(f"committed offset of {partition} unknown: {self._library.describe(e)}")
            return None

    def revoked(self, partitions: Collection[Partition]) -> None:
        """Commit the offsets of partitions that are taken away if the setting says so, and give them up."""
        self.settle()
        self._committer.revoked(self.consumer, partitions)
        self._give_up("revoked", partitions)

    def lost(self, partitions: Collection[Partition]) -> None:
        """Give partitions up that others may have already."""
        self.settle()
        self._give_up("lost", partitions)

    def offsets_to_commit(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return what `revoked` would commit, and forget it."""
        ends = self._committer.take_unconfirmed(partitions)
        self._requests = self._committer.requests(ends)
        return ends

    def committed_on_revocation(self, offsets: Mapping[Partition, int], error: BaseException | None) -> None:
        """Record the answer to a commit of `offsets_to_commit`."""
        self._committer.answered("sync", offsets, self._requests, error)

    def _give_up(self, event: Literal["revoked", "lost"], partitions: Collection[Partition]) -> None:
        """Record that partitions were taken away, also partitions that were never located."""
        if never := self._unlocated.difference(self.assignments.numbers).intersection(partitions):
            self._begin({p: StartPosition() for p in sorted(never)})
        self._unlocated.difference_update(partitions)
        self._committer.forget(partitions)
        self.assignments.end(event, [p for p in sorted(partitions) if p in self.assignments.numbers])
        self.progress()

    def _given_up_at_close(self) -> None:
        """Record what the library gave up without a call: kafka-python and aiokafka call no listener then."""
        if self.assignments.numbers or self._unlocated:
            self._give_up("revoked", [*{*self.assignments.numbers, *self._unlocated}])


@dataclass
class Tracking:
    """The polled records of one partition.

    unfinished: offsets in the order of the poll.
    finished: finished offsets above the first unfinished one.
    prefix: offset after the records that are finished without a gap.
    highest: offset after the highest finished record.
    """

    unfinished: deque[int] = field(default_factory=deque)
    finished: set[int] = field(default_factory=set)
    prefix: int | None = None
    highest: int | None = None

    def polled(self, offset: int) -> None:
        """Add a record that workers get."""
        self.unfinished.append(offset)

    def finish(self, offset: int) -> None:
        """Mark a record as finished."""
        self.finished.add(offset)
        self.highest = max(self.highest or 0, offset + 1)
        while self.unfinished and self.unfinished[0] in self.finished:
            first = self.unfinished.popleft()
            self.finished.remove(first)
            self.prefix = first + 1


@dataclass(frozen=True)
class _Task:
    record: Columns
    partition: Partition
    offset: int
    polled_us: int
    ordinal: int


class PooledConsumer(GroupConsumer):
    """A group member with worker threads."""

    def __init__(self, library: Library, spec: GroupConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(library, spec, channel, lifecycle)
        assert spec.workers is not None  # the caller chose this class because of them
        self._workers: WorkersSpec = spec.workers
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._tracking: dict[Partition, Tracking] = {}
        self._committed: dict[Partition, int] = {}
        self._in_flight = 0
        self._polled = 0
        for n in range(self._workers.count):
            threading.Thread(target=self._work_off, name=f"worker-{n}", daemon=True).start()

    def settle(self) -> None:
        """Wait until all polled records are finished, then drop the tracking: each assignment has a new one."""
        while self._in_flight and not self._channel.stopping:
            time.sleep(0.002)
            self._idle()
        self.write_all()
        with self._lock:
            if not self._in_flight:
                self._tracking.clear()
                self._committed.clear()

    def write_all(self) -> None:
        """Commit up to the tracked offsets; the workers write the rows."""
        with self._lock:
            naive = self._workers.tracking == "naive"
            ends = {p: t.highest if naive else t.prefix for p, t in self._tracking.items()}
            processed = {p: t.prefix for p, t in self._tracking.items() if t.prefix is not None}
        self.assignments.processed(processed)
        due = {p: end for p, end in ends.items() if end is not None and end > self._committed.get(p, -1)}
        self._committed |= due
        self._committer.after_batch(self.consumer, due)

    def _process(self, batch: Sequence[Any], polled_us: int) -> None:
        records = self._columns(batch)
        if records is not None:
            self._hand_out(records, polled_us)
        while self._in_flight >= self._spec.max_poll_records and not self._channel.stopping:
            time.sleep(0.002)
            self._idle()
            self.write_all()
        self.write_all()

    def _hand_out(self, records: Columns, polled_us: int) -> None:
        for n in range(len(records)):
            record = records.cut(n, 1)
            ((partition, end),) = self._deliveries.next_offsets(record).items()
            with self._lock:
                self._tracking.setdefault(partition, Tracking()).polled(end - 1)
                self._in_flight += 1
            self._tasks.put(_Task(record, partition, end - 1, polled_us, self._polled))
            self._polled += 1

    def _work_off(self) -> None:
        while True:
            task = self._tasks.get()
            done = self._take_time(task)
            with self._lock:
                self._in_flight -= 1
                if done:
                    self._deliveries.add(task.record, task.polled_us, task.ordinal)
                    self._deliveries.write(self.assignments.numbers)
                    self._tracking[task.partition].finish(task.offset)

    def _take_time(self, task: _Task) -> bool:
        """Let the processing time of a record pass. Returns False if the order to stop arrives first."""
        every = self._workers.straggle_every
        extra_s = self._workers.straggle_s if every and task.offset % every == every - 1 else 0.0
        began = time.monotonic()
        while (left := began + self._per_record_s() + extra_s - time.monotonic()) > 0:
            if self._channel.stopping:
                return False
            time.sleep(min(left, NAP_S))
        return not self._channel.stopping

"""The group consumer: `python -m chaos.clients.confluent.group_consumer SPEC`.

It subscribes, and for each assignment asks for the committed offset of each partition, or else for the offset that
auto.offset.reset means at that moment. It assigns exactly that offset, so the position in the ledger is the position
that it reads from. With `assign_by: client`, librdkafka looks the offset up, and the position in the ledger is null.

It commits as the commit setting says and at no other time; on revocation only with `on_revoke`. With kind auto,
librdkafka itself commits on revocation and on close.

With `workers`, it polls in one thread and processes in several, also records of one partition. Records are finished in
another order than they are polled, so the offset to commit is tracked. `window` commits up to the first unfinished
record. `naive` commits after the highest finished record: if the process dies, unfinished records below that offset are
lost. Delivery rows are written as records are finished; their `ordinal` is the order of the poll.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from chaos.clients.columns import Columns
from chaos.clients.confluent.group import GroupConsumer
from chaos.clients.confluent.library import VERSIONS
from chaos.clients.program import Channel, Lifecycle, run_clients
from chaos.clients.protocol import GroupConsumerSpec, Partition, WorkersSpec
from chaos.clients.reader import NAP_S


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

    def __init__(self, spec: GroupConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(spec, channel, lifecycle)
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

    def _process(self, batch: Sequence[Message], polled_us: int) -> None:
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


def main(argv: list[str]) -> int:
    """Run a group consumer. Returns the exit code."""
    spec = GroupConsumerSpec.load(argv[1])
    members = [spec.model_copy(update={"client": c, "threads": []}) for c in spec.threads]
    return run_clients(members or [spec], PooledConsumer if spec.workers else GroupConsumer, **VERSIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""The group consumer on a library in Python.

The library looks up where each assigned partition begins, and nobody asks on its behalf: new partitions are paused
until the library has their positions, which are then in the ledger, and only then read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from chaos.clients.assignments import StartPosition
from chaos.clients.committer import CommitRequest
from chaos.clients.program import Channel, Lifecycle, log
from chaos.clients.protocol import GroupConsumerSpec, Partition
from chaos.clients.python.library import Library
from chaos.clients.python.outcomes import describe
from chaos.clients.python.reader import Reader


class GroupConsumer(Reader[GroupConsumerSpec]):
    """One incarnation of a group member; also the `Listener` of its library."""

    def __init__(self, library: Library, spec: GroupConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(library, spec, channel, lifecycle)
        name = library.traits.common(spec.config).get("group.instance.id")
        self.assignments.instance_id = str(name or "") or None
        self._unlocated: set[Partition] = set()
        """Assigned partitions of which the library has no position yet."""
        self._number: int | None = None
        """The number of the last assignment, once it has a row."""
        self._requests: Mapping[Partition, CommitRequest] = {}

    def run(self) -> bool:
        """Subscribe and read until the order to stop, then leave the group."""
        pattern = self._spec.topics[0] if self._spec.topics[0].startswith("^") else None
        self.consumer.subscribe(self._spec.topics, pattern, self)
        self.read()
        self.close()
        return True

    def assigned(self, partitions: Collection[Partition]) -> None:
        """Pause new partitions until they are located."""
        self.assignments.member_id, self.assignments.generation = self.consumer.membership()
        self._number = None
        self._unlocated.update(partitions)
        self.consumer.pause(partitions)

    def between_polls(self) -> None:
        """Record the partitions of which the library has a position now, and read them."""
        found = {p: o for p in sorted(self._unlocated) if (o := self.consumer.position(p)) is not None}
        if not found:
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

    def _process(self, batch: Sequence[Any], polled_us: int) -> None:
        """Process a batch. Records that arrived before their partition was paused show where it began."""
        if early := self._unlocated.intersection((r.topic, r.partition) for r in batch):
            self._begin({p: StartPosition() for p in sorted(early)})
            self.consumer.resume(early)
        super()._process(batch, polled_us)

    def _source(self, partition: Partition, offset: int) -> Literal["committed", "reset"] | None:
        """Return why a partition begins at an offset; None if no broker says what is committed."""
        try:
            return "committed" if self.consumer.committed(partition) == offset else "reset"
        except self._library.Error as e:
            log(f"committed offset of {partition} unknown: {describe(e)}")
            return None

    def revoked(self, partitions: Collection[Partition]) -> None:
        """Commit the offsets of partitions that are taken away if the setting says so, and give them up."""
        self._committer.revoked(self.consumer, partitions)
        self._give_up("revoked", partitions)

    def lost(self, partitions: Collection[Partition]) -> None:
        """Give partitions up that others may have already."""
        self._committer.forget(partitions)
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
        """Record that partitions were taken away, also those of which the library never had a position."""
        if never := self._unlocated.intersection(partitions):
            self._begin({p: StartPosition() for p in sorted(never)})
        self._committer.forget(partitions)
        self.assignments.end(event, [p for p in sorted(partitions) if p in self.assignments.numbers])
        self.progress()

    def close(self) -> None:
        """Leave the group. A library that calls no listener then leaves the partitions to this."""
        self._close_consumer()
        if self.assignments.numbers or self._unlocated:
            self._give_up("revoked", [*self.assignments.numbers, *self._unlocated])
        self._committer.close()
        self.progress()

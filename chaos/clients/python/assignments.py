"""The assignment of a consumer and its positions, in memory and as ledger rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from chaos.clients.protocol import Partition, partition_name
from chaos.ledger.stream import TableWriter
from chaos.run.events import now_us

Source = Literal["committed", "reset", "start", "checkpoint", "seek"]


@dataclass(frozen=True)
class ReaderKey:
    """The columns that identify a reader in each of its rows."""

    consumer: str
    incarnation: int
    group: str | None
    mode: Literal["subscribe", "assign"]


@dataclass(frozen=True)
class StartPosition:
    """The offset at which reading a partition starts; both fields are None if the library chooses it."""

    offset: int | None = None
    source: Source | None = None


@dataclass
class AssignmentLog:
    """Writes `assignments` for one incarnation of a consumer, and holds its current assignment.

    numbers: running number of the assignment of each partition held.
    last_numbers: the last number of each partition, also after it was given up, for late answers to commits.
    positions: offset after the last processed record of each partition held, or its start position.
    """

    writer: TableWriter
    key: ReaderKey
    member_id: str | None = None
    instance_id: str | None = None
    generation: int | None = None
    numbers: dict[Partition, int] = field(default_factory=dict)
    last_numbers: dict[Partition, int] = field(default_factory=dict)
    positions: dict[Partition, int | None] = field(default_factory=dict)
    _count: int = 0

    def begin(
        self, event: Literal["assigned", "seek"], starts: Mapping[Partition, StartPosition], number: int | None = None
    ) -> int:
        """Record an assignment or a seek. Returns its number, which each partition gets.

        number: the number of an assignment that already has rows for other partitions; a new one if left out.
        """
        if number is None:
            self._count += 1
            number = self._count
        for partition, start in starts.items():
            self.numbers[partition] = self.last_numbers[partition] = number
            self.positions[partition] = start.offset
        self._write(event, starts)
        return number

    def end(self, event: Literal["revoked", "lost"], partitions: Iterable[Partition]) -> None:
        """Record that partitions were taken away."""
        partitions = list(partitions)
        self._write(event, {p: StartPosition(self.positions.get(p)) for p in partitions})
        for partition in partitions:
            self.numbers.pop(partition, None)
            self.positions.pop(partition, None)

    def locate(self, partition: Partition, offset: int) -> None:
        """Record the start of an assignment that the library chose and reported later."""
        self.positions[partition] = offset
        self._write("position", {partition: StartPosition(offset)})

    def checkpoint(self) -> None:
        """Record that a checkpoint with the positions of all partitions held is complete."""
        self._write("checkpoint", {p: StartPosition(offset) for p, offset in self.positions.items()})

    def processed(self, ends: Mapping[Partition, int]) -> None:
        """Advance positions; partitions that are not held are ignored."""
        self.positions.update({p: end for p, end in ends.items() if p in self.numbers})

    def progress(self) -> dict[str, object]:
        """Return the fields of the progress event about the assignment."""
        return {
            "assigned": sorted(map(partition_name, self.numbers)),
            "positions": {partition_name(p): o for p, o in sorted(self.positions.items()) if o is not None},
            "member_id": self.member_id,
            "generation": self.generation,
        }

    def _write(self, event: str, starts: Mapping[Partition, StartPosition]) -> None:
        at_us = now_us()
        self.writer.append_rows(
            {
                **asdict(self.key),
                "member_id": self.member_id,
                "instance_id": self.instance_id,
                "generation": self.generation,
                "event": event,
                "assignment": self.last_numbers.get((topic, partition)),
                "topic": topic,
                "partition": partition,
                "position": start.offset,
                "source": start.source,
                "at_us": at_us,
            }
            for (topic, partition), start in starts.items()
        )

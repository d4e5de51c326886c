"""Which partitions a consumer holds, since when, and from where it reads: kept in memory and written as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from chaos.clients.protocol import Partition, partition_name
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us

Source = Literal["committed", "reset", "start", "checkpoint", "seek"]


@dataclass(frozen=True)
class Beginning:
    """Where reading a partition begins; both None where the client left that to librdkafka."""

    position: int | None = None
    source: Source | None = None


@dataclass
class AssignmentLog:
    """Writes `assignments` for one consumer in one incarnation, and holds what is assigned now."""

    writer: TableWriter
    consumer: str
    incarnation: int
    group: str | None
    mode: str
    member_id: str | None = None
    generation: int | None = None
    numbers: dict[Partition, int] = field(default_factory=dict)
    """Running number of the assignment under which each partition is held."""
    positions: dict[Partition, int | None] = field(default_factory=dict)
    """Next offset after the last processed record of each partition held, or where it began."""
    last_numbers: dict[Partition, int] = field(default_factory=dict)
    """As `numbers`, and for partitions no longer held the last one: a late answer still belongs to it."""
    _count: int = 0

    def assigned(self, beginnings: Mapping[Partition, Beginning]) -> None:
        """A grant of partitions, all under the next running number."""
        self._begin("assigned", beginnings)

    def _begin(self, event: Literal["assigned", "seek"], beginnings: Mapping[Partition, Beginning]) -> None:
        self._count += 1
        for partition, beginning in beginnings.items():
            self.numbers[partition] = self.last_numbers[partition] = self._count
            self.positions[partition] = beginning.position
        self._write(event, beginnings)

    def sought(self, beginnings: Mapping[Partition, Beginning]) -> None:
        """A seek: it begins a new epoch of each partition, under the next running number."""
        self._begin("seek", beginnings)

    def ended(self, event: Literal["revoked", "lost"], partitions: Iterable[Partition]) -> None:
        """The end of a grant."""
        partitions = list(partitions)
        self._write(event, {p: Beginning(self.positions.get(p)) for p in partitions})
        for partition in partitions:
            self.numbers.pop(partition, None)
            self.positions.pop(partition, None)

    def processed(self, ends: Mapping[Partition, int]) -> None:
        """Move positions on; those of partitions not held are nobody's."""
        self.positions.update({p: end for p, end in ends.items() if p in self.numbers})

    def told(self) -> dict[str, object]:
        """The part of the progress event that is about assignments."""
        return {
            "assigned": sorted(map(partition_name, self.numbers)),
            "positions": {partition_name(p): o for p, o in sorted(self.positions.items()) if o is not None},
            "member_id": self.member_id,
            "generation": self.generation,
        }

    def _write(self, event: str, beginnings: Mapping[Partition, Beginning]) -> None:
        at_us = now_us()
        self.writer.append_rows(
            {
                "consumer": self.consumer,
                "incarnation": self.incarnation,
                "group": self.group,
                "mode": self.mode,
                "member_id": self.member_id,
                "generation": self.generation,
                "event": event,
                "assignment": self.last_numbers.get((topic, partition)),
                "topic": topic,
                "partition": partition,
                "position": beginning.position,
                "source": beginning.source,
                "at_us": at_us,
            }
            for (topic, partition), beginning in beginnings.items()
        )

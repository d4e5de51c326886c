"""The assign consumer on a library in Python; see `chaos.clients.self_assigned`."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.clients.assignments import StartPosition
from chaos.clients.protocol import AssignConsumerSpec, Partition
from chaos.clients.python.commits import Committer
from chaos.clients.python.reader import Reader
from chaos.clients.self_assigned import SelfAssigned


class AssignConsumer(Reader[AssignConsumerSpec], SelfAssigned[Committer]):
    """One incarnation of an assign consumer."""

    def _partitions(self) -> list[Partition]:
        partitions = []
        for topic in self._spec.topics:
            numbers = self.consumer.partitions_of(topic)
            if not numbers:
                raise self._library.Error(f"{topic} has no partitions yet")
            partitions += [(topic, number) for number in sorted(numbers)]
        return partitions

    def _watermarks(self, partition: Partition) -> tuple[int, int]:
        return self.consumer.watermarks(partition)

    def _committed(self, partition: Partition) -> int | None:
        return self.consumer.committed(partition)

    def _reset_position(self, partition: Partition) -> int | None:
        traits, release = self._library.traits, self._library.release
        reset = {**traits.defaults(release), **traits.common(self._spec.config)}["auto.offset.reset"]
        if reset not in ("earliest", "latest"):
            return None
        return self.consumer.watermarks(partition)[reset == "latest"]

    def _offset_at(self, partition: Partition, timestamp_ms: int) -> int:
        return self.offset_at(partition, timestamp_ms)

    def _assign(self, starts: Mapping[Partition, StartPosition], *, more: bool) -> None:
        self.consumer.assign([*(self.assignments.numbers if more else ()), *starts])
        for partition, start in starts.items():
            assert start.offset is not None  # each start of an assign consumer is known
            self.consumer.seek(partition, start.offset)

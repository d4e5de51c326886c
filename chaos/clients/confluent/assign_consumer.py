"""The assign consumer: `python -m chaos.clients.confluent.assign_consumer SPEC`; see `chaos.clients.self_assigned`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Literal

from confluent_kafka import KafkaException, TopicPartition

from chaos.clients.assignments import StartPosition
from chaos.clients.confluent.commits import Committer
from chaos.clients.confluent.library import VERSIONS
from chaos.clients.confluent.positions import TIMEOUT_S, offsets_at, reset_position, seek_targets, watermarks
from chaos.clients.confluent.reader import Reader
from chaos.clients.program import Channel, Lifecycle, run_clients
from chaos.clients.protocol import AssignConsumerSpec, Partition, partition_name
from chaos.clients.self_assigned import SelfAssigned

PROBE_TIMEOUT_S = 20.0


class AssignConsumer(Reader[AssignConsumerSpec], SelfAssigned[Committer]):
    """One incarnation of an assign consumer."""

    def __init__(self, spec: AssignConsumerSpec, channel: Channel, lifecycle: Lifecycle) -> None:
        super().__init__(spec, channel, lifecycle, group_id(spec))
        if spec.no_group_id is not None:
            lifecycle.error(probe_group_id(self.settings, spec.no_group_id))

    def _partitions(self) -> list[Partition]:
        partitions = []
        for name in self._spec.topics:
            topic = self.consumer.list_topics(name, timeout=TIMEOUT_S).topics[name]
            if topic.error is not None or not topic.partitions:
                raise KafkaException(topic.error or f"{name} has no partitions yet")
            partitions += [(name, number) for number in sorted(topic.partitions)]
        return partitions

    def _watermarks(self, partition: Partition) -> tuple[int, int]:
        return watermarks(self.consumer, partition)

    def _committed(self, partition: Partition) -> int | None:
        (answer,) = self.consumer.committed([TopicPartition(*partition)], timeout=TIMEOUT_S)
        if answer.error is not None:
            raise KafkaException(answer.error)
        return int(answer.offset) if answer.offset >= 0 else None

    def _reset_position(self, partition: Partition) -> int | None:
        position = reset_position(self.consumer, partition, self._spec.config)
        if position is None and self._spec.config.get("auto.offset.reset") != "error":
            raise KafkaException(f"no position for {partition_name(partition)} yet")
        return position

    def _offset_at(self, partition: Partition, timestamp_ms: int) -> int:
        return offsets_at(self.consumer, [partition], timestamp_ms)[partition]

    def _assign(self, starts: Mapping[Partition, StartPosition], *, more: bool) -> None:
        targets = [TopicPartition(*p, s.offset) for p, s in starts.items()]
        (self.consumer.incremental_assign if more else self.consumer.assign)(targets)

    def _seek(self, order: dict[str, Any]) -> Mapping[Partition, int]:
        """Obey an order to seek. With `lookup_first_s`, assign twice: without offsets, and then at the targets.

        Partitions without a target continue at their positions.
        """
        if "lookup_first_s" not in order:
            return super()._seek(order)
        held = list(self.assignments.numbers)
        targets = seek_targets(order, held, self.consumer)
        positions = {p: int(self.assignments.positions[p] or 0) for p in held} | dict(targets)
        self.consumer.assign([TopicPartition(*p) for p in held])
        time.sleep(float(order["lookup_first_s"]))
        self.consumer.assign([TopicPartition(*p, offset) for p, offset in positions.items()])
        return positions


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

"""Clocks that a fault can change and read: that of a node, and that of a client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, TopicPartition

from chaos.cluster.api import able
from chaos.cluster.brokers.clock_reading import ClockReading, read_clock
from chaos.cluster.clocks import SetClock
from chaos.errors import FaultError
from chaos.faults.base import World
from chaos.faults.targets import node_name
from chaos.kafka.partition import TopicPartition as Partition
from chaos.ledger.record import in_headers, parse
from chaos.preload.clock import Skew
from chaos.scenario.retention import refused

ANSWER_S = 3.0
LOOK_BACK = 500
"""Number of records at the end of each partition in which a producer's own are looked for."""
READ_S = 3.0


@dataclass(frozen=True, order=True)
class Stamp:
    """The timestamp of a record, compared with the time in its value, which is that of the machine at the call."""

    sent_us: int
    ahead_s: float
    place: str


class Clock(Protocol):
    """A clock of a node or a client."""

    @property
    def name(self) -> str:
        """Its owner, such as `broker 2`."""

    @property
    def stamping(self) -> bool:
        """Whether it stamps records."""

    def ahead_s(self) -> float:
        """Return how many seconds it is ahead, as it was set."""

    def set(self, skew: Skew) -> None:
        """Change it."""

    def read(self) -> ClockReading | None:
        """Return what it shows, compared with the clock of the machine; None without an answer."""

    def stamp(self, since_us: int) -> Stamp | None:
        """Return what it stamped on the last record that was sent since a time; None if there is none yet."""

    def refused(self, ahead_s: float) -> bool:
        """Return whether brokers refuse records with times so far ahead, and have refused some."""


@dataclass(frozen=True)
class NodeClock:
    """The clock of a broker or a controller, as it shows in its log."""

    node: int
    world: World

    @property
    def stamping(self) -> bool:
        """Return false: records of the run have the times of clients."""
        return False

    @property
    def name(self) -> str:
        """The role and the id of the node."""
        return node_name(self.node, self.world)

    def ahead_s(self) -> float:
        """Return how many seconds it is ahead, as it was set."""
        return able(self.world.cluster, SetClock).clock_ahead_s(self.node)

    def set(self, skew: Skew) -> None:
        """Change it."""
        able(self.world.cluster, SetClock).set_clock(self.node, skew)

    def read(self) -> ClockReading | None:
        """Let the node refuse a request, and return the time that it logs."""
        state = self.world.cluster.state.node(self.node)
        if state.log is None:
            raise FaultError(f"{self.name} has no log on this machine, so its clock cannot be observed")
        address = self.world.cluster.address(self.node)
        return read_clock(*address, Path(self.world.cluster.run.path) / state.log)

    def stamp(self, since_us: int) -> Stamp | None:
        """Return None: records of the run have the times of clients."""
        return None

    def refused(self, ahead_s: float) -> bool:
        """Return false: records of the run have the times of clients."""
        return False


@dataclass(frozen=True)
class ClientClock:
    """The clock of a client: what the client answers, and what it stamps on the records that it writes."""

    client: str
    world: World

    @property
    def name(self) -> str:
        """The name of the client."""
        return self.client

    @property
    def _topics(self) -> list[str]:
        entry, scenario = self.client.rpartition("/")[0], self.world.scenario
        written = [topic for p in scenario.producers if p.name == entry for topic in p.written]
        return written + [p.to for p in scenario.processors if p.name == entry]

    @property
    def stamping(self) -> bool:
        """Whether the client writes records."""
        return bool(self._topics)

    def ahead_s(self) -> float:
        """Return how many seconds it is ahead, as it was set."""
        return self.world.fleet.clock_ahead_s(self.client)

    def set(self, skew: Skew) -> None:
        """Change it."""
        self.world.fleet.set_clock(self.client, skew)

    def read(self) -> ClockReading | None:
        """Ask the client what its clock shows."""
        state = self.world.fleet.state(self.client)
        sent_s = time.time()
        shown_us = state.shown_us(ANSWER_S) if state.alive else None
        if shown_us is None:
            return None
        return ClockReading(shown_us / 1e6 - time.time(), shown_us / 1e6 - sent_s)

    def stamp(self, since_us: int) -> Stamp | None:
        """Read the ends of the logs that the client writes to, and return its last record with a time."""
        return max((stamp for stamp in self._records() if stamp.sent_us >= since_us), default=None)

    def refused(self, ahead_s: float) -> bool:
        """Return whether brokers refuse records with times so far ahead, and have refused some."""
        scenario, state = self.world.scenario, self.world.fleet.state(self.client)
        outside = all(refused(scenario, scenario.faults, topic, ahead_s) for topic in self._topics)
        return outside and state.count("failed") + state.count("unknown") > 0

    def _records(self) -> Iterator[Stamp]:
        """Yield the timestamps of the last records of the client."""
        metadata = self.world.kafka.metadata()
        names = [p for p in (metadata.partitions if metadata else {}) if p.topic in self._topics]
        ends = self.world.kafka.end_offsets(names)
        access = self.world.access
        settings = {
            "bootstrap.servers": self.world.cluster.bootstrap,
            "group.id": "aftershock-clock",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",  # a transaction may be open
            **(access.librdkafka() if access else {}),
        }
        with closing(Consumer(settings)) as reader:
            reader.assign([TopicPartition(*_place(p), max(0, end - LOOK_BACK)) for p, end in ends.items()])
            deadline, left = time.monotonic() + READ_S, {p for p, end in ends.items() if end}
            while left and time.monotonic() < deadline:
                for message in reader.consume(LOOK_BACK, 0.5):
                    if message.error():
                        continue
                    partition = Partition(message.topic(), message.partition())
                    if message.offset() + 1 >= ends[partition]:
                        left.discard(partition)
                    identity = parse(message.value() or in_headers(message.headers()))
                    if identity is not None and identity.producer == self.client:
                        ahead_s = message.timestamp()[1] / 1e3 - identity.sent_us / 1e6
                        yield Stamp(identity.sent_us, ahead_s, f"{partition} offset {message.offset()}")


def _place(partition: Partition) -> tuple[str, int]:
    return partition.topic, partition.number

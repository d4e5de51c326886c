"""What several brokers say of one cluster, put together.

A broker that is cut off from its peers still answers, with what it knew before: it would go on for ever as the leader
of what has long had another. So every broker is asked in turn, and their views are merged by what Kafka guarantees: a
leader epoch only grows (KIP-101), and who is in sync is decided for a partition by its leader.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from chaos.kafka.partition import TopicPartition

FRESH_S = 3.0
"""How long a view counts that its broker did not repeat."""


@dataclass(frozen=True)
class PartitionState:
    """Leader (-1: none), leader epoch, in-sync replicas and all replicas of one partition, as the metadata says."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class Metadata:
    """The brokers that are registered and unfenced, with their addresses, and the partitions.

    `controller` is the broker to send a change of topics to: in KRaft any one, which passes it on.
    """

    brokers: Mapping[int, tuple[str, int]]
    partitions: Mapping[TopicPartition, PartitionState]
    controller: int = -1
    cluster_id: str = ""


class Views:
    """The latest view of each broker, by its address."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int], tuple[float, Metadata]] = {}

    def note(self, address: tuple[str, int], view: Metadata) -> None:
        """What a broker said just now."""
        self._latest[address] = (time.monotonic(), view)

    def forget(self, address: tuple[str, int]) -> None:
        """A broker that does not answer any more has no view."""
        self._latest.pop(address, None)

    def listed(self) -> dict[int, tuple[str, int]]:
        """The brokers that most views list; nobody vouches for himself alone. Empty without any view."""
        views = self._fresh().values()
        votes = Counter(broker for view in views for broker in view.brokers.items())
        return {broker: at for (broker, at), count in sorted(votes.items()) if 2 * count > len(views)}

    def merged(self) -> Metadata | None:
        """The cluster as the views together show it; None without any."""
        views = self._fresh()
        if not views:
            return None
        ids = {at: broker for view in views.values() for broker, at in view.brokers.items()}
        partitions: dict[TopicPartition, tuple[tuple[int, bool], PartitionState]] = {}
        for address, view in views.items():
            for name, state in view.partitions.items():
                rank = (state.leader_epoch, ids.get(address) == state.leader)
                if name not in partitions or rank > partitions[name][0]:
                    partitions[name] = (rank, state)
        _, newest = max(self._latest.values(), key=lambda noted: noted[0])
        states = {name: state for name, (_, state) in sorted(partitions.items())}
        return Metadata(self.listed(), states, newest.controller, newest.cluster_id)

    def _fresh(self) -> dict[tuple[str, int], Metadata]:
        oldest = time.monotonic() - FRESH_S
        return {address: view for address, (at, view) in self._latest.items() if at >= oldest}

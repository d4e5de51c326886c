"""Metadata of a cluster, merged from the answers of several brokers.

A broker that is isolated from its peers still answers, with the metadata that it had before: it shows itself as the
leader of partitions that have another leader by now. So the platform asks the brokers in turn and merges their views.
The highest leader epoch wins, because epochs only grow (KIP-101); within an epoch the leader's own view wins, because
the leader decides which replicas are in sync.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from chaos.kafka.partition import TopicPartition

NO_LEADER = -1
FRESH_S = 3.0
"""Seconds after which a view expires."""


@dataclass(frozen=True)
class PartitionState:
    """Leader (or `NO_LEADER`), leader epoch, in-sync replicas and all replicas of a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class Metadata:
    """The brokers that are registered and not fenced, with their addresses, and the partitions.

    `controller` is the broker to send changes of topics to. In KRaft that is any broker, which forwards them.
    """

    brokers: Mapping[int, tuple[str, int]]
    partitions: Mapping[TopicPartition, PartitionState]
    controller: int = -1
    cluster_id: str = ""


class Views:
    """The latest metadata of each broker, by the broker's address."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int], tuple[float, Metadata]] = {}

    def note(self, address: tuple[str, int], view: Metadata) -> None:
        """Keep a view that a broker just answered with."""
        self._latest[address] = (time.monotonic(), view)

    def forget(self, address: tuple[str, int]) -> None:
        """Drop the view of a broker that does not answer."""
        self._latest.pop(address, None)

    def listed(self) -> dict[int, tuple[str, int]]:
        """Return the brokers that the majority of the views list. Empty without any view."""
        views = self._fresh().values()
        votes = Counter(broker for view in views for broker in view.brokers.items())
        return {broker: at for (broker, at), count in sorted(votes.items()) if 2 * count > len(views)}

    def merged(self) -> Metadata | None:
        """Return the merged metadata; None without any view."""
        views = self._fresh()
        if not views:
            return None
        ids = {at: broker for view in views.values() for broker, at in view.brokers.items()}
        partitions: dict[TopicPartition, tuple[tuple[int, bool], PartitionState]] = {}
        for address, view in views.items():
            for partition, state in view.partitions.items():
                rank = (state.leader_epoch, ids.get(address) == state.leader)
                if partition not in partitions or rank > partitions[partition][0]:
                    partitions[partition] = (rank, state)
        _, newest = max(self._latest.values(), key=lambda noted: noted[0])
        states = {partition: state for partition, (_, state) in sorted(partitions.items())}
        return Metadata(self.listed(), states, newest.controller, newest.cluster_id)

    def _fresh(self) -> dict[tuple[str, int], Metadata]:
        oldest = time.monotonic() - FRESH_S
        return {address: view for address, (at, view) in self._latest.items() if at >= oldest}

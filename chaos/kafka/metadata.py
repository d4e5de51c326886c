"""Metadata of a cluster, merged from the answers of several brokers.

A broker that is isolated from its peers still answers, with the metadata that it had before: it shows itself as the
leader of partitions that have another leader by now. So the platform asks the brokers in turn and merges their views.
The highest leader epoch wins, because epochs only grow (KIP-101); within an epoch the leader's own view wins, because
the leader decides which replicas are in sync.

A topic that was deleted and created again has another id and begins at leader epoch 0 (KIP-516). So the id comes before
the epoch: the id that most views have counts, among equally many the id that was seen last for the first time.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

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
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The id of each topic; without the topics to which the brokers give none."""


class Views:
    """The latest metadata of each broker, by the broker's address."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, int], tuple[float, Metadata]] = {}
        self._ids_seen: dict[str, int] = {}
        """The topic ids in the order in which they were first seen."""

    def note(self, address: tuple[str, int], view: Metadata) -> None:
        """Keep a view that a broker just answered with."""
        for topic_id in view.topic_ids.values():
            self._ids_seen.setdefault(topic_id, len(self._ids_seen))
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
        topic_ids = self._topic_ids(views.values())
        partitions: dict[TopicPartition, tuple[tuple[int, bool], PartitionState]] = {}
        for address, view in views.items():
            for partition, state in view.partitions.items():
                if view.topic_ids.get(partition.topic) != topic_ids.get(partition.topic):
                    continue  # of a topic that was deleted, or that takes the place of one
                rank = (state.leader_epoch, ids.get(address) == state.leader)
                if partition not in partitions or rank > partitions[partition][0]:
                    partitions[partition] = (rank, state)
        _, newest = max(self._latest.values(), key=lambda noted: noted[0])
        states = {partition: state for partition, (_, state) in sorted(partitions.items())}
        return Metadata(self.listed(), states, newest.controller, newest.cluster_id, topic_ids)

    def _topic_ids(self, views: Collection[Metadata]) -> dict[str, str]:
        """Return the id of each topic; leaves out the topics that most views lack after an id was seen."""
        votes: dict[str, Counter[str | None]] = defaultdict(Counter)
        for topic in {topic for view in views for topic in view.topic_ids}:
            votes[topic].update(view.topic_ids.get(topic) for view in views)
        ids: dict[str, str] = {}
        for topic, counts in sorted(votes.items()):
            topic_id = max(counts, key=lambda i: (counts[i], -1 if i is None else self._ids_seen[i]))
            if topic_id is not None:
                ids[topic] = topic_id
        return ids

    def _fresh(self) -> dict[tuple[str, int], Metadata]:
        oldest = time.monotonic() - FRESH_S
        return {address: view for address, (at, view) in self._latest.items() if at >= oldest}

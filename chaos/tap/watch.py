"""What a tap asks the cluster while it records, each few seconds: brokers, topics, and whether groups come further.

Only questions. A cluster that does not answer is asked again later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from chaos.kafka.client import Kafka
from chaos.kafka.metadata import Metadata
from chaos.kafka.partition import TopicPartition
from chaos.relay.roles import Address

STALLED_S = 30.0
"""Time without a commit, although there are records to read, after which a partition of a group is stalled."""
MOST_NAMED = 3

Say = Callable[[str], None]


@dataclass
class _Position:
    """The committed offset of a partition, and since when it is that one."""

    offset: int
    since_s: float
    said: bool = False


class Watch:
    """The state of a cluster, as it was asked last. say: takes a line; moved: takes a broker with another address."""

    def __init__(self, kafka: Kafka, say: Say, moved: Callable[[int, Address, bool], None]) -> None:
        """moved: broker, its address, and whether it is new. Raises what the relay does if it cannot go on there."""
        self._kafka, self._say, self._moved = kafka, say, moved
        self._brokers: dict[int, Address] = {}
        self._gone: set[int] = set()
        self._ids: dict[str, str] = {}
        self._missing: set[str] = set()
        self._positions: dict[tuple[str, TopicPartition], _Position] = {}
        self.silent = False
        """Whether no broker answered the last time."""
        self.recreated: set[str] = set()
        """Topics that were deleted, or have another id now."""

    def look(self, now_s: float, topics: Iterable[str], groups: Mapping[str, Iterable[str]]) -> Metadata | None:
        """Ask, and say what changed. topics: those that were used; groups: those with members here, with topics."""
        metadata = self._kafka.metadata()
        if (metadata is None) != self.silent:
            self.silent = metadata is None
            self._say("no broker of the cluster answers" if self.silent else "the cluster answers again")
        if metadata is None:
            return None
        self._look_at_brokers(metadata)
        self._look_at_topics(metadata, topics)
        self._look_at_groups(metadata, now_s, groups)
        return metadata

    def _look_at_brokers(self, metadata: Metadata) -> None:
        for broker, address in metadata.brokers.items():
            known = self._brokers.get(broker)
            if self._brokers and known != address:
                self._moved(broker, address, known is None)
            elif broker in self._gone:
                self._say(f"broker {broker} is back")
            self._gone.discard(broker)
        for broker in self._brokers.keys() - metadata.brokers.keys() - self._gone:
            self._gone.add(broker)
            self._say(f"broker {broker} is down: the cluster does not list it any more")
        self._brokers |= metadata.brokers

    def _look_at_topics(self, metadata: Metadata, topics: Iterable[str]) -> None:
        there = {partition.topic for partition in metadata.partitions}
        for topic in topics:
            if topic not in there:
                if topic in self._ids and topic not in self._missing:
                    self._missing.add(topic)
                    self.recreated.add(topic)
                    self._say(f"topic {topic} was deleted, so what was written to it is not judged")
                continue
            own = metadata.topic_ids.get(topic, "")
            if self._ids.setdefault(topic, own) != own:
                self._ids[topic] = own
                self.recreated.add(topic)
                self._say(f"topic {topic} was deleted and created again, so what was written to it is not judged")
            self._missing.discard(topic)

    def _look_at_groups(self, metadata: Metadata, now_s: float, groups: Mapping[str, Iterable[str]]) -> None:
        for group, topics in groups.items():
            names = set(topics)
            partitions = [p for p in metadata.partitions if p.topic in names]
            done = self._kafka.done(group, partitions) if partitions else None
            ends = self._kafka.end_offsets(done) if done else {}
            stalled = []
            for partition, offset in (done or {}).items():
                known = self._positions.get((group, partition))
                behind = ends.get(partition, offset) - offset
                if known is None or known.offset != offset or behind <= 0:
                    if known and known.said:
                        self._say(f"group {group} goes on in {partition}")
                    self._positions[group, partition] = _Position(offset, now_s)
                elif not known.said and now_s - known.since_s >= STALLED_S:
                    known.said = True
                    stalled.append((partition, behind))
            if stalled:
                first = ", ".join(f"{partition} ({behind:,} behind)" for partition, behind in stalled[:MOST_NAMED])
                more = f" and {len(stalled) - MOST_NAMED} more" if len(stalled) > MOST_NAMED else ""
                self._say(f"group {group} has made no progress for {STALLED_S:g} s in {first}{more}")

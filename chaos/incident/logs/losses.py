"""Losses of records: truncated logs, unclean elections, and brokers that return with a shorter log."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.incident.logs import events as e
from chaos.incident.logs.broker_timeline import Timeline
from chaos.incident.logs.cluster_state import internal
from chaos.incident.logs.entries import Source
from chaos.incident.logs.outages import Outage, OutageKind
from chaos.kafka.partition import TopicPartition


@dataclass(frozen=True)
class Loss:
    """A loss of records in one partition. `broker` lost them, or became leader without them."""

    partition: TopicPartition
    broker: int
    at_us: int
    signs: tuple[Source, ...]


@dataclass(frozen=True)
class Truncation(Loss):
    """A broker truncated its log because the leader did not have these records. `records` is None if it is unknown.

    The offsets are above the high watermark: with acks=all no producer got an acknowledgement for them.
    """

    offset: int
    records: int | None


@dataclass(frozen=True)
class ShorterLog(Loss):
    """A broker returned with fewer records than before: with an empty disk (`wiped`) or a log that ends too early."""

    wiped: bool


def find_shorter_logs(timeline: Timeline, outages: list[Outage]) -> list[ShorterLog]:
    """Return at most one shorter log for each outage."""
    died = (o for o in outages if o.kind is OutageKind.DIED and o.back_us is not None)
    return [shorter for outage in died if (shorter := _shorter_log(timeline, outage))]


def _shorter_log(timeline: Timeline, outage: Outage) -> ShorterLog | None:
    """Return the first partition with a shorter log; a leader's log must reach the start of its successor."""
    broker, at_us = outage.broker, outage.at_us
    roles = timeline.select(e.LeaderStarted, e.FollowerStarted, node=broker, until_us=at_us)
    partitions = {x.partition for x in roles if not internal(x.partition.topic)}
    recreated = {x.topic for x in timeline.select(e.TopicCreated, since_us=at_us + 1)}
    for x in timeline.select(e.PartitionEvent, node=broker, since_us=at_us + 1):
        if x.partition not in partitions or x.partition.topic in recreated:
            continue
        if isinstance(x, e.LogCreated):
            return ShorterLog(x.partition, broker, x.at_us, (x.source,), wiped=True)
        if not isinstance(x, e.LogLoaded):
            continue
        terms = [y for y in timeline.select(e.LeaderStarted) if y.partition == x.partition]
        last = [y.node for y in terms if y.at_us <= at_us][-1:]
        successor = next((y for y in terms if y.at_us > at_us), None)
        if last == [broker] and successor and successor.node != broker and successor.offset > x.end_offset:
            return ShorterLog(x.partition, broker, x.at_us, (successor.source, x.source), wiped=False)
    return None


def find_truncations(timeline: Timeline) -> list[Truncation]:
    """Return the truncations that removed records, or may have removed some."""
    loaded: dict[tuple[int, TopicPartition], e.LogLoaded] = {}
    truncations: list[Truncation] = []
    for x in timeline.events:
        if isinstance(x, e.LogLoaded):
            loaded[x.node, x.partition] = x
        elif isinstance(x, e.Truncated) and not internal(x.partition.topic):
            load = loaded.pop((x.node, x.partition), None)
            records = load.end_offset - x.offset if load else None
            if records is None or records > 0:
                signs = (load.source, x.source) if load else (x.source,)
                truncations.append(Truncation(x.partition, x.node, x.at_us, signs, x.offset, records))
    return truncations


def find_unclean_leaders(timeline: Timeline) -> list[Loss]:
    """Return one loss for each leader from outside the ISR: the records that it did not have are lost with any acks.

    The sign is the first one: from the controller (KRaft), or a leader outside the ISR (ZooKeeper).
    """
    topics = {x.topic_id: x.partition.topic for x in timeline.select(e.PartitionPlaced)}
    isr: dict[TopicPartition, tuple[int, ...]] = {}
    leaders: dict[tuple[TopicPartition, int], Loss] = {}
    for x in timeline.events:
        partition: TopicPartition | None = None
        if isinstance(x, e.UncleanElection):
            topic = topics.get(x.topic_id)
            partition = x.partition or (TopicPartition(topic, x.number) if topic else None)
        elif isinstance(x, e.LeaderChosen) and x.leader >= 0 and x.leader not in (isr.get(x.partition) or (x.leader,)):
            partition = x.partition
        if isinstance(x, e.UncleanElection | e.LeaderChosen) and partition and not internal(partition.topic):
            leader = Loss(partition, x.leader, x.at_us, (x.source,))
            leaders.setdefault((partition, x.leader), leader)
        if isinstance(x, e.LeaderChosen | e.LeaderStarted | e.IsrUpdated | e.IsrShrunk):
            isr[x.partition] = x.isr
    return sorted(leaders.values(), key=lambda leader: leader.at_us)

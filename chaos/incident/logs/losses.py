"""Records that were cut off from a log, and leaders that were not in sync when they were elected."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.incident.logs import events as e
from chaos.incident.logs.events import Source
from chaos.incident.logs.history import History
from chaos.incident.logs.inventory import internal
from chaos.incident.logs.outages import How, Outage


@dataclass(frozen=True)
class Cut:
    """A broker threw away the end of its log, for the leader had none of it. `records` is None if it is not told.

    Those were offsets above the high watermark: with acks=all nobody was told that they are safe.
    """

    broker: int
    partition: str
    offset: int
    records: int | None
    at_us: int
    signs: tuple[Source, ...]


@dataclass(frozen=True)
class Unclean:
    """A replica that was not in sync became leader: what it lacked is lost, whatever acks said."""

    partition: str
    leader: int
    at_us: int
    signs: tuple[Source, ...]


@dataclass(frozen=True)
class Shorter:
    """A broker came back with less than it had: an empty disk (`wiped`), or a log that ends too early."""

    broker: int
    partition: str
    wiped: bool
    at_us: int
    signs: tuple[Source, ...]


def shorter(history: History, outages: list[Outage]) -> list[Shorter]:
    """At most one for each outage. A leader's log is never shorter than what the next leader begins with."""
    found = (_shorter(history, o) for o in outages if o.how is How.DIED and o.back_us is not None)
    return [s for s in found if s is not None]


def _shorter(history: History, o: Outage) -> Shorter | None:
    before = [x for x in history.events if x.at_us <= o.at_us]
    after = [x for x in history.events if x.at_us > o.at_us]
    had = {x.partition for x in before if x.node == o.broker and isinstance(x, e.LeaderStarted | e.FollowerStarted)}
    made = {x.topic for x in after if isinstance(x, e.TopicCreated)}
    for x in after:
        partition = getattr(x, "partition", "")
        if x.node != o.broker or partition not in had or internal(partition) or partition.rpartition("/")[0] in made:
            continue
        if isinstance(x, e.LogCreated):
            return Shorter(o.broker, partition, True, x.at_us, (x.source,))
        if isinstance(x, e.LogLoaded):
            led = [y.node for y in before if isinstance(y, e.LeaderStarted) and y.partition == partition][-1:]
            next_ = [y for y in after if isinstance(y, e.LeaderStarted) and y.partition == partition][:1]
            if led == [o.broker] and next_ and next_[0].node != o.broker and next_[0].offset > x.end_offset:
                return Shorter(o.broker, partition, False, x.at_us, (next_[0].source, x.source))
    return None


def cuts(history: History) -> list[Cut]:
    """All of them on users' partitions, by time."""
    loaded: dict[tuple[int, str], e.LogLoaded] = {}
    found: list[Cut] = []
    for x in history.events:
        if isinstance(x, e.LogLoaded):
            loaded[x.node, x.partition] = x
        elif isinstance(x, e.Truncated) and not internal(x.partition):
            before = loaded.pop((x.node, x.partition), None)
            records = before.end_offset - x.offset if before else None
            if records is None or records > 0:
                signs = (before.source, x.source) if before else (x.source,)
                found.append(Cut(x.node, x.partition, x.offset, records, x.at_us, signs))
    return found


def unclean(history: History) -> list[Unclean]:
    """The first sign of each: said by the controller (KRaft), or by a leader from outside the ISR (ZooKeeper)."""
    names = {x.topic_id: x.partition.rpartition("/")[0] for x in history.events if isinstance(x, e.PartitionPlaced)}
    in_sync: dict[str, tuple[int, ...]] = {}
    found: dict[tuple[str, int], Unclean] = {}
    for x in history.events:
        if isinstance(x, e.UncleanElection):
            partition = x.partition or f"{names.get(x.topic_id, '')}/{x.number}"
            if not partition.startswith("/") and not internal(partition):
                found.setdefault((partition, x.leader), Unclean(partition, x.leader, x.at_us, (x.source,)))
        elif isinstance(x, e.LeaderChosen) and not internal(x.partition):
            known = in_sync.get(x.partition)
            if known and x.leader >= 0 and x.leader not in known:
                found.setdefault((x.partition, x.leader), Unclean(x.partition, x.leader, x.at_us, (x.source,)))
        if isinstance(x, e.LeaderChosen | e.LeaderStarted | e.IsrUpdated | e.IsrShrunk):
            in_sync[x.partition] = x.isr
    return sorted(found.values(), key=lambda u: u.at_us)

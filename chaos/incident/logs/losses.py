"""Records that were cut off from a log, and leaders that were not in sync when they were elected."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.incident.logs import events as e
from chaos.incident.logs.events import Source
from chaos.incident.logs.history import History
from chaos.incident.logs.inventory import internal


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

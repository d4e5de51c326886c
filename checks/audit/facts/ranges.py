"""Read ranges: what each reader has to read of each partition, how far it came and what it committed past."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.audit.facts.epochs import Epoch, Epochs, ReaderPartition
from checks.audit.facts.readers import EARLIEST, Reader
from checks.audit.facts.starts import CommittedOffsets, LogRange
from checks.audit.facts.topic_changes import AddedPartition


@dataclass
class ReadRange:
    """The range of one reader on one partition.

    log_start: the offset from which on the log has to hold every record. start: the first offset that the reader has to
    deliver, None if unknown. high: the highest offset delivered. passed: the highest offset committed. lost: ranges
    that an epoch committed past without processing them. epochs: number of epochs. began_at: the offset at which it
    first began to read, whatever was evicted since, None if unknown. committed_only: whether uncommitted records are
    outside its range. added_partition: set if the partition was created after the reader had begun. succeeds: whether
    the reader had read a deleted topic of the same name. reset_to: the offset at which it then began to read; offsets
    below it will never come. went_to: the position at which its last epoch began, if it delivered nothing there; it
    will not come back to offsets below it.
    """

    reader: str
    topic: str
    partition: int
    log_start: int | None
    log_end: int | None
    start: int | None = None
    high: int | None = None
    passed: int | None = None
    epochs: int = 0
    lost: list[dict[str, Any]] = field(default_factory=list)
    began_at: int | None = None
    committed_only: bool = True
    added_partition: AddedPartition | None = None
    reset_to: int | None = None
    succeeds: bool = False
    went_to: int | None = None

    @property
    def beyond(self) -> int | None:
        """The highest offset that the reader delivered, committed or moved to; a longer drain brings none below it."""
        return _highest((self.high, self.passed, self.reset_to, self.went_to))


def read_ranges(
    readers: list[Reader],
    epochs: Epochs,
    committed: dict[int, CommittedOffsets],
    log: dict[tuple[str, int], LogRange],
    due_starts: Mapping[tuple[str, int], int | None],
    added: dict[ReaderPartition, AddedPartition],
    succeeding: Mapping[ReaderPartition, Collection[int]],
) -> list[ReadRange]:
    """Return the range of every partition that a reader should read or did read. Sets `passed` of the epochs.

    succeeding: partitions of topics that took the place of one that the reader had read, with the offsets that it had
    reached there. Every record was written while it read the topic, so all of them are in its range.
    """
    held, by_name = epochs.turns, {r.name: r for r in readers}
    wanted = {(r.name, topic, p) for r in readers for topic, p in log if topic in r.topics} | set(held)
    found = []
    for name, topic, partition in sorted(wanted):
        turns, reader = held.get((name, topic, partition), []), by_name.get(name)
        log_start, log_end = log.get((topic, partition), (None, None))
        own = ReadRange(name, topic, partition, due_starts.get((topic, partition)), log_end, epochs=len(turns))
        own.began_at = _began_at(turns)
        own.committed_only = reader.committed_only if reader else True
        own.start = _start(turns, reader, log_start)
        if (name, topic, partition) in added and _found_nothing_committed(turns, committed):
            own.added_partition = added[name, topic, partition]
            own.start, own.began_at = log_start, 0
            own.reset_to = turns[0].start if turns else None
        if (name, topic, partition) in succeeding and log_start is not None:
            own.succeeds, own.start, own.began_at = True, log_start, 0
            own.reset_to = _highest(e.start for e in turns)
        own.high = _highest(e.high for e in turns)
        own.went_to = _went_to(turns, reader, log_end)
        for e, following in zip(turns, [*turns[1:], None], strict=False):
            next_fetch = committed.get(following.index, CommittedOffsets()) if following else None
            moved = bool(next_fetch and (next_fetch.moved or next_fetch.lost_offset is not None))
            stale = succeeding.get((name, topic, partition), ())
            e.passed = _passed(e, following, committed.get(e.index, CommittedOffsets()), moved, stale)
            own.lost += _lost(e)
        own.passed = _highest(e.passed for e in turns)
        found.append(own)
    return found


def _highest(offsets: Iterable[int | None]) -> int | None:
    return max((o for o in offsets if o is not None), default=None)


def _start(turns: list[Epoch], reader: Reader | None, log_start: int | None) -> int | None:
    """Return the start of the first epoch; without an epoch, the log start for a reader that begins at the earliest."""
    if not turns:
        return log_start if reader is not None and reader.default_start == EARLIEST else None
    first = turns[0]
    from_earliest = reader is not None and reader.seen_by(first.consumer).default_start == EARLIEST
    if first.position is None and first.source in ("start", "reset") and from_earliest:
        return log_start
    return first.start if first.start is not None else _lowest_delivered(turns)


def _went_to(turns: list[Epoch], reader: Reader | None, log_end: int | None) -> int | None:
    """Return the position at which the last epoch began, None if it delivered something or may have begun elsewhere.

    A position beyond the end of the log is out of range: auto.offset.reset=earliest takes the reader back.
    """
    if not turns or turns[-1].rows or reader is None:
        return None
    last = turns[-1]
    position = last.position if last.position is not None else last.start
    back = log_end is not None and position is not None and position > log_end
    return None if back and reader.seen_by(last.consumer).reset == EARLIEST else position


def _lowest_delivered(turns: list[Epoch]) -> int | None:
    return min((e.low for e in turns if e.low is not None), default=None)


def _found_nothing_committed(turns: list[Epoch], committed: dict[int, CommittedOffsets]) -> bool:
    """Return whether the first epoch, if any, began by auto.offset.reset because nothing was committed."""
    if not turns:
        return True
    at_begin = committed.get(turns[0].index, CommittedOffsets())
    return turns[0].source in ("reset", None) and at_begin.none and not at_begin.committers


def _began_at(turns: list[Epoch]) -> int | None:
    """Return the position of the first epoch; without a recorded one, the lowest offset ever delivered."""
    if turns and turns[0].position is not None:
        return turns[0].position
    return _lowest_delivered(turns)


def _passed(
    e: Epoch, following: Epoch | None, committed: CommittedOffsets, moved: bool, stale: Collection[int]
) -> int | None:
    """Return the highest offset that an epoch committed, None without a commit.

    Sources are its own rows, the observations while it was the latest owner, and the position at which the next owner
    began. The last two prove nothing where other jobs commit to the group, nor the last one where the offset may have
    been moved or lost, nor where the offset is stale: reached in a deleted topic.
    """
    offsets = [e.committed]
    if e.mode == "subscribe" and not committed.foreign:
        offsets += [committed.seen] * (committed.seen not in stale)
        if following and following.source == "committed" and not moved and following.position not in stale:
            offsets.append(following.position)
    return _highest(offsets)


def _lost(e: Epoch) -> list[dict[str, Any]]:
    """Return the range between what an epoch processed and what it committed, if it committed past it."""
    if e.start is None or e.passed is None:
        return []
    begin = e.start if e.high is None else max(e.start, e.high + 1)
    return [lost_range(e, begin, e.passed)] if begin < e.passed else []


def lost_range(e: Epoch, begin: int, end: int) -> dict[str, Any]:
    """Return a range of offsets that an epoch committed past without processing it, as evidence."""
    return {
        "begin": begin,
        "end": end,
        "consumer": e.consumer,
        "incarnation": e.incarnation,
        "assignment": e.assignment,
        "epoch_began_us": e.begin_us,
        "epoch_ended_us": e.end_us,
        "end_reason": e.end_reason,
        "processed_to": e.high,
    }

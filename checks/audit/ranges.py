"""What each reader owes on each partition: where its range begins, how far it came, and what it committed past.

Python objects like the epochs: there are readers times partitions of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checks.audit.epochs import Epoch, Epochs, Key
from checks.audit.newcomers import Newcomer, Place
from checks.audit.readers import EARLIEST, Reader
from checks.audit.starts import Known, Range


@dataclass
class Owed:
    """One reader on one partition.

    range_start: the first offset it has to deliver, None where that is not known. high: the highest delivered.
    passed: the highest offset committed. lost: the ranges that an epoch committed past without processing them.
    epochs: in how many epochs it held the partition. begun_at: where it first began to read, whatever has been evicted
    since; None where that is not known. committed_only: whether uncommitted records are none of its business.
    newcomer: set where the partition was made when the reader had begun already, see `newcomers`; went_to: where it
    began to read it then, so that nothing below will ever come.
    """

    reader: str
    topic: str
    partition: int
    log_start: int | None
    log_end: int | None
    range_start: int | None = None
    high: int | None = None
    passed: int | None = None
    epochs: int = 0
    lost: list[dict[str, Any]] = field(default_factory=list)
    begun_at: int | None = None
    committed_only: bool = True
    newcomer: Newcomer | None = None
    went_to: int | None = None


def owed(
    readers: list[Reader],
    epochs: Epochs,
    known: dict[int, Known],
    ranges: dict[tuple[str, int], Range],
    added: dict[Place, Newcomer],
) -> list[Owed]:
    """Every partition that a reader should read, or did read. added: those that were made when it had begun already."""
    by_place, by_name = epochs.by_place(), {r.name: r for r in readers}
    places = {(r.name, topic, p) for r in readers for topic, p in ranges if topic in r.topics} | set(by_place)
    index = {e.key: i for i, e in enumerate(epochs.all)}
    result = []
    for name, topic, partition in sorted(places):
        turns = by_place.get((name, topic, partition), [])
        start, end = ranges.get((topic, partition), (None, None))
        place = Owed(name, topic, partition, start, end, epochs=len(turns))
        place.begun_at = _begun_at(turns)
        place.committed_only = by_name[name].committed_only if name in by_name else True
        place.range_start = _range_start(turns, by_name.get(name), start)
        if (name, topic, partition) in added and _found_nothing(turns, known, index):
            place.newcomer = added[name, topic, partition]
            place.range_start, place.begun_at = start, 0
            place.went_to = turns[0].start if turns else None
        place.high = max((e.high for e in turns if e.high is not None), default=None)
        for e, following in zip(turns, [*turns[1:], None], strict=False):
            found = known.get(index[following.key], Known()) if following else None
            e.passed = _passed(e, following, known.get(index[e.key], Known()), moved=bool(found and found.moved))
            if gap := _lost(e):
                place.lost.append(gap)
        place.passed = max((e.passed for e in turns if e.passed is not None), default=None)
        result.append(place)
    return result


def _range_start(turns: list[Epoch], reader: Reader | None, log_start: int | None) -> int | None:
    """Where the first epoch began; without any epoch, the log start for a reader that reads from the earliest."""
    if not turns:
        return log_start if reader and reader.first == EARLIEST else None
    first = turns[0]
    if first.position is None and first.source in ("start", "reset") and reader and reader.first == EARLIEST:
        return log_start
    if first.start is not None:
        return first.start
    return min((e.low for e in turns if e.low is not None), default=None)


def _found_nothing(turns: list[Epoch], known: dict[int, Known], index: dict[Key, int]) -> bool:
    """Whether the first epoch, if there is one, began where auto.offset.reset took it, for nothing was committed."""
    if not turns:
        return True
    first = known.get(index[turns[0].key], Known())
    return turns[0].source in ("reset", None) and first.none and not first.makers


def _begun_at(turns: list[Epoch]) -> int | None:
    """The position of the first epoch; without one on record, the lowest offset that was ever delivered."""
    if turns and turns[0].position is not None:
        return turns[0].position
    return min((e.low for e in turns if e.low is not None), default=None)


def _passed(e: Epoch, following: Epoch | None, known: Known, moved: bool) -> int | None:
    """How far the epoch committed: by its own rows, by what the observer saw while it was the latest owner, and by
    where the next owner found the group's offset. The last two say nothing where other jobs commit to the group, and
    the last one where a fault may have moved it (moved)."""
    values = [e.committed]
    if e.mode == "subscribe" and not known.foreign:
        values.append(known.seen)
        if following and following.source == "committed" and not moved:
            values.append(following.position)
    return max((v for v in values if v is not None), default=None)


def _lost(e: Epoch) -> dict[str, Any] | None:
    """The range between what the epoch processed and what it committed, if it did commit past it."""
    if e.start is None or e.passed is None:
        return None
    begin = e.start if e.high is None else max(e.start, e.high + 1)
    if begin >= e.passed:
        return None
    return lost_range(e, begin, e.passed)


def lost_range(e: Epoch, begin: int, end: int) -> dict[str, Any]:
    """What an epoch committed past without processing it, with who and how it ended."""
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

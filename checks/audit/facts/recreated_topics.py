"""Epochs across the lives of a topic: a client that keeps its assignment goes on in the topic that took the place.

librdkafka knows a partition by the name of its topic. While a topic is deleted and created again, the partition stays
assigned, and the client fetches from its position in the deleted topic. Where that is beyond the new end,
auto.offset.reset applies; where it is not, the client skips the records below it. So an assignment that outlives its
topic is an epoch in each life: in the earlier one it ends with the event `deleted`, in the later one it begins with the
source `recreated`, without a position on record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter

from checks.audit.arrays import NEVER_US
from checks.audit.facts.epochs import (
    BEGINS,
    CHECKPOINT,
    POSITION,
    Epoch,
    Epochs,
    Key,
    Life,
    ReaderPartition,
    Row,
    closing_rows,
    key_of,
)
from checks.audit.facts.readers import EARLIEST, Reader
from checks.audit.facts.topic_lives import DELETED, RECREATED, TopicLife, TopicLives


def assignments_by_life(
    rows: list[Row],
    lives: TopicLives,
    clients: dict[tuple[str, int], Life],
    partitions: Iterable[tuple[str, int]],
    end_us: int,
) -> list[Row]:
    """Return table `assignments` with a topic for each life.

    partitions: the partitions that were read back. end_us: the end of the drive.
    """
    if not lives:
        return rows
    here = set(partitions)
    found = [row for row in rows if row["topic"] not in lives.of]
    begins = [row for row in rows if row["topic"] in lives.of and row["event"] in BEGINS]
    within = (row for row in rows if row["topic"] in lives.of and row["event"] in (CHECKPOINT, POSITION))
    found += [row | {"topic": lives.label(row["topic"], row["at_us"])} for row in within]
    closing, replaced = closing_rows(rows), _replaced(begins)
    for row in begins:
        client = clients.get((row["consumer"], row["incarnation"]))
        close = closing.get(key_of(row))
        ends = [close["at_us"]] if close else [end_us]
        ends += [client.ended_us] if client and client.ended_us is not None else []
        found += _through_lives(row, close, min(*ends, replaced[key_of(row)]), lives, here)
    return found


def _replaced(begins: Iterable[Row]) -> dict[Key, int]:
    """Return the first moment at which the member of each epoch began again on the same partition."""
    begun: dict[tuple[str, int, str, int], dict[int, int]] = defaultdict(dict)
    for row in begins:
        at_us = begun[row["consumer"], row["incarnation"], row["topic"], row["partition"]]
        at_us[row["assignment"]] = min(row["at_us"], at_us.get(row["assignment"], NEVER_US))
    found: dict[Key, int] = {}
    for (consumer, incarnation, topic, partition), at_us in begun.items():
        first_us = NEVER_US
        for assignment in sorted(at_us, reverse=True):
            found[consumer, incarnation, assignment, topic, partition] = first_us
            first_us = min(first_us, at_us[assignment])
    return found


def _through_lives(
    row: Row, close: Row | None, end_us: int, lives: TopicLives, here: set[tuple[str, int]]
) -> list[Row]:
    """Return the rows of one assignment in each life that it touches, from its begin to its end."""
    chain = lives.of[row["topic"]]
    first = lives.at(row["topic"], row["at_us"])
    at = chain.index(first) if first else 0
    rows, current = [row | {"topic": chain[at].label}], chain[at]
    for following in chain[at + 1 :]:
        gone = not following.ended and (row["topic"], row["partition"]) not in here
        if end_us <= following.not_before_us or gone:
            break
        rows.append(_closed(row, current))
        begin_us = max(row["at_us"], following.not_before_us)
        recreated = {"topic": following.label, "event": "assigned", "source": RECREATED, "position": None}
        rows.append(row | recreated | {"at_us": begin_us})
        current = following
    if close is not None:
        rows.append(close | {"topic": current.label})
    elif current.ended:
        rows.append(_closed(row, current))
    return rows


def _closed(row: Row, life: TopicLife) -> Row:
    at_us = max(row["at_us"], life.deleted_us)
    return row | {"topic": life.label, "event": DELETED, "position": None, "source": None, "at_us": at_us}


def set_former(epochs: Epochs, lives: TopicLives) -> None:
    """Set how far each epoch that goes on in a new topic had come in the deleted one."""
    for e in sorted(epochs.all, key=attrgetter("begin_us")):
        former = lives.former(e.topic, lives.name(e.topic)) if e.source == RECREATED else None
        before = epochs.by_key.get((*e.key[:3], former.label, e.partition)) if former else None
        if before is not None:
            reached = [before.former, before.position, None if before.high is None else before.high + 1]
            e.former = max((offset for offset in reached if offset is not None), default=0)
            processed = 0 if e.high is None else e.high + 1
            if e.committed is not None and processed < e.committed <= e.former:
                e.committed = None  # of the deleted topic


def reached_before(epochs: Epochs, lives: TopicLives) -> dict[ReaderPartition, set[int]]:
    """Return the offsets that each reader had reached or committed in earlier lives of a partition.

    Contains every partition of a topic if the reader read an earlier life of the topic.
    """
    found: dict[ReaderPartition, set[int]] = {}
    for chain in lives.of.values():
        before: dict[str, dict[int, set[int]]] = {}
        for life in chain:
            here = [e for e in epochs.all if e.topic == life.label]
            for reader, partitions in before.items():
                for partition in {*partitions, *(e.partition for e in here)}:
                    found[reader, life.label, partition] = set(partitions.get(partition, ()))
            for e in here:
                known = (e.committed, e.former, e.position, None if e.high is None else e.high + 1)
                offsets = before.setdefault(e.reader, {}).setdefault(e.partition, set())
                offsets.update(offset for offset in known if offset is not None)
    return found


def judge_after_deletion(
    e: Epoch, earlier: list[Epoch], before: set[int], reader: Reader, log: tuple[int | None, int | None]
) -> None:
    """Judge an epoch in a topic that took the place of a deleted one that the reader had read.

    Kafka deletes the committed offsets of a deleted topic (`GroupCoordinator.onPartitionsDeleted`), but a member that
    did not notice the deletion commits its old position again. A position beyond the end of the log is out of range, so
    auto.offset.reset applies. before: the offsets reached in deleted topics.
    """
    recreated = e.source == RECREATED
    stale = e.former if recreated else e.position
    reached = any(p.high is not None and stale is not None and p.high + 1 >= stale for p in earlier)
    # a stored checkpoint is any offset between where the reader began and where it came to
    known = stale in before or bool(
        reader.stores_checkpoints and stale and before and min(before) <= stale <= max(before)
    )
    if stale is None or (not recreated and (reached or not stale or not known)):
        return
    kind = {"committed": "the committed offset", "checkpoint": "its checkpoint"}.get(e.source or "", "its position")
    origin = f"{kind} {stale} of the deleted topic"
    in_range = log[1] is None or stale <= log[1]
    e.legal = True
    if e.first is None:
        kept = in_range and not recreated
        e.start = stale if kept else log[1] if reader.reset != EARLIEST else None
    else:
        kept = e.first >= stale
        e.start = stale if kept else e.first
    if kept:
        e.why = origin
    elif reader.reset == EARLIEST and log[0] is not None and e.first is not None and e.first > log[0]:
        e.why = (
            f"auto.offset.reset=earliest did not apply: {origin} was beyond the end of the new topic, and a client "
            "that detects truncation (KIP-320) continues where that topic ended then"
        )
    else:
        e.why = f"auto.offset.reset={reader.reset}, because {origin} was out of range"

"""What has to be known of a run before a block of records can be judged: everything small, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from checks.audit.epochs import Epoch, Epochs, Key, Life, Question
from checks.audit.large.columns import NONE, Ints
from checks.audit.large.tally import Tally
from checks.audit.moves import Move
from checks.audit.ranges import Owed

Who = tuple[str | None, int]
"""A producer and its incarnation, as records carry them; None and NONE where they do not."""


@dataclass(frozen=True, order=True)
class Committer:
    """Who commits: one assignment of a consumer, in the name of a group."""

    consumer: str
    incarnation: int
    assignment: int
    mode: str
    group: str

    @property
    def reader(self) -> str:
        """The reader that it is, or is a member of."""
        return self.group if self.mode == "subscribe" else self.consumer


NO_TXN, COMMITTED, ABORTED, UNDECIDED = 0, 1, 2, 3
"""What became of the transaction that a record was sent in."""
ENDS = {"committed": COMMITTED, "aborted": ABORTED}


@dataclass(frozen=True)
class Transactions:
    """Those of one producer incarnation, by number, ascending; last_us: when the last send to each was invoked."""

    numbers: Ints
    ends: Ints
    last_us: Ints

    def at(self, txn: Ints) -> tuple[Ints, Ints]:
        """End and last send of some sends' transactions, given by number; NONE is none."""
        found = np.minimum(np.searchsorted(self.numbers, txn), len(self.numbers) - 1)
        inside = txn != NONE
        return np.where(inside, self.ends[found], NO_TXN), np.where(inside, self.last_us[found], NONE)


@dataclass(frozen=True)
class Case:
    """The facts of a run that go to every executor.

    heads: by (path of a part, epoch), the offset that is due first in the part, and the one behind the highest that
    the epoch delivered in earlier parts; NONE where there is no such.
    later: by (producer, incarnation, topic, partition), blocks of seqs and the lowest offset in any later block.
    log_ends: by (topic, partition), the offset behind the last record that is in the log.
    questions: by (topic, partition), the epochs that asked what was committed.
    pooled: the readers whose records may be overtaken, see `readers.Reader`.
    transactions: by producer and incarnation, those it sent to. sees_all: the readers with read_uncommitted.
    contested: (topic, partition, block) in which acknowledgements and log differ, or where transactions were written.
    """

    run: str
    topics: list[str]
    who: list[Who]
    epochs: list[Epoch]
    epoch_ids: dict[Key, int]
    heads: dict[tuple[str, int], tuple[int, int]]
    places: dict[tuple[str, int], list[Owed]]
    ranges: dict[tuple[str, int], tuple[int | None, int | None]]
    compacted: frozenset[str]
    lives: dict[Who, str]
    later: dict[tuple[str, int, str, int], tuple[Ints, Ints]]
    log_ends: dict[tuple[str, int], int]
    committers: list[Committer]
    questions: dict[tuple[str, int], list[Question]]
    pooled: frozenset[str] = frozenset()
    transactions: dict[Who, Transactions] = field(default_factory=dict)
    contested: frozenset[tuple[str, int, int]] = frozenset()
    sees_all: frozenset[str] = frozenset()
    injected: dict[str, int] = field(default_factory=dict)
    cell_us: int = 500_000
    unwatched: frozenset[str] = frozenset()
    """Names of the scenario's producers that look at no delivery report."""
    moves: tuple[Move, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "topic_ids", {name: i for i, name in enumerate(self.topics)})
        object.__setattr__(self, "who_ids", {who: i for i, who in enumerate(self.who)})
        object.__setattr__(self, "committer_ids", {c: i for i, c in enumerate(self.committers)})
        successors: dict[tuple[str, str, int], list[Epoch]] = {}
        for epoch in self.epochs:
            successors.setdefault(epoch.place, []).append(epoch)
        object.__setattr__(self, "successors", successors)
        object.__setattr__(self, "committing", frozenset(c.reader for c in self.committers))

    topic_ids: dict[str, int] = field(init=False, repr=False)
    who_ids: dict[Who, int] = field(init=False, repr=False)
    committer_ids: dict[Committer, int] = field(init=False, repr=False)
    committing: frozenset[str] = field(init=False, repr=False)
    """The readers that commit."""
    successors: dict[tuple[str, str, int], list[Epoch]] = field(init=False, repr=False)
    """The epochs of each reader on each partition, in turn."""

    def epoch_of(self, committer: Committer, topic: str, partition: int) -> Epoch | None:
        """The epoch in which a consumer commits for a partition; None if there is none on record."""
        key = committer.consumer, committer.incarnation, committer.assignment, topic, partition
        number = self.epoch_ids.get(key)
        return None if number is None else self.epochs[number]

    def sought(self, committer: Committer, topic: str, partition: int, offset: int) -> bool:
        """Whether a seek began the epoch of a commit at or below what it committed."""
        epoch = self.epoch_of(committer, topic, partition)
        return epoch is not None and epoch.source == "seek" and (epoch.position or 0) <= offset

    def moved(self, committer: Committer, topic: str, partition: int, from_us: int, to_us: int) -> bool:
        """Whether a fault may have moved the offset of the committer's group in a time."""
        mine = (m for m in self.moves if m.group == committer.group and m.touches(topic, partition))
        return any(m.from_us <= to_us and m.to_us >= from_us for m in mine)

    def lowest_later(self, producer: str, incarnation: int, topic: str, partition: int, block: int) -> int | None:
        """The lowest offset of the incarnation's records in the partition that are of later blocks."""
        blocks, lowest = self.later.get((producer, incarnation, topic, partition), (None, None))
        if blocks is None or lowest is None:
            return None
        after = int(np.searchsorted(blocks, block, "right"))
        return int(lowest[after]) if after < len(blocks) else None


def later_lowest(survey: Tally) -> dict[tuple[str, int, str, int], tuple[Ints, Ints]]:
    """From the lowest offset of each block of seqs to the lowest of it and all that follow."""
    return {
        key: (blocks, np.minimum.accumulate(lowest[::-1])[::-1])
        for key, (blocks, lowest) in survey.each("lowest", "lowest")
    }


def transactions(survey: Tally, rows: list[dict[str, Any]]) -> dict[Who, Transactions]:
    """Those that were sent to. rows: of table `transactions`; one without a row was cut off by a crash: undecided."""
    ends: dict[Who, dict[int, int]] = {}
    for row in rows:
        told = ends.setdefault((row["producer"], row["incarnation"]), {})
        end = ENDS.get(row["outcome"], UNDECIDED)
        told[row["txn"]] = end if told.get(row["txn"], end) == end else UNDECIDED
    found = {}
    for (producer, incarnation), (numbers, last) in survey.each("highest", "last_invoked"):
        told = ends.get((producer, incarnation), {})
        known = np.array([told.get(n, UNDECIDED) for n in numbers.tolist()], np.int64)
        found[producer, incarnation] = Transactions(numbers, known, last)
    return found


def contested(survey: Tally) -> frozenset[tuple[str, int, int]]:
    """See `Case.contested`."""
    in_log = {tuple(key): digest for key, digest in survey.each("digest", "stands_at")}
    written = {(topic, partition) for topic, partition, *_ in survey.get("set", "transactional") or ()}
    return frozenset(
        (topic, partition, block)
        for (topic, partition, block), digest in survey.each("digest", "acked_at")
        if (topic, partition) in written or in_log.get((topic, partition, block)) != digest
    )


def heads(survey: Tally, epochs: Epochs) -> dict[tuple[str, int], tuple[int, int]]:
    """See `Case.heads`."""
    index = {e.key: i for i, e in enumerate(epochs.all)}
    found = {}
    for key, segments in survey.each("all", "segments"):
        epoch = epochs.all[index[key]]
        due = NONE if epoch.position is None else epoch.position
        reached = NONE
        for segment in in_order(segments):
            found[segment["path"], index[key]] = due, reached
            due = reached = max(reached, segment["high"] + 1)
    return found


def in_order(segments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of an epoch in the order in which it delivered them."""
    return sorted(segments, key=lambda s: (s["first"]["ordinal"], s["path"]))


def ends_of(lives: dict[tuple[str, int], Life]) -> dict[Who, str]:
    """How each incarnation of a producer ended."""
    return {who: life.end for who, life in lives.items() if life.role == "producer"}


def delivered_rows(survey: Tally) -> list[dict[str, Any]]:
    """Per epoch what was delivered in it, as `epochs.build` takes it."""
    rows = []
    for key, parts in survey.each("all", "segments"):
        segments = in_order(parts)
        rows.append(
            dict(zip(("consumer", "incarnation", "assignment", "topic", "partition"), key, strict=True))
            | {
                "mode": segments[0]["mode"],
                "group": segments[0]["group"],
                "rows": sum(s["rows"] for s in segments),
                "low": min(s["low"] for s in segments),
                "high": max(s["high"] for s in segments),
                "first": segments[0]["first"]["offset"],
                "last": segments[-1]["last"],
                "polled_us": min(s["polled_us"] for s in segments),
            }
        )
    return rows


def falls(survey: Tally) -> list[tuple[Key, int, list[dict[str, Any]]]]:
    """Per epoch, how often an offset was not above the one before, and some of those deliveries."""
    found = []
    for key, parts in survey.each("all", "segments"):
        segments = in_order(parts)
        shown = [row for s in segments for row in s["fallen"]]
        count = sum(s["falls"] for s in segments)
        for before, after in pairwise(segments):
            if after["first"]["offset"] <= before["last"]:
                count += 1
                shown.append(after["first"] | {"before": before["last"]})
        if count:
            found.append((key, count, shown))
    return found

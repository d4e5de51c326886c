"""What has to be known of a run before a block of records can be judged: everything small, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from checks.audit.epochs import Epoch, Epochs, Key, Life, Question
from checks.audit.large.columns import NONE, Ints
from checks.audit.large.tally import Tally
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


@dataclass(frozen=True)
class Case:
    """The facts of a run that go to every executor.

    heads: by (path of a part, epoch), the offset that is due first in the part, and the one behind the highest that
    the epoch delivered in earlier parts; NONE where there is no such.
    later: by (producer, incarnation, topic, partition), blocks of seqs and the lowest offset in any later block.
    log_ends: by (topic, partition), the offset behind the last record that is in the log.
    questions: by (topic, partition), the epochs that asked what was committed.
    pooled: the readers whose records may be overtaken, see `readers.Reader`.
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
    injected: dict[str, int] = field(default_factory=dict)
    cell_us: int = 500_000
    unwatched: frozenset[str] = frozenset()
    """Names of the scenario's producers that look at no delivery report."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "topic_ids", {name: i for i, name in enumerate(self.topics)})
        object.__setattr__(self, "who_ids", {who: i for i, who in enumerate(self.who)})
        object.__setattr__(self, "committer_ids", {c: i for i, c in enumerate(self.committers)})
        object.__setattr__(self, "committing", frozenset(c.reader for c in self.committers))

    topic_ids: dict[str, int] = field(init=False, repr=False)
    who_ids: dict[Who, int] = field(init=False, repr=False)
    committer_ids: dict[Committer, int] = field(init=False, repr=False)
    committing: frozenset[str] = field(init=False, repr=False)
    """The readers that commit."""

    def epoch_of(self, committer: Committer, topic: str, partition: int) -> Epoch | None:
        """The epoch in which a consumer commits for a partition; None if there is none on record."""
        key = committer.consumer, committer.incarnation, committer.assignment, topic, partition
        number = self.epoch_ids.get(key)
        return None if number is None else self.epochs[number]

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

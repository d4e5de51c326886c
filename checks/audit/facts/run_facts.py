"""The facts of a run that executors need to judge blocks of records: small, plain data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from checks.audit.arrays import NONE, Ints, Mask
from checks.audit.facts.commit_log import Decisions
from checks.audit.facts.epochs import Committer, Epoch, Epochs, OffsetFetch
from checks.audit.facts.lineage import Lineage
from checks.audit.facts.offset_changes import OffsetChange
from checks.audit.facts.ranges import ReadRange
from checks.audit.facts.retention import Backdated, Overdue
from checks.audit.facts.shares import Shares
from checks.audit.facts.starts import LogRange
from checks.audit.facts.topic_lives import TopicLives

Sender = tuple[str | None, int]
"""The producer and incarnation that a record carries; None and NONE where it carries none."""


NO_TXN, COMMITTED, ABORTED, UNKNOWN_END = 0, 1, 2, 3
"""The end of the transaction of a record. Undecided: its producer did not learn the end."""
TXN_TIMES = ("last_us", "requested_us", "unsure_us")
TXN_ENDS = {"committed": COMMITTED, "aborted": ABORTED}


@dataclass(frozen=True)
class Transactions:
    """The transactions of one producer incarnation.

    numbers ascend. last_us: when the last send was invoked. requested_us: when the end was requested, NONE if unknown.
    unsure_us: NONE, or when the client learned the end, if its row does not say when it was requested.
    """

    numbers: Ints
    ends: Ints
    last_us: Ints
    requested_us: Ints
    unsure_us: Ints

    def at(self, txn: Ints) -> dict[str, Ints]:
        """Return the columns of the transactions of some sends, given by number; NONE is no transaction."""
        index = np.minimum(np.searchsorted(self.numbers, txn), len(self.numbers) - 1)
        inside = txn != NONE
        found = {name: np.where(inside, getattr(self, name)[index], NONE) for name in TXN_TIMES}
        return found | {"end": np.where(inside, self.ends[index], NO_TXN)}


@dataclass(frozen=True)
class RunFacts:
    """The facts that go to every executor.

    perhaps_early: topics from which retention may have deleted records too early, by the wrong clock of a broker.
    backdated: topics from which it deletes only records with timestamps that are behind. overdue: partitions that hold
    records beyond their time. uncompacted: the same for superseded records of compacted topics. protected_us:
    for how long compacted topics keep every record. skewed: whether a fault changes clocks of brokers.
    run_token: the token that the run's records carry. heads: by (path of a part, epoch), the offset due first in the
    part and the offset after the highest one delivered in earlier parts, NONE where there is none. read_ranges: by
    (topic, partition). log_ranges: start and end of the log at read-back. due_starts: see `retention.due_starts`.
    producer_ends: how each producer incarnation ended. later_offsets: by (producer, incarnation, topic, partition),
    blocks of seqs and the lowest offset in any later block. log_ends: by (topic, partition), the offset after the last
    record. fetches: by (topic, partition), the epochs that fetched a committed offset. pooled: scenario entries with
    workers that process what one thread polls, so that records overtake each other: the ordinal of a row is the ordinal
    of the poll. contested: (topic, partition, block) in which acknowledgements and log differ or transactions were
    written. compacted: the compacted topics, each with its number of blocks of keys. tombstone_every: by scenario
    producer, the records that are tombstones. delete_retention_us: by topic that has tombstones. torn_tombstones: the
    topics with tombstones that may have no row. read_us: when reading the log of each partition back had begun and
    ended, as far as known. read_uncommitted: readers with that isolation level. cell_us: width of a heat map cell.
    unwatched: scenario producers that read no delivery report. lives: of topics that were deleted. lineage: by group,
    the outputs that are traced to its inputs. counted: the topics in which processors count the records by key, each
    with its number of blocks of keys. counting: the groups of these processors. committed_by_any: by (group, topic,
    partition), the highest offset of a commit that did not fail, whoever committed it. decisions: on commits with an
    outcome that the client did not learn.
    """

    run_token: str
    topics: list[str]
    senders: list[Sender]
    epochs: Epochs
    log_ranges: dict[tuple[str, int], LogRange] = field(default_factory=dict)
    due_starts: dict[tuple[str, int], int | None] = field(default_factory=dict)
    perhaps_early: frozenset[str] = frozenset()
    backdated: dict[str, Backdated] = field(default_factory=dict)
    overdue: dict[tuple[str, int], Overdue] = field(default_factory=dict)
    uncompacted: dict[tuple[str, int], Overdue] = field(default_factory=dict)
    protected_us: dict[str, int] = field(default_factory=dict)
    skewed: bool = False
    heads: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    read_ranges: dict[tuple[str, int], list[ReadRange]] = field(default_factory=dict)
    compacted: dict[str, int] = field(default_factory=dict)
    tombstone_every: dict[str, int] = field(default_factory=dict)
    delete_retention_us: dict[str, int] = field(default_factory=dict)
    torn_tombstones: frozenset[str] = frozenset()
    read_us: dict[tuple[str, int], tuple[int | None, int | None]] = field(default_factory=dict)
    producer_ends: dict[Sender, str] = field(default_factory=dict)
    later_offsets: dict[tuple[str, int, str, int], tuple[Ints, Ints]] = field(default_factory=dict)
    log_ends: dict[tuple[str, int], int] = field(default_factory=dict)
    committers: list[Committer] = field(default_factory=list)
    fetches: dict[tuple[str, int], list[OffsetFetch]] = field(default_factory=dict)
    pooled: frozenset[str] = frozenset()
    transactions: dict[Sender, Transactions] = field(default_factory=dict)
    contested: frozenset[tuple[str, int, int]] = frozenset()
    read_uncommitted: frozenset[str] = frozenset()
    injected: dict[str, int] = field(default_factory=dict)
    cell_us: int = 500_000
    unwatched: frozenset[str] = frozenset()
    offset_changes: tuple[OffsetChange, ...] = ()
    lineage: dict[str, Lineage] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    counting: frozenset[str] = frozenset()
    committed_by_any: dict[tuple[str, str, int], int] = field(default_factory=dict)
    lives: TopicLives = field(default_factory=TopicLives)
    shares: Shares = field(default_factory=Shares)
    decisions: Decisions = field(default_factory=Decisions)

    @cached_property
    def with_several_senders(self) -> frozenset[tuple[str, int]]:
        """The topics and partitions with records of several producer incarnations in the log."""
        senders = Counter((topic, partition) for _, _, topic, partition in self.later_offsets)
        return frozenset(place for place, number in senders.items() if number > 1)

    @cached_property
    def topic_ids(self) -> dict[str, int]:
        """The index of each topic."""
        return {name: i for i, name in enumerate(self.topics)}

    @cached_property
    def sender_ids(self) -> dict[Sender, int]:
        """The index of each sender."""
        return {sender: i for i, sender in enumerate(self.senders)}

    @cached_property
    def committer_ids(self) -> dict[Committer, int]:
        """The index of each committer."""
        return {committer: i for i, committer in enumerate(self.committers)}

    @cached_property
    def named(self) -> Mask:
        """Whether each sender has a name."""
        return np.array([name is not None for name, _ in self.senders] or [False])

    @cached_property
    def latest_starts(self) -> dict[str, int]:
        """The highest offset at which the log of a partition has to start, by topic."""
        found: dict[str, int] = {}
        for (topic, _), start in self.due_starts.items():
            if start is not None:
                found[topic] = max(start, found.get(topic, 0))
        return found

    @cached_property
    def committing(self) -> frozenset[str]:
        """The readers that commit."""
        return frozenset(c.reader for c in self.committers)

    def epoch_of(self, committer: Committer, topic: str, partition: int) -> Epoch | None:
        """Return the epoch in which a consumer commits for a partition, None if there is none on record."""
        key = committer.consumer, committer.incarnation, committer.assignment, topic, partition
        return self.epochs.by_key.get(key)

    def moved(self, committer: Committer, topic: str, partition: int, from_us: int, to_us: int) -> bool:
        """Return whether a fault may have moved the offset of the committer's group in a time span."""
        return any(
            m.group == committer.group and m.touches(topic, partition) and m.from_us <= to_us and m.to_us >= from_us
            for m in self.offset_changes
        )

    def lowest_later(self, producer: str, incarnation: int, topic: str, partition: int, block: int) -> int | None:
        """Return the lowest offset of the incarnation's records in the partition in later blocks, None without one."""
        blocks, lowest = self.later_offsets.get((producer, incarnation, topic, partition), (None, None))
        if blocks is None or lowest is None:
            return None
        after = int(np.searchsorted(blocks, block, "right"))
        return int(lowest[after]) if after < len(blocks) else None

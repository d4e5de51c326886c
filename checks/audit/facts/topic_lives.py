"""Topic lives: a topic that is deleted and created again is another topic with the same name (KIP-516).

Clients name topics by their names, so no ledger row carries the id. Rows are assigned to a life by time, and where time
does not decide, by the final log. Each life that has ended is a separate topic in the audit, with the label that
`TopicLife` describes; the life in force at read-back keeps the plain name. So epochs, commits, log ranges and orders of
two lives never mix.

Sources are the ids that the observer sampled, and the times at which faults `topic.delete` and `topic.recreate` asked
for a change and got the answer. If the brokers give no ids, only the faults' times separate lives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from checks.audit.arrays import NEVER_US, Ints, Mask, distinct

SETTLE_US = 1_000_000
"""Up to this long after it lists the new topic, a broker may still append to the deleted one (KRaft brokers publish the
metadata before they stop the replicas)."""
RECREATED = "recreated"
"""The source of the position of an epoch that goes on in the topic that took the place of a deleted one."""
DELETED = "deleted"
"""The event that ends an epoch in a topic that was deleted."""

Position = tuple[int, int]
"""Partition and offset."""
Record = tuple[str, str, int, int]
"""Topic name, producer, incarnation and seq."""
Identity = tuple[str, str, int]
"""Topic name, producer and incarnation."""
Seqs = dict[Identity, Ints]
"""Distinct seqs, ascending."""
Settled = dict[tuple[Identity, int], tuple[Ints, Ints]]
"""By identity and partition: offsets, ascending, and the seq at each."""


@dataclass(frozen=True)
class TopicLife:
    """One topic of a name, from its creation to its deletion.

    not_before_us: nothing before this moment reached it. since_us: nothing sent after this moment reached an earlier
    life. deleted_us: the first moment at which it may have been deleted, `NEVER_US` if it was not.
    """

    topic: str
    label: str
    topic_id: str = ""
    not_before_us: int = 0
    since_us: int = 0
    deleted_us: int = NEVER_US

    @property
    def ended(self) -> bool:
        """Whether it was deleted before the log was read back."""
        return self.deleted_us != NEVER_US


def _ascending(begins: list[int]) -> Ints:
    """Return from when on each life but the first, or a later one, has begun; one begin need not be after another."""
    found: Ints = np.minimum.accumulate(np.array(begins[:0:-1], np.int64))[::-1]
    return found


def topic_of(label: str) -> str:
    """Return the name of the topic with a label of a life, or with a name."""
    return label.partition(" (deleted")[0]


@dataclass(frozen=True)
class TopicLives:
    """The lives of each topic that was deleted, in their order.

    settled: in the final log, the seqs of the records that time alone does not assign to a life, by offset.
    unsettled_sends: the records that the times of their sends do not assign either. steady: labels and partitions of
    the lives that kept every record that they acknowledged; see `topic_changes`. partitions: of the lives in force.
    placed: lives, by index, of records acknowledged when several lives that have ended were possible; see `place`.
    unlocated: records sent then, of unknown outcome or acknowledged without an offset.
    """

    of: dict[str, list[TopicLife]] = field(default_factory=dict)
    settled: Settled = field(default_factory=dict)
    unsettled_sends: Seqs = field(default_factory=dict)
    steady: frozenset[tuple[str, int]] = frozenset()
    partitions: frozenset[tuple[str, int]] = frozenset()
    placed: dict[tuple[Record, Position], int] = field(default_factory=dict)
    unlocated: frozenset[Record] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.of)

    @cached_property
    def settled_seqs(self) -> Seqs:
        """The seqs in `settled`, wherever they are in the log."""
        found: dict[Identity, list[Ints]] = defaultdict(list)
        for (identity, _), (_, seqs) in self.settled.items():
            found[identity].append(seqs)
        return {identity: distinct(np.concatenate(seqs)) for identity, seqs in found.items()}

    @cached_property
    def ended(self) -> dict[str, TopicLife]:
        """Ended topic lives by label, and the label of rows whose life is undecided."""
        found = {life.label: life for lives in self.of.values() for life in lives if life.ended}
        unclear = (replace(lives[0], label=self.unclear(topic)) for topic, lives in self.of.items())
        return found | {life.label: life for life in unclear}

    @property
    def mixed(self) -> frozenset[str]:
        """The labels of rows of two lives: their offsets do not compare."""
        return frozenset(map(self.unclear, self.of))

    def name(self, label: str) -> str:
        """Return the name of the topic with a label."""
        return self.ended[label].topic if label in self.ended else label

    @property
    def numbered(self) -> dict[str, str]:
        """A name of each ended life that is the same in each run, by label: for times, which runs compare."""
        names = {life.label: f"{t}, life {n}" for t, lives in self.of.items() for n, life in enumerate(lives, start=1)}
        return {label: name for label, name in names.items() if label in self.ended} | {
            self.unclear(topic): f"{topic}, life unknown" for topic in self.of
        }

    def unclear(self, topic: str) -> str:
        """Return the label of rows that belong to one of several lives that have ended, which is not known."""
        return f"{topic} (deleted, life unknown)"

    def bounds(self, topic: str, first_us: Ints, last_us: Ints) -> tuple[Ints, Ints]:
        """Return the earliest and the latest life that each row may belong to.

        A row may belong to a life that existed at any moment from its first time (a request) to its last one (the
        answer): at earliest to the life that no later life had certainly replaced at the first time.
        """
        earliest, latest = (
            np.searchsorted(_ascending(begins), times, "right")
            for begins, times in (
                ([life.since_us for life in self.of[topic]], first_us),
                ([life.not_before_us for life in self.of[topic]], last_us),
            )
        )
        return np.minimum(earliest, latest), latest

    def may_be_several(self, topic: str, earliest: Ints, latest: Ints) -> Mask:
        """Return where several of the lives between two that have ended are possible, both included."""
        ended = np.array([life.ended for life in self.of[topic]], np.bool_)
        several: Mask = latest - earliest + ended[latest] > 1
        return several

    def several_ended(self, topic: str) -> bool:
        """Return whether several lives of a topic have ended."""
        return sum(life.ended for life in self.of[topic]) > 1

    def at(self, topic: str, at_us: int) -> TopicLife | None:
        """Return the earliest life that may have existed at a moment, None for a topic that was never deleted."""
        if topic not in self.of:
            return None
        moment = np.array([at_us], np.int64)
        return self.of[topic][int(self.bounds(topic, moment, moment)[0][0])]

    def label(self, topic: str, at_us: int) -> str:
        """Return the name of the life of a topic at a moment."""
        life = self.at(topic, at_us)
        return life.label if life else topic

    def former(self, label: str, topic: str) -> TopicLife | None:
        """Return the life before the one with a label."""
        lives = self.of.get(topic, [])
        return next((a for a, b in pairwise(lives) if b.label == label), None)


@dataclass(frozen=True)
class Ack:
    """An acknowledgement that may belong to several lives that have ended. life, latest: indexes of the first and last
    life that it may belong to."""

    record: Record
    position: Position
    invoked_us: int
    completed_us: int
    life: int
    latest: int


Extent = tuple[int, int]
"""The lowest and the highest offset acknowledged in a life, of records that time assigns to it."""


def place(
    lives: TopicLives, acks: Iterable[Ack], extents: Mapping[tuple[str, int], Extent]
) -> dict[tuple[Record, Position], int]:
    """Return the index of the life of each acknowledgement, the number of lives if it is unclear.

    It is unclear if more than two lives are possible. Offsets of one leader only grow. So a record does not belong to
    the earlier life if that had reached its offset before it was sent, and not to the later one if that had not reached
    its offset yet. extents: by label and partition.
    """
    placed = {}
    for ack in acks:
        chain, (partition, offset) = lives.of[ack.record[0]], ack.position
        if ack.latest - ack.life > 1:
            placed[ack.record, ack.position] = len(chain)
            continue
        before, after = chain[ack.life], chain[ack.life + 1]
        high = extents.get((before.label, partition), (0, -1))[1]
        low = extents.get((after.label, partition), (1 << 62, 0))[0]
        not_before = (
            (before.label, partition) in lives.steady and ack.invoked_us >= after.not_before_us and offset <= high
        )
        not_after = (after.label, partition) in lives.steady and ack.completed_us <= after.since_us and offset >= low
        known = ack.life + 1 if not_before else ack.life
        placed[ack.record, ack.position] = known if not_before != not_after else len(chain)
    return placed

"""Parts in which each life of a topic is a separate topic; see `checks.audit.facts.topic_lives`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from checks.audit.arrays import NEVER_US, NONE, Ints, Mask, distinct
from checks.audit.engine.counters import BETWEEN, EXTENTS, SETTLED, UNLOCATED, UNSETTLED
from checks.audit.engine.group import Rows, grouped, sections
from checks.audit.engine.parts import Part
from checks.audit.engine.tally import Tally
from checks.audit.facts.topic_lives import Ack, Extent, Identity, Position, Record, Seqs, TopicLives
from checks.audit.findings import SEVERAL_LIVES

_TIMES = {
    "sends": ("invoked_us", "completed_us"),
    "deliveries": ("sent_us", "polled_us"),
    "commits": ("requested_us", "completed_us"),
}
"""The earliest and the latest moment at which a row may have reached its topic."""
_IDENTITY = {
    "sends": ("producer", "incarnation", "seq"),
    "deliveries": ("producer", "producer_incarnation", "seq"),
    "commits": (),
}
LOG_COLUMNS = "topic", "partition", "offset", "run", "producer", "incarnation", "seq"
"""The columns that `add_positions` reads."""
_NOTHING = np.zeros(0, np.int64)


def open_part(table: str, path: str, data: Any, columns: Sequence[str], lives: TopicLives) -> Part:
    """Return the part; if topics were deleted and created again, each row has the life of its topic."""
    if lives and table in _TIMES:
        needed = (*_TIMES[table], *_IDENTITY[table], "topic", "partition", "offset", "outcome")
        added = [name for name in needed if not (name == "outcome" and table == "deliveries")]
        return LivePart(table, path, data, tuple(dict.fromkeys((*columns, *added))), lives)
    return Part(table, path, data, columns)


class LivePart(Part):
    """A part of sends, deliveries or commits with lives in place of topics."""

    def __init__(self, table: str, path: str, data: Any, columns: Sequence[str], lives: TopicLives) -> None:
        super().__init__(table, path, data, columns)
        self._lives = lives

    @property
    def unsure(self) -> Mask:
        """The rows that may belong to the life in force or to an earlier one."""
        return self._assigned[2]

    @property
    def matters(self) -> bool:
        """Whether time does not assign each row to a life, or offsets reached in several ended lives have to."""
        found = self._by_time
        return any(self._lives.several_ended(topic) or (early < late).any() for topic, _, early, late in found)

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Return a column of texts: of topics the lives, of commits that may be of an earlier life no `ok`."""
        if not self.rows or name not in ("topic", "outcome"):
            return super().codes(name)
        if name == "topic":
            return self._assigned[:2]
        codes, names = super().codes(name)
        if self.table != "commits" or "ok" not in names:
            return codes, names
        return np.where(self.unsure & (codes == names.index("ok")), len(names), codes), [*names, "unknown"]

    def by_identity(self, rows: Ints) -> Iterator[tuple[Identity, Ints, Ints]]:
        """Yield each identity among some rows, the rows with it, and their seqs. Rows without an identity have none."""
        codes, producers, incarnation, seq, topics, names = self._identities
        known = rows[(codes[rows] >= 0) & (seq[rows] != NONE)]
        for (topic, code, life), some in sections(topics[known], codes[known], incarnation[known]):
            of_identity = some.ints(known)
            yield (names[topic], producers[code], life), of_identity, seq[of_identity]

    def unsettled(self) -> Iterator[tuple[Identity, Ints]]:
        """Yield the seqs of the rows that by time may belong to the life in force or to an earlier one."""
        for topic, rows, earliest, latest in self._by_time:
            in_force = np.array([not life.ended for life in self._lives.of[topic]], np.bool_)
            perhaps = np.flatnonzero((earliest < latest) & in_force[latest])
            for identity, _, seqs in self.by_identity(rows.index[perhaps]):
                yield identity, distinct(seqs)

    @cached_property
    def _assigned(self) -> tuple[Ints, list[str], Mask]:
        codes, names = super().codes("topic")
        codes, labels = codes.astype(np.int64), list(names)
        unsure = np.zeros(self.rows, np.bool_)
        for topic, rows, earliest, latest in self._by_time:
            chosen, of_chosen = self._chosen(topic, rows, earliest, latest)
            unsure[of_chosen] = True
            indexes = []
            for label in (*(life.label for life in self._lives.of[topic]), self._lives.unclear(topic)):
                if label not in labels:
                    labels.append(label)
                indexes.append(labels.index(label))
            codes[rows.index] = np.array(indexes, np.int64)[chosen]
        used = np.bincount(codes, minlength=len(labels)) > 0
        numbers: Ints = np.cumsum(used) - 1
        return numbers[codes], [labels[code] for code in np.flatnonzero(used).tolist()], unsure

    def _chosen(self, topic: str, of_topic: Rows, earliest: Ints, latest: Ints) -> tuple[Ints, Ints]:
        """Return the life of each row of a topic, and the rows that belong to it by what the final log does not show.

        The log shows whether the record of a row reached the life in force. That decides for a row that may belong to
        it; otherwise the row belongs to an earlier life: the earliest one, unless `TopicLives.placed` says more. The
        log shows no commits.
        """
        several = np.flatnonzero(earliest < latest)
        if not len(several) or self.table == "commits":
            return latest, of_topic.index[several] if len(several) else several
        rows, last = of_topic.index[several], latest[several]
        shown = np.zeros(len(several), np.int64)
        in_force = np.array([not life.ended for life in self._lives.of[topic]], np.bool_)[last]
        shown[in_force] = self._in_log(rows[in_force])
        chosen = earliest.copy()
        chosen[several[shown == 1]] = last[shown == 1]
        between = (shown != 1) & self._lives.may_be_several(topic, earliest[several], last)
        for i in np.flatnonzero(between).tolist():
            if (index := self._placed(int(rows[i]))) is not None:
                chosen[several[i]] = index
        return chosen, rows[shown == NONE]

    @cached_property
    def _identities(self) -> tuple[Ints, list[str], Ints, Ints, Ints, list[str]]:
        producer, incarnation, seq = _IDENTITY[self.table]
        return (*super().codes(producer), self.ints(incarnation), self.ints(seq), *super().codes("topic"))

    def _record(self, row: int) -> Record | None:
        codes, producers, incarnation, seq, topics, names = self._identities
        if codes[row] < 0 or seq[row] == NONE:
            return None
        return names[topics[row]], producers[codes[row]], int(incarnation[row]), int(seq[row])

    def _in_log(self, rows: Ints) -> Ints:
        """Return whether the record of each of some rows is in the final log: 1, 0, or NONE if it shows neither."""
        partition, offset = self._offsets
        reached = np.zeros(self.rows, np.bool_)
        for identity, here, seq in self.by_identity(rows):
            anywhere = self._lives.settled_seqs.get(identity, _NOTHING)
            reached[here] = (offset[here] == NONE) & np.isin(seq, anywhere)
            for (number,), some in sections(partition[here]):
                offsets, seqs = self._lives.settled.get((identity, number), (_NOTHING, _NOTHING))
                if len(offsets):
                    at = some.ints(here)
                    nearest = np.minimum(np.searchsorted(offsets, offset[at]), len(offsets) - 1)
                    reached[at] |= (offsets[nearest] == offset[at]) & (seqs[nearest] == some.ints(seq))
        shown = np.where(reached[rows], 1, NONE)
        *_, topics, names = self._identities
        for (topic, number), some in sections(topics[rows], partition[rows]):
            there, at = (names[topic], number), some.index
            if number == NONE or there in self._lives.partitions:
                at = at[offset[rows[at]] != NONE] if there in self._lives.steady else at[:0]
            shown[at[shown[at] == NONE]] = 0
        return shown

    def _placed(self, row: int) -> int | None:
        """Return the index of the life of a row, of several that have ended, their number if it is unclear.

        The record of a delivery is in the life that acknowledged it. One that is not known to be acknowledged at an
        offset may be in any of them. None if a row shows neither.
        """
        record = self._record(row)
        if record is None:
            return None
        if self.table == "deliveries" and record in self._lives.unlocated:
            return len(self._lives.of[record[0]])
        return self._lives.placed.get((record, self._position(row)))

    def acks_between(self) -> Iterator[Ack]:
        """Yield the acknowledgements that may belong to several lives that have ended."""
        first, last = self._times
        for topic, rows, earliest, latest in self._acks():
            for i in np.flatnonzero(self._lives.may_be_several(topic, earliest, latest)).tolist():
                row, record, between = int(rows[i]), self._record(int(rows[i])), (int(earliest[i]), int(latest[i]))
                if record is not None:
                    yield Ack(record, self._position(row), int(first[row]), int(last[row]), *between)

    def unlocated(self) -> Iterator[Record]:
        """Yield the records that may be in several lives that have ended, at an offset that is not known."""
        perhaps = ~self.equals("outcome", "fail") & (self.ints("offset") == NONE)
        for topic, rows, earliest, latest in self._by_time:
            between = perhaps[rows.index] & self._lives.may_be_several(topic, earliest, latest)
            records = map(self._record, rows.index[between].tolist())
            yield from (record for record in records if record is not None)

    def extents(self) -> Iterator[tuple[str, int, Extent]]:
        """Yield label, partition and extent of each life, from acknowledgements that time assigns to it.

        Only of topics with several lives that have ended; others need none.
        """
        offset, partition = self.ints("offset"), self.ints("partition")
        for topic, rows, earliest, latest in self._acks():
            sure, life = rows[earliest == latest], latest[earliest == latest]
            for (index, number), here in sections(life, partition[sure]):
                reached = here.ints(offset[sure])
                label = self._lives.of[topic][int(index)].label
                yield label, int(number), (int(reached.min()), int(reached.max()))

    def _acks(self) -> Iterator[tuple[str, Ints, Ints, Ints]]:
        """Yield each topic with several ended lives, the rows of its acknowledgements, and the lives of each row."""
        ok = self.equals("outcome", "ok") & (self.ints("offset") != NONE)
        for topic, rows, earliest, latest in self._by_time:
            acked = ok[rows.index]
            if self._lives.several_ended(topic) and acked.any():
                yield topic, rows.index[acked], earliest[acked], latest[acked]

    @cached_property
    def _by_time(self) -> list[tuple[str, Rows, Ints, Ints]]:
        """Each topic with lives, its rows, and the earliest and the latest life that each may belong to."""
        topics, names = super().codes("topic")
        first, last = self._times
        return [
            (names[code], rows, *self._lives.bounds(names[code], rows.ints(first), rows.ints(last)))
            for (code,), rows in sections(topics)
            if names[code] in self._lives.of
        ]

    @cached_property
    def _times(self) -> tuple[Ints, Ints]:
        first, last = (self.ints(name) for name in _TIMES[self.table])
        return first, np.where(last == NONE, NEVER_US - 1, last)

    @cached_property
    def _offsets(self) -> tuple[Ints, Ints]:
        return self.ints("partition"), self.ints("offset")

    def _position(self, row: int) -> Position:
        partition, offset = self._offsets
        return int(partition[row]), int(offset[row])


def add_unsettled(table: str, path: str, data: Any, lives: TopicLives, tally: Tally) -> None:
    """Add the records of a part of sends or deliveries that time does not assign to a life."""
    if not LivePart(table, path, data, (*_TIMES[table], "topic"), lives).matters:  # few columns, and mostly enough
        return
    part = open_part(table, path, data, (), lives)
    assert isinstance(part, LivePart)
    for identity, seqs in part.unsettled():
        tally.add(UNSETTLED, table, identity, value=seqs)
    if table == "sends":
        tally.add(BETWEEN, value=list(part.acks_between()))
        tally.add(UNLOCATED, value=set(part.unlocated()))
        for label, partition, extent in part.extents():
            tally.add(EXTENTS, label, partition, value=extent)


def add_positions(part: Part, run_token: str, wanted: Seqs, tally: Tally) -> None:
    """Add the positions in the log of the wanted records."""
    if not part.rows:
        return
    seq = part.ints("seq")
    near = (seq >= min(seqs.min() for seqs in wanted.values())) & (seq <= max(seqs.max() for seqs in wanted.values()))
    rows = np.flatnonzero(near & part.own_records(run_token))
    (topics, names), (codes, producers) = part.codes("topic"), part.codes("producer")
    keys = topics, codes, part.ints("incarnation"), part.ints("partition")
    for (topic, code, life, partition), some in sections(*(key[rows] for key in keys)):
        identity, here = (names[topic], producers[code], life), some.ints(rows)
        here = here[np.isin(seq[here], wanted.get(identity, _NOTHING))]
        if len(here):
            offsets, (seqs,) = grouped(part.ints("offset")[here], (np.maximum, seq[here]))
            tally.add(SETTLED, identity, partition, value=(offsets, seqs))


def count_undecided(part: Part, lives: TopicLives, compacted: frozenset[str], tally: Tally) -> None:
    """Count rows that may be of the life in force, although the final log does not show them there.

    An acknowledgement is then undecided for lost_write, or for lost_key in a compacted topic. A delivery is
    undecided for dirty_read if time does not assign the acknowledgement of its record to a life either.
    """
    if not isinstance(part, LivePart) or part.table == "commits" or not part.rows or not part.unsure.any():
        return
    topics, names = Part.codes(part, "topic")
    absent = np.flatnonzero(part.unsure)
    if part.table == "sends":
        ok = absent[part.equals("outcome", "ok")[absent]]
        for (code,), rows in sections(topics[ok]):
            check = "lost_key" if names[code] in compacted else "lost_write"
            tally.report_undecided(check, names[code], len(rows), SEVERAL_LIVES)
        return
    (groups, group_names), (modes, mode_names) = part.codes("group"), part.codes("mode")
    consumers, clients = part.codes("consumer")
    for identity, of_identity, seqs in part.by_identity(absent):
        unsettled = of_identity[np.isin(seqs, lives.unsettled_sends.get(identity, _NOTHING))]
        for (group, mode, consumer), some in sections(*(c[unsettled] for c in (groups, modes, consumers))):
            reader = group_names[group] if mode_names[mode] == "subscribe" else clients[consumer]
            tally.report_undecided("dirty_read", reader, len(some), SEVERAL_LIVES)

"""Where an epoch began and whether it might: DESIGN, "Legal start".

`s` is the group's last committed offset at that moment, what auto.offset.reset says where there is none, the reader's
own checkpoint or a seek. Of the committed offset a ledger knows what it may have been: a set.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise

from tests.checks.audit.oracle.checkpoints import may_restore, stored
from tests.checks.audit.oracle.epochs import Epoch, Reading, key_of, reached_before
from tests.checks.audit.oracle.facts import Case, ReaderFacts, Row

PHASES = "injecting", "injected", "failed"


@dataclass(frozen=True)
class Commit:
    """A commit that took effect, or may have, at some time from from_us to to_us."""

    row: Row
    from_us: int
    to_us: int

    @property
    def offset(self) -> int:
        offset: int = self.row["offset"]
        return offset

    @property
    def sure(self) -> bool:
        return bool(self.row["outcome"] == "ok")


BY_FAULT = "", "fault"
"""Who put an offset there that a fault set."""
SEEN_LATE_US = 2_000_000
"""Time after a fault in which the observer may still report the former offset."""


@dataclass(frozen=True)
class OffsetChange:
    """What a fault did to the committed offset of a partition: set it, or (None) deleted it. sure: not only perhaps.
    whole: with the whole group. lost: the offset that was no longer in force without any fault; interrupted: after
    a pause of the coordinator."""

    from_us: int
    to_us: int
    offset: int | None
    sure: bool
    whole: bool
    lost: int | None = None
    interrupted: bool = False


Set = Commit | OffsetChange


@dataclass
class Committed:
    """What may have been committed when an epoch began: by offset those who put it there, none if only the observer
    reports it. surely_something: it cannot be that nothing was.
    moved: it may be of a fault's making.
    """

    moved: bool = False
    possible: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    surely_something: bool = False


def commits_of(case: Case, reading: Reading) -> list[Commit]:
    """An automatic commit is reported afterwards: it was made since the one before it, or since its epoch began."""
    begins = {e.key: e.begin_us for turns in reading.values() for e in turns}
    accepted = [row for row in case.rows["commits"] if row["outcome"] in ("ok", "unknown")]
    found = []
    for row in accepted:
        from_us = row["requested_us"]
        if row["kind"] == "auto":
            reported_before = [
                other["completed_us"]
                for other in accepted
                if key_of(other) == key_of(row) and other is not row and other["completed_us"] <= row["completed_us"]
            ]
            began = begins.get(key_of(row))
            from_us = max(reported_before, default=0 if began is None else began + 1)
        found.append(Commit(row, from_us, row.get("done_us", row["completed_us"])))
    return found


def offset_changes(case: Case, group: str | None, topic: str, partition: int) -> list[OffsetChange]:
    """What faults did to a group's offset: they took effect from the row `injecting` to `injected`, or perhaps to
    `failed`, or nobody knows until when."""
    found = []
    for name, kind, target in sorted({(r["fault"], r["kind"], r["target"]) for r in case.rows["faults"]}):
        rows = [r for r in case.rows["faults"] if (r["fault"], r["kind"], r["target"]) == (name, kind, target)]
        times = {phase: min((r["at_us"] for r in rows if r["phase"] == phase), default=None) for phase in PHASES}
        done, failed = times["injected"], times["failed"]
        begun = next((at for at in (times["injecting"], done, failed) if at is not None), None)
        if not kind.startswith("group.") or target != f"group {group}" or begun is None:
            continue
        to_us = done if done is not None else failed if failed is not None else 1 << 62
        offset = None
        if kind != "group.delete":
            end = [r for r in rows if r["at_us"] == to_us and r["phase"] in ("injected", "failed")]
            offsets = json.loads(end[0]["evidence"]).get("offsets", {}) if end else {}
            if f"{topic}/{partition}" not in offsets:
                continue
            offset = offsets[f"{topic}/{partition}"]
        found.append(OffsetChange(min(begun, to_us), to_us, offset, done is not None, kind == "group.delete"))
    return found + [m for place, m in case.lost if place == (group, topic, partition)]


def changes_to(case: Case, entity: str, key: str, end: object) -> list[tuple[int, int, object]]:
    """When a value became the last one: since when it may have, when it was seen, what was before."""
    rows = sorted(
        [r for r in case.rows["cluster"] if (r["entity"], r["key"]) == (entity, key)], key=lambda r: r["at_us"]
    )
    values = [(r["at_us"], json.loads(r["value"])) for r in rows]
    return [
        (min(was_at + 1, at), at, was) for (was_at, was), (at, now) in pairwise(values) if now == end and was != end
    ]


def sightings(case: Case, group: str | None, topic: str, partition: int) -> list[tuple[int, int]]:
    """When the observer saw which offset committed."""
    seen = []
    for row in case.rows["cluster"]:
        if row["key"] == "committed" and row["entity"] == f"group:{group}/{topic}/{partition}":
            offset = row["value"].strip()
            if offset.isdigit():
                seen.append((row["at_us"], int(offset)))
    return sorted(seen)


def committed_at_begin(epoch: Epoch, commits: list[Commit], case: Case) -> Committed:
    """What may have been committed while the epoch's consumer asked: from asked_us to begin_us."""
    if epoch.group is None:
        return Committed()
    asked_us = min(_asked_us(epoch, case), epoch.begin_us)
    place = epoch.group, epoch.topic, epoch.partition
    here = [c for c in commits if (c.row["group"], *key_of(c.row)[3:]) == place]
    changes = offset_changes(case, *place)
    surely_before = [c for c in [*here, *changes] if c.sure and c.to_us <= asked_us]
    settled = max(surely_before, key=_order, default=None)
    known = Committed(surely_something=settled is not None and settled.offset is not None)
    for c in here:
        if c.from_us <= epoch.begin_us and not (settled and c.to_us < settled.from_us):
            known.possible.setdefault(c.offset, set()).add((c.row["consumer"], c.row["mode"]))
    deleted = []
    for m in changes:
        if m.from_us <= epoch.begin_us and not (settled and m.to_us < settled.from_us):
            known.moved = True
            if m.offset is None:
                deleted.append(m)
            else:
                known.possible.setdefault(m.offset, set()).add(BY_FAULT)
    _add_what_was_seen(known, settled, [*here, *changes], asked_us, epoch, case)
    before = [at_us for at_us, _ in sightings(case, *place) if at_us <= asked_us]
    for m in deleted:
        if not before or before[-1] < _seen_from(m):
            known.surely_something = False
    return known


def _order(c: Set) -> tuple[int, int, int]:
    return c.to_us, c.from_us, -1 if c.offset is None else c.offset


def _seen_from(c: Set) -> int:
    """From when on a sighting is of what was there then, or of something later."""
    return c.to_us + SEEN_LATE_US if isinstance(c, OffsetChange) and c.lost is None else c.to_us


def _asked_us(epoch: Epoch, case: Case) -> int:
    """A group lets nobody else commit while it hands out partitions; an assign consumer asks when it likes."""
    if epoch.mode == "assign":
        for row in sorted(case.rows["lifecycle"], key=lambda r: r["at_us"]):
            if (row["client"], row["incarnation"], row["event"]) == (*epoch.holder, "started"):
                at_us: int = row["at_us"]
                return at_us
    return epoch.begin_us


def _add_what_was_seen(
    known: Committed,
    settled: Commit | OffsetChange | None,
    here: list[Commit | OffsetChange],
    asked_us: int,
    epoch: Epoch,
    case: Case,
) -> None:
    seen = sightings(case, epoch.group, epoch.topic, epoch.partition)
    before = [s for s in seen if s[0] <= asked_us]
    after = [s for s in seen if s[0] > asked_us]
    if before and (settled is None or before[-1][0] >= settled.from_us):
        at_us, offset = before[-1]
        if settled and settled.offset is not None and offset > settled.offset and at_us >= _seen_from(settled):
            known.possible.pop(settled.offset, None)  # it had moved on since
        known.possible.setdefault(offset, set())
        known.surely_something = True
    if after:
        at_us, offset = after[0]
        if not any(c.from_us > epoch.begin_us and c.to_us <= at_us for c in here):  # nobody moved it in between
            known.possible.setdefault(offset, set())


def judge_starts(
    case: Case, reading: Reading, commits: list[Commit]
) -> dict[tuple[str, int, int, str, int], Committed]:
    """Fill in start and legal of every epoch, and whether it may not have found anything committed; returns what may
    have been committed as each began."""
    known = {}
    for (reader, topic, partition), turns in reading.items():
        everyone = case.readers.get(reader, ReaderFacts(reader, turns[0].mode, frozenset()))
        for nth, epoch in enumerate(turns):
            known[epoch.key] = committed_at_begin(epoch, commits, case)
            epoch.moved = known[epoch.key].moved
            facts = everyone.of(epoch.consumer)
            epoch.found_nothing = not known[epoch.key].surely_something and not known[epoch.key].possible
            log = case.range_of(topic, partition)
            epoch.start, epoch.legal = _start(epoch, turns[:nth], known[epoch.key], facts, log, stored(epoch, case))
            reached = reached_before(case, (reader, topic, partition), reading)
            if reached is not None:
                _after_deletion(epoch, turns[:nth], reached, facts, log)
    return known


def _after_deletion(
    e: Epoch, earlier: list[Epoch], reached: set[int], facts: ReaderFacts, log: tuple[int, int] | None
) -> None:
    """It came with an offset of a deleted topic: that holds where the new one is as long, else auto.offset.reset."""
    offset = e.former if e.source == "recreated" else e.position
    if offset is None:
        return
    if e.source != "recreated":
        went_there = any(o + 1 >= offset for p in earlier for o in p.offsets)
        between = facts.stores and bool(reached) and min(reached) <= offset <= max(reached)
        if went_there or offset == 0 or not (offset in reached or between):
            return
    e.legal = True
    if e.offsets:
        e.start = offset if e.offsets[0] >= offset else e.offsets[0]
    elif e.source != "recreated" and (log is None or offset <= log[1]):
        e.start = offset
    else:
        e.start = None if facts.resets_to_earliest or log is None else log[1]


def _start(
    e: Epoch,
    earlier: list[Epoch],
    known: Committed,
    facts: ReaderFacts,
    log: tuple[int, int] | None,
    last_stored: int | None,
) -> tuple[int | None, bool]:
    """The offset from which the epoch had to read, and whether it might begin there."""
    recorded = e.position if e.position is not None else next(iter(e.offsets), None)
    mine = [p for p in earlier if p.consumer == e.consumer]
    if e.source == "seek":
        return recorded, True
    if e.source == "checkpoint":
        return recorded, may_restore(recorded, mine, facts.stores, last_stored)
    if e.source == "start":
        must_restore = facts.checkpoint and not (facts.stores and last_stored is None)
        return recorded, not [p for p in mine if must_restore or p.key[1] == e.key[1]]
    if e.source in ("reset", "recreated"):
        outside = log is not None and any(o < log[0] or o > log[1] for o in known.possible)
        start = log[0] if facts.resets_to_earliest and log is not None else recorded
        return start, not known.surely_something or outside
    if e.position is not None and e.source is not None:
        return e.position, e.position in known.possible or _unrecorded_commit(e.position, earlier, known, facts)
    return _start_without_position(e, known, facts, log)


def _unrecorded_commit(position: int, earlier: list[Epoch], known: Committed, facts: ReaderFacts) -> bool:
    """A commit may have no row: its member died before it wrote one, or it was automatic. It then lies above all that
    are known, and no further than somebody had processed.
    """
    may_be_missing = facts.auto or any(p.end == "crashed" for p in earlier)
    processed = max((o + 1 for p in earlier for o in p.offsets), default=-1)
    return may_be_missing and max(known.possible, default=-1) < position <= processed


def _start_without_position(
    e: Epoch, known: Committed, facts: ReaderFacts, log: tuple[int, int] | None
) -> tuple[int | None, bool]:
    """It is not on record where it began: legal, unless it delivered something below all that may be committed."""
    first = e.position if e.position is not None else next(iter(e.offsets), None)
    reachable = [o for o in known.possible if first is None or o <= first]
    if reachable:
        return max(reachable), True
    outside = log is not None and any(o < log[0] or o > log[1] for o in known.possible)
    if outside or not known.surely_something:
        return log[0] if facts.begins_at_earliest and log else first, True
    return first, False

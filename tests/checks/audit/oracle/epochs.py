"""Who held which partition from when to when, what he delivered and committed there, and how it ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tests.checks.audit.oracle.facts import Case, Row, reader_name

Key = tuple[str, int, int, str, int]


@dataclass
class Epoch:
    """One assignment of one partition to one incarnation. delivered: in the order of processing.

    commits: those that were accepted or may have been. unfinished: polled by a pool, and never done.
    start, legal, found_nothing and moved: see `starts`. former: how far it had come in the topic that was deleted.
    """

    key: Key
    reader: str
    mode: str
    group: str | None
    generation: int | None
    source: str | None
    position: int | None
    begin_us: int
    end_us: int = 0
    end: str = "open"
    last_generation: int | None = None
    delivered: list[Row] = field(default_factory=list)
    commits: list[Row] = field(default_factory=list)
    start: int | None = None
    legal: bool = False
    found_nothing: bool = False
    moved: bool = False
    unfinished: set[int] = field(default_factory=set)
    former: int | None = None
    instance: str | None = None
    member_id: str | None = None

    @property
    def consumer(self) -> str:
        return self.key[0]

    @property
    def holder(self) -> tuple[str, int]:
        return self.key[0], self.key[1]

    @property
    def topic(self) -> str:
        return self.key[3]

    @property
    def partition(self) -> int:
        return self.key[4]

    @property
    def offsets(self) -> list[int]:
        return [row["offset"] for row in self.delivered]


Reading = dict[tuple[str, str, int], list[Epoch]]
"""By reader, topic and partition its epochs, one after another as they began."""


def key_of(row: Row) -> Key:
    return row["consumer"], row["incarnation"], row["assignment"], row["topic"], row["partition"]


def reading_of(case: Case) -> Reading:
    """All epochs. Deliveries without an assignment row make an epoch with neither position nor generation."""
    found: dict[Key, Epoch] = {}
    for row in case.rows["assignments"]:
        if row["event"] in ("assigned", "seek"):
            found.setdefault(key_of(row), _epoch(row, row["at_us"]))
    for row in case.rows["assignments"]:
        epoch_here = found.get(key_of(row)) if row["event"] == "position" else None
        if epoch_here and epoch_here.source is None and epoch_here.position is None:
            epoch_here.position = row["position"]
    for row in sorted(case.rows["deliveries"], key=lambda r: r["ordinal"]):
        epoch = found.setdefault(key_of(row), _epoch(row, row["polled_us"]))
        epoch.delivered.append(row)
    _without_row(found, case)
    for row in case.rows["commits"]:
        if row["outcome"] == "ok" and key_of(row) in found:
            found[key_of(row)].commits.append(row)
    for epoch in found.values():
        if (facts := case.readers.get(epoch.reader)) and facts.pooled:
            epoch.unfinished = _unfinished(epoch, case)
        _end(epoch, list(found.values()), case)
    _set_former(found, case)
    reading: Reading = defaultdict(list)
    for epoch in sorted(found.values(), key=lambda e: (e.begin_us, *e.key[:3])):
        reading[epoch.reader, epoch.topic, epoch.partition].append(epoch)
    return dict(reading)


def _set_former(found: dict[Key, Epoch], case: Case) -> None:
    """What it commits in the new topic without having got there is of the deleted one."""
    for epoch in sorted(found.values(), key=lambda e: e.begin_us):
        earlier = case.lives.before(epoch.topic)
        before = found.get((*epoch.key[:3], earlier[-1], epoch.partition)) if earlier else None
        if epoch.source == "recreated" and before:
            known = [before.former, before.position, max(before.offsets, default=-2) + 1]
            epoch.former = max([o for o in known if o is not None and o >= 0], default=0)
            processed, highest = (
                max(epoch.offsets, default=-1) + 1,
                max((c["offset"] for c in epoch.commits), default=-1),
            )
            if processed < highest <= epoch.former:
                epoch.commits = []


def reached_before(case: Case, scope: tuple[str, str, int], reading: Reading) -> set[int] | None:
    """The offsets up to which the reader came in deleted topics of the same name; None if it had read none."""
    reader, topic, partition = scope
    earlier = case.lives.before(topic)
    turns = [e for (name, label, _), epochs in reading.items() if name == reader and label in earlier for e in epochs]
    if not turns:
        return None
    here = [e for e in turns if e.partition == partition]
    known = {max((c["offset"] for c in e.commits), default=None) for e in here}
    known |= {offset for e in here for offset in (e.former, e.position, max(e.offsets, default=-2) + 1)}
    return {offset for offset in known if offset is not None and offset >= 0}


def _unfinished(epoch: Epoch, case: Case) -> set[int]:
    """Offsets left out between two deliveries, where as many ordinals of that life are left out between the two."""
    there = {row["ordinal"] for row in case.rows["deliveries"] if (row["consumer"], row["incarnation"]) == epoch.holder}
    found: set[int] = set()
    position = epoch.position if epoch.position is not None else epoch.offsets[0] if epoch.offsets else 0
    before = {"offset": position - 1, "ordinal": -1}
    for row in epoch.delivered:
        left_out = range(before["offset"] + 1, row["offset"])
        if len(set(range(before["ordinal"] + 1, row["ordinal"])) - there) >= len(left_out):
            found |= set(left_out)
        before = row
    return found


def _epoch(row: Row, begin_us: int) -> Epoch:
    return Epoch(
        key=key_of(row),
        reader=reader_name(row),
        mode=row["mode"],
        group=row["group"],
        generation=row.get("generation"),
        source=row.get("source"),
        position=row.get("position"),
        begin_us=begin_us,
        instance=row.get("instance_id"),
        member_id=row.get("member_id"),
    )


def _without_row(found: dict[Key, Epoch], case: Case) -> None:
    """An epoch known by its deliveries only began, as far as one knows, with the first poll."""
    recorded = {key_of(row) for row in case.rows["assignments"] if row["event"] in ("assigned", "seek")}
    for key, epoch in found.items():
        if key not in recorded:
            epoch.begin_us = min(row["polled_us"] for row in epoch.delivered)


def _end(epoch: Epoch, everyone: list[Epoch], case: Case) -> None:
    """By its own row; else by the next grant to the same incarnation; else by the end of that incarnation."""
    closing = [
        r for r in case.rows["assignments"] if r["event"] in ("revoked", "lost", "deleted") and key_of(r) == epoch.key
    ]
    same = [e for e in everyone if e.holder == epoch.holder and e.key[3:] == epoch.key[3:]]
    later = [e for e in same if e.key[2] > epoch.key[2]]
    ended = {
        r["event"]: r["at_us"]
        for r in sorted(case.rows["lifecycle"], key=lambda r: -r["at_us"])
        if (r["client"], r["incarnation"]) == epoch.holder
    }
    if closing:
        close = min(closing, key=lambda r: r["at_us"])
        epoch.end, epoch.end_us, epoch.last_generation = close["event"], close["at_us"], close["generation"]
    elif later:
        epoch.end, epoch.end_us = "replaced", min(later, key=lambda e: e.key[2]).begin_us
    elif "crashed" in ended:
        epoch.end, epoch.end_us = "crashed", ended["crashed"]
    elif "stopped" in ended:
        epoch.end, epoch.end_us = "stopped", ended["stopped"]
    else:
        epoch.end, epoch.end_us = "open", max(epoch.begin_us, _end_of_drive(case))
    if epoch.last_generation is None and epoch.generation is not None:
        epoch.last_generation = max(_generations_seen(epoch, case), default=epoch.generation)


def _generations_seen(epoch: Epoch, case: Case) -> list[int]:
    """The generations of its member while it held the partition. One that was replaced has only its own."""
    return [
        row["generation"]
        for row in case.rows["assignments"]
        if (row["consumer"], row["incarnation"]) == epoch.holder
        and row["generation"] is not None
        and epoch.begin_us <= row["at_us"] <= epoch.end_us
        and epoch.end != "replaced"
    ]


def _end_of_drive(case: Case) -> int:
    times = [row["completed_us"] for table in ("sends", "commits") for row in case.rows[table]]
    times += [row["processed_us"] for row in case.rows["deliveries"]]
    times += [row["at_us"] for table in ("assignments", "lifecycle", "faults", "cluster") for row in case.rows[table]]
    return max(times, default=0)

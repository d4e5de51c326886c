"""What the observer saw, gone through moment by moment: stable offsets, coordinators, members."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.checks.audit.oracle.epochs import _end_of_drive
from tests.checks.audit.oracle.facts import TASKS, Case, Finding, Judgement, ReaderFacts, Row

SECOND = 1_000_000
Moment = tuple[int, int, bool, dict[str, Any]]
"""From, until, whether that is the end of the drive, and what was in force."""


def judge_watching(case: Case, verdict: Judgement) -> None:
    """The checks that are judged from the observer's rows."""
    end_us = end_of(case)
    entities = {row["entity"] for row in case.rows["cluster"] if row["key"] == "last_stable_offset"}
    for entity in sorted(entities):
        _hanging(case, entity, end_us, verdict)
    judge_controllers(case, verdict)
    for group in sorted({f.group for f in case.readers.values() if f.group is not None}):
        _coordinator(case, group, end_us, verdict)
    for reader in case.readers.values():
        if reader.mode == "subscribe" and reader.assignor != TASKS:
            _members(case, reader, end_us, verdict)


def judge_controllers(case: Case, verdict: Judgement) -> None:
    """A controller answered as active over 2 s after another one of a later epoch did, or two did in one epoch."""
    terms = []
    for last in [r for r in case.rows["cluster"] if r["key"] == "active_last"]:
        value = json.loads(last["value"])
        begins = [
            r["at_us"]
            for r in case.rows["cluster"]
            if (r["entity"], r["key"], r["value"]) == (last["entity"], "active", str(value["epoch"]))
            if r["at_us"] <= last["at_us"]
        ]
        if begins:
            terms.append((last["entity"], value["epoch"], max(begins), value["asked_us"]))
    verdict.looked_at += [("competing_controllers", "controllers")] * len(terms)
    for who, epoch, _, asked in terms:
        late = any(other != who and later > epoch and asked - begun > 2 * SECOND for other, later, begun, _ in terms)
        same = any(other > who and later == epoch for other, later, _, _ in terms)
        if late or same:
            verdict.findings[Finding("competing_controllers", "", "controllers", None, None)] += 1


def end_of(case: Case) -> int:
    """The last moment of the drive."""
    ends = [t["ended_us"] for t in case.rows["transactions"] if t["ended_us"] is not None]
    return max([_end_of_drive(case), *ends])


def moments(case: Case, end_us: int, *watched: tuple[str, str]) -> Iterator[Moment]:
    rows = [r for r in case.rows["cluster"] if (r["entity"], r["key"]) in watched]
    times = sorted({r["at_us"] for r in rows})
    for at, until in pairwise([*times, max([end_us, *times])]):
        values: dict[str, Any] = {}
        for row in sorted(rows, key=lambda r: r["at_us"]):
            if row["at_us"] <= at:
                values[row["key"]] = json.loads(row["value"])
        yield at, until, at == times[-1], values


def _stretches(found: list[tuple[Any, Moment]]) -> list[tuple[Any, int, int, bool]]:
    """Neighbouring moments with the same value that is not None."""
    result: list[tuple[Any, int, int, bool]] = []
    for value, (at, until, last, _) in found:
        if value is None:
            continue
        if result and result[-1][0] == value and result[-1][2] == at:
            result[-1] = value, result[-1][1], until, last
        else:
            result.append((value, at, until, last))
    return result


def _hanging(case: Case, entity: str, end_us: int, verdict: Judgement) -> None:
    """It stayed below the end for over 10 s, or to the end, and longer than all transactions that were open then."""
    topic, _, partition = entity.rpartition("/")
    changes = [r for r in case.rows["cluster"] if (r["entity"], r["key"]) == (entity, "last_stable_offset")]
    verdict.looked_at += [("hanging_transaction", topic)] * len(changes)
    found: list[tuple[Any, Moment]] = []
    keys = ("last_stable_offset", "end_offset", "offsets_answer")
    for moment in moments(case, end_us, *((entity, key) for key in keys)):
        stable, end = moment[3].get("last_stable_offset"), moment[3].get("end_offset")
        below = stable is not None and end is not None and stable < end and moment[3].get("offsets_answer", True)
        found.append((stable if below else None, moment))
    for stable, at, until, last in _stretches(found):
        open_then = [
            t["ended_us"]
            for t in case.rows["transactions"]
            if t["outcome"] in ("committed", "aborted") and t["began_us"] <= at < t["ended_us"]
            if any(
                s["txn"] is not None
                and (s["producer"], s["incarnation"]) == (t["producer"], t["incarnation"])
                and f"{s['topic']}/{s['partition']}" == entity
                for s in case.rows["sends"]
            )
        ]
        stuck_us = until - min(until, max(open_then, default=at))
        if stuck_us > 10 * SECOND or (last and stuck_us > 0):
            verdict.findings[Finding("hanging_transaction", "", topic, topic, int(partition), stable)] += 1


def _coordinator(case: Case, group: str, end_us: int, verdict: Judgement) -> None:
    """Another broker than the leader of the group's offsets partition, for longer than 2 s."""
    place, me = offsets_place(case, group), f"group:{group}"
    if place is None:
        return
    seen = [r for r in case.rows["cluster"] if (r["entity"], r["key"]) == (me, "coordinator")]
    verdict.looked_at += [("misplaced_coordinator", group)] * len(seen)
    found: list[tuple[Any, Moment]] = []
    for moment in moments(case, end_us, (me, "coordinator"), (me, "answers"), (me, "late"), (place, "leader")):
        pair = moment[3].get("coordinator", -1), moment[3].get("leader", -1)
        apart = min(pair) >= 0 and pair[0] != pair[1] and moment[3].get("answers", True)
        found.append((pair if apart else None, moment))
    for n, (pair, moment) in enumerate(found):
        fresh = [later for later, its in found[n:] if not its[3].get("late")]
        if moment[3].get("late") and fresh[:1] != [pair]:  # what is seen next is something else: it may have changed
            found[n] = None, moment
    for _, at, until, last in _stretches(found):
        if until - at > 2 * SECOND:
            verdict.findings[Finding("misplaced_coordinator", "", group, *_split(place))] += 1
        elif last:
            verdict.undetermined["misplaced_coordinator", group] += 1


def _split(place: str) -> tuple[str, int]:
    topic, _, number = place.rpartition("/")
    return topic, int(number)


def offsets_place(case: Case, group: str) -> str | None:
    """The partition of a group, None if its leader was never seen."""
    counts = [r for r in case.rows["cluster"] if (r["entity"], r["key"]) == ("__consumer_offsets", "partitions")]
    if not counts:
        return None
    value = 0
    for letter in group:  # of the basic plane in all histories: one UTF-16 unit each
        value = (31 * value + ord(letter)) % 2**32
    signed = value - 2**32 if value >= 2**31 else value
    number = (0 if signed == -(2**31) else abs(signed)) % json.loads(max(counts, key=lambda r: r["at_us"])["value"])
    place = f"__consumer_offsets/{number}"
    return place if any((r["entity"], r["key"]) == (place, "leader") for r in case.rows["cluster"]) else None


def _members(case: Case, reader: ReaderFacts, end_us: int, verdict: Judgement) -> None:
    """A settled group in which somebody has two partitions more than another, or (range) not neighbouring ones."""
    group, me = reader.name, f"group:{reader.name}"
    long = 300_000 if reader.assignor in ("range", "roundrobin") else 2 * SECOND  # others move partitions in two steps
    for at, until, _, values in moments(case, end_us, (me, "members"), (me, "state"), (me, "answers")):
        members = values.get("members")
        quiet = values.get("state") == "Stable" and values.get("answers", True)
        if not members or not quiet or until - at <= long:
            continue
        verdict.looked_at.append(("unbalanced_assignment", group))
        topic = "".join({p.rpartition("/")[0] for m in members for p in m["partitions"]})
        known_topics = all(m.get("topics") is not None for m in members)
        assignors = reader.elected([m.get("client_id", "") for m in members]) if known_topics else {reader.assignor}
        answers = {_broken(assignor, members, topic) for assignor in assignors} or {None}
        if answers == {True}:
            verdict.findings[Finding("unbalanced_assignment", "", group, None, None)] += 1
        elif answers != {False}:
            verdict.undetermined["unbalanced_assignment", group] += 1


def _broken(assignor: str, members: list[Row], topic: str) -> bool | None:
    """Whether an assignor does not spread the partitions of one topic like this; None where nobody knows."""
    wanted = [m.get("topics", [topic]) for m in members]
    held = [
        sorted(int(p.rpartition("/")[2]) for p in m["partitions"])
        for m, topics in zip(members, wanted, strict=True)
        if assignor != "range" or topic in topics or m["partitions"]
    ]
    mixed = assignor != "range" and len({tuple(topics) for topics in wanted}) > 1
    sizes = [len(numbers) for numbers in held]
    known = sorted(n for numbers in held for n in numbers)
    torn = any(n and known.index(n[-1]) - known.index(n[0]) + 1 != len(n) for n in held)
    if mixed or assignor not in ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform"):
        return None
    return max(sizes) - min(sizes) > 1 or (assignor == "range" and torn)

"""Committed offsets that are no longer in force though no fault touched them: expired_commit, lost_commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.checks.audit.oracle.epochs import Epoch, Reading, _end_of_drive, key_of
from tests.checks.audit.oracle.facts import Case, Finding, Judgement
from tests.checks.audit.oracle.starts import Commit, OffsetChange, offset_changes

SECOND = 1_000_000
LOOK_US = 3 * SECOND
NEVER = 1 << 62
SAME_CLOCK = 5_000
Place = tuple[str, str, int]
"""Group, topic and partition."""
Moment = tuple[int, int, bool, dict[str, Any]]
"""From, until, whether that is the end of the drive, and what was in force."""


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


def find_lost_offsets(case: Case, reading: Reading, commits: list[Commit]) -> None:
    """Note the lost offsets, first as the observer saw it, then as a consumer that began below its commit got it."""
    seen = [*_seen(case, reading, commits)]
    case.lost = seen
    begun = [found for turns in reading.values() for e in turns for found in _begun_below(case, e, commits)]
    case.lost = [*seen, *begun]
    case.restarts = _restarts(reading)


def _restarts(reading: Reading) -> dict[str, list[OffsetChange]]:
    """By group, between which begins of a member its generations began again: lower, or the same with a new id."""
    found: dict[str, list[OffsetChange]] = {}
    epochs = [e for turns in reading.values() for e in turns if e.mode == "subscribe" and e.generation is not None]
    epochs.sort(key=lambda e: (e.begin_us, *e.key[1:]))
    for n, later in enumerate(epochs):
        mine = [e for e in epochs[:n] if (e.group, e.consumer) == (later.group, later.consumer)]
        if not mine or mine[-1].begin_us == later.begin_us:
            continue
        new_id = mine[-1].holder == later.holder and mine[-1].member_id != later.member_id
        fall = (later.generation or 0) - (mine[-1].generation or 0)
        if fall < 0 or (fall == 0 and new_id):
            span = OffsetChange(mine[-1].begin_us + 1, later.begin_us, None, True, True)
            found.setdefault(str(later.group), []).append(span)
    return found


def _values(case: Case, entity: str, key: str) -> list[tuple[int, Any]]:
    rows = [r for r in case.rows["cluster"] if (r["entity"], r["key"]) == (entity, key)]
    return [(r["at_us"], json.loads(r["value"])) for r in sorted(rows, key=lambda r: r["at_us"])]


def _pauses(case: Case, group: str) -> list[tuple[int, int]]:
    """When the coordinator did not answer, or another one did; what came before its first answer does not count."""
    answers = _values(case, f"group:{group}", "answers")
    found = []
    for n, (at, answered) in enumerate(answers):
        if not answered and at != answers[0][0]:
            found.append((at, answers[n + 1][0] if n + 1 < len(answers) else NEVER))
    return found + [(at, at) for at, _ in _values(case, f"group:{group}", "coordinator")[1:]]


def _in_charge(case: Case, group: str, at_us: int) -> bool:
    """Who answers leads the partition of the group, give or take 2 s; also if nobody knows."""
    place = offsets_place(case, group)
    if place is None:
        return True
    watched = (f"group:{group}", "coordinator"), (place, "leader")
    near = [
        (values.get("coordinator", -1), values.get("leader", -1))
        for at, until, _, values in moments(case, end_of(case), *watched)
        if at <= at_us + 2 * SECOND and until >= at_us - 2 * SECOND
    ]
    return not near or any(a == b or min(a, b) < 0 for a, b in near)


def _commits_at(commits: list[Commit], place: Place, from_us: int, to_us: int) -> tuple[Commit | None, set[int]]:
    """The commit that was certainly made by from_us, and all offsets that may have been in force until to_us."""
    here = [c for c in commits if (c.row["group"], *key_of(c.row)[3:]) == place]
    made = [c for c in here if c.sure and c.to_us <= from_us]
    settled = max(made, key=lambda c: (c.to_us, c.from_us, c.offset), default=None)
    kept = [c for c in here if c.from_us <= to_us and not (settled and c.to_us < settled.from_us)]
    return settled, {c.offset for c in kept}


def _seen(case: Case, reading: Reading, commits: list[Commit]) -> Iterator[tuple[Place, OffsetChange]]:
    crashes = [
        (e.group, r["at_us"])
        for turns in reading.values()
        for e in turns
        for r in case.rows["lifecycle"]
        if (r["client"], r["incarnation"], r["event"]) == (*e.holder, "crashed")
    ]
    for entity in sorted({r["entity"] for r in case.rows["cluster"] if r["key"] == "committed"}):
        group, topic, number = entity.removeprefix("group:").rsplit("/", 2)
        place = group, topic, int(number)
        for (was_at, was), (at, now) in pairwise(_values(case, entity, "committed")):
            if was is None or (now is not None and now >= was) or topic.partition(" (deleted ")[0] in case.lives.of:
                continue
            from_us = min(was_at + 1, at)
            paused = any(at - LOOK_US <= end <= at for _, end in _pauses(case, group))
            by_fault = any(m.from_us <= at and m.to_us >= from_us for m in offset_changes(case, *place))
            if by_fault or not _in_charge(case, group, at):
                continue
            if now is not None:
                committed = _commits_at(commits, place, from_us - 1, at)[1]
                unsure = any(g == group and from_us <= crash <= at for g, crash in crashes)
                if not paused or now in committed or unsure:
                    continue
            yield place, OffsetChange(from_us, at, now, True, False, lost=was, interrupted=paused)


def _begun_below(case: Case, e: Epoch, commits: list[Commit]) -> Iterator[tuple[Place, OffsetChange]]:
    """It began below every commit that may have been in force, and the coordinator had paused after the last one."""
    if e.group is None or e.topic.partition(" (deleted ")[0] in case.lives.of:
        return
    place = e.group, e.topic, e.partition
    asked_us = e.begin_us
    if e.mode == "assign":
        starts = [r for r in case.rows["lifecycle"] if (r["client"], r["incarnation"]) == e.holder]
        asked_us = min([e.begin_us, *(r["at_us"] for r in starts if r["event"] == "started")])
    settled, possible = _commits_at(commits, place, asked_us, e.begin_us)
    if settled is None:
        return
    log = case.range_of(e.topic, e.partition)
    possible = {settled.offset, *possible}
    below = e.source == "committed" and e.position is not None and e.position < min(possible)
    reset = e.source == "reset" and log is not None and all(log[0] <= o <= log[1] for o in possible)
    if not below and not reset:
        return
    if any(m.from_us <= e.begin_us and m.to_us >= settled.from_us for m in offset_changes(case, *place)):
        return
    values = _values(case, "group:{}/{}/{}".format(*place), "committed")
    here = [c for c in commits if (c.row["group"], *key_of(c.row)[3:]) == place]
    later = min((c.to_us for c in here if c.from_us > e.begin_us), default=NEVER)
    pauses = [p for p in _pauses(case, e.group) if settled.to_us <= p[0] <= e.begin_us + LOOK_US]
    for _, end in pauses:
        at_end = [(end, v) for at, v in values if at <= end][-1:] if end != NEVER else []
        shown = [*at_end, *((at, v) for at, v in values if at > end)]
        if any((at <= e.begin_us or at < later) and v is not None and v >= settled.offset for at, v in shown):
            return
    if pauses:
        before = max((at for at, _ in values if at <= e.begin_us), default=0)
        from_us = min(max(settled.to_us, before + 1), e.begin_us)
        offset = e.position if below else None
        yield place, OffsetChange(from_us, e.begin_us, offset, True, False, lost=settled.offset, interrupted=True)


def judge_lost_offsets(case: Case, verdict: Judgement) -> None:
    """One finding for each life of a group that ended so."""
    for group in sorted({f.group for f in case.readers.values() if f.group is not None and f.commits}):
        lives: list[list[tuple[Place, OffsetChange]]] = []
        mine = [(place, m) for place, m in case.lost if place[0] == group]
        for place, m in sorted(mine, key=lambda found: (found[1].to_us, f"{found[0][1]}/{found[0][2]}")):
            if lives and m.to_us <= lives[-1][-1][1].to_us + 5 * SECOND:
                lives[-1].append((place, m))
            else:
                lives.append([(place, m)])
        for life in lives:
            _judge_life(case, group, life, verdict)


def _in_log(case: Case, place: Place, m: OffsetChange) -> bool:
    """Its log has the commit from before, and nobody deleted it until then."""
    here = [r for r in case.rows["commit_log"] if (r["group"], r["topic"], r["partition"]) == place]
    made = [r["appended_us"] for r in here if r["offset"] == m.lost and r["transaction"] != "aborted"]
    made = [at for at in made if at <= m.from_us + SAME_CLOCK]
    deleted = [r["appended_us"] for r in here if r["offset"] is None and r["appended_us"] <= m.to_us + SAME_CLOCK]
    return bool(made) and not any(at >= max(made) for at in deleted)


def _judge_life(case: Case, group: str, life: list[tuple[Place, OffsetChange]], verdict: Judgement) -> None:
    readers = sorted((f.mode != "subscribe", f.name) for f in case.readers.values() if f.group == group and f.commits)
    not_subscribed, reader = readers[0]
    causes = [_cause(case, reader, not_subscribed, place, m) for place, m in life]
    if {*causes} == {"not lost"}:
        return
    for check in ("lost_commit", "expired_commit"):
        if check in causes:
            of_it = [found for found, cause in zip(life, causes, strict=True) if cause == check]
            (_, topic, partition), first = of_it[0]
            verdict.findings[Finding(check, "", reader, topic, partition, first.lost)] += 1
            return
    verdict.undecided["expired_commit", reader] += 1
    verdict.undecided["lost_commit", reader] += 1


def _cause(case: Case, reader: str, not_subscribed: bool, place: Place, m: OffsetChange) -> str:
    group, topic, _ = place
    facts = case.facts(reader)
    states = [(at, v) for at, v in _values(case, f"group:{group}", "state") if at <= m.to_us and v != "Dead"]
    at_us, state = states[-1] if states else (m.to_us, "")
    members = [v for at, v in _values(case, f"group:{group}", "members") if at <= m.to_us and v]
    wanted = {name for name, _ in facts.subscribed}
    subscribed = not not_subscribed and all((name, topic) in facts.subscribed for name in wanted)
    subscribed |= any(topic in (one.get("topics") or []) for one in (members[-1] if members else []))
    since = at_us if state == "Empty" else m.to_us
    if not_subscribed or not subscribed or group in case.kip_848:  # counted from the commit
        since = m.from_us
    since = min([since, *(begin for begin, end in _pauses(case, group) if begin <= since <= end + LOOK_US)]) - LOOK_US
    if m.offset is None and m.to_us - since >= case.offsets_kept_min * 60 * SECOND:
        return "" if m.interrupted else "expired_commit"
    read = [r for r in case.rows["commit_log_range"] if r["group"] == group and r["error"] is None]
    if read and _in_log(case, place, m):
        return "not lost"
    if not read:
        later = [v for at, v in _values(case, f"group:{group}/{topic}/{place[2]}", "committed") if at > m.to_us]
        if later and later[0] == m.lost:
            return ""
    kept = not not_subscribed and states and state != "Empty" and subscribed
    return "lost_commit" if m.interrupted or kept else ""

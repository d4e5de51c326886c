"""Outputs of processors: each input that a group processed and committed past has one that readers see, and no more."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from chaos.scenario.model import Scenario
from tests.checks.audit.oracle.epochs import Epoch, Key, Reading, reached_before
from tests.checks.audit.oracle.facts import Case, Finding, Judgement, Row
from tests.checks.audit.oracle.reading import committed_past, delivered_identity, places, record_identity
from tests.checks.audit.oracle.starts import Commit, Committed, offset_changes

CHECKS = "missing_output", "duplicate_output", "unconsumed_output"
POSSIBLE = "ok", "unknown"
INPUT = "input_topic", "input_partition", "input_offset"


def judge_processing(
    case: Case,
    scenario: Scenario,
    reading: Reading,
    commits: list[Commit],
    known: dict[Key, Committed],
    verdict: Judgement,
) -> None:
    consuming = {c.group for c in scenario.consumers if c.mode == "subscribe"}
    for group in {p.group for p in scenario.processors} - consuming:
        entries = [p for p in scenario.processors if p.group == group]
        names, topics = {p.name for p in entries}, {p.to for p in entries}
        written = [r for r in case.rows["log"] if case.is_own(r) and r["producer"].rpartition("/")[0] in names]
        with_input = [r for r in written if None not in [r[name] for name in INPUT]]
        ranges = [r for r in case.rows["log_range"] if r["topic"] in topics]
        whole = (
            with_input == written
            and all(r["start"] == 0 for r in ranges)
            and len(ranges) >= sum(scenario.topic(topic).partitions for topic in topics)
            and not any(topic in case.lives.of for topic in topics)
        )
        mine = [r for r in with_input if r["topic"] in topics]
        for reader, topic, partition in places(case, reading):
            if reader == group and topic not in case.lives.ended:
                here = [r for r in mine if (r["input_topic"], r["input_partition"]) == (topic, partition)]
                _judge(case, (reader, topic, partition), here, whole, reading, commits, known, verdict)


def _judge(
    case: Case,
    scope: tuple[str, str, int],
    outputs: list[Row],
    whole: bool,
    reading: Reading,
    commits: list[Commit],
    known: dict[Key, Committed],
    verdict: Judgement,
) -> None:
    reader, topic, partition = scope
    turns, place = reading.get(scope, []), case.range_of(topic, partition)
    stale = reached_before(case, scope, reading) if place else None
    by_turn = committed_past(case, turns, commits, stale or ())
    passed = max(by_turn, default=-1)
    set_back = _set_back(case, turns, by_turn, known)
    maybe_passed = max(
        (
            c["offset"]
            for c in case.rows["commits"]
            if c["group"] == reader and (c["topic"], c["partition"]) == (topic, partition) and c["outcome"] in POSSIBLE
        ),
        default=-1,
    )
    moved = bool(offset_changes(case, reader, topic, partition))
    ended = bool(turns) and turns[-1].end in ("revoked", "stopped")
    log = {r["offset"]: r for r in case.rows["log"] if (r["topic"], r["partition"]) == (topic, partition)}
    got: dict[int, list[Row]] = defaultdict(list)
    for epoch in turns:
        for row in epoch.delivered:
            got[row["offset"]].append(row)
    of: dict[int, list[Row]] = defaultdict(list)
    foreign = set()
    for output in sorted(outputs, key=lambda r: (r["topic"], r["partition"], r["offset"])):
        if topic in case.lives.of and not _of_this_life(output, turns):
            foreign.add(output["input_offset"])
        else:
            of[output["input_offset"]].append(output)
    for offset in sorted({*log, *of, *got}):
        seen = [r for r in of[offset] if r["committed"]]
        open_ones = [r for r in of[offset] if r["committed"] is None]
        record = log.get(offset)
        if record:
            sees = case.facts(reader).sees(record)
            same = [delivered_identity(d) in (None, record_identity(record)) for d in got[offset]]
            processed, contested = sees and any(same), not all(same)
            sure_of_it = bool(record["committed"]) or case.facts(reader).sees_uncommitted
        else:
            processed = bool(got[offset]) and (
                topic in case.compacted or offset < (case.whole_from(topic, partition) or 0)
            )
            contested, sure_of_it = len({delivered_identity(d) for d in got[offset]} - {None}) > 1, True
        owed = processed and offset < passed
        if owed or seen:
            verdict.looked_at += [(check, reader) for check in CHECKS]
        who = record_identity(record) if record else (None, None, None)

        def found(
            check: str, times: int, sure: bool, split: str = "", offset: int = offset, who: tuple[Any, ...] = who
        ) -> None:
            if not times:
                return
            if sure:
                verdict.findings[Finding(check, split, reader, topic, partition, offset, *who)] += times
            else:
                verdict.undecided[check, reader] += times

        found("missing_output", owed and not seen, whole and not open_ones and sure_of_it and offset not in foreign)
        found("missing_output", owed and bool(seen) and contested, False)
        legal = _legal(seen, turns, by_turn, set_back, offset)
        found("duplicate_output", legal, not contested, "legal")
        found("duplicate_output", max(0, len(seen) - 1) - legal, not contested, "illegal")
        found("duplicate_output", len(open_ones) if seen else max(0, len(open_ones) - 1), False)
        found("duplicate_output", (owed or bool(seen)) and not whole, False)
        sure = offset >= maybe_passed and not moved and ended and not contested
        found("unconsumed_output", bool(seen) and offset >= passed, sure)
        found("unconsumed_output", processed and offset >= passed and not seen and not whole, False)


def _set_back(case: Case, turns: list[Epoch], by_turn: list[int], known: dict[Key, Committed]) -> list[int]:
    """The turns that something other than the group's members made begin where they do, after a commit since the last
    of these turns."""
    found, last = list[int](), 0
    for n, epoch in enumerate(turns):
        if max(by_turn[last:n], default=-1) >= 0 and epoch.legal and _by_others(case, epoch, known[epoch.key]):
            found.append(n)
            last = n
    return found


def _by_others(case: Case, epoch: Epoch, known: Committed) -> bool:
    if epoch.source == "seek":
        return True
    if epoch.source in ("reset", "recreated"):
        log = case.range_of(epoch.topic, epoch.partition)
        return epoch.moved or (log is not None and any(o < log[0] or o > log[1] for o in known.possible))
    if epoch.source in ("checkpoint", "start"):
        return False
    if epoch.position is None:
        return epoch.moved
    modes = {mode for _, mode in known.possible.get(epoch.position, ())}
    return "fault" in modes or (bool(modes) and "subscribe" not in modes)


def _legal(seen: list[Row], turns: list[Epoch], by_turn: list[int], set_back: list[int], offset: int) -> int:
    """How many outputs of an input are the first after the group was set back to it or below, having committed past."""
    if len(seen) < 2 or not set_back:
        return 0
    of = sorted({_turn_of(output, turns, offset) for output in seen})
    stretches = sorted({sum(n <= turn for n in set_back) for turn in of})
    legal = 0
    for before, after in pairwise(stretches):
        for n in range(before + 1, after + 1):
            begin = set_back[n - 1]
            since = set_back[before - 1] if before else 0
            if (turns[begin].start or 0) <= offset < max(by_turn[since:begin], default=-1):
                legal += 1
                break
    return legal


def _turn_of(output: Row, turns: list[Epoch], offset: int) -> int:
    """The last turn in which the writer got the input before it wrote; else the last that had begun by then."""
    until_us = output["timestamp_us"] + 1000
    holder = output["producer"], output["incarnation"]
    got = [
        n
        for n, epoch in enumerate(turns)
        if epoch.holder == holder
        and any(row["offset"] == offset and row["processed_us"] < until_us for row in epoch.delivered)
    ]
    return max(got or [n for n, epoch in enumerate(turns) if epoch.begin_us < until_us], default=0)


def _of_this_life(output: Row, turns: list[Epoch]) -> bool:
    """Its member got the input in this life of the topic before; times of records are in milliseconds."""
    return any(
        (epoch.holder, row["offset"]) == ((output["producer"], output["incarnation"]), output["input_offset"])
        and output["timestamp_us"] is not None
        and row["processed_us"] < output["timestamp_us"] + 1000
        for epoch in turns
        for row in epoch.delivered
    )

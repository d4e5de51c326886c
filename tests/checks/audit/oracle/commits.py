"""Commits against what was processed and against each other."""

from __future__ import annotations

from collections.abc import Collection

from tests.checks.audit.oracle.epochs import Epoch, Reading, key_of
from tests.checks.audit.oracle.facts import Case, Finding, Judgement, Row, reader_name
from tests.checks.audit.oracle.starts import Commit, OffsetChange, changes_to, offset_changes


def judge_commits(case: Case, reading: Reading, commits: list[Commit], verdict: Judgement) -> None:
    """All checks about commits, which are counted per reader."""
    epochs = {e.key: e for turns in reading.values() for e in turns}
    sure = [c for c in commits if c.sure]
    for commit in sure:
        _overcommit(case, commit, epochs.get(key_of(commit.row)), verdict)
        _rewind(case, commit, sure, epochs.get(key_of(commit.row)), epochs.values(), verdict)
        _zombie(case, commit, epochs.get(key_of(commit.row)), reading, verdict)


def _finding(check: str, row: Row) -> Finding:
    place = row["topic"], row["partition"], row["offset"]
    return Finding(check, "", reader_name(row), *place, consumer=row["consumer"])


def _overcommit(case: Case, commit: Commit, epoch: Epoch | None, verdict: Judgement) -> None:
    """Beyond what its epoch had processed when it asked (if automatic: when it was reported), with records between."""
    row = commit.row
    if _of_deleted(commit, epoch):
        return
    at_us = row["completed_us"] if row["kind"] == "auto" else row["requested_us"]
    processed = [d["offset"] + 1 for d in epoch.delivered if d["processed_us"] <= at_us] if epoch else []
    reached = max(processed) if processed else epoch.start if epoch else None
    if reached is None:
        verdict.undecided["overcommit", reader_name(row)] += 1
        return
    for record in case.rows["log"]:
        here = (record["topic"], record["partition"]) == (row["topic"], row["partition"])
        here = here and case.facts(reader_name(row)).sees(record)
        if here and reached <= record["offset"] < row["offset"]:
            verdict.findings[_finding("overcommit", row)] += 1
            return


def _of_deleted(commit: Commit, epoch: Epoch | None) -> bool:
    """Whether it is of the position in a deleted topic, by a consumer that goes on in the new one."""
    return epoch is not None and epoch.former is not None and commit.offset <= epoch.former


def _rewind(
    case: Case,
    commit: Commit,
    sure: list[Commit],
    epoch: Epoch | None,
    everyone: Collection[Epoch],
    verdict: Judgement,
) -> None:
    """Below the commit in force: of those answered before this one was requested, the one requested last.

    Counted over the group in subscribe mode, over the consumer in assign mode. A seek of its epoch to that offset or
    below explains it; so does, in assign mode, that an epoch after the epoch of the commit in force began there or
    below, at the offset that the group had committed by then, or at a checkpoint apart from its results; and so does a
    fault that may have moved the group's offset between the two.
    """

    def belongs_to(c: Commit) -> tuple[str, str | None, str, int]:
        return reader_name(c.row), c.row["group"], c.row["topic"], c.row["partition"]

    def answered_before(c: Commit) -> bool:
        if c.to_us == commit.from_us:  # in the same microsecond: not if it took no time at all, as this one may
            return c.from_us != c.to_us
        return c.to_us < commit.from_us

    answered = [c for c in sure if belongs_to(c) == belongs_to(commit) and answered_before(c)]
    if not answered:
        return
    in_force = max(answered, key=lambda c: (c.from_us, c.to_us, c.offset))
    sought = epoch is not None and epoch.source == "seek" and (epoch.position or 0) <= commit.offset
    resumed = epoch is not None and epoch.mode == "assign" and key_of(in_force.row) != epoch.key
    back = {"committed"} | ({"checkpoint", "start"} if case.facts(reader_name(commit.row)).stores else set())
    resumed = resumed and epoch.source in back and epoch.legal and (epoch.start or 0) <= commit.offset
    changes = offset_changes(case, *belongs_to(commit)[1:])
    moved = any(m.to_us >= in_force.from_us and m.from_us <= commit.to_us for m in changes)
    of_deleted = _of_deleted(in_force, next((e for e in everyone if e.key == key_of(in_force.row)), None))
    if commit.offset < in_force.offset and not of_deleted and not sought and not resumed and not moved:
        verdict.findings[_finding("commit_rewind", commit.row)] += 1


def _zombie(case: Case, commit: Commit, epoch: Epoch | None, reading: Reading, verdict: Judgement) -> None:
    """zombie_commit: another member had surely begun there before it was asked for, in a later generation (or, where
    generations are not known, after the committer had given the partition up)."""
    if epoch is None or epoch.mode != "subscribe":
        return
    turns = reading[epoch.reader, epoch.topic, epoch.partition]
    for later in turns[turns.index(epoch) + 1 :]:
        if later.holder == epoch.holder or later.begin_us >= commit.from_us:
            continue
        if epoch.generation is not None and later.generation is not None and not _group_recreated(case, epoch, later):
            fences = later.generation == epoch.generation and _one_static_member(epoch, later)
            taken = fences or later.generation > epoch.generation
        else:
            taken = epoch.end in ("revoked", "lost") and epoch.end_us <= later.begin_us
        if taken:
            verdict.findings[_finding("zombie_commit", commit.row)] += 1
            return


def _group_recreated(case: Case, a: Epoch, b: Epoch) -> bool:
    """Whether a fault may have deleted the group between the begins of two epochs: its generations begin again then."""
    changes = offset_changes(case, a.group, a.topic, a.partition)
    deleted = [m for m in changes if m.whole]
    for from_us, to_us, _ in changes_to(case, f"group:{a.group}", "state", "Dead"):
        if not any(m.from_us <= to_us and m.to_us >= from_us for m in deleted):
            changes = [*changes, OffsetChange(from_us, to_us, None, True, True)]
    changes += [m for place, m in case.lost if place[0] == a.group]
    changes += case.restarts.get(a.group or "", [])
    return any((m.whole or m.lost is not None) and m.from_us <= b.begin_us and m.to_us >= a.begin_us for m in changes)


def _one_static_member(a: Epoch, b: Epoch) -> bool:
    """Two processes with one group.instance.id."""
    return a.holder != b.holder and a.instance is not None and a.instance == b.instance

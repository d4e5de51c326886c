"""Offset commits against what was processed and against each other: overcommit, commit_rewind, zombie_commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Ints
from checks.audit.engine.commits import AUTO, CommitBlock
from checks.audit.engine.counters import COMMITTED
from checks.audit.engine.group import sections
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.epochs import Committer, Epoch
from checks.audit.facts.moves import group_recreated
from checks.audit.findings import CAP, Finding
from checks.audit.rules.rule import COMMITTING, MEMBERS, Evidence, Rule, RunData, present
from checks.audit.undecided import NO_PROGRESS

NO_EPOCH = total("commits_without_epoch")
"""Commits of which the assignment is not on record, by reader."""


def overcommit(b: CommitBlock, tally: Tally) -> None:
    """Report commits beyond what their epoch had processed when requested, with visible log records between.

    An epoch that had processed nothing counts from its start, an automatic commit at the time when it was reported. A
    commit without a known epoch is undetermined. A commit of a position in a deleted topic is none beyond it.
    """
    for (number,), section in sections(b.commits["committer"]):
        rows, committer = section.index, b.commits.committers[number]
        at_us = np.where(b.commits["kind"][rows] == AUTO, b.commits["to_us"][rows], b.commits["requested_us"][rows])
        kept = ~_of_former(b, committer, b.commits["offset"][rows])
        rows, at_us = rows[kept], at_us[kept]
        committed, reached = b.commits["offset"][rows], _reached(b, committer, at_us)
        tally.report_undetermined("overcommit", committer.reader, int((reached == NONE).sum()), NO_PROGRESS)
        firsts, lasts = b.runs["runs" if committer.reader in b.facts.read_uncommitted else "committed_runs"]
        at = np.searchsorted(lasts, reached)
        between = at < len(firsts)
        between[between] = firsts[at[between]] < committed[between]
        wrong = np.flatnonzero((reached != NONE) & (committed > reached) & between)
        shown = (
            b.commit(int(rows[i]), int(at_us[i]), committed=int(committed[i]), processed_to=int(reached[i]))
            for i in wrong[np.lexsort((at_us[wrong], committed[wrong]))[:CAP]].tolist()
        )
        tally.report("overcommit", committer.reader, len(wrong), shown)


def _of_former(b: CommitBlock, committer: Committer, offset: Any) -> Any:
    """Return whether commits are of positions in a deleted topic, in an epoch that goes on in the new one."""
    epoch = b.epoch_of(committer)
    return offset <= (NONE if epoch is None or epoch.former is None else epoch.former)


def _reached(b: CommitBlock, committer: Committer, at_us: Ints) -> Ints:
    """Return the offset that a committer's epoch had reached at some times, NONE if unknown."""
    epoch = b.epoch_of(committer)
    reached = np.full(len(at_us), NONE if epoch is None or epoch.start is None else epoch.start, np.int64)
    if epoch is not None and (progress := b.progress.get(epoch.index)):
        times, offsets = progress
        order = np.lexsort((offsets, times))
        highest = np.maximum.accumulate(offsets[order])
        last = np.searchsorted(times[order], at_us, "right") - 1
        reached[last >= 0] = highest[last[last >= 0]]
    return reached


def commit_rewind(b: CommitBlock, tally: Tally) -> None:
    """Report commits below the commit in force, unless the begin of their epoch or a fault explains it.

    In force is the commit requested last among those completed before this one was requested: of the whole group in
    subscribe mode, of the same consumer in assign mode. Commits in flight at the same time rewind nothing. An epoch
    explains it that began at or below the commit by a seek or, in assign mode, at a stored checkpoint, or because
    another consumer's commit had lowered the offset (a foreign_commit).
    """
    for reader, rows in _by_reader(b):
        begins, ends, offset, number = (b.commits[n][rows] for n in ("from_us", "to_us", "offset", "committer"))
        makers = [b.commits.committers[c] for c in number.tolist()]
        asked, in_force = _in_force(begins, ends, offset, [maker.consumer for maker in makers])
        lower = offset[asked] < offset[in_force]
        rewinds = [
            (i, f)
            for i, f in zip(asked[lower].tolist(), in_force[lower].tolist(), strict=True)
            if not _began_below(b, makers[i], makers[f], int(offset[i]))
            and not _of_former(b, makers[f], int(offset[f]))
            and not b.facts.moved(makers[i], b.topic, b.partition, int(begins[f]), int(ends[i]))
        ]
        first = sorted(rewinds, key=lambda pair: (offset[pair[0]], ends[pair[0]]))[:CAP]
        shown = (_rewind(b, int(rows[i]), int(rows[f])) for i, f in first)
        tally.report("commit_rewind", reader, len(rewinds), shown)


def _by_reader(b: CommitBlock) -> Iterator[tuple[str, Ints]]:
    """Yield the commits of each reader to each group."""
    keys = sorted({(c.reader, c.group) for c in b.commits.committers})
    key_of = np.array([keys.index((c.reader, c.group)) for c in b.commits.committers], np.int64)
    if len(b.commits):
        for (key,), rows in sections(key_of[b.commits["committer"]]):
            yield keys[key][0], rows.index


def _in_force(begins: Ints, ends: Ints, offset: Ints, consumers: list[str]) -> tuple[Ints, Ints]:
    """Return the commits requested while another one was in force, and the one in force for each of them."""
    rank = np.empty(len(begins), np.int64)
    by_request = np.lexsort((np.unique(np.array(consumers), return_inverse=True)[1], offset, ends, begins))
    rank[by_request] = np.arange(len(begins))
    # an answer counts for a request of the same microsecond, unless it is the answer to that request
    answers = ends * 4 + np.where(begins == ends, 2, 0)
    answered = np.argsort(answers, kind="stable")
    force = by_request[np.maximum.accumulate(rank[answered])] if len(begins) else rank
    before = np.searchsorted(answers[answered], begins * 4 + 1) - 1
    asked = np.flatnonzero(before >= 0)
    return asked, force[before[asked]]


def _began_below(b: CommitBlock, committer: Committer, in_force: Committer, offset: int) -> bool:
    """Return whether the begin of a commit's epoch explains that it is below the commit in force."""
    epoch = b.epoch_of(committer)
    if epoch is None:
        return False
    if epoch.source == "seek" and (epoch.position or 0) <= offset:
        return True
    back = epoch.restored or (epoch.source == "committed" and epoch.legal)
    resumed = committer.mode == "assign" and committer != in_force and back
    return resumed and epoch.start is not None and epoch.start <= offset


def _rewind(b: CommitBlock, i: int, in_force: int) -> dict[str, Any]:
    epoch = b.epoch_of(b.committer(i))
    return b.commit(
        i,
        in_force=int(b.commits["offset"][in_force]),
        committed_by=b.committer(in_force).consumer,
        committed_us=int(b.commits["to_us"][in_force]),
        epoch_start=epoch.start if epoch else None,
        start_why=epoch.why if epoch else None,
    )


def zombie_commit(b: CommitBlock, tally: Tally) -> None:
    """Report commits of a subscribe member, accepted although requested after another member had begun on the
    partition.

    The other member is one of a later generation, or a later incarnation of the same static member, which fences this
    one (KIP-345). Or, where generations are unknown, one that began after the committer
    had given the partition up. An automatic commit counts only if the earliest time at which it may have been made is
    late.
    """
    for (number,), section in sections(b.commits["committer"]):
        committer, rows = b.commits.committers[number], section.index
        epoch = b.epoch_of(committer)
        if epoch is None:
            tally.add(NO_EPOCH, committer.reader, value=len(rows))
        if epoch is None or epoch.mode != "subscribe":
            continue
        owners = [e for e in b.facts.epochs.turns[epoch.reader_partition] if _took_over(b, epoch, e)]
        if not owners:
            continue
        owner = min(owners, key=lambda e: e.begin_us)
        from_us, offset = b.commits["from_us"][rows], b.commits["offset"][rows]
        late = np.flatnonzero(from_us > owner.begin_us)
        first = rows[late[np.lexsort((from_us[late], offset[late]))[:CAP]]].tolist()
        tally.report("zombie_commit", committer.reader, len(late), (_zombie(b, i, epoch, owner) for i in first))


def _took_over(b: CommitBlock, old: Epoch, new: Epoch) -> bool:
    """Return whether an epoch of another member took the partition over from another epoch."""
    if new.member == old.member or new.turn < old.turn:
        return False
    recreated = group_recreated(b.facts.moves, old.group, old.begin_us, new.begin_us)
    if old.generation is not None and new.generation is not None and not recreated:
        return new.generation > old.generation or (new.generation == old.generation and new.rejoined(old))
    return old.end_reason in ("revoked", "lost") and old.end_us <= new.begin_us


def _zombie(b: CommitBlock, i: int, epoch: Epoch, owner: Epoch) -> dict[str, Any]:
    return b.commit(
        i,
        requested_us=int(b.commits["from_us"][i]),
        generation=epoch.generation,
        held_until_us=epoch.end_us,
        end_reason=epoch.end_reason,
        owner=owner.consumer,
        owner_since_us=owner.begin_us,
        owner_generation=owner.generation,
    )


def _explain_zombie(f: Finding, e: Evidence, c: RunData) -> str:
    late_ms = (e["requested_us"] - e["owner_since_us"]) / 1e3
    e |= present(fault=c.last_fault(e["requested_us"]))
    committer = f["consumer"] + (f" of generation {e['generation']}" if "generation" in e else "")
    owner = f"{e['owner']} had begun" + (f" in generation {e['owner_generation']}" if "owner_generation" in e else "")
    return (
        f"{committer} asked to commit {f['offset']} ({e['kind']}) {late_ms:.1f} ms after {owner}, "
        f"and it was accepted; its own epoch ended as {e['end_reason']}"
    )


RULES = {
    "overcommit": Rule(
        examines=(COMMITTED,),
        explain="{consumer} committed {committed} ({kind}) when it had processed to {processed_to}",
        scopes=COMMITTING,
        counts_undetermined=True,
        needs_clock=True,
        commits=overcommit,
    ),
    "commit_rewind": Rule(
        examines=(COMMITTED,),
        explain="{consumer} committed {offset} ({kind}) while {in_force}, committed by {committed_by}, was in force",
        scopes=COMMITTING,
        needs_clock=True,
        commits=commit_rewind,
    ),
    "zombie_commit": Rule(
        examines=(COMMITTED,),
        explain=_explain_zombie,
        scopes=MEMBERS.that(lambda r: r.commits, "no subscribing consumer commits offsets"),
        leaves_out={NO_EPOCH: "the ledger does not show the assignment that they belong to"},
        needs_clock=True,
        commits=zombie_commit,
    ),
}

"""Offset commits of every reader that commits, against what was processed and against each other.

`judge_commits` gets one block: all commits on one partition, how far each epoch on it had come at what time, and the
log as runs of offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checks.audit.committed import AUTO, OK, History
from checks.audit.epochs import Epoch
from checks.audit.findings import CAP, UNDETERMINED, finding
from checks.audit.large.case import Case, Committer
from checks.audit.large.columns import NONE, Ints
from checks.audit.large.cut import KINDS
from checks.audit.large.group import sections
from checks.audit.large.pack import Columns
from checks.audit.large.tally import Tally
from checks.audit.moves import begun_anew


def judge_commits(
    topic: str, partition: int, commits: Columns, done: Columns, logs: dict[str, Columns], case: Case, tally: Tally
) -> None:
    """All rules about commits on one block; columns `cut.COMMIT`, `cut.DONE` and, of the log, `cut.RUN`.

    logs: `runs` of all records, and `committed_runs` of those that a read_committed reader sees.
    """
    if not len(commits["offset"]):
        return
    history = History.of(topic, partition, commits, case)
    made = history.where(history["outcome"] == OK)
    overcommit(topic, partition, made, done, logs, case, tally)
    commit_rewind(topic, partition, made, case, tally)
    zombie_commit(topic, partition, made, case, tally)


def overcommit(
    topic: str, partition: int, made: History, done: Columns, logs: dict[str, Columns], case: Case, tally: Tally
) -> None:
    """A commit beyond what its epoch had processed when it was requested, with log records between that it may see.

    Where the epoch had processed nothing its start counts, and for an automatic commit the time at which the client was
    told. A commit of no known epoch cannot be judged.
    """
    stretches = {kind: _stretches(log) for kind, log in logs.items()}
    processed = {
        epoch: (mine.ints(done["at_us"]), mine.ints(done["done"])) for (epoch,), mine in sections(done["epoch"])
    }
    for (number,), mine in sections(made["committer"]):
        committer = case.committers[number]
        rows = mine.index
        at_us = np.where(made["kind"][rows] == AUTO, made["to_us"][rows], made["requested_us"][rows])
        reached = _reached(processed, case, committer, topic, partition, at_us)
        tally.find([], "overcommit", UNDETERMINED, committer.reader, int((reached == NONE).sum()))
        committed = made["offset"][rows]
        firsts, lasts = stretches["runs" if committer.reader in case.sees_all else "committed_runs"]
        at = np.searchsorted(lasts, reached)
        between = at < len(firsts)
        between[between] = firsts[at[between]] < committed[between]
        broken = np.flatnonzero((reached != NONE) & (committed > reached) & between)
        shown = [
            finding(
                "overcommit",
                committer.reader,
                topic=topic,
                partition=partition,
                offset=int(committed[i]),
                consumer=committer.consumer,
                at_us=int(at_us[i]),
                evidence={
                    "committed": int(committed[i]),
                    "processed_to": int(reached[i]),
                    "kind": KINDS[int(made["kind"][rows[i]])],
                    "assignment": committer.assignment,
                    "consumer_incarnation": committer.incarnation,
                },
            )
            for i in broken[np.lexsort((at_us[broken], committed[broken]))[:CAP]].tolist()
        ]
        tally.find(shown, "overcommit", "", committer.reader, len(broken))


def _stretches(log: Columns) -> tuple[Ints, Ints]:
    """First and last offsets of the runs, ascending."""
    order = np.argsort(log["first"], kind="stable")
    return log["first"][order], log["last"][order]


def _reached(
    processed: dict[int, tuple[Ints, Ints]], case: Case, committer: Committer, topic: str, partition: int, at_us: Ints
) -> Ints:
    """How far the epoch of a committer had come at some moments; NONE where that cannot be known."""
    epoch = case.epoch_ids.get((committer.consumer, committer.incarnation, committer.assignment, topic, partition))
    start = case.epochs[epoch].start if epoch is not None else None
    reached = np.full(len(at_us), NONE if start is None else start, np.int64)
    if epoch is not None and epoch in processed:
        times, done = processed[epoch]
        order = np.lexsort((done, times))
        highest = np.maximum.accumulate(done[order])
        last = np.searchsorted(times[order], at_us, "right") - 1
        reached[last >= 0] = highest[last[last >= 0]]
    return reached


def commit_rewind(topic: str, partition: int, made: History, case: Case, tally: Tally) -> None:
    """A commit below the one in force, where its epoch does not begin below that for a reason and no fault moved the
    group's offset in between.

    In force is, of those that had been completed before this one was requested, the one requested last: of the whole
    group in subscribe mode, of the same consumer in assign mode. Commits in flight at once rewind nothing. A reason is
    a seek, or, in assign mode, that another consumer's commit had lowered the offset at which the epoch began: that is
    a foreign_commit.
    """
    for reader, rows in _by_reader(made, case.committers):
        begins, ends, offset, number = (made[n][rows] for n in ("from_us", "to_us", "offset", "committer"))
        makers = [case.committers[c] for c in number.tolist()]
        names = np.array([maker.consumer for maker in makers])
        rank = np.empty(len(rows), np.int64)
        by_request = np.lexsort((np.unique(names, return_inverse=True)[1], offset, ends, begins))
        rank[by_request] = np.arange(len(rows))
        # an answer counts for a request of the same microsecond, unless it is the answer to that very request
        answered = np.argsort(ends * 4 + np.where(begins == ends, 2, 0), kind="stable")
        moments = (ends * 4 + np.where(begins == ends, 2, 0))[answered]
        force = by_request[np.maximum.accumulate(rank[answered])] if len(rows) else rank
        before = np.searchsorted(moments, begins * 4 + 1) - 1
        asked = np.flatnonzero(before >= 0)
        in_force = force[before[asked]]
        lower = offset[asked] < offset[in_force]
        broken = [
            (int(i), int(f))
            for i, f in zip(asked[lower].tolist(), in_force[lower].tolist(), strict=True)
            if not _began_below(case, makers[i], makers[f], (topic, partition), int(offset[i]))
            and not case.moved(makers[i], topic, partition, int(begins[f]), int(ends[i]))
        ]
        shown = []
        for i, f in sorted(broken, key=lambda pair: (offset[pair[0]], ends[pair[0]]))[:CAP]:
            committer, other = makers[i], makers[f]
            epoch = case.epoch_of(committer, topic, partition)
            shown.append(
                finding(
                    "commit_rewind",
                    reader,
                    topic=topic,
                    partition=partition,
                    offset=int(offset[i]),
                    consumer=committer.consumer,
                    at_us=int(ends[i]),
                    evidence={
                        "in_force": int(offset[f]),
                        "committed_by": other.consumer,
                        "committed_us": int(ends[f]),
                        "kind": KINDS[int(made["kind"][rows[i]])],
                        "assignment": committer.assignment,
                        "consumer_incarnation": committer.incarnation,
                        "epoch_start": epoch.start if epoch else None,
                        "start_why": epoch.why if epoch else None,
                    },
                )
            )
        tally.find(shown, "commit_rewind", "", reader, len(broken))


def _by_reader(made: History, committers: list[Committer]) -> Iterator[tuple[str, Ints]]:
    """The commits of each reader to each group."""
    keys = sorted({(c.reader, c.group or "") for c in committers})
    number = {key: i for i, key in enumerate(keys)}
    whose = np.array([number[c.reader, c.group or ""] for c in committers], np.int64)
    if len(made):
        for (key,), mine in sections(whose[made["committer"]]):
            yield keys[key][0], mine.index


def zombie_commit(topic: str, partition: int, made: History, case: Case, tally: Tally) -> None:
    """A commit of a subscribe member, accepted although another member had begun on the partition before it was
    requested: one of a later generation, or, where generations are not known, after the committer had given it up.

    An automatic commit counts only if even the earliest time at which it may have been made is after that.
    """
    for (number,), mine in sections(made["committer"]):
        committer = case.committers[number]
        epoch = case.epoch_of(committer, topic, partition)
        if epoch is None or epoch.mode != "subscribe":
            continue
        owners = [e for e in case.successors.get(epoch.place, []) if _took_over(epoch, e, case)]
        if not owners:
            continue
        rows = mine.index
        next_owner = min(owners, key=lambda e: e.begin_us)
        broken = np.flatnonzero(made["from_us"][rows] > next_owner.begin_us)
        order = broken[np.lexsort((made["from_us"][rows][broken], made["offset"][rows][broken]))[:CAP]]
        shown = [
            finding(
                "zombie_commit",
                committer.reader,
                topic=topic,
                partition=partition,
                offset=int(made["offset"][rows[i]]),
                consumer=committer.consumer,
                at_us=int(made["to_us"][rows[i]]),
                evidence={
                    "requested_us": int(made["from_us"][rows[i]]),
                    "kind": KINDS[int(made["kind"][rows[i]])],
                    "assignment": committer.assignment,
                    "consumer_incarnation": committer.incarnation,
                    "generation": epoch.generation,
                    "held_until_us": epoch.end_us,
                    "end_reason": epoch.end_reason,
                    "owner": next_owner.consumer,
                    "owner_since_us": next_owner.begin_us,
                    "owner_generation": next_owner.generation,
                },
            )
            for i in order.tolist()
        ]
        tally.find(shown, "zombie_commit", "", committer.reader, len(broken))


def _took_over(old: Epoch, new: Epoch, case: Case) -> bool:
    """Whether an epoch is of another member that took the partition over from the one of the other epoch."""
    if new.holder == old.holder or new.turn < old.turn:
        return False
    apart = begun_anew(case.moves, old.group, old.begin_us, new.begin_us)
    if old.generation is not None and new.generation is not None and not apart:
        return new.generation > old.generation
    return old.end_reason in ("revoked", "lost") and old.end_us <= new.begin_us


def _began_below(case: Case, committer: Committer, in_force: Committer, place: tuple[str, int], offset: int) -> bool:
    """Whether the epoch of a commit began at or below what it committed: by a seek, or, after the epoch of the commit
    in force, at what the group had committed by then."""
    epoch = case.epoch_of(committer, *place)
    if epoch is None:
        return False
    if case.sought(committer, *place, offset):
        return True
    again = committer.mode == "assign" and committer != in_force and epoch.source == "committed" and epoch.legal
    return again and epoch.start is not None and epoch.start <= offset

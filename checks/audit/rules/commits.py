"""Offset commits against what was processed, against each other, and against what is in force.

overcommit, commit_rewind, zombie_commit; expired_commit, lost_commit: acknowledged, and no longer in force though
nobody deleted them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from chaos.kafka.partition import TopicPartition
from chaos.setup.clients import uses_kip_848
from checks.audit.arrays import NONE, Ints
from checks.audit.engine.commits import AUTO, CommitBlock
from checks.audit.engine.counters import COMMITTED
from checks.audit.engine.group import sections
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.epochs import Committer, Epoch
from checks.audit.facts.lost_offsets import LOOK_US, interruptions
from checks.audit.facts.observed import UNKNOWN_GROUP, offsets_partition
from checks.audit.facts.offset_changes import OffsetChange, group_recreated
from checks.audit.facts.readers import Reader
from checks.audit.findings import CAP, UNDECIDED, Finding, Reason
from checks.audit.rules.rule import COMMITTING, MEMBERS, Evidence, Rule, RunData, present

NO_PROGRESS = Reason("what their member had processed until then is unknown")
NO_CAUSE = Reason("whether their offsets expired, were lost or were deleted from outside is unknown")

NO_EPOCH = total("commits_without_epoch")
"""Commits without an assignment on record, by reader."""


def overcommit(b: CommitBlock, tally: Tally) -> None:
    """Report commits beyond what their epoch had processed when requested, with visible log records between.

    An epoch that had processed nothing counts from its start, an automatic commit at the time when it was reported. A
    commit without a known epoch is undecided. A commit of a position in a deleted topic is none beyond it.
    """
    for (number,), section in sections(b.commits["committer"]):
        rows, committer = section.index, b.commits.committers[number]
        at_us = np.where(b.commits["kind"][rows] == AUTO, b.commits["to_us"][rows], b.commits["requested_us"][rows])
        kept = ~_of_former(b, committer, b.commits["offset"][rows])
        rows, at_us = rows[kept], at_us[kept]
        committed, reached = b.commits["offset"][rows], _reached(b, committer, at_us)
        tally.report_undecided("overcommit", committer.reader, int((reached == NONE).sum()), NO_PROGRESS)
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
    force = by_request[np.maximum.accumulate(rank[answered])]
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
    recreated = group_recreated(b.facts.offset_changes, old.group, old.begin_us, new.begin_us)
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


SECOND_US = 1_000_000
RETENTION_MINUTES = 7 * 24 * 60
"""Default of offsets.retention.minutes."""
ONE_LIFE_US = 5 * SECOND_US
"""Offsets that vanish this close together end the same life of a group."""
NOT_LOST = "not lost"
SHOWN = 3
"""Maximum number of offsets in the text of a finding."""


def lost_commits(run: RunData, tally: Tally) -> None:
    """Report each life of a group that ended because its committed offsets were no longer in force.

    They expired if Kafka may have counted offsets.retention.minutes until then (KIP-211). They are lost if that is not
    so, and the coordinator was interrupted or the members of the group protected them: Kafka refuses to delete the
    offsets of topics that members subscribe to. If they may have expired, and the coordinator was interrupted, or if a
    client outside the scenario may have deleted them, the cause is undecided. Offsets are not lost if their log
    still has them; if it was not read, and the same offset was seen in force again, that is undecided.
    """
    by_group: dict[str, list[OffsetChange]] = defaultdict(list)
    for change in run.facts.offset_changes:
        if change.lost_offset is not None:
            by_group[change.group].append(change)
    for group, offset_changes in sorted(by_group.items()):
        if (reader := _reader(run, group)) is None:
            continue
        for life in _lives(offset_changes):
            causes = [_cause(run, change, reader) for change in life]
            if set(causes) == {NOT_LOST}:
                continue
            check = next((c for c in ("lost_commit", "expired_commit") if c in causes), UNDECIDED)
            if check == UNDECIDED:
                for kind in ("expired_commit", "lost_commit"):
                    tally.report_undecided(kind, reader.name, 1, NO_CAUSE)
                continue
            life = [change for change, cause in zip(life, causes, strict=True) if cause == check]
            tally.report(check, reader.name, 1, [_finding(run, reader, life)])


def _reader(run: RunData, group: str) -> Reader | None:
    """Return the reader that commits to a group: the subscribed one, else the first by name."""
    of_group = [r for r in run.readers if r.group == group and r.commits]
    return min(of_group, key=lambda r: (r.mode != "subscribe", r.name), default=None)


def _lives(offset_changes: Iterable[OffsetChange]) -> list[list[OffsetChange]]:
    """Return the changes of the offsets of a group by the life that they ended."""
    found: list[list[OffsetChange]] = []
    for change in sorted(offset_changes, key=lambda m: (m.to_us, sorted(m.offsets or ()))):
        if not found or change.to_us - found[-1][-1].to_us > ONE_LIFE_US:
            found.append([])
        found[-1].append(change)
    return found


def _cause(run: RunData, change: OffsetChange, reader: Reader) -> str:
    """Return the check that a lost offset belongs to, or undecided."""
    below = None not in (change.offsets or {}).values()
    if not below and change.to_us - _counted_from(run, change, reader) >= _shortest_retention_us(run):
        certain = not change.interrupted and _retention_minutes(run) is not None
        return "expired_commit" if certain else UNDECIDED
    if change.in_log:
        return NOT_LOST
    if change.in_log is None and _is_seen_again(run, change):
        return UNDECIDED
    return "lost_commit" if change.interrupted or _is_protected(run, change, reader) else UNDECIDED


def _is_seen_again(run: RunData, change: OffsetChange) -> bool:
    """Return whether the next offset that was observed after a change is the lost offset."""
    changes = run.observed.changes(f"group:{change.group}/{next(iter(change.offsets or ()))}", "committed")
    later = [offset for at_us, offset in changes if at_us > change.to_us]
    return later[:1] == [change.lost_offset]


def _retention_minutes(run: RunData) -> int | None:
    """Return offsets.retention.minutes, None if it is not known, as for a cluster that was not asked for it."""
    cluster = run.scenario.cluster
    default = None if run.scenario.unasked else RETENTION_MINUTES
    value = cluster.config.get("offsets.retention.minutes", default)
    try:
        return None if value is None else int(str(value))
    except ValueError:
        return None


def _shortest_retention_us(run: RunData) -> int:
    minutes = _retention_minutes(run)
    return (1 if minutes is None else minutes) * 60 * SECOND_US


def _counted_from(run: RunData, change: OffsetChange, reader: Reader) -> int:
    """Return the earliest time from which Kafka may have counted the retention of an offset.

    That is the commit for offsets of groups with group.protocol=consumer, of groups without members that subscribe, and
    of topics that no member subscribes to (`OffsetMetadataManager.cleanupExpiredOffsets` in Apache Kafka); else the
    moment at which the last member left.
    """
    entity = f"group:{change.group}"
    states = [s for s in run.observed.changes(entity, "state") if s[0] <= change.to_us and s[1] != UNKNOWN_GROUP]
    state_us, state = states[-1] if states else (change.to_us, "")
    if reader.mode != "subscribe" or _uses_kip_848(run, change.group) or not _is_subscribed(run, change, reader):
        return _answered_before(run, change, change.from_us)
    return _answered_before(run, change, state_us if state == "Empty" else change.to_us)


def _answered_before(run: RunData, change: OffsetChange, at_us: int) -> int:
    """Return the earliest time at which something may have happened that the observer saw at a moment."""
    silent = [begin for begin, end in interruptions(run.observed, change.group) if begin <= at_us <= end + LOOK_US]
    return min([at_us, *silent]) - LOOK_US


def _uses_kip_848(run: RunData, group: str) -> bool:
    return any(uses_kip_848(c.config) for c in run.scenario.readers if c.group == group)


def _is_protected(run: RunData, change: OffsetChange, reader: Reader) -> bool:
    """Return whether the group had members that subscribe to the topic when its offset was lost."""
    states = run.observed.changes(f"group:{change.group}", "state")
    before = [state for at_us, state in states if at_us <= change.to_us and state != UNKNOWN_GROUP]
    return reader.mode == "subscribe" and before[-1:] not in ([], ["Empty"]) and _is_subscribed(run, change, reader)


def _is_subscribed(run: RunData, change: OffsetChange, reader: Reader) -> bool:
    """Return whether every member subscribes to the topic of an offset, or one certainly does."""
    topic = TopicPartition.parse(next(iter(change.offsets or ()))).topic
    if all(topic in entry.topics for entry in reader.entries):
        return True
    members = [
        m for at_us, m in run.observed.changes(f"group:{change.group}", "members") if at_us <= change.to_us and m
    ]
    return any(topic in (member.get("topics") or ()) for member in (members[-1] if members else ()))


def _finding(run: RunData, reader: Reader, life: list[OffsetChange]) -> dict[str, object]:
    """Return the end of a life of a group as the arguments of a finding, in the place of the first offset."""
    first, offsets = life[0], {name: change.lost_offset for change in life for name in change.offsets or ()}
    lower = {name: offset for change in life for name, offset in (change.offsets or {}).items() if offset is not None}
    begun = any(e.group == first.group and e.begin_us >= first.to_us for e in run.facts.epochs.all)
    evidence: Evidence = present(
        idle_us=first.to_us - _counted_from(run, first, reader) - LOOK_US,
        retention_minutes=_retention_minutes(run),
        coordinator=run.observed.value(f"group:{first.group}", "coordinator", first.to_us),
        offsets_partition=offsets_partition(run.observed, first.group),
        fault=run.last_fault(first.to_us),
        in_force=lower or None,
    )
    evidence |= {"offsets": offsets, "interrupted": any(m.interrupted for m in life), "began_again": begun}
    partition = TopicPartition.parse(next(iter(offsets)))
    place = {"topic": partition.topic, "partition": partition.number, "offset": first.lost_offset}
    return place | {"at_us": first.to_us, "evidence": evidence}


def _named(e: Evidence) -> str:
    """Return the offsets of a finding as text, such as `orders/0: 1056`."""
    shown = [f"{name}: {offset}" for name, offset in list(e["offsets"].items())[:SHOWN]]
    more = len(e["offsets"]) - len(shown)
    number = "committed offset" if len(e["offsets"]) == 1 else "committed offsets"
    return f"{number} {', '.join(shown)}" + (f" and {more} more" if more else "")


def _explain_expired(f: Finding, e: Evidence, c: RunData) -> str:
    again = "; the group began again at auto.offset.reset" if e["began_again"] else ""
    return (
        f"{_named(e)} expired after {e['idle_us'] / SECOND_US:.0f} s without members "
        f"(offsets.retention.minutes={e['retention_minutes']}){again}"
    )


def _explain_lost(f: Finding, e: Evidence, c: RunData) -> str:
    where = e.get("offsets_partition", "__consumer_offsets")
    coordinator = f"broker {e['coordinator']}" if "coordinator" in e else "the coordinator"
    after = f" after fault {e['fault']}" if e["interrupted"] and "fault" in e else ""
    now = "; in force were " + ", ".join(f"{p}: {o}" for p, o in e["in_force"].items()) if "in_force" in e else ""
    return (
        f"{_named(e)} no longer in {where} when {coordinator} answered{after}{now}; "
        "nobody had deleted or lowered it, and it was not due to expire"
    )


def _rule(explain: Callable[[Finding, Evidence, RunData], str]) -> Rule:
    return Rule(
        examines=(COMMITTED,),
        explain=explain,
        scopes=COMMITTING.that(lambda r: r.group is not None, "no consumer commits to a group"),
        needs_clock=True,
        run=lost_commits,
    )


RULES = {
    "overcommit": Rule(
        examines=(COMMITTED,),
        explain="{consumer} committed {committed} ({kind}) when it had processed to {processed_to}",
        scopes=COMMITTING,
        counts_undecided=True,
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
    "expired_commit": _rule(_explain_expired),
    "lost_commit": _rule(_explain_lost),
}

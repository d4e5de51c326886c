"""Acknowledged offset commits that are no longer in force, though nobody deleted them: expired_commit, lost_commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from chaos.kafka.partition import TopicPartition
from chaos.setup.clients import uses_kip_848
from checks.audit.engine.counters import COMMITTED
from checks.audit.engine.tally import Tally
from checks.audit.facts.moves import Move
from checks.audit.facts.observed import UNKNOWN_GROUP, offsets_partition
from checks.audit.facts.readers import Reader
from checks.audit.facts.vanished import LOOK_US, interruptions
from checks.audit.findings import UNDETERMINED, Finding
from checks.audit.rules.rule import COMMITTING, Evidence, Rule, RunData, present
from checks.audit.undecided import NO_CAUSE

SECOND_US = 1_000_000
RETENTION_MINUTES = 7 * 24 * 60
"""Default of offsets.retention.minutes."""
ONE_LIFE_US = 5 * SECOND_US
"""Offsets that vanish this close together end the same life of a group."""
NOT_LOST = "not lost"
SHOWN = 3
"""Maximum number of offsets in the text of a finding."""


def vanished_commits(run: RunData, tally: Tally) -> None:
    """Report each life of a group that ended because its committed offsets were no longer in force.

    They expired if Kafka may have counted offsets.retention.minutes until then (KIP-211). They are lost if that is not
    so, and the coordinator was interrupted or the members of the group protected them: Kafka refuses to delete the
    offsets of topics that members subscribe to. If they may have expired, and the coordinator was interrupted, or if a
    client outside the scenario may have deleted them, the cause is undetermined. Offsets are not lost if their log
    still has them; if it was not read, and the same offset was seen in force again, that is undetermined.
    """
    by_group: dict[str, list[Move]] = defaultdict(list)
    for move in run.facts.moves:
        if move.vanished is not None:
            by_group[move.group].append(move)
    for group, moves in sorted(by_group.items()):
        if (reader := _reader(run, group)) is None:
            continue
        for life in _lives(moves):
            causes = [_cause(run, move, reader) for move in life]
            if set(causes) == {NOT_LOST}:
                continue
            check = next((c for c in ("lost_commit", "expired_commit") if c in causes), UNDETERMINED)
            if check == UNDETERMINED:
                for kind in ("expired_commit", "lost_commit"):
                    tally.report_undetermined(kind, reader.name, 1, NO_CAUSE)
                continue
            life = [move for move, cause in zip(life, causes, strict=True) if cause == check]
            tally.report(check, reader.name, 1, [_finding(run, reader, life)])


def _reader(run: RunData, group: str) -> Reader | None:
    """Return the reader that commits to a group: the subscribed one, else the first by name."""
    of_group = [r for r in run.readers if r.group == group and r.commits]
    return min(of_group, key=lambda r: (r.mode != "subscribe", r.name), default=None)


def _lives(moves: Iterable[Move]) -> list[list[Move]]:
    """Return the moves of a group by the life that they ended."""
    found: list[list[Move]] = []
    for move in sorted(moves, key=lambda m: (m.to_us, sorted(m.offsets or ()))):
        if not found or move.to_us - found[-1][-1].to_us > ONE_LIFE_US:
            found.append([])
        found[-1].append(move)
    return found


def _cause(run: RunData, move: Move, reader: Reader) -> str:
    """Return the check that a vanished offset belongs to, or undetermined."""
    below = None not in (move.offsets or {}).values()
    if not below and move.to_us - _counted_from(run, move, reader) >= _shortest_retention_us(run):
        certain = not move.interrupted and _retention_minutes(run) is not None
        return "expired_commit" if certain else UNDETERMINED
    if move.in_log:
        return NOT_LOST
    if move.in_log is None and _is_seen_again(run, move):
        return UNDETERMINED
    return "lost_commit" if move.interrupted or _is_protected(run, move, reader) else UNDETERMINED


def _is_seen_again(run: RunData, move: Move) -> bool:
    """Return whether the next offset that was observed after a move is the one that had vanished."""
    changes = run.observed.changes(f"group:{move.group}/{next(iter(move.offsets or ()))}", "committed")
    later = [offset for at_us, offset in changes if at_us > move.to_us]
    return later[:1] == [move.vanished]


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


def _counted_from(run: RunData, move: Move, reader: Reader) -> int:
    """Return the earliest time from which Kafka may have counted the retention of an offset.

    That is the commit for offsets of groups with group.protocol=consumer, of groups without members that subscribe, and
    of topics that no member subscribes to (`OffsetMetadataManager.cleanupExpiredOffsets` in Apache Kafka); else the
    moment at which the last member left.
    """
    entity = f"group:{move.group}"
    states = [s for s in run.observed.changes(entity, "state") if s[0] <= move.to_us and s[1] != UNKNOWN_GROUP]
    state_us, state = states[-1] if states else (move.to_us, "")
    if reader.mode != "subscribe" or _uses_kip_848(run, move.group) or not _is_subscribed(run, move, reader):
        return _answered_before(run, move, move.from_us)
    return _answered_before(run, move, state_us if state == "Empty" else move.to_us)


def _answered_before(run: RunData, move: Move, at_us: int) -> int:
    """Return the earliest time at which something may have happened that the observer saw at a moment."""
    silent = [begin for begin, end in interruptions(run.observed, move.group) if begin <= at_us <= end + LOOK_US]
    return min([at_us, *silent]) - LOOK_US


def _uses_kip_848(run: RunData, group: str) -> bool:
    return any(uses_kip_848(c.config) for c in run.scenario.readers if c.group == group)


def _is_protected(run: RunData, move: Move, reader: Reader) -> bool:
    """Return whether the group had members that subscribe to the topic when its offset vanished."""
    states = run.observed.changes(f"group:{move.group}", "state")
    before = [state for at_us, state in states if at_us <= move.to_us and state != UNKNOWN_GROUP]
    return reader.mode == "subscribe" and before[-1:] not in ([], ["Empty"]) and _is_subscribed(run, move, reader)


def _is_subscribed(run: RunData, move: Move, reader: Reader) -> bool:
    """Return whether every member subscribes to the topic of an offset, or one certainly does."""
    topic = TopicPartition.parse(next(iter(move.offsets or ()))).topic
    if all(topic in entry.topics for entry in reader.entries):
        return True
    members = [m for at_us, m in run.observed.changes(f"group:{move.group}", "members") if at_us <= move.to_us and m]
    return any(topic in (member.get("topics") or ()) for member in (members[-1] if members else ()))


def _finding(run: RunData, reader: Reader, life: list[Move]) -> dict[str, object]:
    """Return the end of a life of a group as the arguments of a finding, in the place of the first offset."""
    first, offsets = life[0], {name: move.vanished for move in life for name in move.offsets or ()}
    lower = {name: offset for move in life for name, offset in (move.offsets or {}).items() if offset is not None}
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
    place = {"topic": partition.topic, "partition": partition.number, "offset": first.vanished}
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
        run=vanished_commits,
    )


RULES = {"expired_commit": _rule(_explain_expired), "lost_commit": _rule(_explain_lost)}

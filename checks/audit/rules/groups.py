"""Consumer groups: double_ownership, foreign_commit, unbalanced_assignment, misplaced_coordinator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from typing import Any

from chaos.clients.streams.traits import ASSIGNOR as STREAMS
from chaos.scenario.members import settled_after_s
from checks.audit.engine.counters import EPOCHS
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.epochs import Epoch
from checks.audit.facts.observed import OFFSETS_TOPIC, Observed, Span, joined, offsets_partition
from checks.audit.facts.offset_changes import BY_FAULT, group_recreated
from checks.audit.facts.readers import Reader
from checks.audit.findings import Finding, Reason
from checks.audit.rules.rule import GROUPS, MEMBERS, READERS, Evidence, Rule, RunData, present

NO_PROMISE = Reason("how the group's assignor spreads partitions is unknown")
TIED_VOTE = Reason(
    "the members voted for two assignors equally often, and only one of these spreads partitions like this",
    "give the entries of the group the same assignors",
)
MIXED_TOPICS = Reason("members subscribe to different topics, for which their assignor promises no equal shares")
JUST_BEGUN = Reason("they had just begun when the drive ended", "keep the load running for longer")

ELECTION_US = 2_000_000
"""Maximum time for which coordinator and leader may differ: one of them was sampled before an election, one after."""
SETTLED = total("settled")
"""Settled assignments, by group."""
BEGUN = total("begun")
"""Assignments with a begin on record, by reader."""
COORDINATORS = total("coordinators")
"""Observed coordinators, by group."""


def double_ownership(run: RunData, tally: Tally) -> None:
    """Report each pair of members of a subscribe group that owned a partition in the same generation.

    Generations from `assigned` to the last one known at the end decide. Where they are unknown, overlapping times
    decide, unless the earlier owner was evicted or died: it cannot know that it no longer owned the partition. The next
    process of a static member joins the generation of the earlier one, which is fenced and cannot know it either
    (KIP-345); both own the partition only if the earlier one goes on into a later generation.
    If a fault deleted the group in between, the members belong to two groups.
    """
    for turns in run.facts.epochs.turns.values():
        if turns[0].mode != "subscribe":
            continue
        for a, b in combinations(turns, 2):
            recreated = group_recreated(run.facts.offset_changes, a.group, a.begin_us, b.begin_us)
            if a.member != b.member and (how := _owned_together(a, b, recreated)):
                tally.report("double_ownership", b.reader, 1, [_double(a, b, how)])


def _owned_together(a: Epoch, b: Epoch, recreated: bool) -> str:
    """Return how two epochs owned a partition together, empty if they did not."""
    first, second = _generations(a), _generations(b)
    if first and second and not recreated:
        common = max(first[0], second[0])
        fenced = a.rejoined(b) and first[1] <= second[0]
        return f"both in generation {common}" if common <= min(first[1], second[1]) and not fenced else ""
    if a.end_reason in ("lost", "crashed", "open", "deleted"):
        return ""
    return "at the same time" if b.begin_us < a.end_us else ""


def _generations(e: Epoch) -> tuple[int, int] | None:
    """Return the first and the last generation of an epoch, None if unknown."""
    if e.generation is None:
        return None
    return e.generation, max(e.generation, e.end_generation if e.end_generation is not None else e.generation)


def _double(a: Epoch, b: Epoch, how: str) -> dict[str, Any]:
    return _began(
        b,
        how=how,
        other=a.consumer,
        other_incarnation=a.incarnation,
        other_generations=[a.generation, a.end_generation],
        other_held_us=[a.begin_us, a.end_us],
        other_end=a.end_reason,
        generations=[b.generation, b.end_generation],
        held_us=[b.begin_us, b.end_us],
    )


def _began(e: Epoch, offset: int | None = None, **evidence: Any) -> dict[str, Any]:
    """Return the begin of an epoch as the arguments of a finding."""
    position = {"topic": e.topic, "partition": e.partition, "offset": offset}
    return position | {"consumer": e.consumer, "at_us": e.begin_us, "evidence": evidence | e.holder}


def foreign_commit(run: RunData, tally: Tally) -> None:
    """Report epochs that began at the committed offset of their group where another job had made the last commit.

    For an assign-mode consumer another job is any other consumer, unless its own last commit has the same offset. For a
    subscribe group it is an assign-mode consumer. An offset that a fault set belongs to no job.
    """
    for e in run.facts.epochs.all:
        at_committed = e.source == "committed"
        tally.add(BEGUN, e.reader, value=int(e.source is not None and not (at_committed and e.position is None)))
        if not at_committed or e.position is None or e.index not in run.committed:
            continue
        committed = run.committed[e.index]
        committers = committed.committers.get(e.position, set())
        if any(mode == BY_FAULT for _, mode in committers):
            continue
        subscribe = e.mode == "subscribe"
        others = {name for name, mode in committers if (mode == "assign" if subscribe else name != e.consumer)}
        own = len(committers) > len(others) or (not subscribe and committed.own == e.position)
        if others and not own:
            makers = {"committed_by": sorted(others), "own_last_commit": committed.own}
            row = _began(e, e.position, **makers, resumed_at=e.position)
            tally.report("foreign_commit", e.reader, 1, [row])


def _of_committed_groups(readers: list[Reader]) -> list[Reader]:
    """Return the readers with a group to which any of them commits: a reader that never commits begins there, too."""
    committed = {r.group for r in readers if r.commits and r.group is not None}
    return [r for r in readers if r.group in committed]


def _explain_foreign(f: Finding, e: Evidence, c: RunData) -> str:
    own = e.get("own_last_commit")
    before = f"its own last commit was {own}" if own is not None else "it had committed nothing itself"
    return f"{f['consumer']} resumed at {e['resumed_at']}, committed by {', '.join(e['committed_by'])}; {before}"


def unbalanced_assignment(run: RunData, tally: Tally) -> None:
    """Report each time span in which a settled group's partitions are not spread as its assignor promises.

    range: per topic every member has neighbouring partitions, and at most one more than the others. roundrobin, sticky,
    cooperative-sticky and group.protocol=consumer: every member has at most one partition more than the others.
    A member has a share only of the topics that it subscribed to in this generation: a member with a pattern may not
    have found a new topic yet. Undecided for other assignors, and for those other than range if members subscribe
    to different topics. If the entries of a group support different assignors, the members of the generation select
    one as their coordinator does. After a tied vote, undecided only if some of the tied assignors allow the spread.
    """
    for reader in run.readers:
        if not _spreads(reader):
            continue
        spans = _settled(run.observed, reader)
        tally.add(SETTLED, reader.name, value=len(spans))
        for span in spans:
            members: list[dict[str, Any]] = span.values["members"]
            assignors = _assignors(reader, members)
            whys = [_unbalanced(assignor, members) for assignor in assignors] or [NO_PROMISE]
            if reasons := [why for why in whys if isinstance(why, Reason)]:
                tally.report_undecided("unbalanced_assignment", reader.name, 1, reasons[0])
            elif all(whys):
                held = {str(m.get("client_id") or m.get("member_id")): m["partitions"] for m in members}
                named = {"why": whys[0], "assignor": " or ".join(assignors)}
                evidence = named | {"members": held, "until_us": span.end_us}
                row = {"at_us": span.begin_us, "evidence": evidence}
                tally.report("unbalanced_assignment", reader.name, 1, [row])
            elif any(whys):
                tally.report_undecided("unbalanced_assignment", reader.name, 1, TIED_VOTE)


def _spreads(reader: Reader) -> bool:
    """Return whether the assignor of a group spreads partitions; the assignor of Kafka Streams spreads tasks."""
    return reader.mode == "subscribe" and reader.assignor != STREAMS


def _assignors(reader: Reader, members: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the assignors that a generation with these members may have; none if unknown.

    If the entries of a group differ, the members decide; a ledger without their topics leaves open
    who has a share of a topic.
    """
    if reader.assignor or any(m.get("topics") is None for m in members):
        return (reader.assignor,) if reader.assignor else ()
    return reader.assignors_for(str(m.get("client_id")) for m in members)


def _settled(observed: Observed, reader: Reader) -> list[Span]:
    """Return the spans in which the group was Stable with the same members and partitions for long enough."""
    keys = [(f"group:{reader.name}", key) for key in ("members", "state", "answers")]
    minimum_us = settled_after_s(reader.assignor) * 1e6
    found = []
    for s in observed.spans(*keys):
        members = s.values["members"]
        stable = s.values["state"] == "Stable" and s.values["answers"] is not False
        if stable and isinstance(members, list) and members and s.length_us > minimum_us:
            found.append(s)
    return found


def _unbalanced(assignor: str, members: list[dict[str, Any]]) -> str | Reason:
    """Return how the partitions of the members break the promise of an assignor, empty if not, or why that is unknown.

    members: as the observer records them. A member without `topics`, as older ledgers have it, subscribes to all.
    """
    if assignor in ("roundrobin", "sticky", "cooperative-sticky", "uniform"):
        if len({tuple(m["topics"]) for m in members if m.get("topics") is not None}) > 1:
            return MIXED_TOPICS
        counts = sorted(len(m["partitions"]) for m in members)
        return f"members hold {counts[0]} to {counts[-1]} partitions" if counts[-1] - counts[0] > 1 else ""
    if assignor != "range":
        return NO_PROMISE
    held = [(m.get("topics"), _by_topic(m["partitions"])) for m in members]
    for topic in sorted({t for _, topics in held for t in topics}):
        numbers = [
            sorted(topics.get(topic, ()))
            for subscribed, topics in held
            if subscribed is None or topic in subscribed or topic in topics
        ]
        counts = sorted(map(len, numbers))
        if counts[-1] - counts[0] > 1:
            return f"members hold {counts[0]} to {counts[-1]} partitions of {topic}"
        rank = {n: i for i, n in enumerate(sorted(n for member in numbers for n in member))}
        if any(member and rank[member[-1]] - rank[member[0]] != len(member) - 1 for member in numbers):
            return f"a member holds partitions of {topic} that are not neighbours"
    return ""


def _by_topic(partitions: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for name in partitions:
        topic, _, number = name.rpartition("/")
        found[topic].append(int(number))
    return found


def misplaced_coordinator(run: RunData, tally: Tally) -> None:
    """Report time spans longer than `ELECTION_US` in which a group's coordinator was another broker than it should be.

    It should be the leader of the group's partition of `__consumer_offsets`. A shorter difference, or one while there
    was no leader or no answer, is explained by an election. While the sample of the group is late, a difference counts
    only if the next sample shows the same one. A difference that has just begun when the drive ends is undecided.
    """
    for group in sorted({r.group for r in run.readers if r.group is not None}):
        partition = offsets_partition(run.observed, group)
        if partition is None:
            continue
        tally.add(COORDINATORS, group, value=len(run.observed.changes(f"group:{group}", "coordinator")))
        keys = [(f"group:{group}", key) for key in ("coordinator", "answers", "late")]
        keys.append((partition, "leader"))
        for (coordinator, leader), s in joined(_differing(run.observed.spans(*keys))):
            short = s.length_us <= ELECTION_US
            if short and not s.open:
                continue
            evidence = {
                "coordinator": coordinator,
                "leader": leader,
                "coordinated_in": partition,
                "from_us": s.begin_us,
                "until_us": s.end_us,
            }
            position = {"topic": OFFSETS_TOPIC, "partition": int(partition.rpartition("/")[2]), "at_us": s.begin_us}
            if short:
                tally.report_undecided("misplaced_coordinator", group, 1, JUST_BEGUN)
            else:
                tally.report("misplaced_coordinator", group, 1, [position | {"evidence": evidence}])


def _differing(spans: Iterable[Span]) -> list[tuple[tuple[int, int] | None, Span]]:
    """Return coordinator and leader of each span if both are known, differ and answer, else None."""
    found: list[tuple[tuple[int, int] | None, Span]] = []
    following: tuple[int, int] | None = None
    for s in reversed(list(spans)):
        coordinator, leader = s.values["coordinator"], s.values["leader"]
        known = isinstance(coordinator, int) and isinstance(leader, int) and min(coordinator, leader) >= 0
        differ = known and coordinator != leader and s.values["answers"] is not False
        pair = (coordinator, leader) if differ else None
        if s.values["late"]:
            pair = pair if pair == following else None
        else:
            following = pair
        found.append((pair, s))
    return found[::-1]


def _explain_misplaced(f: Finding, e: Evidence, c: RunData) -> str:
    seconds = (e["until_us"] - e["from_us"]) / 1e6
    e |= present(fault=c.last_fault(e["from_us"]))
    leader = f"broker {e['leader']} led {e['coordinated_in']}"
    return f"broker {e['coordinator']} coordinated it for {seconds:.1f} s while {leader}"


_SPREAD = MEMBERS.that(_spreads, "Kafka Streams spreads tasks, and promises no equal shares of partitions").that(
    lambda r: not all(entry.kip_848 for entry in r.entries),
    "brokers show no classic members of groups with group.protocol=consumer",
)

RULES = {
    "double_ownership": Rule(
        examines=(EPOCHS,),
        explain="{other} and {consumer} held {topic}/{partition} {how}",
        scopes=MEMBERS,
        run=double_ownership,
    ),
    "foreign_commit": Rule(
        examines=(BEGUN,),
        explain=_explain_foreign,
        scopes=READERS.reduced(_of_committed_groups, "no consumer commits to a group"),
        vacant="no client library put on record where it began",
        needs_clock=True,
        run=foreign_commit,
    ),
    "unbalanced_assignment": Rule(
        examines=(SETTLED,),
        explain="{why}, though the assignor is {assignor}",
        scopes=_SPREAD,
        counts_undecided=True,
        run=unbalanced_assignment,
    ),
    "misplaced_coordinator": Rule(
        examines=(COORDINATORS,),
        explain=_explain_misplaced,
        scopes=GROUPS,
        run=misplaced_coordinator,
    ),
}

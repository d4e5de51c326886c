"""Work of the group coordinator as observed: unbalanced_assignment, misplaced_coordinator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from chaos.scenario.consumers import Assign, Subscribe
from chaos.scenario.model import Scenario
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.observed import OFFSETS_TOPIC, Observed, Span, joined, offsets_partition
from checks.audit.facts.readers import Reader
from checks.audit.findings import UNDETERMINED, Finding
from checks.audit.rules.rule import Context, Evidence, Rule, RunData, present, readers_with

ELECTION_US = 2_000_000
"""Maximum time for which coordinator and leader may differ: one of them was sampled before an election, one after."""
SETTLED_US = 300_000
"""A group has settled after this time in state Stable with the same members and partitions: about one sample."""
SETTLED_IN_STEPS_US = 2_000_000
"""The same for rebalances in two steps (cooperative-sticky, KIP-848), where the group is Stable in between."""
SETTLED = total("settled")
"""Settled assignments, by group."""
COORDINATORS = total("coordinators")
"""Observed coordinators, by group."""


def unbalanced_assignment(run: RunData, tally: Tally) -> None:
    """Report each time span in which a settled group's partitions are not spread as its assignor promises.

    range: per topic every member has neighbouring partitions, and at most one more than the others. roundrobin, sticky,
    cooperative-sticky and group.protocol=consumer: every member has at most one partition more than the others.
    Undetermined for other assignors and for members with different topics.
    """
    for reader in run.readers:
        if reader.mode != "subscribe":
            continue
        spans = _settled(run.observed, reader)
        tally.add(SETTLED, reader.name, value=len(spans))
        for span in spans:
            members: list[dict[str, Any]] = span.values["members"]
            if why := _unbalanced(reader.assignor, [m["partitions"] for m in members]):
                split = UNDETERMINED if why == UNDETERMINED else ""
                held = {str(m.get("client_id") or m.get("member_id")): m["partitions"] for m in members}
                evidence = {"why": why, "assignor": reader.assignor, "members": held, "until_us": span.end_us}
                row = {"at_us": span.begin_us, "evidence": evidence}
                tally.report("unbalanced_assignment", reader.name, 1, [row], split)


def _settled(observed: Observed, reader: Reader) -> list[Span]:
    """Return the spans in which the group was Stable with the same members and partitions for long enough."""
    keys = [(f"group:{reader.name}", key) for key in ("members", "state", "answers")]
    minimum_us = SETTLED_US if reader.assignor in ("range", "roundrobin") else SETTLED_IN_STEPS_US
    found = []
    for s in observed.spans(*keys):
        members = s.values["members"]
        stable = s.values["state"] == "Stable" and s.values["answers"] is not False
        if stable and isinstance(members, list) and members and s.length_us > minimum_us:
            found.append(s)
    return found


def _unbalanced(assignor: str, held: list[list[str]]) -> str:
    """Return how the partitions of the members break the promise of an assignor, empty if they do not."""
    if assignor in ("roundrobin", "sticky", "cooperative-sticky", "uniform"):
        counts = sorted(map(len, held))
        return f"members hold {counts[0]} to {counts[-1]} partitions" if counts[-1] - counts[0] > 1 else ""
    if assignor != "range":
        return UNDETERMINED
    by_topic = [_by_topic(partitions) for partitions in held]
    for topic in sorted({t for topics in by_topic for t in topics}):
        numbers = [sorted(topics.get(topic, ())) for topics in by_topic]
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


def _explain_unbalanced(f: Finding, e: Evidence, c: Context) -> str:
    return f"{e['why']}, though the assignor is {e['assignor']}"


def _shows_no_members(c: Subscribe | Assign) -> bool:
    return c.mode != "subscribe" or str(c.config.get("group.protocol", "")).lower() == "consumer"


def _no_assignments(s: Scenario) -> str:
    if not any(c.mode == "subscribe" for c in s.readers):
        return "no consumer subscribes"
    invisible = all(_shows_no_members(c) for c in s.readers)
    return "brokers show no classic members of groups with group.protocol=consumer" if invisible else ""


def misplaced_coordinator(run: RunData, tally: Tally) -> None:
    """Report time spans longer than `ELECTION_US` in which a group's coordinator was another broker than it should be.

    It should be the leader of the group's partition of `__consumer_offsets`. A shorter difference, or one while there
    was no leader or no answer, is explained by an election. A difference that has just begun when the drive ends is
    undetermined.
    """
    for group in run.groups:
        partition = offsets_partition(run.observed, group)
        if partition is None:
            continue
        tally.add(COORDINATORS, group, value=run.observed.count(f"group:{group}", "coordinator"))
        keys = ((f"group:{group}", "coordinator"), (f"group:{group}", "answers"), (partition, "leader"))
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
            split = UNDETERMINED if short else ""
            tally.report("misplaced_coordinator", group, 1, [position | {"evidence": evidence}], split)


def _differing(spans: Iterable[Span]) -> Iterator[tuple[tuple[int, int] | None, Span]]:
    """Yield coordinator and leader of each span if both are known, differ and answer, else None."""
    for s in spans:
        coordinator, leader = s.values["coordinator"], s.values["leader"]
        known = isinstance(coordinator, int) and isinstance(leader, int) and min(coordinator, leader) >= 0
        differ = known and coordinator != leader and s.values["answers"] is not False
        yield ((coordinator, leader) if differ else None), s


def _explain_misplaced(f: Finding, e: Evidence, c: Context) -> str:
    seconds = (e["until_us"] - e["from_us"]) / 1e6
    e |= present(fault=c.last_fault(e["from_us"]))
    leader = f"broker {e['leader']} led {e['coordinated_in']}"
    return f"broker {e['coordinator']} coordinated it for {seconds:.1f} s while {leader}"


def _no_groups(s: Scenario) -> str:
    return "" if any(c.group for c in s.readers) else "no consumer has a group id"


def _groups(topics: list[str], readers: list[Reader]) -> list[str]:
    return sorted({r.group for r in readers if r.group is not None})


RULES = {
    "unbalanced_assignment": Rule(
        examines=(SETTLED,),
        explain=_explain_unbalanced,
        scopes=readers_with(lambda r: r.mode == "subscribe"),
        inapplicable=_no_assignments,
        counts_undetermined=True,
        run=unbalanced_assignment,
    ),
    "misplaced_coordinator": Rule(
        examines=(COORDINATORS,),
        explain=_explain_misplaced,
        scopes=_groups,
        inapplicable=_no_groups,
        run=misplaced_coordinator,
    ),
}

"""Owners of partitions and of committed offsets: double_ownership, foreign_commit."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from chaos.scenario.model import Scenario
from checks.audit.engine.counters import EPOCHS
from checks.audit.engine.tally import Tally
from checks.audit.facts.epochs import Epoch
from checks.audit.facts.moves import BY_FAULT, group_recreated
from checks.audit.findings import Finding
from checks.audit.rules.rule import Context, Evidence, Rule, RunData, commits_offsets, readers_with


def double_ownership(run: RunData, tally: Tally) -> None:
    """Report each pair of members of a subscribe group that owned a partition in the same generation.

    Generations from `assigned` to the last one known at the end decide. Where they are unknown, overlapping times
    decide, unless the earlier owner was evicted or died: it cannot know that it no longer owned the partition. If a
    fault deleted the group in between, the members belong to two groups.
    """
    for turns in run.epochs.by_reader_partition().values():
        if turns[0].mode != "subscribe":
            continue
        for a, b in combinations(turns, 2):
            recreated = group_recreated(run.moves, a.group, a.begin_us, b.begin_us)
            if a.member != b.member and (how := _owned_together(a, b, recreated)):
                tally.report("double_ownership", b.reader, 1, [_double(a, b, how)])


def _owned_together(a: Epoch, b: Epoch, recreated: bool) -> str:
    """Return how two epochs owned a partition together, empty if they did not."""
    first, second = _generations(a), _generations(b)
    if first and second and not recreated:
        common = max(first[0], second[0])
        return f"both in generation {common}" if common <= min(first[1], second[1]) else ""
    if a.end_reason in ("lost", "crashed", "open"):
        return ""
    return "at the same time" if b.begin_us < a.end_us else ""


def _generations(e: Epoch) -> tuple[int, int] | None:
    """Return the first and the last generation of an epoch, None if unknown."""
    if e.generation is None:
        return None
    return e.generation, max(e.generation, e.end_generation if e.end_generation is not None else e.generation)


def _double(a: Epoch, b: Epoch, how: str) -> dict[str, Any]:
    evidence = {
        "how": how,
        "other": a.consumer,
        "other_incarnation": a.incarnation,
        "other_generations": [a.generation, a.end_generation],
        "other_held_us": [a.begin_us, a.end_us],
        "other_end": a.end_reason,
        "generations": [b.generation, b.end_generation],
        "held_us": [b.begin_us, b.end_us],
    }
    return _of_epoch(b, None, evidence)


def _of_epoch(e: Epoch, offset: int | None, evidence: Evidence) -> dict[str, Any]:
    """Return the arguments of a finding about an epoch."""
    evidence = evidence | {"consumer_incarnation": e.incarnation, "assignment": e.assignment}
    position = {"topic": e.topic, "partition": e.partition, "offset": offset}
    return position | {"consumer": e.consumer, "at_us": e.begin_us, "evidence": evidence}


def _explain_double(f: Finding, e: Evidence, c: Context) -> str:
    return f"{e['other']} and {f['consumer']} held {f['topic']}/{f['partition']} {e['how']}"


def _no_members(s: Scenario) -> str:
    return "" if any(c.mode == "subscribe" for c in s.readers) else "no consumer subscribes"


def foreign_commit(run: RunData, tally: Tally) -> None:
    """Report epochs that began at the committed offset of their group where another job had made the last commit.

    For an assign-mode consumer another job is any other consumer, unless its own last commit has the same offset. For a
    subscribe group it is an assign-mode consumer. An offset that a fault set belongs to no job.
    """
    for index, e in enumerate(run.epochs.all):
        if e.source != "committed" or e.position is None or index not in run.committed:
            continue
        committed = run.committed[index]
        committers = committed.committers.get(e.position, set())
        if any(mode == BY_FAULT for _, mode in committers):
            continue
        subscribe = e.mode == "subscribe"
        others = {name for name, mode in committers if (mode == "assign" if subscribe else name != e.consumer)}
        own = len(committers) > len(others) or (not subscribe and committed.own == e.position)
        if others and not own:
            evidence = {
                "committed_by": sorted(others),
                "own_last_commit": committed.own,
                "resumed_at": e.position,
            }
            tally.report("foreign_commit", e.reader, 1, [_of_epoch(e, e.position, evidence)])


def _explain_foreign(f: Finding, e: Evidence, c: Context) -> str:
    own = e.get("own_last_commit")
    before = f"its own last commit was {own}" if own is not None else "it had committed nothing itself"
    return f"{f['consumer']} resumed at {e['resumed_at']}, committed by {', '.join(e['committed_by'])}; {before}"


def _no_group_commits(s: Scenario) -> str:
    committing = any(c.group and commits_offsets(c) for c in s.readers)
    return "" if committing else "no consumer commits to a group"


RULES = {
    "double_ownership": Rule(
        examines=(EPOCHS,),
        explain=_explain_double,
        scopes=readers_with(lambda r: r.mode == "subscribe"),
        inapplicable=_no_members,
        run=double_ownership,
    ),
    "foreign_commit": Rule(
        examines=(EPOCHS,),
        explain=_explain_foreign,
        scopes=readers_with(lambda r: r.group is not None and r.commits),
        inapplicable=_no_group_commits,
        needs_clock=True,
        run=foreign_commit,
    ),
}

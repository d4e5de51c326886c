"""Counts of processors: each output carries how many inputs of its key its group has got in the partition, up to it."""

from __future__ import annotations

from chaos.scenario.model import Scenario
from tests.checks.audit.oracle.epochs import Reading
from tests.checks.audit.oracle.facts import Case, Finding, Judgement, Row
from tests.checks.audit.oracle.processing import INPUT
from tests.checks.audit.oracle.reading import record_identity

CHECK = "wrong_count"


def judge_counts(case: Case, scenario: Scenario, reading: Reading, verdict: Judgement) -> None:
    consuming = {c.group for c in scenario.consumers if c.mode == "subscribe"}
    for entry in scenario.processors:
        if entry.state != "count" or entry.group in consuming:
            continue
        for output in case.rows["log"]:
            mine = case.is_own(output) and output["producer"].rpartition("/")[0] == entry.name
            mine = mine and output["topic"] == entry.to and output["input_topic"] == entry.topics[0]
            if mine and output["committed"] is not False:
                verdict.looked_at.append((CHECK, entry.group))
                _judge(case, entry.group, output, reading, verdict)


def _judge(case: Case, group: str, output: Row, reading: Reading, verdict: Judgement) -> None:
    topic, partition, offset = (output[name] for name in INPUT)
    turns, place = reading.get((group, topic, partition), []), case.range_of(topic, partition)
    delivered = [row["offset"] for epoch in turns for row in epoch.delivered]
    first = turns[0].position if turns and turns[0].position is not None else min(delivered, default=None)
    begin = case.whole_from(topic, partition) if place else None
    known = begin is not None and first is not None and begin <= first
    if offset is None:
        verdict.undecided[CHECK, group] += 1
        return
    log = [r for r in case.rows["log"] if (r["topic"], r["partition"]) == (topic, partition)]
    same = [r for r in log if r["key"] is not None and r["key"] == output["key"] and r["offset"] <= offset]
    same = [r for r in same if first is not None and r["offset"] >= first]
    if not known or not any(r["offset"] == offset for r in same) or output["count"] is None:
        verdict.undecided[CHECK, group] += 1
        return
    sees_uncommitted = case.facts(group).sees_uncommitted
    if not sees_uncommitted and any(r["committed"] is None for r in same):
        verdict.undecided[CHECK, group] += 1
    elif output["count"] != sum(bool(sees_uncommitted or r["committed"]) for r in same):
        if output["committed"] is None:
            verdict.undecided[CHECK, group] += 1
        else:
            (record,) = (r for r in same if r["offset"] == offset)
            verdict.findings[Finding(CHECK, "", group, topic, partition, offset, *record_identity(record))] += 1

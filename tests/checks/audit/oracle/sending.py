"""How producers send: the partition that they promise, and failures that nobody looks at."""

from __future__ import annotations

import zlib

from kafka.partitioner.default import murmur2

from chaos.scenario.model import Scenario
from tests.checks.audit.oracle.facts import Case, Finding, Judgement, Row


def judge_sending(case: Case, scenario: Scenario, verdict: Judgement) -> None:
    """misrouted_write and unnoticed_failure, which are counted per topic."""
    producers = {p.name: p for p in scenario.producers}
    in_log = {(r["producer"], r["incarnation"], r["seq"]) for r in case.rows["log"] if case.is_own(r)}
    for send in case.rows["sends"]:
        p = producers.get(send["producer"].rpartition("/")[0])
        if p is None:
            continue
        ended = send["topic"] in case.lives.ended
        if send["outcome"] == "ok" and send["partition"] is not None and not ended:
            _routed(case, send, str(p.partitioner or p.config.get("partitioner")), p.keys, scenario, verdict)
        if p.mode == "fire_and_forget":
            verdict.examined["unnoticed_failure", send["topic"]] += 1
            if send["outcome"] != "ok" and (send["producer"], send["incarnation"], send["seq"]) not in in_log:
                if send["outcome"] == "unknown" and send["topic"] in case.compacted:
                    verdict.undecided["unnoticed_failure", send["topic"]] += 1
                else:
                    verdict.findings[_finding("unnoticed_failure", send)] += 1


def _finding(check: str, send: Row) -> Finding:
    place = send["topic"], send["partition"], send["offset"]
    return Finding(check, "", send["topic"], *place, send["producer"], send["incarnation"], send["seq"])


def _routed(case: Case, send: Row, partitioner: str, keys: int | None, scenario: Scenario, verdict: Judgement) -> None:
    """misrouted_write: by its seq or its key it belongs elsewhere, by any number of partitions that the topic had."""
    read = {r["partition"] for r in case.rows["log_range"] if r["topic"] == send["topic"]}
    counts = {scenario.topic(send["topic"]).partitions, len(read) or scenario.topic(send["topic"]).partitions}
    due = {_promised(send, partitioner, keys, count) for count in counts}
    if None not in due:
        verdict.examined["misrouted_write", send["topic"]] += 1
        if send["partition"] not in due:
            verdict.findings[_finding("misrouted_write", send)] += 1


def _promised(send: Row, partitioner: str, keys: int | None, count: int) -> int | None:
    """The partition that the partitioner promises, None if it promises none."""
    if partitioner == "round_robin":
        return int(send["seq"] % count)
    if send["key"] is None:
        return None
    key = send["key"].encode()
    if partitioner == "by_key_number":
        return int(key[1:]) % count if key[1:].isdigit() and key[:1] == b"k" else None
    if keys is not None and partitioner.startswith("murmur2"):
        return int(murmur2(key) & 0x7FFFFFFF) % count
    if keys is not None and partitioner.startswith("consistent"):
        return zlib.crc32(key) % count
    return None

"""What the log of `__consumer_offsets` says of commits with an outcome that the client did not learn.

A record bears no name. It is of a commit if nothing else can have written it: no other commit of that offset, no fault,
nobody who may have committed without a row. A log that is whole and lacks no acknowledged commit also says what was not
made: if it has no record of an offset that nobody ever saw, or just as many as commits were acknowledged.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

Row = dict[str, Any]
CLOCK_US = 5_000
IN_FLIGHT_US = 10_000_000
FOR_EVER = 1 << 62


def decide(rows: Mapping[str, list[Row]], automatic: Collection[str], deleted: Collection[str]) -> None:
    """Put the outcomes into the rows of commits, with `done_us` where a commit is known to have been made.

    automatic: readers whose clients commit by themselves. deleted: topics that were deleted during the run.
    """
    found = [(commit, _verdict(commit, rows, automatic)) for commit in rows["commits"] if _is_open(commit, deleted)]
    for commit, (outcome, done_us) in found:
        commit["outcome"], commit["done_us"] = outcome, done_us


def _is_open(commit: Row, deleted: Collection[str]) -> bool:
    return commit["outcome"] == "unknown" and commit["topic"].partition(" (")[0] not in deleted


def _verdict(commit: Row, rows: Mapping[str, list[Row]], automatic: Collection[str]) -> tuple[str, int]:
    nothing = "unknown", commit["completed_us"]
    read = [r for r in rows["commit_log_range"] if r["group"] == commit["group"] and r["error"] is None]
    if not read:
        return nothing
    missing, apart = _acknowledged(commit["group"], rows)
    if apart:
        return nothing
    begin, end = _window(commit)
    records = [r for r in rows["commit_log"] if _same(r, commit) and begin <= r["appended_us"] <= end]
    records = [r for r in records if (r["transaction"] is not None) == (commit["kind"] == "transaction")]
    complete = read[0]["whole"] and not missing
    if not records:
        return ("fail", commit["completed_us"]) if complete and not _seen(commit, rows) else nothing
    mine = [r for r in records if not _of_another(r, commit, rows, automatic)]
    ends = {r["transaction"] for r in mine}
    if not mine and complete:
        made = [c["kind"] for c in rows["commits"] if _same(c, commit) and c["outcome"] == "ok"]
        there = [r for r in rows["commit_log"] if _same(r, commit) and r["transaction"] != "aborted"]
        if len(there) == len(made) and not {*made} - {"sync", "async"}:
            return "fail", commit["completed_us"]
    if ends == {"aborted"}:
        return "fail", commit["completed_us"]
    if ends in ({None}, {"committed"}):
        last = max(r["ended_us"] if r["ended_us"] is not None else r["appended_us"] for r in mine)
        return "ok", max(commit["completed_us"], last + CLOCK_US)
    return nothing


def _same(a: Row, b: Row) -> bool:
    return all(a[name] == b[name] for name in ("group", "topic", "partition", "offset"))


def _window(commit: Row) -> tuple[int, int]:
    begin = 0 if commit["kind"] == "auto" else commit["requested_us"] - CLOCK_US
    return begin, FOR_EVER if commit["outcome"] == "unknown" else commit["completed_us"] + CLOCK_US


def _acknowledged(group: str, rows: Mapping[str, list[Row]]) -> tuple[int, int]:
    """Acknowledged commits of a group without a record, and those with one that is not in time."""
    missing = apart = 0
    for commit in rows["commits"]:
        if commit["outcome"] != "ok" or commit["group"] != group:
            continue
        records = [r for r in rows["commit_log"] if _same(r, commit) and r["transaction"] != "aborted"]
        missing += not records
        if len(records) == 1 and commit["kind"] in ("sync", "async"):
            begin, end = commit["requested_us"] - CLOCK_US, commit["completed_us"] + CLOCK_US
            apart += not begin <= records[0]["appended_us"] <= end
    return missing, apart


def _seen(commit: Row, rows: Mapping[str, list[Row]]) -> bool:
    """Whether the observer saw the offset committed, or anybody of the group stood there."""
    entity = f"group:{commit['group']}/{commit['topic']}/{commit['partition']}"
    for row in rows["cluster"]:
        if (row["entity"], row["key"], row["value"].strip()) == (entity, "committed", str(commit["offset"])):
            return True
    place = commit["group"], commit["topic"], commit["partition"], commit["offset"]
    began = [r for r in rows["assignments"] if r["event"] in ("assigned", "position")]
    began = [r for r in began if r["source"] in (None, "committed")]
    return any((r["group"], r["topic"], r["partition"], r["position"]) == place for r in began)


def _of_another(record: Row, commit: Row, rows: Mapping[str, list[Row]], automatic: Collection[str]) -> bool:
    at_us = record["appended_us"]
    for other in rows["commits"]:
        begin, end = _window(other)
        if other is not commit and other["outcome"] != "fail" and _same(other, commit) and begin <= at_us <= end:
            return True
    return _by_fault(record, rows["faults"]) or _without_row(record, commit, rows, automatic)


def _by_fault(record: Row, faults: list[Row]) -> bool:
    for name in {(f["fault"], f["kind"]) for f in faults if f["target"] == f"group {record['group']}"}:
        here = [f for f in faults if (f["fault"], f["kind"]) == name and f["target"] == f"group {record['group']}"]
        ends = [f for phase in ("injected", "failed") for f in here if f["phase"] == phase]
        begun = [f["at_us"] for phase in ("injecting", "injected", "failed") for f in here if f["phase"] == phase]
        place = f"{record['topic']}/{record['partition']}"
        offsets = json.loads(ends[0]["evidence"]).get("offsets", {}) if ends else {}
        touched = name[1] == "group.delete" or place in offsets
        end_us = ends[0]["at_us"] if ends else FOR_EVER
        if begun and touched and min(begun[0], end_us) - CLOCK_US <= record["appended_us"] <= end_us + CLOCK_US:
            return True
    return False


def _without_row(record: Row, commit: Row, rows: Mapping[str, list[Row]], automatic: Collection[str]) -> bool:
    """Whether another member had been given the partition whose rows may lack a commit."""
    me = commit["consumer"], commit["incarnation"]
    for row in rows["assignments"]:
        who = row["consumer"], row["incarnation"]
        here = [row[name] == commit[name] for name in ("group", "topic", "partition")]
        if who == me or not all(here) or row["event"] not in ("assigned", "seek"):
            continue
        ended = {
            r["event"]: r["at_us"]
            for r in sorted(rows["lifecycle"], key=lambda r: -r["at_us"])
            if (r["client"], r["incarnation"]) == who
        }
        reader = row["group"] if row["mode"] == "subscribe" else row["consumer"]
        if "stopped" in ended and "crashed" not in ended and reader not in automatic:
            continue
        end_us = ended.get("crashed", ended.get("stopped", FOR_EVER))
        if row["at_us"] - CLOCK_US <= record["appended_us"] <= end_us + IN_FLIGHT_US:
            return True
    return False

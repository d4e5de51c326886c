"""Times: how long faults kept records from moving, and how long everything else took. All in microseconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from chaos.anomalies import METRICS
from checks.audit.epochs import Epoch, Epochs, Row
from checks.audit.large.tally import Sparse, Tally, histogram, quantile
from checks.audit.large.times import usual_gap
from checks.audit.ranges import Owed
from checks.audit.readers import Reader


def injections(faults: list[Row]) -> dict[str, int]:
    """When each fault was (first) injected; one that never was has no time."""
    found: dict[str, int] = {}
    for row in sorted(faults, key=lambda r: r["at_us"]):
        if row["phase"] == "injected":
            found.setdefault(row["fault"], row["at_us"])
    return found


def distributions(tally: Tally) -> dict[tuple[str, str, str], Sparse]:
    """How often each latency was seen: by metric, scope and fault (none)."""
    return {
        (metric, scope, ""): sparse
        for metric in ("ack_latency", "end_to_end_latency", "commit_latency")
        for (scope,), sparse in tally.each("counts", metric)
    }


def unavailability(
    tally: Tally, places: list[Owed], drive_end_us: int, injected: dict[str, int]
) -> list[dict[str, Any]]:
    """Per fault and partition: from the injection to the first success of what was sent after it, less the usual time
    between successes before it. Without a success it lasts to the end of the drive.

    produce_unavailability: of partitions that were written to after the fault; success is an acknowledgement.
    consume_unavailability: of readers and partitions with acknowledged sends after it; success is the first processing.
    Rows: metric, scope, fault, value_us, recovered.
    """
    rows = []
    for (fault, topic), (partitions, _) in tally.each("counts", "sent_after"):
        for partition in partitions.tolist():
            rows.append(_gone(tally, "produce", topic, topic, fault, partition, injected[fault], drive_end_us))
    for (fault, topic), (partitions, _) in tally.each("counts", "acked_after"):
        acked = set(partitions.tolist())
        for place in places:
            if place.topic == topic and place.partition in acked and place.range_start is not None:
                key = f"{place.reader} {topic}"
                at = place.reader, key, fault, place.partition
                rows.append(_gone(tally, "consume", *at, injected[fault], drive_end_us))
    return rows


def _gone(
    tally: Tally, what: str, scope: str, key: str, fault: str, partition: int, injected_us: int, drive_end_us: int
) -> dict[str, Any]:
    usual = usual_gap(tally.get("counts", f"{what}_before", fault, key), partition)
    firsts = tally.get("lowest", f"{what}_first", fault, key)
    found = firsts[1][firsts[0] == partition] if firsts is not None else []
    end = int(found[0]) if len(found) else drive_end_us
    value = {"value_us": max(end - injected_us - usual, 0), "recovered": len(found) > 0}
    return {"metric": f"{what}_unavailability", "scope": scope, "fault": fault, **value}


def statistics(
    single: list[dict[str, Any]], many: dict[tuple[str, str, str], Sparse]
) -> tuple[list[dict[str, Any]], dict[tuple[str, str], int]]:
    """Rows of table `metrics`, and in how many partitions a fault was never recovered from (name, "fault:scope").

    single: metric, scope, fault, value_us, recovered. many: the same as distributions.
    """
    values: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    lasting: dict[tuple[str, str], int] = defaultdict(int)
    for row in single:
        values[row["metric"], row["scope"], row["fault"]].append(row["value_us"])
        if not row.get("recovered", True):
            lasting[f"{row['metric']}_unrecovered", f"{row['fault']}:{row['scope']}"] += 1
    counted = {
        key: histogram(np.array(found, np.int64), np.ones(len(found), np.int64)) for key, found in values.items()
    }
    rows = []
    for (metric, scope, fault), sparse in (many | counted).items():
        stats = {"count": int(sparse[1].sum()), "p50": quantile(sparse, 0.5), "p95": quantile(sparse, 0.95)}
        stats |= {"p99": quantile(sparse, 0.99), "max": int(sparse[0][-1])}
        for stat, value in stats.items():
            rows.append({"metric": metric, "scope": scope, "fault": fault, "stat": stat, "value_us": value})
    return rows, dict(lasting)


def rebalances(readers: list[Reader], epochs: Epochs, partitions: dict[str, int]) -> list[dict[str, Any]]:
    """The duration of every rebalance after a group first formed: metric, scope (group), fault, value_us.

    From the first partition given up (revoked, lost, or its owner crashed) to the last one assigned in the next
    generation. The group has formed with the first generation after which as many members hold partitions as can.
    partitions: how many there are, by topic.
    """
    by_group: dict[str, list[Epoch]] = defaultdict(list)
    for e in epochs.all:
        if e.mode == "subscribe" and e.source != "seek":
            by_group[e.reader].append(e)
    found = []
    for reader in readers:
        holders = min(reader.members, sum(partitions.get(t, 0) for t in reader.topics))
        for value in _rebalance_times(by_group.get(reader.name, []), holders):
            found.append({"metric": "rebalance_duration", "scope": reader.name, "fault": "", "value_us": value})
    return found


def _rebalance_times(epochs: list[Epoch], holders: int) -> Iterable[int]:
    assigned: dict[int, int] = {}
    for e in epochs:
        if e.generation is not None:
            assigned[e.generation] = max(assigned.get(e.generation, e.begin_us), e.begin_us)
    given_up = sorted(e.end_us for e in epochs if e.end_reason in ("revoked", "lost", "crashed"))
    formed, before = False, None
    for done in (assigned[g] for g in sorted(assigned)):
        begin = next((t for t in given_up if before is not None and before < t <= done), None)
        if formed and begin is not None:
            yield done - begin
        formed = formed or len({e.holder for e in epochs if e.begin_us <= done < e.end_us}) >= holders
        before = done


def expected(topics: list[str], readers: list[Reader], injected: dict[str, int]) -> list[tuple[str, str, str]]:
    """Every (metric, scope, fault) that a run can be asked about."""
    names = [r.name for r in readers]
    return [
        *(("ack_latency", t, "") for t in topics),
        *(("end_to_end_latency", n, "") for n in names),
        *(("commit_latency", r.name, "") for r in readers if r.commits),
        *(("rebalance_duration", r.name, "") for r in readers if r.mode == "subscribe"),
        *(("produce_unavailability", t, f) for t in topics for f in injected),
        *(("consume_unavailability", n, f) for n in names for f in injected),
    ]


def with_empty(rows: list[dict[str, Any]], expected: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Add a count of 0 for every (metric, scope, fault) that nothing was measured of, so that silence shows."""
    seen = {(r["metric"], r["scope"], r["fault"]) for r in rows}
    missing = [key for key in expected if key not in seen]
    assert all(metric in METRICS for metric, _, _ in missing)
    return rows + [{"metric": m, "scope": s, "fault": f, "stat": "count", "value_us": 0} for m, s, f in missing]

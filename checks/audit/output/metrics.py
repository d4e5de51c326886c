"""The table `metrics`: how long faults kept records from moving, and all other measured times, in microseconds.

The observer samples the metadata every 150 ms. Times of the cluster are as exact as that, and a change that was over
between two samples is not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import numpy as np

from chaos.anomalies import METRICS, STOPPED_US, UNAVAILABILITY
from checks.audit.engine import counters
from checks.audit.engine.counters import CONSUMED, LATENCIES, PRODUCED, Successes
from checks.audit.engine.tally import Sparse, Tally, histogram, quantile
from checks.audit.engine.time_buckets import usual_gap_us
from checks.audit.facts.epochs import Epoch, Epochs, Row
from checks.audit.facts.observed import OFFSETS_TOPIC, Observed, Span, phase_times
from checks.audit.facts.ranges import ReadRange
from checks.audit.facts.readers import Reader
from checks.audit.facts.topic_lives import RECREATED, TopicLives

MetricKey = tuple[str, str, str]
"""Metric, scope and fault; the fault is empty for times that belong to none."""
Measurement = dict[str, Any]
"""metric, scope, fault, value_us and, for times per fault, recovered."""


def distributions(tally: Tally, lives: TopicLives) -> dict[MetricKey, Sparse]:
    """Return the distribution of each latency. lives: of topics that were deleted."""
    return {
        (metric, lives.numbered.get(scope, scope), ""): sparse
        for metric, aggregate in LATENCIES.items()
        for (scope,), sparse in tally.each(aggregate)
    }


def unavailability(
    tally: Tally, ranges: list[ReadRange], drive_end_us: int, injected: dict[str, int], lives: TopicLives
) -> list[Measurement]:
    """Return per fault and partition the time from the injection to the first success of a later operation.

    A fault that restarts one node after another counts again from the end of each node (`injections`).
    The usual time between successes before the fault is subtracted. Without a success the time lasts to the end of the
    drive. produce_unavailability: partitions with sends after the fault; success is an acknowledgement.
    consume_unavailability: readers of partitions with acknowledged sends after it; success is the first processing. The
    lives of a topic count as one.
    """
    rows: dict[tuple[str, str, str, str, int], Measurement] = {}

    def add(metric: str, scope: str, fault: str, topic: str, partition: int, value: Measurement) -> None:
        """Keep the shortest time among the lives of a topic, one without a success only if there is no other."""
        key = metric, scope, fault, lives.name(topic), partition
        row = {"metric": metric, "scope": scope, "fault": fault} | value
        rows[key] = min(rows.get(key, row), row, key=lambda r: (not r["recovered"], r["value_us"]))

    for (fault, topic), (partitions, _) in tally.each(counters.SENT_AFTER):
        for partition in partitions.tolist():
            value = _outage(tally, PRODUCED, fault, topic, partition, injected[fault], drive_end_us)
            add("produce_unavailability", lives.name(topic), fault, topic, partition, value)
    by_topic: dict[str, list[ReadRange]] = {}
    for r in ranges:
        if r.start is not None:
            by_topic.setdefault(r.topic, []).append(r)
    for (fault, topic), (partitions, _) in tally.each(counters.ACKED_AFTER):
        acked = set(partitions.tolist())
        for r in by_topic.get(topic, []):
            if r.partition in acked:
                scope = f"{r.reader} {topic}"
                value = _outage(tally, CONSUMED, fault, scope, r.partition, injected[fault], drive_end_us)
                add("consume_unavailability", r.reader, fault, topic, r.partition, value)
    return list(rows.values())


def _outage(
    tally: Tally, successes: Successes, fault: str, scope: str, partition: int, injected_us: int, drive_end_us: int
) -> dict[str, Any]:
    usual = usual_gap_us(tally.get(successes.before, fault, scope), partition)
    firsts = tally.get(successes.first, fault, scope)
    first = firsts[1][firsts[0] == partition].tolist() if firsts is not None else []
    end = first[0] if first else drive_end_us
    return {"value_us": max(end - injected_us - usual, 0), "recovered": bool(first)}


def statistics(
    measurements: list[Measurement], distributions: dict[MetricKey, Sparse]
) -> tuple[list[dict[str, Any]], dict[tuple[str, str], int]]:
    """Return the rows of table `metrics`, and numbers of partitions by (name, "fault:scope").

    The names are `<metric>_unrecovered` (partitions that did not recover) and, of a time without writes or reads,
    `<metric>_stopped` (partitions that stood still for `STOPPED_US` or longer).
    """
    values: dict[MetricKey, list[int]] = defaultdict(list)
    partitions: dict[tuple[str, str], int] = defaultdict(int)
    for row in measurements:
        values[row["metric"], row["scope"], row["fault"]].append(row["value_us"])
        if not row.get("recovered", True):
            partitions[f"{row['metric']}_unrecovered", f"{row['fault']}:{row['scope']}"] += 1
        if row["metric"] in UNAVAILABILITY and row["value_us"] >= STOPPED_US:
            partitions[f"{row['metric']}_stopped", f"{row['fault']}:{row['scope']}"] += 1
    measured = {key: histogram(np.array(v, np.int64), np.ones(len(v), np.int64)) for key, v in values.items()}
    rows = []
    for (metric, scope, fault), sparse in (distributions | measured).items():
        stats = {"count": int(sparse[1].sum()), "p50": quantile(sparse, 0.5), "p95": quantile(sparse, 0.95)}
        stats |= {"p99": quantile(sparse, 0.99), "max": int(sparse[0][-1])}
        for stat, value in stats.items():
            rows.append({"metric": metric, "scope": scope, "fault": fault, "stat": stat, "value_us": value})
    return rows, dict(partitions)


def rebalances(readers: list[Reader], epochs: Epochs, partitions: dict[str, int]) -> list[Measurement]:
    """Return the duration of every rebalance after a group first formed. partitions: their number by topic.

    A rebalance lasts from the first partition given up (revoked, lost, or its owner crashed) to the last one assigned
    in the next generation. The group has formed with the first generation in which as many members hold partitions as
    can. A static member that returns in its generation (KIP-345) causes none.
    """
    by_group: dict[str, list[Epoch]] = defaultdict(list)
    for e in epochs.all:
        if e.mode == "subscribe" and e.source not in ("seek", RECREATED):
            by_group[e.reader].append(e)
    found = []
    for reader in readers:
        holders = min(reader.members, sum(partitions.get(t, 0) for t in reader.topics))
        for value in _rebalance_times(by_group.get(reader.name, []), holders):
            found.append({"metric": "rebalance_duration", "scope": reader.name, "fault": "", "value_us": value})
    return found


def _rebalance_times(epochs: list[Epoch], holders: int) -> Iterable[int]:
    assigned: dict[int, int] = {}
    last: dict[tuple[Any, ...], Epoch] = {}
    came_back: set[int] = set()  # epochs with a static member that returned in their generation, without a rebalance
    for e in sorted(epochs, key=attrgetter("begin_us")):
        place = e.generation, e.instance_id, e.topic, e.partition
        before_it = last.get(place) if e.generation is not None else None
        last[place] = e
        if before_it is not None and e.rejoined(before_it):
            came_back.add(before_it.index)
        elif e.generation is not None:
            assigned[e.generation] = max(assigned.get(e.generation, e.begin_us), e.begin_us)
    ends = ("revoked", "lost", "crashed")
    given_up = sorted(e.end_us for e in epochs if e.end_reason in ends and e.index not in came_back)
    formed, before = False, None
    for done in (assigned[g] for g in sorted(assigned)):
        begin = next((t for t in given_up if before is not None and before < t <= done), None)
        if formed and begin is not None:
            yield done - begin
        formed = formed or len({e.member for e in epochs if e.begin_us <= done < e.end_us}) >= holders
        before = done


def recoveries(observed: Observed, faults: list[Row]) -> Iterator[dict[str, Any]]:
    """Yield metric, scope (topic), fault, value_us and recovered for each fault and partition that it affected.

    isr_recovery: partitions with an ISR that shrank before the next fault; from the heal of the fault (without a heal:
    its injection) until the ISR was as large as before, 0 if it was by then. election_time: partitions that got another
    leader, or one after having none, in a higher epoch before the heal and the next injection; from the injection.
    """
    injections, heals = phase_times(faults, "injected"), phase_times(faults, "healed")
    for entity in observed.entities("isr"):
        topic = entity.rpartition("/")[0]
        if topic == OFFSETS_TOPIC:
            continue
        sizes = list(observed.spans((entity, "isr")))
        led = list(observed.spans((entity, "leader"), (entity, "leader_epoch")))
        for fault, injected in injections.items():
            following = min((at_us for at_us in injections.values() if at_us > injected), default=observed.end_us)
            healed = heals.get(fault)
            row = {"scope": topic, "fault": fault}
            if shrunk := _shrunk(sizes, injected, following):
                shrunk_us, size = shrunk
                full = next((s.begin_us for s in sizes if s.begin_us > shrunk_us and _size(s) >= size), None)
                since = injected if healed is None else healed
                value = max((observed.end_us if full is None else full) - since, 0)
                yield row | {"metric": "isr_recovery", "value_us": value, "recovered": full is not None}
            elected = _elected(led, injected, following if healed is None else min(following, healed))
            if elected is not None:
                yield row | {"metric": "election_time", "value_us": elected - injected, "recovered": True}


def _size(s: Span) -> int:
    isr = s.values["isr"]
    return len(isr) if isinstance(isr, list) else 0


def _shrunk(sizes: list[Span], injected: int, following: int) -> tuple[int, int] | None:
    """Return when the ISR first shrank below its size at the injection, and that size; None if it did not."""
    before = [_size(s) for s in sizes if s.begin_us <= injected]
    if not before:
        return None
    smaller = [s.begin_us for s in sizes if injected < s.begin_us <= following and _size(s) < before[-1]]
    return (smaller[0], before[-1]) if smaller else None


def _elected(led: list[Span], injected: int, until: int) -> int | None:
    """Return when another leader, or one after there was none, was first seen in a higher epoch; None if never."""
    before = [s.values for s in led if s.begin_us <= injected]
    if not before or not isinstance(before[-1]["leader_epoch"], int):
        return None
    former, epoch, gone = before[-1]["leader"], before[-1]["leader_epoch"], False
    for s in led:
        if not injected < s.begin_us <= until:
            continue
        leader, now = s.values["leader"], s.values["leader_epoch"]
        gone = gone or leader == -1
        if isinstance(now, int) and now > epoch and leader != -1 and (gone or leader != former):
            return s.begin_us
    return None


def expected(topics: list[str], readers: list[Reader], injected: dict[str, int]) -> list[MetricKey]:
    """Return every metric, scope and fault that a contract can bound."""
    names = [r.name for r in readers]
    return [
        *(("ack_latency", t, "") for t in topics),
        *(("end_to_end_latency", n, "") for n in names),
        *(("commit_latency", r.name, "") for r in readers if r.commits),
        *(("rebalance_duration", r.name, "") for r in readers if r.mode == "subscribe"),
        *(("produce_unavailability", t, f) for t in topics for f in injected),
        *(("consume_unavailability", n, f) for n in names for f in injected),
    ]


def with_empty(rows: list[dict[str, Any]], keys: Iterable[MetricKey]) -> list[dict[str, Any]]:
    """Return the rows and a count of 0 for every key without a measurement."""
    measured = {(r["metric"], r["scope"], r["fault"]) for r in rows}
    missing = [key for key in keys if key not in measured]
    assert all(metric in METRICS for metric, _, _ in missing)
    return rows + [{"metric": m, "scope": s, "fault": f, "stat": "count", "value_us": 0} for m, s, f in missing]

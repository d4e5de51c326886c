"""Times: how long faults kept records from moving, and how long everything else took. All in microseconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from chaos.anomalies import METRICS
from checks.audit.epochs import Epoch, Epochs, Row
from checks.audit.findings import union
from checks.audit.readers import READER, Reader

UNRECOVERED = "unrecovered"
"""A row beside the statistics: how many of the measured partitions saw no success before the drive ended."""

_STAT_ROWS = f"""stack(6, 'count', n, 'p50', q[0], 'p95', q[1], 'p99', q[2], 'max', highest, '{UNRECOVERED}', lasting)
                AS (stat, value_us)"""


def injections(faults: list[Row]) -> dict[str, int]:
    """When each fault was (first) injected; one that never was has no time."""
    found: dict[str, int] = {}
    for row in sorted(faults, key=lambda r: r["at_us"]):
        if row["phase"] == "injected":
            found.setdefault(row["fault"], row["at_us"])
    return found


def fault_table(spark: SparkSession, injected: dict[str, int]) -> DataFrame:
    """Injections as a table: fault, injected_us."""
    columns = [list(injected), list(injected.values())]
    return spark.createDataFrame(
        pa.table(columns, schema=pa.schema([("fault", pa.string()), ("injected_us", pa.int64())]))
    )


def first_processing(delivered: DataFrame, sends: DataFrame) -> DataFrame:
    """Each record's first processing by each reader: identity, reader, topic, partition, processed_us, invoked_us."""
    firsts = (
        delivered.filter("producer IS NOT NULL")
        .groupBy("producer", F.col("producer_incarnation").alias("incarnation"), "seq", "reader", "topic", "partition")
        .agg(F.expr("min(processed_us) AS processed_us"))
    )
    called = sends.select("producer", "incarnation", "seq", "invoked_us")
    return firsts.join(called, ["producer", "incarnation", "seq"])


def observations(sends: DataFrame, firsts: DataFrame, history: DataFrame) -> DataFrame:
    """Single latencies: metric, scope, at_us (when it ended), value_us. A clock that stepped back gives 0, not less."""
    acks = sends.filter("outcome = 'ok'").selectExpr(
        "'ack_latency' AS metric", "topic AS scope", "completed_us AS at_us", "completed_us - invoked_us AS value_us"
    )
    ends = firsts.selectExpr(
        "'end_to_end_latency' AS metric",
        "reader AS scope",
        "processed_us AS at_us",
        "processed_us - invoked_us AS value_us",
    )
    commits = history.filter("outcome = 'ok' AND kind IN ('sync', 'async')").selectExpr(
        "'commit_latency' AS metric",
        f"{READER} AS scope",
        "completed_us AS at_us",
        "completed_us - requested_us AS value_us",
    )
    return union([acks, ends, commits]).withColumn("value_us", F.expr("greatest(value_us, 0)"))


def produce_unavailability(sends: DataFrame, faults: DataFrame, drive_end_us: int) -> DataFrame:
    """Per fault and partition that was written to after it: from the injection to the first success of a send invoked
    after it, less the usual (median) time between successes before it. Without one it lasts to the end of the drive.

    Columns: metric, scope (topic), fault, partition, value_us, recovered.
    """
    lag = "lag(completed_us) OVER (PARTITION BY topic, partition, outcome = 'ok' ORDER BY completed_us)"
    spaced = sends.withColumn("gap", F.expr(f"CASE WHEN outcome = 'ok' THEN completed_us - {lag} END"))
    per_partition = (
        spaced.crossJoin(F.broadcast(faults))
        .groupBy("fault", "injected_us", "topic", "partition")
        .agg(
            F.expr("percentile_approx(gap, 0.5) FILTER (WHERE completed_us < injected_us) AS usual"),
            F.expr("min(completed_us) FILTER (WHERE outcome = 'ok' AND invoked_us >= injected_us) AS first"),
            F.expr("count_if(invoked_us >= injected_us) AS after"),
        )
        .filter("after > 0")
    )
    return _unavailable(per_partition, "produce_unavailability", "topic", drive_end_us)


def consume_unavailability(
    sends: DataFrame, firsts: DataFrame, places: DataFrame, faults: DataFrame, drive_end_us: int
) -> DataFrame:
    """Per fault, reader and partition with acknowledged sends after it: from the injection to the first processing of a
    record sent after it, less the usual time between processings before it. Columns as in `produce_unavailability`."""
    lag = "lag(processed_us) OVER (PARTITION BY reader, topic, partition ORDER BY processed_us)"
    seen = (
        firsts.withColumn("gap", F.expr(f"processed_us - {lag}"))
        .crossJoin(F.broadcast(faults))
        .groupBy("fault", "injected_us", "reader", "topic", "partition")
        .agg(
            F.expr("percentile_approx(gap, 0.5) FILTER (WHERE processed_us < injected_us) AS usual"),
            F.expr("min(processed_us) FILTER (WHERE invoked_us >= injected_us) AS first"),
        )
    )
    expected = (
        sends.filter("outcome = 'ok'")
        .crossJoin(F.broadcast(faults))
        .filter("invoked_us >= injected_us")
        .groupBy("fault", "injected_us", "topic", "partition")
        .agg(F.expr("count(*) AS after"))
        .join(
            F.broadcast(places.filter("range_start IS NOT NULL").select("reader", "topic", "partition")),
            ["topic", "partition"],
        )
    )
    both = expected.join(seen, ["fault", "injected_us", "reader", "topic", "partition"], "left")
    return _unavailable(both, "consume_unavailability", "reader", drive_end_us)


def _unavailable(rows: DataFrame, metric: str, scope: str, drive_end_us: int) -> DataFrame:
    return rows.selectExpr(
        f"'{metric}' AS metric",
        f"{scope} AS scope",
        "fault",
        "partition",
        f"greatest(coalesce(first, {drive_end_us}L) - injected_us - coalesce(usual, 0), 0) AS value_us",
        "first IS NOT NULL AS recovered",
    )


def statistics(values: DataFrame) -> DataFrame:
    """Count, percentiles and maximum: columns as in the table `metrics`, and one row `unrecovered` where that happened.

    values: metric, scope, fault, value_us, recovered.
    """
    return (
        values.groupBy("metric", "scope", "fault")
        .agg(
            F.expr("count(*) AS n"),
            F.expr("percentile_approx(value_us, array(0.5, 0.95, 0.99), 10000) AS q"),
            F.expr("max(value_us) AS highest"),
            F.expr("count_if(NOT recovered) AS lasting"),
        )
        .selectExpr("metric", "scope", "fault", _STAT_ROWS)
        .filter(f"stat <> '{UNRECOVERED}' OR value_us > 0")
    )


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


def with_empty(rows: list[dict[str, Any]], expected: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Add a count of 0 for every (metric, scope, fault) that nothing was measured of, so that silence shows."""
    seen = {(r["metric"], r["scope"], r["fault"]) for r in rows}
    missing = [key for key in expected if key not in seen]
    assert all(metric in METRICS for metric, _, _ in missing)
    return rows + [{"metric": m, "scope": s, "fault": f, "stat": "count", "value_us": 0} for m, s, f in missing]

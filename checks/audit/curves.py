"""What the report draws: rates and lag over time, and latency as a heat map."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BUCKET_US = 250_000
MIN_CELL_US = 500_000
CELLS = 400
BINS_PER_DECADE = 4


def series(sends: DataFrame, delivered: DataFrame, places: DataFrame) -> DataFrame:
    """Table `series`: acked per topic, delivered and lag per reader, in buckets of 250 ms (only those with events)."""
    acked = sends.filter("outcome = 'ok'").selectExpr("'acked' AS series", "topic AS scope", _bucket("completed_us"))
    taken = delivered.selectExpr("'delivered' AS series", "reader AS scope", _bucket("processed_us"))
    rates = acked.unionAll(taken).groupBy("at_us", "series", "scope").agg(F.expr("count(*) AS value"))
    return rates.unionAll(lag(sends, delivered, places).select("at_us", "series", "scope", "value")).orderBy(
        "series", "scope", "at_us"
    )


def lag(sends: DataFrame, delivered: DataFrame, places: DataFrame) -> DataFrame:
    """Acknowledged beyond delivered, per reader, over all its partitions, from the highest offsets of both."""
    base = places.selectExpr("reader", "topic", "partition", "coalesce(range_start, log_start, 0) AS base")
    acked = (
        sends.filter("outcome = 'ok' AND offset IS NOT NULL")
        .groupBy("topic", "partition", F.expr(_bucket("completed_us")))
        .agg(F.expr("max(offset) + 1 AS reached"))
        .join(F.broadcast(base), ["topic", "partition"])
        .selectExpr("reader", "topic", "partition", "base", "at_us", "reached", "1 AS sign")
    )
    taken = (
        delivered.groupBy("reader", "topic", "partition", F.expr(_bucket("processed_us")))
        .agg(F.expr("max(offset) + 1 AS reached"))
        .join(F.broadcast(base), ["reader", "topic", "partition"])
        .selectExpr("reader", "topic", "partition", "base", "at_us", "reached", "-1 AS sign")
    )
    so_far = """coalesce(max(reached) OVER (PARTITION BY reader, topic, partition, sign ORDER BY at_us
                ROWS BETWEEN UNBOUNDED PRECEDING AND {end}), base)"""
    here, before = (f"greatest({so_far.format(end=end)}, base)" for end in ("CURRENT ROW", "1 PRECEDING"))
    grown = acked.unionAll(taken).selectExpr(
        "reader",
        "at_us",
        f"sign * ({here} - {before}) AS change",
    )
    steps = grown.groupBy("reader", "at_us").agg(F.expr("sum(change) AS step"))
    total = "greatest(sum(step) OVER (PARTITION BY reader ORDER BY at_us), 0) AS value"
    return steps.selectExpr("at_us", "'lag' AS series", "reader AS scope", total)


def latency(observed: DataFrame, span_us: int) -> DataFrame:
    """Table `latency`, from `times.observations`: at most 400 columns over the span, four bins per decade."""
    width = max(MIN_CELL_US, -(-span_us // CELLS // MIN_CELL_US) * MIN_CELL_US)
    names = "CASE metric WHEN 'ack_latency' THEN 'ack' ELSE 'end_to_end' END AS series"
    bin_us = (
        f"CAST(floor(pow(10, floor(log10(greatest(value_us, 1)) * {BINS_PER_DECADE}) / {BINS_PER_DECADE})) AS BIGINT)"
    )
    return (
        observed.filter("metric IN ('ack_latency', 'end_to_end_latency')")
        .selectExpr(_bucket("at_us", width), names, "scope", f"{bin_us} AS bin_us")
        .groupBy("at_us", "series", "scope", "bin_us")
        .agg(F.expr("count(*) AS count"))
        .orderBy("series", "scope", "at_us", "bin_us")
    )


def _bucket(column: str, width: int = BUCKET_US) -> str:
    return f"{column} - {column} % {width} AS at_us"

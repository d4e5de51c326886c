"""The read path, per reader: what is in the log against what was delivered, epoch by epoch.

`delivered` below is the table `deliveries` with its epoch (see `epochs`): reader, turn, position, start, legal, why and
begin_us beside each row.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checks.audit.epochs import KEY
from checks.audit.findings import UNDETERMINED, report, union

_EPOCH = ", ".join(KEY)
_IDENTITY = "struct(producer, producer_incarnation AS incarnation, seq)"


def with_epochs(deliveries: DataFrame, epochs: DataFrame) -> DataFrame:
    """Deliveries, each with its epoch."""
    judged = epochs.select(*KEY, "reader", "turn", "position", "start", "legal", "why", "begin_us")
    return deliveries.join(F.broadcast(judged), list(KEY))


def suspects(delivered: DataFrame, log: DataFrame, places: DataFrame) -> DataFrame:
    """Offsets that a reader did not get exactly once and as they stand in the log.

    Columns: reader, topic, partition, offset, record (its identity and timestamp in the log, null where there is none)
    and got (array of its deliveries, by turn and ordinal).
    """
    identity = "struct(producer, incarnation, seq)"
    owed = log.join(F.broadcast(places.select("reader", "topic", "partition")), ["topic", "partition"]).selectExpr(
        "reader", "topic", "partition", "offset", f"struct({identity} AS identity, timestamp) AS record", "NULL AS got"
    )
    got = delivered.selectExpr(
        "reader",
        "topic",
        "partition",
        "offset",
        "NULL AS record",
        f"""struct(turn, ordinal, consumer, incarnation, assignment, {_IDENTITY} AS identity, start, legal, why,
                   begin_us, processed_us) AS got""",
    )
    both = (
        owed.unionAll(got)
        .groupBy("reader", "topic", "partition", "offset")
        .agg(F.expr("max(record) AS record"), F.expr("array_sort(collect_list(got)) AS got"))
    )
    same = "(get(got, 0).identity.producer IS NULL OR get(got, 0).identity <=> record.identity)"
    once = f"record IS NOT NULL AND size(got) = 1 AND {same}"
    return both.filter(f"NOT ({once})")


def undelivered(suspect: DataFrame, places: DataFrame) -> DataFrame:
    """Log records in a reader's range that it never got: lost_processing, skipped_delivery or stalled_delivery.

    lost_processing: some epoch began at or before it, delivered nothing after it, and committed past it. skipped: a
    later record was delivered to the reader, or committed past. stalled: neither, the drain ended before it came.
    """
    missing = (
        suspect.filter("""record IS NOT NULL AND NOT exists(got,
                          g -> g.identity.producer IS NULL OR g.identity <=> record.identity)""")
        .join(F.broadcast(places), ["reader", "topic", "partition"])
        .filter("range_start IS NULL OR offset >= range_start")
        .withColumn("past", F.expr("get(filter(lost, l -> offset >= l.begin AND offset < l.`end`), 0)"))
        .withColumn(
            "check",
            F.expr("""CASE WHEN range_start IS NULL THEN 'stalled_delivery'
                WHEN past IS NOT NULL THEN 'lost_processing'
                WHEN high > offset OR passed > offset THEN 'skipped_delivery'
                ELSE 'stalled_delivery' END"""),
        )
    )
    found = report(
        missing.selectExpr(
            "*",
            "record.identity.producer AS producer",
            "record.identity.incarnation AS incarnation",
            "record.identity.seq AS seq",
        ),
        "undelivered",
        scope="reader",
        split=f"CASE WHEN range_start IS NULL THEN '{UNDETERMINED}' ELSE '' END",
        consumer="past.consumer",
        at_us="record.timestamp",
        evidence=[
            "`check` AS `check`",
            "range_start",
            "high AS highest_delivered",
            "passed AS highest_committed",
            "epochs",
            "log_end",
            "past",
        ],
    )
    return found.withColumn("check", F.expr("get_json_object(evidence, '$.check')"))


def duplicate_delivery(suspect: DataFrame) -> DataFrame:
    """The same log record delivered again to a reader. Legal: in a later epoch with a legal start at or before it."""
    again = (
        suspect.filter("size(got) > 1")
        .selectExpr("reader", "topic", "partition", "offset", "record", "explode(got) AS got")
        .selectExpr("reader", "topic", "partition", "offset", "record", "got.*")
        .withColumn("identity", F.expr("CASE WHEN identity.producer IS NULL THEN record.identity ELSE identity END"))
        .withColumn(
            "before",
            F.expr("""lag(struct(turn, consumer, incarnation, assignment, processed_us)) OVER (
                PARTITION BY reader, topic, partition, offset, identity ORDER BY turn, ordinal)"""),
        )
        .filter("before IS NOT NULL")
        .withColumn("lawful", F.expr("coalesce(legal AND turn > before.turn AND start <= offset, false)"))
    )
    return report(
        again.withColumn("consumer_incarnation", F.col("incarnation")),
        "duplicate_delivery",
        scope="reader",
        split="CASE WHEN lawful THEN 'legal' ELSE 'illegal' END",
        producer="identity.producer",
        incarnation="identity.incarnation",
        seq="identity.seq",
        at_us="processed_us",
        evidence=[
            "consumer_incarnation",
            "assignment",
            "turn",
            "start AS epoch_start",
            "legal AS legal_start",
            "why AS start_why",
            "begin_us AS epoch_began_us",
            "before.consumer AS first_consumer",
            "before.incarnation AS first_consumer_incarnation",
            "before.assignment AS first_assignment",
            "before.turn AS first_turn",
            "before.processed_us AS first_processed_us",
        ],
    )


def dirty_read(suspect: DataFrame, places: DataFrame, compacted: list[str]) -> DataFrame:
    """Delivered, yet the final log has no record there, or another one. Below the log start it was evicted since, in a
    compacted topic it may have been compacted away: no finding. A delivery without identity is judged by presence."""
    names = ", ".join(f"'{t}'" for t in compacted) or "''"
    wrong = (
        suspect.selectExpr("reader", "topic", "partition", "offset", "record", "explode(got) AS got")
        .filter("record IS NULL OR (got.identity.producer IS NOT NULL AND NOT (got.identity <=> record.identity))")
        .join(F.broadcast(places), ["reader", "topic", "partition"])
        .filter(f"offset >= coalesce(log_start, offset) AND (record IS NOT NULL OR topic NOT IN ({names}))")
    )
    return report(
        wrong.selectExpr("*", "got.consumer AS consumer"),
        "dirty_read",
        scope="reader",
        split=f"CASE WHEN log_start IS NULL THEN '{UNDETERMINED}' ELSE '' END",
        producer="got.identity.producer",
        incarnation="got.identity.incarnation",
        seq="got.identity.seq",
        at_us="got.processed_us",
        evidence=["record.identity AS in_log", "log_start", "log_end", "got.assignment AS assignment"],
    )


def nonmonotonic_poll(delivered: DataFrame) -> DataFrame:
    """Inside an epoch, in the order of processing, an offset that is not above the one before."""
    before = f"lag(offset) OVER (PARTITION BY {_EPOCH} ORDER BY ordinal)"
    falling = delivered.withColumn("before", F.expr(before)).filter("offset <= before")
    return report(
        falling.withColumn("consumer_incarnation", F.col("incarnation")),
        "nonmonotonic_poll",
        scope="reader",
        incarnation="producer_incarnation",
        at_us="processed_us",
        evidence=["before AS previous_offset", "ordinal", "assignment", "consumer_incarnation"],
    )


def poll_skip(delivered: DataFrame, log: DataFrame, log_range: DataFrame) -> DataFrame:
    """Inside an epoch, a log record between its start (or first delivery) and its highest delivery that it left out."""
    highest = f"""max(offset) OVER (PARTITION BY {_EPOCH} ORDER BY ordinal
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"""
    ranges = log_range.selectExpr("topic", "partition", "`start` AS log_start")
    gaps = (
        delivered.withColumn("expected", F.expr(f"coalesce({highest} + 1, position, offset)"))
        .filter("offset > expected")
        .join(F.broadcast(ranges), ["topic", "partition"], "left")
        .selectExpr(
            *KEY,
            "reader",
            "processed_us",
            "offset AS next_offset",
            "greatest(expected, log_start) AS begin",
            "expected",
        )
        .filter("begin < next_offset")
        .withColumn("offset", F.expr("explode(sequence(begin, next_offset - 1))"))
    )
    left_out = (
        gaps.join(
            log.select(
                "topic", "partition", "offset", "producer", F.col("incarnation").alias("producer_incarnation"), "seq"
            ),
            ["topic", "partition", "offset"],
        )
        .join(delivered.select(*KEY, "offset"), [*KEY, "offset"], "left_anti")
        .dropDuplicates([*KEY, "offset"])
    )
    return report(
        left_out.withColumn("consumer_incarnation", F.col("incarnation")),
        "poll_skip",
        scope="reader",
        incarnation="producer_incarnation",
        at_us="processed_us",
        evidence=[
            "expected AS expected_offset",
            "next_offset AS delivered_instead",
            "assignment",
            "consumer_incarnation",
        ],
    )


def read_findings(
    delivered: DataFrame,
    log: DataFrame,
    log_range: DataFrame,
    suspect: DataFrame,
    places: DataFrame,
    compacted: list[str],
) -> DataFrame:
    """All findings of the read path. places: see `ranges.owed_table`."""
    return union(
        [
            undelivered(suspect, places),
            duplicate_delivery(suspect),
            dirty_read(suspect, places, compacted),
            nonmonotonic_poll(delivered),
            poll_skip(delivered, log, log_range),
        ]
    )

"""The write path, per topic: what was acknowledged against what is in the log.

The identity of a logical record is (producer, seq): a restarted producer goes on with its seq under a higher
incarnation. All rules but two look only at *suspects*: the records for which sends and log do not agree one to one.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checks.audit.findings import UNDETERMINED, report, union

_SEND = "struct(invoked_us, completed_us, topic, partition, offset, incarnation, outcome, error)"
_COPY = "struct(timestamp, topic, partition, offset, incarnation)"


def own_records(log: DataFrame, run: str) -> DataFrame:
    """Log records that carry an identity of this run (`run` is the run token)."""
    return log.filter(f"run = '{run}' AND producer IS NOT NULL AND incarnation IS NOT NULL AND seq IS NOT NULL")


def suspects(sends: DataFrame, own: DataFrame) -> DataFrame:
    """Logical records that are not simply sent once and found once, at the place that was acknowledged.

    Columns: producer, seq, sends and copies (arrays; copies in log order).
    """
    sides = sends.selectExpr("producer", "seq", f"{_SEND} AS send", "NULL AS copy").unionAll(
        own.selectExpr("producer", "seq", "NULL AS send", f"{_COPY} AS copy")
    )
    both = sides.groupBy("producer", "seq").agg(
        F.expr("array_sort(collect_list(send)) AS sends"), F.expr("array_sort(collect_list(copy)) AS copies")
    )
    one_to_one = """
        size(sends) = 1 AND size(copies) = 1 AND get(sends, 0).incarnation = get(copies, 0).incarnation
        AND (get(sends, 0).outcome <> 'ok' OR (get(sends, 0).topic = get(copies, 0).topic
             AND coalesce(get(sends, 0).partition, get(copies, 0).partition) = get(copies, 0).partition
             AND coalesce(get(sends, 0).offset, get(copies, 0).offset) = get(copies, 0).offset))"""
    surely_nowhere = "size(copies) = 0 AND NOT exists(sends, s -> s.outcome = 'ok')"
    return both.filter(f"NOT coalesce({one_to_one}, false) AND NOT ({surely_nowhere})")


def lost_write(suspect: DataFrame, log_range: DataFrame, compacted: list[str]) -> DataFrame:
    """Acknowledged (producer, incarnation, seq) nowhere in the log; see `acked_but_absent` for what is not counted."""
    return report(
        acked_but_absent(suspect, log_range, compacted).filter("fate <> 'evicted'"),
        "lost_write",
        scope="topic",
        split=f"CASE WHEN fate = 'lost' THEN '' ELSE '{UNDETERMINED}' END",
        at_us="completed_us",
        evidence=[
            "offset AS acked_offset",
            "invoked_us",
            "completed_us",
            "log_start",
            "log_end",
            "size(copies) AS other_copies",
        ],
    )


def acked_but_absent(suspect: DataFrame, log_range: DataFrame, compacted: list[str]) -> DataFrame:
    """Acknowledged sends without a log record, with their fate.

    evicted: acknowledged below the log start of the read-back. undetermined: acknowledged without an offset (acks=0)
    where the log no longer starts at 0, in a compacted topic, or in a partition that was not read back.
    """
    ranges = log_range.selectExpr("topic", "partition", "`start` AS log_start", "`end` AS log_end")
    cut = log_range.groupBy("topic").agg(F.expr("max(`start`) AS highest_start"))
    names = ", ".join(f"'{t}'" for t in compacted) or "''"
    return (
        suspect.selectExpr("producer", "seq", "copies", "explode(sends) AS send")
        .filter("send.outcome = 'ok' AND NOT exists(copies, c -> c.incarnation = send.incarnation)")
        .selectExpr("producer", "seq", "copies", "send.*")
        .join(F.broadcast(ranges), ["topic", "partition"], "left")
        .join(F.broadcast(cut), "topic", "left")
        .withColumn(
            "fate",
            F.expr(f"""CASE
                WHEN highest_start IS NULL OR (partition IS NOT NULL AND log_start IS NULL) THEN '{UNDETERMINED}'
                WHEN offset < log_start THEN 'evicted'
                WHEN topic IN ({names}) THEN '{UNDETERMINED}'
                WHEN offset IS NULL AND coalesce(log_start, highest_start) > 0 THEN '{UNDETERMINED}'
                ELSE 'lost' END"""),
        )
    )


def duplicate_write(suspect: DataFrame) -> DataFrame:
    """One (producer, seq) at two offsets, across incarnations too. Each copy after the first counts."""
    later = suspect.selectExpr(
        "producer", "seq", "get(copies, 0) AS first", "size(copies) AS n", "posexplode(copies) AS (nth, copy)"
    ).filter("nth > 0")
    return report(
        later.selectExpr("producer", "seq", "first", "n", "nth", "copy.*"),
        "duplicate_write",
        scope="topic",
        at_us="timestamp",
        evidence=[
            "nth + 1 AS copy",
            "n AS copies",
            "first.topic AS first_topic",
            "first.partition AS first_partition",
            "first.offset AS first_offset",
            "first.incarnation AS first_incarnation",
            "first.timestamp AS first_timestamp_us",
        ],
    )


def misplaced_write(suspect: DataFrame) -> DataFrame:
    """Acknowledged at one place, found (in the same incarnation) only at others. Acks without offset have no place."""
    acked = (
        suspect.selectExpr("producer", "seq", "copies", "explode(sends) AS send")
        .filter("send.outcome = 'ok' AND send.offset IS NOT NULL")
        .withColumn("found", F.expr("filter(copies, c -> c.incarnation = send.incarnation)"))
        .filter("""size(found) > 0 AND NOT exists(found, c -> c.topic = send.topic
                   AND c.partition = coalesce(send.partition, c.partition) AND c.offset = send.offset)""")
    )
    return report(
        acked.selectExpr("producer", "seq", "get(found, 0) AS found", "send.*"),
        "misplaced_write",
        scope="topic",
        at_us="completed_us",
        evidence=[
            "offset AS acked_offset",
            "found.topic AS found_topic",
            "found.partition AS found_partition",
            "found.offset AS found_offset",
            "invoked_us",
            "completed_us",
        ],
    )


def reordered_write(own: DataFrame, suspect: DataFrame) -> DataFrame:
    """Along the offsets of a partition an incarnation's seq does not increase. A further copy of a seq that stands
    further up already is a duplicate, not a reorder."""
    before = """OVER (PARTITION BY topic, partition, producer, incarnation ORDER BY offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"""
    falling = own.withColumn("highest", F.expr(f"max(struct(seq, offset)) {before}")).filter("seq < highest.seq")
    copies = (
        suspect.filter("size(copies) > 1")
        .selectExpr("producer", "seq", "explode(copies) AS copy")
        .groupBy("producer", "seq", "copy.topic", "copy.partition", "copy.incarnation")
        .agg(F.expr("min(copy.offset) AS first_offset"))
    )
    key = ["topic", "partition", "producer", "incarnation", "seq"]
    broken = falling.join(copies, key, "left").filter("offset <= coalesce(first_offset, offset)")
    return report(
        broken,
        "reordered_write",
        scope="topic",
        at_us="timestamp",
        evidence=["highest.seq AS after_seq", "highest.offset AS after_offset"],
    )


def phantom_write(log: DataFrame, suspect: DataFrame, lives: DataFrame, run: str) -> DataFrame:
    """In the log, never sent: no identity or that of another run, an incarnation that never lived, or one that stopped
    with everything on record and without this record. One of a crashed incarnation is not a phantom: its row died."""
    foreign = log.filter(
        f"run IS NULL OR run <> '{run}' OR producer IS NULL OR incarnation IS NULL OR seq IS NULL"
    ).withColumn("why", F.expr("CASE WHEN producer IS NULL THEN 'no identity' ELSE 'identity of another run' END"))
    unsent = unsent_records(suspect, lives).filter("life IS NULL OR life = 'stopped'")
    unsent = unsent.withColumn(
        "why",
        F.expr("CASE WHEN life IS NULL THEN 'unknown incarnation' ELSE 'the producer stopped without sending it' END"),
    )
    columns = ["topic", "partition", "offset", "producer", "incarnation", "seq", "timestamp", "why"]
    rows = foreign.withColumn("carried_run", F.col("run")).select(*columns, "carried_run")
    rows = rows.unionAll(unsent.withColumn("carried_run", F.lit(run)).select(*columns, "carried_run"))
    return report(rows, "phantom_write", scope="topic", at_us="timestamp", evidence=["why", "carried_run"])


def unsent_records(suspect: DataFrame, lives: DataFrame) -> DataFrame:
    """Copies in the log without a row of sends. life is how their incarnation ended: stopped, crashed, "" or null."""
    return (
        suspect.selectExpr("producer", "seq", "sends", "explode(copies) AS copy")
        .filter("NOT exists(sends, s -> s.incarnation = copy.incarnation)")
        .selectExpr("producer", "seq", "copy.*")
        .join(F.broadcast(lives), ["producer", "incarnation"], "left")
    )


def corrupt_record(log: DataFrame) -> DataFrame:
    """Key and value do not match the CRC that travels with them."""
    return report(
        log.filter("NOT crc_ok"), "corrupt_record", scope="topic", at_us="timestamp", evidence=["run AS carried_run"]
    )


def write_findings(
    sends: DataFrame,
    log: DataFrame,
    log_range: DataFrame,
    suspect: DataFrame,
    lives: DataFrame,
    run: str,
    compacted: list[str],
) -> DataFrame:
    """All findings of the write path. lives: producer, incarnation, life (how it ended)."""
    own = own_records(log, run)
    return union(
        [
            lost_write(suspect, log_range, compacted),
            duplicate_write(suspect),
            misplaced_write(suspect),
            reordered_write(own, suspect),
            phantom_write(log, suspect, lives, run),
            corrupt_record(log),
        ]
    )

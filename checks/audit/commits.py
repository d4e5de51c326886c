"""Offset commits of every reader that commits, against what was processed and against each other."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checks.audit.epochs import KEY
from checks.audit.findings import UNDETERMINED, Finding, capped, report, union
from checks.audit.large.columns import Ints, Part
from checks.audit.large.group import runs
from checks.audit.large.scan import by_the_file, rows_of
from checks.audit.large.tally import Tally
from checks.audit.load import Ledger, spark_schema
from checks.audit.readers import READER

_EPOCH = ", ".join(KEY)


_RUNS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("run_first", pa.int64()), ("run_last", pa.int64())]
)
_DONE = pa.schema(
    [
        *(("consumer", pa.string()), ("incarnation", pa.int32()), ("assignment", pa.int32()), ("topic", pa.string())),
        *(("partition", pa.int32()), ("at_us", pa.int64()), ("done", pa.int64())),
    ]
)


def log_runs(spark: SparkSession, paths: list[str]) -> DataFrame:
    """The log as runs of contiguous offsets; columns of `_RUNS`. One run of a part where nothing is missing."""

    def made(part: Part) -> pa.Table:
        topics, names = part.codes("topic")
        partition, offset = part.ints("partition"), part.ints("offset")
        order = np.lexsort((offset, partition, topics))
        topics, partition, offset = topics[order], partition[order], offset[order]
        starts = runs(topics, partition, offset - np.arange(part.rows))
        ends = np.append(starts[1:], part.rows)[: len(starts)] - 1
        columns = [_texts(names, topics[starts]), partition[starts], offset[starts], offset[ends]]
        return pa.table([pa.array(c) for c in columns], names=_RUNS.names).cast(_RUNS)

    return rows_of(spark, "log", paths, ("topic", "partition", "offset"), spark_schema(_RUNS), made)


def processed(spark: SparkSession, paths: list[str]) -> DataFrame:
    """How far (the highest offset + 1) each epoch had come at each time at which it processed; columns of `_DONE`."""

    def made(part: Part) -> pa.Table:
        (consumers, clients), (topics, names) = part.codes("consumer"), part.codes("topic")
        life, assignment, partition, at_us = (part.ints(n) for n in _DONE_FROM)
        starts = runs(consumers, life, assignment, topics, partition, at_us)
        done = np.maximum.reduceat(part.ints("offset"), starts) + 1 if len(starts) else starts
        columns = [_texts(clients, consumers[starts]), life[starts], assignment[starts]]
        columns += [_texts(names, topics[starts]), partition[starts], at_us[starts], done]
        return pa.table([pa.array(c) for c in columns], names=_DONE.names).cast(_DONE)

    needed = ("consumer", "topic", "offset", *_DONE_FROM)
    return rows_of(spark, "deliveries", paths, needed, spark_schema(_DONE), made)


_DONE_FROM = ("incarnation", "assignment", "partition", "processed_us")


def _texts(names: list[str], codes: Ints) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(codes))


def overcommit(history: DataFrame, processed: DataFrame, epochs: DataFrame, log: DataFrame) -> DataFrame:
    """A commit beyond what its epoch had processed when it was requested, with log records between.

    Where the epoch had processed nothing its start counts, and for an automatic commit the time at which the client was
    told. A commit of no known epoch cannot be judged.
    """
    made = history.filter("outcome = 'ok'").selectExpr(
        *KEY,
        f"{READER} AS reader",
        "CASE WHEN kind = 'auto' THEN completed_us ELSE requested_us END AS at_us",
        "1 AS order",
        "offset AS committed",
        "NULL AS done",
        "kind",
    )
    done = processed.selectExpr(
        *KEY, "NULL AS reader", "at_us", "0 AS order", "NULL AS committed", "done", "NULL AS kind"
    )
    so_far = (
        f"max(done) OVER (PARTITION BY {_EPOCH} ORDER BY at_us, order ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    beyond = (
        done.unionAll(made)
        .withColumn("processed", F.expr(so_far))
        .filter("committed IS NOT NULL")
        .join(F.broadcast(epochs.select(*KEY, "start")), list(KEY), "left")
        .withColumn("from", F.expr("coalesce(processed, start)"))
        .filter("`from` IS NULL OR committed > `from`")
        .alias("c")
    )
    between = F.expr(
        "c.topic = r.topic AND c.partition = r.partition AND r.run_first < c.committed AND r.run_last >= c.`from`"
    )
    unjudged = beyond.filter("`from` IS NULL")
    broken = beyond.join(F.broadcast(log.alias("r")), between, "left_semi").unionAll(unjudged)
    return report(
        broken,
        "overcommit",
        scope="reader",
        split=f"CASE WHEN `from` IS NULL THEN '{UNDETERMINED}' ELSE '' END",
        offset="committed",
        incarnation="NULL",
        evidence=["committed", "`from` AS processed_to", "kind", "assignment", "incarnation AS consumer_incarnation"],
    )


def commit_rewind(history: DataFrame, epochs: DataFrame) -> DataFrame:
    """A commit below the one in force, with no seek of its epoch to explain it.

    In force is, of those that had been completed before this one was requested, the one requested last: of the whole
    group in subscribe mode, of the same consumer in assign mode. Commits in flight at once rewind nothing.
    """
    made = history.filter("outcome = 'ok'").selectExpr(
        *KEY, f"{READER} AS reader", "`group`", "from_us", "to_us", "offset", "kind"
    )
    asks = made.selectExpr("*", "from_us AS at_us", "1 AS order", "NULL AS done")
    # an answer counts for a request of the same microsecond, unless it is the answer to that very request
    after = "CASE WHEN from_us = to_us THEN 2 ELSE 0 END AS order"
    answers = made.selectExpr("*", "to_us AS at_us", after, "struct(from_us, to_us, offset, consumer) AS done")
    in_force = """max(done) OVER (PARTITION BY reader, `group`, topic, partition ORDER BY at_us, order
                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"""
    broken = (
        asks.unionAll(answers)
        .withColumn("in_force", F.expr(in_force))
        .filter("order = 1 AND offset < in_force.offset")
        .join(F.broadcast(epochs.select(*KEY, "source", "position", "start", "why")), list(KEY), "left")
        .filter("NOT coalesce(source = 'seek' AND coalesce(position, 0) <= offset, false)")
    )
    return report(
        broken,
        "commit_rewind",
        scope="reader",
        incarnation="NULL",
        at_us="to_us",
        evidence=[
            "in_force.offset AS in_force",
            "in_force.consumer AS committed_by",
            "in_force.to_us AS committed_us",
            "kind",
            "assignment",
            "incarnation AS consumer_incarnation",
            "start AS epoch_start",
            "why AS start_why",
        ],
    )


def judge(spark: SparkSession, ledger: Ledger, history: DataFrame, epochs: DataFrame, tally: Tally) -> None:
    """All findings about commits. history: see `starts.commit_history`; epochs: see `epochs.epoch_table`."""
    if not ledger.rows["commits"]:
        return
    done, log = processed(spark, ledger.files["deliveries"]), log_runs(spark, ledger.files["log"])
    with by_the_file(spark):
        found = capped(union([overcommit(history, done, epochs, log), commit_rewind(history, epochs)]))
        rows = found.toArrow().to_pylist()
    groups: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for row in rows:
        groups[row["check"], row["split"], row["scope"]].append(row)
    for key, findings in groups.items():
        total = findings[0]["total"]
        shown = [] if key[1] == UNDETERMINED else [{k: v for k, v in f.items() if k != "total"} for f in findings]
        tally.find(shown, *key, total)

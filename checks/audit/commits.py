"""Offset commits of every reader that commits, against what was processed and against each other."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checks.audit.epochs import KEY
from checks.audit.findings import UNDETERMINED, report, union
from checks.audit.readers import READER

_EPOCH = ", ".join(KEY)


def log_runs(log: DataFrame) -> DataFrame:
    """The log as runs of contiguous offsets: topic, partition, run_first, run_last. One where nothing is missing."""
    marked = log.selectExpr(
        "topic",
        "partition",
        "offset",
        "offset - row_number() OVER (PARTITION BY topic, partition ORDER BY offset) AS run",
    )
    return marked.groupBy("topic", "partition", "run").agg(
        F.expr("min(offset) AS run_first"), F.expr("max(offset) AS run_last")
    )


def overcommit(history: DataFrame, delivered: DataFrame, epochs: DataFrame, runs: DataFrame) -> DataFrame:
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
    done = delivered.selectExpr(
        *KEY, "reader", "processed_us AS at_us", "0 AS order", "NULL AS committed", "offset + 1 AS done", "NULL AS kind"
    )
    processed = (
        f"max(done) OVER (PARTITION BY {_EPOCH} ORDER BY at_us, order ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    beyond = (
        done.unionAll(made)
        .withColumn("processed", F.expr(processed))
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
    broken = beyond.join(F.broadcast(runs.alias("r")), between, "left_semi").unionAll(unjudged)
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


def commit_findings(history: DataFrame, delivered: DataFrame, epochs: DataFrame, log: DataFrame) -> DataFrame:
    """All findings about commits. history: see `starts.commit_history`."""
    return union([overcommit(history, delivered, epochs, log_runs(log)), commit_rewind(history, epochs)])

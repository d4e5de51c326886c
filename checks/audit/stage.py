"""The audit of one run: from the sealed ledger and the log to the tables in `audit/`.

What is as many as the records stays in Spark. What is as many as assignments, faults or partitions is collected and
judged in Python, and goes back into Spark as a small table to join with.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from chaos.ledger.record import run_token
from chaos.rundir import RunDir
from chaos.scenario import Resolved, Scenario
from checks.audit import commits, curves, groups, read_path, starts, times, totals, write_path
from checks.audit.epochs import (
    KEY,
    Epochs,
    Life,
    Row,
    build,
    commit_tallies,
    delivery_tallies,
    epoch_table,
    lives,
    ownership_table,
)
from checks.audit.findings import CAP, UNDETERMINED, capped, union
from checks.audit.history import Faults, Leadership
from checks.audit.load import Ledger, load
from checks.audit.mechanism import Context, explain
from checks.audit.ranges import Owed, owed, owed_table
from checks.audit.readers import Reader, readers_of
from checks.audit.tables import AUDIT_TABLES, write_tables
from checks.audit.totals import Totals
from checks.session import tuned


def audit(spark: SparkSession, run: RunDir, resolved: Resolved) -> None:
    """Derive every table of `audit/` (see `tables`) from the sealed ledger and the log that was read back.

    Raises `RunDirError` if the ledger is missing, damaged or of another version. Replaces an earlier audit as a whole.
    """
    ledger = load(spark, run)
    with tuned(spark, sum(ledger.rows.values())):
        write_tables(run.audit, derive(spark, ledger, resolved.scenario, run_token(resolved.run_id)))


def derive(spark: SparkSession, ledger: Ledger, scenario: Scenario, run: str) -> dict[str, pa.Table]:
    """All tables of the audit, by name. run: the token that the run's records carry."""
    base = _totals(totals.base_totals(ledger, run))
    small = _Small.collect(ledger, max((v for (name, _), v in base.items() if name == "drive_end_us"), default=0))
    readers = readers_of(scenario)
    policy = scenario.cluster.config.get("log.cleanup.policy", "delete")
    compacted = [t.name for t in scenario.topics if "compact" in str(t.config.get("cleanup.policy", policy))]
    tallied = delivery_tallies(ledger.deliveries), commit_tallies(ledger.commits)
    epochs = build(small.assignments, small.lives, _rows(tallied[0]), _rows(tallied[1]), small.drive_end_us)
    begun = epoch_table(spark, epochs)
    history = starts.commit_history(ledger.commits, begun.select(*KEY, "begin_us"))
    known = starts.known_at_begin(spark, epochs, small.lives, history, starts.observed_commits(ledger.cluster))
    starts.judge(epochs, known, readers, small.ranges)
    places = owed(readers, epochs, known, small.ranges)

    large = _Large(spark, ledger, epochs, places, small.lives, history, run, compacted)
    try:
        topics = sorted({t.name for t in scenario.topics} | {scope for name, scope in base if name == "rows.sends"})
        base |= totals.epoch_totals(epochs) | _totals(totals.in_range(ledger.log, large.places))
        found, counted = _findings(large, epochs, known)
        context = Context(scenario, Leadership(small.leaders), Faults(small.faults), epochs)
        metrics, unrecovered = _metrics(spark, large, small, readers, topics, epochs)
        extra = _extra(large, counted) | unrecovered
        return {
            "summary": _arrow("summary", totals.summary_rows(topics, readers, base, counted)),
            "anomalies": _arrow("anomalies", [_explained(f, context) for f in found]),
            "counts": _arrow("counts", totals.count_rows(topics, readers, base, ledger, extra)),
            "metrics": _arrow("metrics", metrics),
            "series": curves.series(ledger.sends, large.delivered, large.places).toArrow(),
            "latency": curves.latency(large.observed, small.drive_end_us - small.drive_begin_us).toArrow(),
            "ownership": ownership_table(epochs),
        }
    finally:
        large.release()


@dataclass
class _Small:
    """The tables that are small whatever the load, as Python rows. leaders: the observer's rows of leadership only."""

    assignments: list[Row]
    lives: dict[tuple[str, int], Life]
    faults: list[Row]
    leaders: list[Row]
    ranges: dict[tuple[str, int], starts.Range]
    drive_begin_us: int
    drive_end_us: int

    @classmethod
    def collect(cls, ledger: Ledger, drive_end_us: int) -> _Small:
        lifecycle = _rows(ledger.lifecycle)
        return cls(
            assignments=_rows(ledger.assignments),
            lives=lives(lifecycle),
            faults=_rows(ledger.faults),
            leaders=_rows(ledger.cluster.filter("key IN ('leader', 'leader_epoch', 'isr')")),
            ranges={(r["topic"], r["partition"]): (r["start"], r["end"]) for r in _rows(ledger.log_range)},
            drive_begin_us=min((r["at_us"] for r in lifecycle), default=drive_end_us),
            drive_end_us=drive_end_us,
        )


class _Large:
    """The tables as large as the load, in Spark, with those cached that several checks read."""

    def __init__(
        self,
        spark: SparkSession,
        ledger: Ledger,
        epochs: Epochs,
        places: list[Owed],
        known_lives: dict[tuple[str, int], Life],
        history: DataFrame,
        run: str,
        compacted: list[str],
    ) -> None:
        self.ledger, self.history, self.run, self.compacted = ledger, history, run, compacted
        self.epochs = epoch_table(spark, epochs)
        self.places = owed_table(spark, places)
        self.lives = _lives_table(spark, known_lives)
        self.delivered = read_path.with_epochs(ledger.deliveries, self.epochs).persist()
        self.write_suspects = write_path.suspects(ledger.sends, write_path.own_records(ledger.log, run)).persist()
        self.read_suspects = read_path.suspects(self.delivered, ledger.log, self.places).persist()
        self.firsts = times.first_processing(self.delivered, ledger.sends).persist()
        self.observed = times.observations(ledger.sends, self.firsts, history)

    def release(self) -> None:
        for table in (self.delivered, self.write_suspects, self.read_suspects, self.firsts):
            table.unpersist()


def _findings(
    large: _Large, epochs: Epochs, known: dict[int, starts.Known]
) -> tuple[list[dict[str, Any]], dict[tuple[str, str, str], int]]:
    """The findings to show, and the exact count of each check, split and scope."""
    ledger = large.ledger
    everything = union(
        [
            write_path.write_findings(
                ledger.sends,
                ledger.log,
                ledger.log_range,
                large.write_suspects,
                large.lives,
                large.run,
                large.compacted,
            ),
            read_path.read_findings(
                large.delivered, ledger.log, ledger.log_range, large.read_suspects, large.places, large.compacted
            ),
            commits.commit_findings(large.history, large.delivered, large.epochs, ledger.log),
        ]
    )
    rows = capped(everything).toArrow().to_pylist()
    counted = {(r["check"], r["split"], r["scope"]): r.pop("total") for r in rows}
    grouped = [*groups.double_ownership(epochs), *groups.foreign_commit(epochs, known)]
    shown: Counter[tuple[str, str, str]] = Counter()
    for row in grouped:
        key = row["check"], row["split"], row["scope"]
        shown[key] += 1
        if shown[key] <= CAP:
            rows.append(row)
    return [r for r in rows if r["split"] != UNDETERMINED], counted | dict(shown)


def _explained(finding: dict[str, Any], context: Context) -> dict[str, Any]:
    evidence = json.loads(finding["evidence"])
    sentence = explain(finding, evidence, context)
    return finding | {"mechanism": sentence, "evidence": json.dumps(evidence)}


def _metrics(
    spark: SparkSession, large: _Large, small: _Small, readers: list[Reader], topics: list[str], epochs: Epochs
) -> tuple[list[dict[str, Any]], Totals]:
    """Table `metrics`, and in how many partitions a fault was never recovered from."""
    injected = times.injections(small.faults)
    faults = times.fault_table(spark, injected)
    sends = large.ledger.sends
    gone = union(
        [
            times.produce_unavailability(sends, faults, small.drive_end_us),
            times.consume_unavailability(sends, large.firsts, large.places, faults, small.drive_end_us),
        ]
    )
    values = large.observed.selectExpr("metric", "scope", "'' AS fault", "value_us", "true AS recovered")
    if injected:
        values = values.unionAll(gone.select("metric", "scope", "fault", "value_us", "recovered"))
    partitions = Counter(topic for topic, _ in small.ranges)
    rebalances = times.rebalances(readers, epochs, partitions)
    if rebalances:
        measured = spark.createDataFrame(pa.Table.from_pylist(rebalances))
        values = values.unionAll(measured.selectExpr("metric", "scope", "fault", "value_us", "true"))
    rows = times.statistics(values).toArrow().to_pylist()
    unrecovered = {
        (f"{r['metric']}_unrecovered", f"{r['fault']}:{r['scope']}"): r["value_us"]
        for r in rows
        if r["stat"] == times.UNRECOVERED
    }
    names = [r.name for r in readers]
    expected = [
        *(("ack_latency", t, "") for t in topics),
        *(("end_to_end_latency", n, "") for n in names),
        *(("commit_latency", r.name, "") for r in readers if r.commits),
        *(("rebalance_duration", r.name, "") for r in readers if r.mode == "subscribe"),
        *(("produce_unavailability", t, f) for t in topics for f in injected),
        *(("consume_unavailability", n, f) for n in names for f in injected),
    ]
    return times.with_empty([r for r in rows if r["stat"] != times.UNRECOVERED], expected), unrecovered


def _extra(large: _Large, counted: dict[tuple[str, str, str], int]) -> Totals:
    """Numbers that come out of the checks."""
    absent = write_path.acked_but_absent(large.write_suspects, large.ledger.log_range, large.compacted)
    unsent = write_path.unsent_records(large.write_suspects, large.lives).filter(
        "life IS NOT NULL AND life <> 'stopped'"
    )
    named = (
        absent.filter("fate = 'evicted'")
        .selectExpr("'evicted' AS name", "topic AS scope")
        .unionAll(unsent.selectExpr("'unsent_present' AS name", "topic AS scope"))
    )
    extra = _totals(named.groupBy("name", "scope").count().withColumnRenamed("count", "value"))
    for (check, _, scope), count in counted.items():
        if check == "duplicate_delivery":
            extra["redelivered", scope] = extra.get(("redelivered", scope), 0) + count
    return extra


def _lives_table(spark: SparkSession, known: dict[tuple[str, int], Life]) -> DataFrame:
    """Producer incarnations and how they ended: producer, incarnation, life."""
    rows = [(client, incarnation, life.end) for (client, incarnation), life in known.items() if life.role == "producer"]
    schema = pa.schema([("producer", pa.string()), ("incarnation", pa.int32()), ("life", pa.string())])
    columns = [list(c) for c in zip(*rows, strict=True)] or [[], [], []]
    return spark.createDataFrame(pa.table(columns, schema=schema))


def _rows(table: DataFrame) -> list[Row]:
    rows: list[Row] = table.toArrow().to_pylist()
    return rows


def _totals(table: DataFrame) -> Totals:
    found: Totals = {}
    for row in _rows(table):
        key = row["name"], row["scope"] or ""
        found[key] = max(found.get(key, 0), row["value"] or 0)
    return found


def _arrow(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=AUDIT_TABLES[name])

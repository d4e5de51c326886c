"""The audit of one run: from the sealed ledger and the log to the tables in `audit/`.

Executors process the tables that are as large as the load (`engine`) and return tallies. The driver holds assignments,
faults and partitions as Python objects.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from chaos.ledger.record import run_token
from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from checks.audit.engine import counters, scan, survey_facts
from checks.audit.engine.survey import SurveyPlan
from checks.audit.facts import starts
from checks.audit.facts.epochs import Epochs, Life, Row, build, lives
from checks.audit.facts.leadership import Leadership, phase_times
from checks.audit.facts.moves import moves_of
from checks.audit.facts.newcomers import newcomers
from checks.audit.facts.observed import Observed
from checks.audit.facts.ranges import ReadRange, read_ranges
from checks.audit.facts.readers import Reader, readers_of
from checks.audit.facts.routes import routes
from checks.audit.facts.run_facts import RunFacts
from checks.audit.facts.starts import CommittedOffsets
from checks.audit.load import Ledger, load, settle
from checks.audit.output import curves, metrics, totals
from checks.audit.output.mechanisms import anomaly_rows
from checks.audit.output.recovery import recoveries
from checks.audit.output.tables import AUDIT_TABLES, ownership_table, write_tables
from checks.audit.rules.judge import ROW_RULES, judge_block, judge_fetches, judge_run
from checks.audit.rules.rule import Context, RunData
from checks.spark.session import tuned


def audit(spark: SparkSession, run: Run, resolved: Resolved) -> None:
    """Write every table of `audit/` (see `output.tables`) from the sealed ledger and the log that was read back.

    Replaces an earlier audit as a whole. Raises `RunDirError` if the ledger is missing, damaged or of another version.
    """
    ledger = load(run)
    write_tables(run.audit, derive(spark, ledger, resolved.scenario, run_token(resolved.run_id)))


def derive(spark: SparkSession, ledger: Ledger, scenario: Scenario, token: str) -> dict[str, pa.Table]:
    """Return all tables of the audit, by name. token: the token that the run's records carry."""
    with tuned(spark):
        return _Audit(spark, ledger, scenario, token).tables()


@dataclass
class _SmallTables:
    """The tables that are small whatever the load, as Python rows.

    begin_us: the earliest event of a client. end_us: the latest time in any of the tables.
    """

    tables: dict[str, list[Row]]
    lives: dict[tuple[str, int], Life]
    ranges: dict[tuple[str, int], starts.LogRange]
    begin_us: int
    end_us: int

    @classmethod
    def of(cls, ledger: Ledger) -> _SmallTables:
        tables: dict[str, list[Row]] = {name: table.to_pylist() for name, table in ledger.small.items()}
        ranges = {(r["topic"], r["partition"]): (r["start"], r["end"]) for r in tables.pop("log_range")}
        ends = [row["at_us"] for rows in tables.values() for row in rows if "at_us" in row]
        ends += [row["ended_us"] for row in tables["transactions"] if row["ended_us"] is not None]
        end_us = max(ends, default=0)
        begin_us = min((row["at_us"] for row in tables["lifecycle"]), default=end_us)
        return cls(tables, lives(tables["lifecycle"]), ranges, begin_us, end_us)


class _Audit:
    """One audit: each attribute is the result of one step."""

    def __init__(self, spark: SparkSession, ledger: Ledger, scenario: Scenario, token: str) -> None:
        self.spark, self.ledger, self.scenario = spark, ledger, scenario
        self.small = small = _SmallTables.of(ledger)
        self.partitions = Counter(topic for topic, _ in small.ranges)
        self.readers: list[Reader] = readers_of(scenario)
        self.plan = SurveyPlan(
            token,
            phase_times(small.tables["faults"], "injected"),
            curves.cell_us(small.end_us - small.begin_us),
            routes(scenario, self.partitions),
            ROW_RULES,
        )
        self.tally = scan.survey(spark, ledger.files, self.plan)
        settle(ledger, survey_facts.rows_of_parts(self.tally))
        small.end_us = max(small.end_us, self.tally.count(counters.DRIVE_END_US))
        self.epochs = self._epochs()
        self.facts = self._run_facts()
        self.committed = self._committed()
        starts.judge_starts(self.epochs, self.committed, self.readers, small.ranges)
        self.observed = Observed(small.tables["cluster"], small.end_us)
        self.ranges = self._read_ranges()
        self._judge()

    def _epochs(self) -> Epochs:
        small, delivered = self.small, survey_facts.delivered_rows(self.tally)
        committed: dict[Any, int] = dict(self.tally.each(counters.COMMITTED_TO))
        epochs = build(small.tables["assignments"], small.lives, delivered, committed, small.end_us)
        for e in epochs.all:
            self.tally.add(counters.EPOCHS, e.reader, value=1)
        return epochs

    def _run_facts(self) -> RunFacts:
        """Return the facts of the first pass; the read ranges depend on the commits and are added later."""
        survey, small, scenario = self.tally, self.small, self.scenario
        policy = scenario.cluster.config.get("log.cleanup.policy", "delete")
        log_ends: dict[Any, int] = dict(survey.each(counters.LOG_END))
        return RunFacts(
            run_token=self.plan.run_token,
            topics=sorted(survey.members(counters.TOPICS)),
            senders=sorted(survey.members(counters.SENDERS), key=lambda sender: (sender[0] or "", sender[1])),
            epochs=self.epochs.all,
            log_ranges=small.ranges,
            heads=survey_facts.heads(survey, self.epochs),
            compacted=frozenset(
                t.name for t in scenario.topics if "compact" in str(t.config.get("cleanup.policy", policy))
            ),
            producer_ends={client: life.end for client, life in small.lives.items() if life.role == "producer"},
            later_offsets=survey_facts.later_offsets(survey),
            log_ends=log_ends,
            committers=sorted(survey.members(counters.COMMITTERS)),
            fetches=starts.offset_fetches(self.epochs, small.lives),
            pooled=frozenset(r.name for r in self.readers if r.pooled),
            transactions=survey_facts.transactions(survey, small.tables["transactions"]),
            contested=survey_facts.contested(survey),
            read_uncommitted=frozenset(r.name for r in self.readers if not r.committed_only),
            injected=self.plan.injected,
            cell_us=self.plan.cell_us,
            moves=tuple(moves_of(small.tables["faults"])),
            unwatched=frozenset(p.name for p in scenario.producers if p.mode == "fire_and_forget"),
        )

    def _committed(self) -> dict[int, CommittedOffsets]:
        """Return what may have been committed when each epoch began, by index of the epoch."""
        ledger, commits = self.ledger, {}
        if ledger.rows["commits"]:
            files = {"commits": ledger.files["commits"]}
            found = scan.judge(self.spark, files, self.facts, ledger.rows["commits"], judge_fetches)
            commits = {epoch: rows[0] for (epoch,), rows in found.each(counters.COMMITS_AT_BEGIN)}
        seen = starts.sightings(r for r in self.small.tables["cluster"] if r["key"] == "committed")
        return starts.committed_at_begin(self.facts.fetches, commits, seen, self.facts.moves)

    def _read_ranges(self) -> list[ReadRange]:
        log = self.small.ranges
        added = newcomers(self.readers, self.epochs, self.observed, log, self.facts.moves)
        ranges = read_ranges(self.readers, self.epochs, self.committed, log, added)
        for r in ranges:
            self.facts.read_ranges.setdefault((r.topic, r.partition), []).append(r)
        return ranges

    def _judge(self) -> None:
        """Apply the rules to all blocks and to the whole run."""
        ledger = self.ledger
        transactions = self.small.tables["transactions"]
        run = RunData(
            self.readers, self.epochs, self.committed, self.observed, transactions, self.facts.moves, self.tally
        )
        rows = sum(ledger.rows[table] for table in ledger.files)
        self.tally.merge(scan.judge(self.spark, ledger.files, self.facts, rows, judge_block))
        judge_run(run, self.tally)

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables of the audit, by name."""
        small, tally, injected = self.small, self.tally, self.plan.injected
        topics = sorted({t.name for t in self.scenario.topics} | tally.members(counters.TOPICS))
        measurements = metrics.unavailability(tally, self.ranges, small.end_us, injected)
        measurements += metrics.rebalances(self.readers, self.epochs, self.partitions)
        measurements += recoveries(self.observed, small.tables["faults"])
        times, unrecovered = metrics.statistics(measurements, metrics.distributions(tally))
        leaders = [r for r in small.tables["cluster"] if r["key"] in ("leader", "leader_epoch", "isr")]
        context = Context(self.scenario, Leadership(leaders), injected, self.epochs)
        rows: dict[str, list[dict[str, Any]]] = {
            "summary": totals.summary_rows(topics, self.readers, tally),
            "anomalies": anomaly_rows(tally, context),
            "counts": totals.count_rows(topics, self.readers, tally, self.ledger, small.ranges, unrecovered),
            "metrics": metrics.with_empty(times, metrics.expected(topics, self.readers, injected)),
            "series": curves.series(tally, self.ranges),
            "latency": curves.latency(tally, self.plan.cell_us),
        }
        found = {name: pa.Table.from_pylist(table, schema=AUDIT_TABLES[name]) for name, table in rows.items()}
        return found | {"ownership": ownership_table(self.epochs)}

"""The audit of one run: from the sealed ledger and the log to the tables in `audit/`.

Executors process the tables that are as large as the load (`engine`) and return tallies. The driver holds assignments,
faults and partitions as Python objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from chaos.ledger.record import run_token
from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from checks.audit.engine import counters, scan, survey_facts
from checks.audit.engine.blocks import BLOCK_BITS
from checks.audit.engine.survey import SurveyPlan
from checks.audit.facts import starts
from checks.audit.facts.checkpoints import Checkpoints
from checks.audit.facts.commit_log import CommitLog, Decider, offsets_seen, writers_without_row
from checks.audit.facts.continued import assignments_by_life, reached_before, set_former
from checks.audit.facts.deletions import deletions, due_starts, ordered_starts
from checks.audit.facts.epochs import Epochs, ReaderPartition, Row, build, lives, torn_tombstones
from checks.audit.facts.group_lives import group_lives
from checks.audit.facts.moves import moves_of
from checks.audit.facts.newcomers import newcomers
from checks.audit.facts.observed import Observed, injections
from checks.audit.facts.ranges import ReadRange, read_ranges
from checks.audit.facts.readers import readers_of
from checks.audit.facts.retention import Overdue, backdated_topics, overdue_records
from checks.audit.facts.routes import routes
from checks.audit.facts.run_facts import RunFacts
from checks.audit.facts.shares import Shares, disturbed_times, members_of, share_groups, share_ranges
from checks.audit.facts.starts import CommittedOffsets, LogRange
from checks.audit.facts.topic_changes import topic_lives
from checks.audit.facts.topic_lives import TopicLives
from checks.audit.facts.traced import Traced, traced
from checks.audit.facts.vanished import Vanished, compared_with_log, explained, lower_fetches, restarts
from checks.audit.load import Ledger, load, settle
from checks.audit.output import curves, metrics, totals
from checks.audit.output.tables import AUDIT_TABLES, ownership_table, write_tables
from checks.audit.rules.outputs import UNTRACED
from checks.audit.rules.registry import ROW_RULES, judge_block, judge_fetches, judge_run
from checks.audit.rules.rule import Parties, RunData
from checks.spark.session import tuned


def audit(spark: SparkSession, run: Run, resolved: Resolved) -> None:
    """Write every table of `audit/` (see `output.tables`) from the sealed ledger and the log that was read back.

    Replaces an earlier audit as a whole. Raises `RunDirError` if the ledger is missing, damaged or of another version.
    """
    ledger = load(run)
    with tuned(spark):
        tables = _Audit(spark, ledger, resolved.scenario, run_token(resolved.run_id)).written()
    write_tables(run.audit, tables)


def _internal(log_ranges: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the ranges of `__consumer_offsets`, and those of other topics."""
    return [r for r in log_ranges if r["records"] is not None], [r for r in log_ranges if r["records"] is None]


class _Audit:
    """One audit: each attribute is the result of one step.

    tables: the tables that are small whatever the load, as Python rows. lives: every incarnation of a client. ranges:
    start and end of each partition's log. begin_us: the earliest event of a client. end_us: the latest recorded time.
    """

    def __init__(self, spark: SparkSession, ledger: Ledger, scenario: Scenario, token: str) -> None:
        self.spark, self.ledger, self.scenario = spark, ledger, scenario
        self.tables: dict[str, list[Row]] = {name: table.to_pylist() for name, table in ledger.small.items()}
        self.lives = lives(self.tables["lifecycle"])
        internal, log_ranges = _internal(self.tables.pop("log_range"))
        self.offsets_removed = sum(r["end"] - r["start"] - r["records"] for r in internal) if internal else None
        self.ranges: dict[tuple[str, int], LogRange] = {
            (r["topic"], r["partition"]): (r["start"], r["end"]) for r in log_ranges
        }
        self.read_us = {(r["topic"], r["partition"]): (r["read_from_us"], r["read_us"]) for r in log_ranges}
        commit_log = CommitLog(ledger.commit_log, self.tables.pop("commit_log_range"), scenario.skewed)
        self.end_us = self._end_us()
        self.begin_us = min((row["at_us"] for row in self.tables["lifecycle"]), default=self.end_us)
        self.partitions = Counter(topic for topic, _ in self.ranges)
        self.readers, self.share_groups = readers_of(scenario), share_groups(scenario)
        injected = injections(self.tables["faults"])
        cell_us = curves.cell_us(self.end_us - self.begin_us)
        topics = scan.settle_lives(spark, ledger.files, self._topic_lives(), token)
        deleted = deletions(self.tables["faults"], topics)
        self.run_us = self.end_us - self.begin_us
        self.ordered = ordered_starts(self.ranges, deleted, self.tables["faults"])
        self.due_starts = due_starts(self.ranges, self.ordered, scenario, self.run_us)
        processors = frozenset(p.name for p in scenario.processors)
        promised = routes(scenario, self.partitions, self.tables["faults"])
        self.decider = self._decider(commit_log, topics)
        self.decisions = scan.settle_commits(spark, ledger.files, self.decider)
        self.plan = SurveyPlan(
            token,
            injected,
            cell_us,
            promised,
            ROW_RULES,
            topics,
            deleted,
            processors,
            self.decisions,
            frozenset(scenario.compacted),
        )
        self.tally = scan.survey(spark, ledger.files, self.plan)
        settle(ledger, survey_facts.rows_of_parts(self.tally))
        self.end_us = max(self.end_us, self.tally.count(counters.DRIVE_END_US))
        self.epochs = self._epochs()
        self.observed = Observed(self.tables["cluster"], self.end_us)
        self.facts = self._run_facts()
        self.committed = self._committed()
        reached = reached_before(self.epochs, self.plan.lives)
        checkpoints = Checkpoints(self._assignments())
        starts.judge_starts(self.epochs, self.committed, self.readers, self.ranges, reached, checkpoints)
        self.read_ranges = self._read_ranges(reached)
        self.run = RunData(
            scenario,
            self.readers,
            self.facts,
            self.committed,
            self.observed,
            self.tables["transactions"],
            self.tally,
            self.tables["lifecycle"],
        )
        rows = sum(ledger.rows[table] for table in ledger.files)
        self.tally.merge(scan.judge(spark, ledger.files, self.facts, rows, judge_block))
        judge_run(self.run, self.tally)

    def _end_us(self) -> int:
        """Return the latest time in the small tables."""
        ends = [row["at_us"] for rows in self.tables.values() for row in rows if "at_us" in row]
        ends += [row["ended_us"] for row in self.tables["transactions"] if row["ended_us"] is not None]
        return max(ends, default=0)

    def _decider(self, log: CommitLog, topics: TopicLives) -> Decider:
        """Return what decides commits by their log."""
        assignments = self.tables["assignments"]
        automatic = frozenset(r.name for r in self.readers if r.auto)
        return Decider(
            log,
            writers_without_row(assignments, self.lives, automatic),
            moves_of(self.tables["faults"]),
            offsets_seen(starts.sightings(r for r in self.tables["cluster"] if r["key"] == "committed"), assignments),
            frozenset(topics.of),
            one_clock=self.scenario.cluster.driver != "attached",
        )

    def _topic_lives(self) -> TopicLives:
        begins = {partition: start or 0 for partition, (start, _) in self.ranges.items()}
        return topic_lives(self.tables["cluster"], self.tables["faults"], begins, self.scenario.compacted)

    def _epochs(self) -> Epochs:
        committed: dict[Any, int] = dict(self.tally.each(counters.COMMITTED_TO))
        delivered = survey_facts.delivered_rows(self.tally)
        topics = self.plan.lives
        epochs = build(self._assignments(), self.lives, delivered, committed, self.end_us)
        set_former(epochs, topics)
        for e in epochs.all:
            self.tally.add(counters.EPOCHS, e.reader, value=1)
        return epochs

    def _assignments(self) -> list[Row]:
        """Return table `assignments` with a topic for each life."""
        rows = self.tables["assignments"]
        return assignments_by_life(rows, self.plan.lives, self.lives, self.ranges, self.end_us)

    def _run_facts(self) -> RunFacts:
        """Return the facts of the first pass; the read ranges depend on the commits and are added later."""
        survey, scenario = self.tally, self.scenario
        log_ends: dict[Any, int] = dict(survey.each(counters.LOG_END))
        return RunFacts(
            run_token=self.plan.run_token,
            topics=sorted(survey.members(counters.TOPICS) | {topic for topic, _ in self.ranges}),
            senders=sorted(survey.members(counters.SENDERS), key=lambda sender: (sender[0] or "", sender[1])),
            epochs=self.epochs,
            log_ranges=self.ranges,
            due_starts=self.due_starts,
            perhaps_early=self._perhaps_early(),
            backdated=backdated_topics(scenario, self.tables["faults"], self.ordered, self.run_us),
            overdue=self._overdue(compacts=False),
            uncompacted=self._overdue(compacts=True),
            protected_us={topic: scenario.protected_us(topic, self.run_us // 1000) for topic in scenario.compacted},
            skewed=scenario.skewed,
            heads=survey_facts.heads(survey, self.epochs),
            compacted={t: 1 + (self._keyed_rows(t) >> BLOCK_BITS) for t in sorted(scenario.compacted)},
            tombstone_every={p.name: p.tombstone_every for p in scenario.producers if p.tombstone_every},
            delete_retention_us={
                t: scenario.delete_retention_us(t) for p in scenario.producers if p.tombstone_every for t in p.written
            },
            torn_tombstones=torn_tombstones(self.lives, scenario),
            read_us=self.read_us,
            producer_ends={client: life.end for client, life in self.lives.items() if life.role == "producer"},
            later_offsets=survey_facts.later_offsets(survey),
            log_ends=log_ends,
            committers=sorted(survey.members(counters.COMMITTERS)),
            fetches=starts.offset_fetches(self.epochs, self.lives),
            pooled=frozenset(c.name for c in scenario.consumers if c.mode == "subscribe" and c.workers),
            transactions=survey_facts.transactions(survey, self.tables["transactions"]),
            contested=survey_facts.contested(survey),
            read_uncommitted=frozenset(r.name for r in self.readers if not r.committed_only),
            injected=self.plan.injected,
            cell_us=self.plan.cell_us,
            moves=tuple(moves_of(self.tables["faults"])),
            lives=self.plan.lives,
            decisions=self.decisions,
            traced=self._traced(),
            counted={t: 1 + (self._counted_rows(t) >> BLOCK_BITS) for t in self._counted_topics()},
            counting=frozenset(p.group for p in scenario.processors if p.state),
            committed_by_any=dict(survey.each(counters.COMMITTED_BY_ANY)),
            unwatched=frozenset(p.name for p in scenario.producers if p.mode == "fire_and_forget"),
            shares=self._shares(),
        )

    def _perhaps_early(self) -> frozenset[str]:
        """Return the topics from which retention may have deleted records too early, by the wrong clock of a broker.

        In other topics, retention deletes nothing in time: what it deletes there by that clock is lost.
        """
        return self.scenario.retained(self.run_us // 1000) if self.scenario.skewed else frozenset()

    def _overdue(self, compacts: bool) -> dict[tuple[str, int], Overdue]:
        acked = {topic: reached for (topic,), reached in self.tally.each(counters.ACKED_REACHED)}
        ranges = {place: found for place, found in self.ranges.items() if place[0] not in self.plan.lives.of}
        return overdue_records(
            self.scenario, compacts, self.tables["faults"], ranges, self.read_us, acked, self.begin_us
        )

    def _shares(self) -> Shares:
        lowest: dict[Any, int] = dict(self.tally.each(counters.LOWEST_ACQUIRED))
        active: dict[Any, int] = dict(self.tally.each(counters.LAST_ACTIVE))
        return Shares(
            share_ranges(self.share_groups, self.ranges, lowest, self.observed, moves_of(self.tables["faults"])),
            members_of(active, self.lives, self.scenario.shares),
            disturbed_times(self.tables["faults"], self.end_us),
            self.end_us,
        )

    def _keyed_rows(self, topic: str) -> int:
        """Return the number of acknowledged records and log records of a topic."""
        return self.tally.count(counters.ACKED, topic) + self.tally.count(counters.IN_LOG, topic)

    def _counted_topics(self) -> list[str]:
        return sorted({topic for p in self.scenario.processors if p.state for topic in p.topics})

    def _counted_rows(self, topic: str) -> int:
        """Return the number of log records of a topic and of the outputs made from them."""
        outputs = {p.to for p in self.scenario.processors if topic in p.topics}
        return sum(self.tally.count(counters.IN_LOG, name) for name in (topic, *outputs))

    def _traced(self) -> dict[str, Traced]:
        untraced = [entry for (entry,), _ in self.tally.each(UNTRACED)]
        return traced(self.scenario, self.ranges, self.plan.lives.of, untraced)

    def _committed(self) -> dict[int, CommittedOffsets]:
        """Return what may have been committed when each epoch began, by index of the epoch.

        Adds the offsets that were no longer in force to the moves of the facts, and finds the lives of groups.
        """
        ledger, facts, commits, topics = self.ledger, self.facts, {}, self.plan.lives
        vanished = Vanished(self.observed, facts.moves, topics)
        lower, fetches = vanished.observed_moves(), facts.fetches
        if ledger.rows["commits"]:
            extra = lower_fetches(lower)
            asked = {p: [*fetches.get(p, []), *extra.get(p, [])] for p in {**fetches, **extra}}
            files = {"commits": ledger.files["commits"]}
            found = scan.judge(self.spark, files, replace(facts, fetches=asked), ledger.rows["commits"], judge_fetches)
            commits = {epoch: rows[0] for (epoch,), rows in found.each(counters.COMMITS_AT_BEGIN)}
        lost = explained(lower, commits, self.epochs, self.lives)
        lost += vanished.begun_below(self.epochs, commits, lost, self.ranges)
        lost = compared_with_log(lost, self.decider.log, self.decider.clock_us)
        again = restarts(self.epochs)
        self.group_lives = group_lives(self.observed, again, self.epochs)
        self.facts = replace(facts, moves=(*facts.moves, *vanished.ended_groups(), *again, *lost))
        observed = (r for r in self.tables["cluster"] if r["key"] == "committed")
        seen = starts.sightings(observed, topics.label)
        return starts.committed_at_begin(fetches, commits, seen, moves=self.facts.moves)

    def _read_ranges(self, reached: Mapping[ReaderPartition, Collection[int]]) -> list[ReadRange]:
        once = [(topic, partition) for topic, partition in self.ranges if topic not in self.plan.lives.of]
        added = newcomers(self.readers, self.epochs, self.observed, once, self.facts.moves)
        found = read_ranges(self.readers, self.epochs, self.committed, self.ranges, self.due_starts, added, reached)
        for r in found:
            self.facts.read_ranges.setdefault((r.topic, r.partition), []).append(r)
        return found

    def written(self) -> dict[str, pa.Table]:
        """Return the tables of the audit, by name."""
        tally, injected = self.tally, self.plan.injected
        topics = sorted({t.name for t in self.scenario.topics} | tally.members(counters.TOPICS))
        scopes = [self.plan.lives.numbered.get(topic, topic) for topic in topics]
        measurements = metrics.unavailability(tally, self.read_ranges, self.end_us, injected, self.plan.lives)
        measurements += metrics.rebalances(self.readers, self.epochs, self.partitions)
        measurements += metrics.recoveries(self.observed, self.tables["faults"])
        times, unrecovered = metrics.statistics(measurements, metrics.distributions(tally, self.plan.lives))
        rows: dict[str, list[dict[str, Any]]] = {
            "summary": totals.summary_rows(Parties(self.scenario, topics), tally),
            "undecided": totals.undecided_rows(tally) + totals.undecided_commits(self.decisions),
            "anomalies": totals.anomaly_rows(tally, self.run, (self.begin_us, self.end_us)),
            "counts": totals.count_rows(topics, self.readers, tally, self.ledger, self.ranges, unrecovered)
            + totals.offsets_rows(self.offsets_removed)
            + totals.share_rows([g.name for g in self.share_groups], tally),
            "metrics": metrics.with_empty(times, metrics.expected(scopes, self.readers, injected)),
            "series": curves.series(tally, self.read_ranges),
            "latency": curves.latency(tally, self.plan.cell_us),
            "group_lives": [asdict(life) for life in self.group_lives],
        }
        found = {name: pa.Table.from_pylist(table, schema=AUDIT_TABLES[name]) for name, table in rows.items()}
        return found | {"ownership": ownership_table(self.epochs)}

"""The audit of one run: from the sealed ledger and the log to the tables in `audit/`.

Executors process the tables that are as large as the load (`engine`) and return tallies. The driver holds assignments,
faults and partitions as Python objects. The audit has five steps. Each is a function from the results of earlier ones
to its own:

| step | result | what it finds out |
|---|---|---|
| `read_small` | `Inputs` | the tables that are small whatever the load, and times and ranges from them |
| `plan_survey` | `Planned` | lives of topics, decisions on commits of unknown outcome, what faults deleted |
| `survey` | `Surveyed` | counts of all large tables (the first pass), the epochs, the facts for the second pass |
| `find_starts` | `Started` | where epochs began, which offsets moved, what each reader had to read |
| `judge` | `RunData` | the findings of every rule (the second pass), in its tally |

`tables_of` writes the results as tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from chaos.ledger.record import run_token
from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from checks.audit.engine import counters, scan, summaries
from checks.audit.engine.blocks import BLOCK_BITS
from checks.audit.engine.survey import SurveyPlan
from checks.audit.engine.tally import Tally
from checks.audit.facts import starts
from checks.audit.facts.commit_log import CommitLog, Decider, offsets_seen, writers_without_row
from checks.audit.facts.epochs import Epochs, Life, OffsetFetch, Row, build, lives, torn_tombstones
from checks.audit.facts.lineage import Lineage, lineages
from checks.audit.facts.lost_offsets import LostOffsets, compared_with_log, explained, lower_fetches, restarts
from checks.audit.facts.observed import Observed, injections
from checks.audit.facts.offset_changes import GroupLife, group_lives, offset_changes_of
from checks.audit.facts.ranges import ReadRange, read_ranges
from checks.audit.facts.readers import Reader, readers_of
from checks.audit.facts.recreated_topics import assignments_by_life, reached_before, set_former
from checks.audit.facts.retention import (
    Overdue,
    backdated_topics,
    deletions,
    due_starts,
    ordered_starts,
    overdue_records,
)
from checks.audit.facts.routes import routes
from checks.audit.facts.run_facts import RunFacts
from checks.audit.facts.shares import ShareGroup, Shares, disturbed_times, members_of, share_groups, share_ranges
from checks.audit.facts.starts import Checkpoints, CommittedOffsets, LogRange
from checks.audit.facts.topic_changes import added_partitions, topic_lives
from checks.audit.facts.topic_lives import TopicLives
from checks.audit.findings import WIRE, Reason
from checks.audit.load import Ledger, load, settle
from checks.audit.output import curves, metrics, totals
from checks.audit.output.tables import AUDIT_TABLES, ownership_table, write_tables
from checks.audit.rules.outputs import UNTRACED
from checks.audit.rules.registry import ROW_RULES, judge_block, judge_fetches, judge_run
from checks.audit.rules.rule import Parties, RunData
from checks.spark.session import tuned

Place = tuple[str, int]
"""Topic and partition."""


def audit(spark: SparkSession, run: Run, resolved: Resolved, folder: Path | None = None) -> None:
    """Write every table of `audit/` (see `output.tables`) from the sealed ledger and the log that was read back.

    folder: of the ledger of the wire, if that is judged. Replaces an earlier audit as a whole. Raises `RunDirError` if
    the ledger is missing, damaged or of another version.
    """
    write_tables(run.audit, audited(spark, run, resolved, folder))


def audited(spark: SparkSession, run: Run, resolved: Resolved, folder: Path | None = None) -> dict[str, pa.Table]:
    """Return the tables of the audit, as `audit`."""
    inputs = read_small(load(run, folder), resolved.scenario)
    with tuned(spark):
        planned = plan_survey(spark, inputs, run_token(resolved.run_id))
        surveyed = survey(spark, inputs, planned)
        started = find_starts(spark, inputs, planned, surveyed)
        judged = judge(spark, inputs, surveyed, started)
        return tables_of(inputs, planned, surveyed, started, judged)


@dataclass(frozen=True)
class Inputs:
    """The run as its small tables show it.

    tables: the tables that are small whatever the load, as Python rows. lives: every incarnation of a client. ranges:
    start and end of each partition's log. read_us: when reading it back had begun and ended. commit_log: the log of
    offset commits. offsets_removed: records that compaction removed from `__consumer_offsets`, None if unknown.
    begin_us: the earliest event of a client. end_us: the latest time in the small tables.
    """

    scenario: Scenario
    ledger: Ledger
    tables: dict[str, list[Row]]
    lives: dict[tuple[str, int], Life]
    ranges: dict[Place, LogRange]
    read_us: dict[Place, tuple[int | None, int | None]]
    commit_log: CommitLog
    offsets_removed: int | None
    begin_us: int
    end_us: int

    @property
    def faults(self) -> list[Row]:
        """The rows of table `faults` about the cluster of the records."""
        elsewhere = {fault.name for fault in self.scenario.every_fault if fault.elsewhere}
        return [row for row in self.tables["faults"] if row["fault"] not in elsewhere]

    @property
    def run_us(self) -> int:
        """The time from the first event of a client to the end of the small tables."""
        return self.end_us - self.begin_us

    @cached_property
    def partitions(self) -> Counter[str]:
        """The number of partitions of each topic."""
        return Counter(topic for topic, _ in self.ranges)

    @cached_property
    def readers(self) -> list[Reader]:
        """The readers of the scenario."""
        return readers_of(self.scenario)

    @cached_property
    def share_groups(self) -> list[ShareGroup]:
        """The share groups of the scenario."""
        return share_groups(self.scenario)


def read_small(ledger: Ledger, scenario: Scenario) -> Inputs:
    """Return the run as its small tables show it."""
    tables: dict[str, list[Row]] = {name: table.to_pylist() for name, table in ledger.small.items()}
    internal, log_ranges = _internal(tables.pop("log_range"))
    commit_log = CommitLog(ledger.commit_log, tables.pop("commit_log_range"), scenario.skewed)
    end_us = _end_us(tables)
    begins = (row["at_us"] for row in tables["lifecycle"] if row["at_us"])  # 0: a writer that no process is known of
    return Inputs(
        scenario=scenario,
        ledger=ledger,
        tables=tables,
        lives=lives(tables["lifecycle"]),
        ranges={(r["topic"], r["partition"]): (r["start"], r["end"]) for r in log_ranges},
        read_us={(r["topic"], r["partition"]): (r["read_from_us"], r["read_us"]) for r in log_ranges},
        commit_log=commit_log,
        offsets_removed=sum(r["end"] - r["start"] - r["records"] for r in internal) if internal else None,
        begin_us=min(begins, default=end_us),
        end_us=end_us,
    )


def _internal(log_ranges: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the ranges of `__consumer_offsets`, and the ranges of other topics."""
    return [r for r in log_ranges if r["records"] is not None], [r for r in log_ranges if r["records"] is None]


def _end_us(tables: Mapping[str, list[Row]]) -> int:
    """Return the latest time in the small tables."""
    ends = [row["at_us"] for rows in tables.values() for row in rows if "at_us" in row]
    ends += [row["ended_us"] for row in tables["transactions"] if row["ended_us"] is not None]
    return max(ends, default=0)


@dataclass(frozen=True)
class Planned:
    """What has to be known before the first pass.

    survey: its parameters. decider: what decides commits by their log. ordered: see `deletions.ordered_starts`.
    due_starts: see `deletions.due_starts`.
    """

    survey: SurveyPlan
    decider: Decider
    ordered: dict[Place, int | None]
    due_starts: dict[Place, int | None]

    @property
    def topics(self) -> TopicLives:
        """The lives of topics that were deleted."""
        return self.survey.lives


def plan_survey(spark: SparkSession, inputs: Inputs, token: str) -> Planned:
    """Return the plan of the first pass. token: the token that the run's records carry.

    Runs jobs only if a topic was deleted, and for commits with an outcome that the client did not learn.
    """
    scenario, files, rows = inputs.scenario, inputs.ledger.files, inputs.ledger.rows
    begins = {partition: start or 0 for partition, (start, _) in inputs.ranges.items()}
    found = topic_lives(inputs.tables["cluster"], inputs.faults, begins, scenario.compacted)
    topics = scan.settle_lives(spark, files, rows, found, token)
    deleted = deletions(inputs.faults, topics)
    ordered = ordered_starts(inputs.ranges, deleted, inputs.faults)
    decider = _decider(inputs, topics)
    plan = SurveyPlan(
        run_token=token,
        injected=injections(inputs.faults),
        cell_us=curves.cell_us(inputs.run_us),
        routes=routes(scenario, inputs.partitions, inputs.faults),
        row_rules=ROW_RULES,
        lives=topics,
        deletions=deleted,
        processors=frozenset(p.name for p in scenario.processors),
        decisions=scan.settle_commits(spark, files, rows, decider),
        compacted=frozenset(scenario.compacted),
    )
    return Planned(plan, decider, ordered, due_starts(inputs.ranges, ordered, scenario, inputs.run_us))


def _decider(inputs: Inputs, topics: TopicLives) -> Decider:
    """Return what decides commits by their log."""
    assignments, observed = inputs.tables["assignments"], inputs.tables["cluster"]
    automatic = frozenset(r.name for r in inputs.readers if r.auto)
    return Decider(
        inputs.commit_log,
        writers_without_row(assignments, inputs.lives, automatic),
        offset_changes_of(inputs.faults),
        offsets_seen(starts.sightings(r for r in observed if r["key"] == "committed"), assignments),
        frozenset(topics.of),
        one_clock=inputs.scenario.cluster.driver != "attached",
    )


@dataclass(frozen=True)
class Surveyed:
    """What the first pass found.

    tally: its counts. assignments: the rows of that table, with a topic for each life. epochs: from them. facts: for
    the second pass, without what `find_starts` adds. end_us: the latest recorded time.
    """

    tally: Tally
    assignments: list[Row]
    epochs: Epochs
    observed: Observed
    facts: RunFacts
    end_us: int


def survey(spark: SparkSession, inputs: Inputs, planned: Planned) -> Surveyed:
    """Return what the first pass finds. Raises `RunDirError` if it reads other rows than were sealed."""
    tally = scan.survey(spark, inputs.ledger.files, inputs.ledger.rows, planned.survey)
    settle(inputs.ledger, summaries.rows_of_parts(tally))
    end_us = max(inputs.end_us, tally.count(counters.DRIVE_END_US))
    rows = inputs.tables["assignments"]
    assignments = assignments_by_life(rows, planned.topics, inputs.lives, inputs.ranges, end_us)
    committed: dict[Any, int] = dict(tally.each(counters.COMMITTED_TO))
    epochs = build(assignments, inputs.lives, summaries.delivered_rows(tally), committed, end_us)
    set_former(epochs, planned.topics)
    for e in epochs.all:
        tally.add(counters.EPOCHS, e.reader, value=1)
    observed = Observed(inputs.tables["cluster"], end_us)
    facts = _run_facts(inputs, planned, tally, epochs, _shares(inputs, tally, observed, end_us))
    return Surveyed(tally, assignments, epochs, observed, facts, end_us)


def _run_facts(inputs: Inputs, planned: Planned, tally: Tally, epochs: Epochs, shares: Shares) -> RunFacts:
    """Return the facts of the first pass."""
    scenario, run_us = inputs.scenario, inputs.run_us
    log_ends: dict[Any, int] = dict(tally.each(counters.LOG_END))
    return RunFacts(
        run_token=planned.survey.run_token,
        topics=sorted(tally.members(counters.TOPICS) | {topic for topic, _ in inputs.ranges}),
        senders=sorted(tally.members(counters.SENDERS), key=lambda sender: (sender[0] or "", sender[1])),
        epochs=epochs,
        log_ranges=inputs.ranges,
        due_starts=planned.due_starts,
        # in other topics, retention deletes nothing in time: what it deletes there by a wrong clock is lost
        perhaps_early=scenario.retained(run_us // 1000) if scenario.skewed else frozenset(),
        backdated=backdated_topics(scenario, inputs.faults, planned.ordered, run_us),
        overdue=_overdue(inputs, planned, tally, compacts=False),
        uncompacted=_overdue(inputs, planned, tally, compacts=True),
        protected_us={topic: scenario.protected_us(topic, run_us // 1000) for topic in scenario.compacted},
        skewed=scenario.skewed,
        heads=summaries.heads(tally, epochs),
        compacted={t: 1 + (keyed_rows(tally, t) >> BLOCK_BITS) for t in sorted(scenario.compacted)},
        tombstone_every={p.name: p.tombstone_every for p in scenario.producers if p.tombstone_every},
        delete_retention_us={
            t: scenario.delete_retention_us(t) for p in scenario.producers if p.tombstone_every for t in p.written
        },
        torn_tombstones=torn_tombstones(inputs.lives, scenario),
        read_us=inputs.read_us,
        producer_ends={client: life.end for client, life in inputs.lives.items() if life.role == "producer"},
        later_offsets=summaries.later_offsets(tally),
        log_ends=log_ends,
        committers=sorted(tally.members(counters.COMMITTERS)),
        fetches=starts.offset_fetches(epochs, inputs.lives),
        pooled=frozenset(c.name for c in scenario.consumers if c.mode == "subscribe" and c.workers),
        transactions=summaries.transactions(tally, inputs.tables["transactions"]),
        contested=summaries.contested(tally),
        read_uncommitted=frozenset(r.name for r in inputs.readers if not r.committed_only),
        injected=planned.survey.injected,
        cell_us=planned.survey.cell_us,
        offset_changes=tuple(offset_changes_of(inputs.faults)),
        lives=planned.topics,
        decisions=planned.survey.decisions,
        lineage=_lineages(inputs, planned, tally),
        counted={t: 1 + (_counted_rows(scenario, tally, t) >> BLOCK_BITS) for t in _counted_topics(scenario)},
        counting=frozenset(p.group for p in scenario.processors if p.state),
        committed_by_any=dict(tally.each(counters.COMMITTED_BY_ANY)),
        unwatched=frozenset(p.name for p in scenario.producers if p.mode == "fire_and_forget"),
        shares=shares,
    )


def _overdue(inputs: Inputs, planned: Planned, tally: Tally, compacts: bool) -> dict[Place, Overdue]:
    acked = {topic: reached for (topic,), reached in tally.each(counters.ACKED_REACHED)}
    ranges = {place: found for place, found in inputs.ranges.items() if place[0] not in planned.topics.of}
    return overdue_records(inputs.scenario, compacts, inputs.faults, ranges, inputs.read_us, acked, inputs.begin_us)


def _shares(inputs: Inputs, tally: Tally, observed: Observed, end_us: int) -> Shares:
    lowest: dict[Any, int] = dict(tally.each(counters.LOWEST_ACQUIRED))
    active: dict[Any, int] = dict(tally.each(counters.LAST_ACTIVE))
    return Shares(
        share_ranges(inputs.share_groups, inputs.ranges, lowest, observed, offset_changes_of(inputs.faults)),
        members_of(active, inputs.lives, inputs.scenario.shares),
        disturbed_times(inputs.faults, end_us),
        end_us,
    )


def keyed_rows(tally: Tally, topic: str) -> int:
    """Return the number of acknowledged records and log records of a topic."""
    return tally.count(counters.ACKED, topic) + tally.count(counters.IN_LOG, topic)


def _counted_topics(scenario: Scenario) -> list[str]:
    return sorted({topic for p in scenario.processors if p.state for topic in p.topics})


def _counted_rows(scenario: Scenario, tally: Tally, topic: str) -> int:
    """Return the number of log records of a topic and of the outputs made from them."""
    outputs = {p.to for p in scenario.processors if topic in p.topics}
    return sum(tally.count(counters.IN_LOG, name) for name in (topic, *outputs))


def _lineages(inputs: Inputs, planned: Planned, tally: Tally) -> dict[str, Lineage]:
    untraced = [entry for (entry,), _ in tally.each(UNTRACED)]
    return lineages(inputs.scenario, inputs.ranges, planned.topics.of, untraced)


@dataclass(frozen=True)
class Started:
    """Where epochs began.

    facts: the facts of the survey, with where epochs began, the offsets that were no longer in force, and the ranges of
    readers. committed: what may have been committed when each epoch began, by index of the epoch. ranges: what each
    reader had to read.
    """

    facts: RunFacts
    committed: dict[int, CommittedOffsets]
    ranges: list[ReadRange]
    group_lives: list[GroupLife]


def find_starts(spark: SparkSession, inputs: Inputs, planned: Planned, surveyed: Surveyed) -> Started:
    """Return where epochs began. Runs one job if the ledger has commits."""
    facts, epochs = surveyed.facts, Epochs(replace(e) for e in surveyed.epochs.all)
    lost_offsets = LostOffsets(surveyed.observed, facts.offset_changes, planned.topics)
    lower = lost_offsets.observed_changes()
    commits = _commits_at_begin(spark, inputs.ledger, facts, lower_fetches(lower))
    lost = explained(lower, commits, epochs, inputs.lives)
    lost += lost_offsets.begun_below(epochs, commits, lost, inputs.ranges)
    lost = compared_with_log(lost, planned.decider.log, planned.decider.clock_us)
    again = restarts(epochs)
    lives_of_groups = group_lives(surveyed.observed, again, epochs)
    offset_changes = (*facts.offset_changes, *lost_offsets.ended_groups(), *again, *lost)
    observed = (r for r in inputs.tables["cluster"] if r["key"] == "committed")
    seen = starts.sightings(observed, planned.topics.label)
    committed = starts.committed_at_begin(facts.fetches, commits, seen, offset_changes=offset_changes)
    reached = reached_before(epochs, planned.topics)
    checkpoints = Checkpoints(surveyed.assignments)
    starts.judge_starts(epochs, committed, inputs.readers, inputs.ranges, reached, checkpoints)
    once = [place for place in inputs.ranges if place[0] not in planned.topics.of]
    added = added_partitions(inputs.readers, epochs, surveyed.observed, once, offset_changes)
    ranges = read_ranges(inputs.readers, epochs, committed, inputs.ranges, planned.due_starts, added, reached)
    by_place: dict[Place, list[ReadRange]] = {}
    for r in ranges:
        by_place.setdefault((r.topic, r.partition), []).append(r)
    facts = replace(facts, epochs=epochs, offset_changes=offset_changes, read_ranges=by_place)
    return Started(facts, committed, ranges, lives_of_groups)


def _commits_at_begin(
    spark: SparkSession, ledger: Ledger, facts: RunFacts, extra: Mapping[Place, list[OffsetFetch]]
) -> dict[int, dict[str, Any]]:
    """Return what the commits say about the begin of each epoch, by its index. extra: more fetches to ask about."""
    if not ledger.rows["commits"]:
        return {}
    asked = {p: [*facts.fetches.get(p, []), *extra.get(p, [])] for p in {**facts.fetches, **extra}}
    files = {"commits": ledger.files["commits"]}
    found = scan.judge(spark, files, replace(facts, fetches=asked), ledger.rows["commits"], judge_fetches)
    return {epoch: rows[0] for (epoch,), rows in found.each(counters.COMMITS_AT_BEGIN)}


def judge(spark: SparkSession, inputs: Inputs, surveyed: Surveyed, started: Started) -> RunData:
    """Return the run with the findings of every rule, which are in its tally. Runs the second pass."""
    ledger, tally = inputs.ledger, Tally()
    tally.merge(surveyed.tally)
    run = RunData(
        inputs.scenario,
        inputs.readers,
        started.facts,
        started.committed,
        surveyed.observed,
        inputs.tables["transactions"],
        tally,
        inputs.tables["lifecycle"],
        inputs.tables["batches"],
    )
    rows = sum(ledger.rows[table] for table in ledger.files)
    tally.merge(scan.judge(spark, ledger.files, started.facts, rows, judge_block))
    judge_run(run, tally)
    for row in ledger.undecided:
        if row["check"] != WIRE:
            tally.report_undecided(row["check"], row["scope"], row["count"], Reason(row["why"]))
    return run


def tables_of(
    inputs: Inputs, planned: Planned, surveyed: Surveyed, started: Started, judged: RunData
) -> dict[str, pa.Table]:
    """Return the tables of the audit, by name."""
    tally, injected, lives_of_topics = judged.survey, planned.survey.injected, planned.topics
    topics = sorted({t.name for t in inputs.scenario.topics} | tally.members(counters.TOPICS))
    scopes = [lives_of_topics.numbered.get(topic, topic) for topic in topics]
    measurements = metrics.unavailability(tally, started.ranges, surveyed.end_us, injected, lives_of_topics)
    measurements += metrics.rebalances(inputs.readers, started.facts.epochs, inputs.partitions)
    measurements += metrics.recoveries(surveyed.observed, inputs.faults)
    times, unrecovered = metrics.statistics(measurements, metrics.distributions(tally, lives_of_topics))
    rows: dict[str, list[dict[str, Any]]] = {
        "summary": totals.summary_rows(Parties(inputs.scenario, topics), tally),
        "undecided": totals.undecided_rows(tally) + totals.undecided_commits(planned.survey.decisions),
        "anomalies": totals.anomaly_rows(tally, judged, (inputs.begin_us, surveyed.end_us)),
        "counts": totals.count_rows(
            topics, inputs.readers, tally, inputs.ledger, inputs.ranges, unrecovered, inputs.scenario.tapped
        )
        + totals.offsets_rows(inputs.offsets_removed)
        + totals.share_rows([g.name for g in inputs.share_groups], tally),
        "metrics": metrics.with_empty(times, metrics.expected(scopes, inputs.readers, injected)),
        "series": curves.series(tally, started.ranges),
        "latency": curves.latency(tally, planned.survey.cell_us),
        "group_lives": [asdict(life) for life in started.group_lives],
    }
    if inputs.ledger.of_wire:
        rows |= totals.visible(rows, inputs.ledger.undecided, inputs.scenario.tapped)
    found = {name: pa.Table.from_pylist(table, schema=AUDIT_TABLES[name]) for name, table in rows.items()}
    return found | {"ownership": ownership_table(started.facts.epochs)}

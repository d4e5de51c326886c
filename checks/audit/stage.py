"""The audit of one run: from the sealed ledger and the log to the tables in `audit/`.

What is as many as the records is looked at by executors (`large`), who tell the driver sums and samples. What is as
many as assignments, faults or partitions is collected and judged in plain Python.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from chaos.ledger.record import run_token
from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from checks.audit import curves, groups, starts, times, totals
from checks.audit.context import Context
from checks.audit.epochs import Epochs, Life, Row, build, lives, ownership_table
from checks.audit.findings import UNDETERMINED, Finding, rank
from checks.audit.history import Faults, Leadership
from checks.audit.judgement import judge_block, know_block
from checks.audit.large import case as cases
from checks.audit.large import scan
from checks.audit.large.survey import Wanted
from checks.audit.large.tally import Tally
from checks.audit.load import Ledger, load, settle
from checks.audit.mechanism import explain
from checks.audit.moves import moves_of
from checks.audit.newcomers import newcomers
from checks.audit.observed import (
    Observed,
    count_observed,
    hanging_transaction,
    misplaced_coordinator,
    unbalanced_assignment,
)
from checks.audit.ranges import Owed, owed
from checks.audit.read_path import nonmonotonic_poll
from checks.audit.readers import Reader, readers_of
from checks.audit.recovery import recoveries
from checks.audit.routing import routes
from checks.audit.tables import AUDIT_TABLES, write_tables
from checks.spark.session import tuned


def audit(spark: SparkSession, run: Run, resolved: Resolved) -> None:
    """Derive every table of `audit/` (see `tables`) from the sealed ledger and the log that was read back.

    Raises `RunDirError` if the ledger is missing, damaged or of another version. Replaces an earlier audit as a whole.
    """
    ledger = load(run)
    write_tables(run.audit, derive(spark, ledger, resolved.scenario, run_token(resolved.run_id)))


def derive(spark: SparkSession, ledger: Ledger, scenario: Scenario, run: str) -> dict[str, pa.Table]:
    """All tables of the audit, by name. run: the token that the run's records carry."""
    with tuned(spark):
        small = _Small.collect(ledger)
        wanted = Wanted(run, times.injections(small.tables["faults"]), curves.cell_us(small.end_us - small.begin_us))
        counts = Counter(topic for topic, _ in small.ranges)
        wanted = replace(wanted, routes=routes(scenario, counts))
        tally = scan.survey(spark, ledger.files, wanted)
        settle(ledger, scan.rows_of_parts(tally))
        small.end_us = max(small.end_us, tally.get("max", "drive_end_us") or 0)

        delivered, committed = cases.delivered_rows(tally), dict(tally.each("max", "committed_to"))
        epochs = build(small.tables["assignments"], small.lives, delivered, committed, small.end_us)
        case = _case(scenario, wanted, tally, small, epochs)
        known = _known(spark, ledger, case, epochs, small)
        readers = readers_of(scenario)
        starts.judge(epochs, known, readers, small.ranges)
        observed = Observed(small.tables["cluster"], small.end_us)
        places = owed(
            readers, epochs, known, small.ranges, newcomers(readers, epochs, observed, small.ranges, case.moves)
        )

        for place in places:
            case.places.setdefault((place.topic, place.partition), []).append(place)
        tally.merge(scan.judge(spark, ledger.files, case, sum(ledger.rows[t] for t in ledger.files), judge_block))
    by_key = {e.key: e.reader for e in epochs.all}
    for key, count, fallen in cases.falls(tally):
        nonmonotonic_poll(key, by_key[key], count, fallen, tally)
    for row in [*groups.double_ownership(epochs, case.moves), *groups.foreign_commit(epochs, known)]:
        tally.find([row], row["check"], row["split"], row["scope"], 1)
    for row in [
        *hanging_transaction(observed, small.tables["transactions"], tally.get("set", "transactional") or set()),
        *misplaced_coordinator(observed, sorted({r.group for r in readers if r.group is not None})),
        *unbalanced_assignment(observed, readers),
    ]:
        tally.find([row], row["check"], row["split"], row["scope"], 1)
    count_observed(observed, readers, tally)
    return _tables(tally, ledger, scenario, small, epochs, places, readers, wanted)


def _known(
    spark: SparkSession, ledger: Ledger, case: cases.Case, epochs: Epochs, small: _Small
) -> dict[int, starts.Known]:
    """What may have been committed when each epoch began."""
    said: dict[int, dict[str, Any]] = {}
    if ledger.rows["commits"]:
        commits = {"commits": ledger.files["commits"]}
        found = scan.judge(spark, commits, case, ledger.rows["commits"], know_block)
        said = {epoch: rows[0] for (epoch,), rows in found.each("all", "known")}
    seen = starts.sightings(r for r in small.tables["cluster"] if r["key"] == "committed")
    return starts.known_at_begin(epochs, case.questions, said, seen, case.moves)


def _tables(
    tally: Tally,
    ledger: Ledger,
    scenario: Scenario,
    small: _Small,
    epochs: Epochs,
    places: list[Owed],
    readers: list[Reader],
    wanted: Wanted,
) -> dict[str, pa.Table]:
    topics = sorted({t.name for t in scenario.topics} | (tally.get("set", "topics") or set()))
    counted: dict[tuple[Any, ...], int] = {key: count for key, (count, _) in tally.each("findings")}
    sums = totals.sums(tally, counted) | totals.epoch_totals(epochs) | totals.small_totals(small.tables, small.ranges)
    single = times.unavailability(tally, places, small.end_us, wanted.injected)
    single += times.rebalances(readers, epochs, Counter(topic for topic, _ in small.ranges))
    single += recoveries(Observed(small.tables["cluster"], small.end_us), small.tables["faults"])
    metrics, unrecovered = times.statistics(single, times.distributions(tally))
    leaders = [r for r in small.tables["cluster"] if r["key"] in ("leader", "leader_epoch", "isr")]
    context = Context(scenario, Leadership(leaders), Faults(small.tables["faults"]), epochs)
    found = sorted((f for _, (_, rows) in tally.each("findings") for f in rows), key=rank)
    return {
        "summary": _arrow("summary", totals.summary_rows(topics, readers, sums, counted)),
        "anomalies": _arrow("anomalies", [_explained(f, context) for f in found if f["split"] != UNDETERMINED]),
        "counts": _arrow("counts", totals.count_rows(topics, readers, sums, ledger, unrecovered)),
        "metrics": _arrow("metrics", times.with_empty(metrics, times.expected(topics, readers, wanted.injected))),
        "series": _arrow("series", curves.series(tally, places)),
        "latency": _arrow("latency", curves.latency(tally, wanted.cell_us)),
        "ownership": ownership_table(epochs),
    }


@dataclass
class _Small:
    """The tables that are small whatever the load, as Python rows.

    begin_us and end_us: the earliest event of a client, and the latest time that any of the tables knows.
    """

    tables: dict[str, list[Row]]
    lives: dict[tuple[str, int], Life]
    ranges: dict[tuple[str, int], starts.Range]
    begin_us: int
    end_us: int

    @classmethod
    def collect(cls, ledger: Ledger) -> _Small:
        tables: dict[str, list[Row]] = {name: table.to_pylist() for name, table in ledger.small.items()}
        ranges = {(r["topic"], r["partition"]): (r["start"], r["end"]) for r in tables.pop("log_range")}
        ends = [row["at_us"] for rows in tables.values() for row in rows if "at_us" in row]
        ends += [row["ended_us"] for row in tables["transactions"] if row["ended_us"] is not None]
        begin_us = min((row["at_us"] for row in tables["lifecycle"]), default=max(ends, default=0))
        return cls(tables, lives(tables["lifecycle"]), ranges, begin_us, max(ends, default=0))


def _case(scenario: Scenario, wanted: Wanted, survey: Tally, small: _Small, epochs: Epochs) -> cases.Case:
    """What is known after the survey; what each reader owes (`places`) hangs on the commits, and is filled in later."""
    policy = scenario.cluster.config.get("log.cleanup.policy", "delete")
    return cases.Case(
        run=wanted.run,
        topics=sorted(survey.get("set", "topics") or set()),
        who=sorted(survey.get("set", "who") or set(), key=lambda who: (who[0] or "", who[1])),
        epochs=epochs.all,
        epoch_ids={e.key: i for i, e in enumerate(epochs.all)},
        heads=cases.heads(survey, epochs),
        places={},
        ranges=small.ranges,
        compacted=frozenset(
            t.name for t in scenario.topics if "compact" in str(t.config.get("cleanup.policy", policy))
        ),
        lives=cases.ends_of(small.lives),
        later=cases.later_lowest(survey),
        log_ends=dict(survey.each("max", "log_end")),
        committers=sorted(survey.get("set", "committers") or set()),
        questions=starts.questions(epochs, small.lives),
        pooled=frozenset(r.name for r in readers_of(scenario) if r.pooled),
        transactions=cases.transactions(survey, small.tables["transactions"]),
        contested=cases.contested(survey),
        sees_all=frozenset(r.name for r in readers_of(scenario) if not r.committed_only),
        injected=wanted.injected,
        cell_us=wanted.cell_us,
        moves=tuple(moves_of(small.tables["faults"])),
        unwatched=frozenset(p.name for p in scenario.producers if p.mode == "fire_and_forget"),
    )


def _explained(finding: Finding, context: Context) -> Finding:
    evidence = json.loads(finding["evidence"])
    sentence = explain(finding, evidence, context)
    return finding | {"mechanism": sentence, "evidence": json.dumps(evidence)}


def _arrow(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=AUDIT_TABLES[name])

"""The first pass over every row: sums, curves, latencies, and the findings that one row shows by itself.

Each function adds one part of a table to a `Tally`. The result says who read what from when to when, which the second
pass needs. Rows that differ only in seq and offset are handled together as runs: there are far fewer runs than rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from checks.audit.arrays import NONE, Ints, Mask
from checks.audit.engine import counters, shares
from checks.audit.engine.blocks import BLOCK_BITS, COMMIT_FAILED, COMMIT_OK, COMMIT_UNKNOWN
from checks.audit.engine.commits import committers, outcomes
from checks.audit.engine.counters import add_senders, count_backwards
from checks.audit.engine.group import Rows, counted, grouped, runs, sections
from checks.audit.engine.parts import Part
from checks.audit.engine.summaries import add_digests, segments
from checks.audit.engine.tally import Aggregate, Sparse, Tally, histogram
from checks.audit.engine.time_buckets import BUCKET_US, add_heat, add_successes, bucket
from checks.audit.facts.commit_log import Decisions
from checks.audit.facts.retention import Deletion
from checks.audit.facts.routes import Routes
from checks.audit.facts.topic_lives import TopicLives

_COMMIT_COLUMNS = (
    *("consumer", "incarnation", "group", "mode", "assignment", "topic", "partition", "offset", "kind", "outcome"),
    *("requested_us", "completed_us"),
)
COLUMNS = {
    "sends": (
        *("producer", "incarnation", "seq", "topic", "partition", "offset", "outcome", "txn"),
        *("invoked_us", "completed_us", "error"),
    ),
    "log": ("topic", "partition", "offset", "timestamp_us", "run", "producer", "incarnation", "seq", "crc_ok"),
    "deliveries": (
        *("consumer", "incarnation", "group", "mode", "assignment", "ordinal", "topic", "partition", "offset"),
        *("producer", "producer_incarnation", "seq", "polled_us", "processed_us"),
    ),
    "commits": _COMMIT_COLUMNS,
    **shares.COLUMNS,
}
"""The columns read of each table."""


INVALID = ("INVALID_TIMESTAMP", "INVALID_RECORD")
"""The errors with which brokers refuse a timestamp; librdkafka and the Java client report the second one if several
records of a batch are refused."""


@dataclass(frozen=True)
class SurveyPlan:
    """The parameters of the first pass.

    run_token: the token that the run's records carry. injected: time of each fault. cell_us: width of a heat map cell.
    routes: the partitions that partitioners promise. row_rules: the rules that judge single rows. lives: of topics that
    were deleted. deletions: by topic and partition, the offsets below which faults deleted all records. processors: the
    scenario entries of processors. decisions: on commits with an outcome that the client did not learn. compacted: the
    compacted topics.
    """

    run_token: str
    injected: dict[str, int] = field(default_factory=dict)
    cell_us: int = 500_000
    routes: Routes = field(default_factory=dict)
    row_rules: tuple[RowRule, ...] = ()
    lives: TopicLives = field(default_factory=TopicLives)
    deletions: dict[tuple[str, int], list[Deletion]] = field(default_factory=dict)
    processors: frozenset[str] = frozenset()
    decisions: Decisions = field(default_factory=Decisions)
    compacted: frozenset[str] = frozenset()

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the columns to read of a table."""
        added = (c for rule in self._rules(table) for c in rule.columns)
        return tuple(dict.fromkeys((*COLUMNS[table], *added)))

    def judge(self, part: Part, tally: Tally) -> None:
        """Apply the rules that judge rows of the part's table."""
        for rule in self._rules(part.table):
            rule.judge(part, self, tally)

    def _rules(self, table: str) -> list[RowRule]:
        return [rule for rule in self.row_rules if rule.table == table and rule.needed(self)]


def _always(plan: SurveyPlan) -> bool:
    return True


@dataclass(frozen=True)
class RowRule:
    """A rule that judges rows of one table by themselves. columns: columns that it reads in addition to `COLUMNS`."""

    table: str
    judge: Callable[[Part, SurveyPlan, Tally], None]
    columns: tuple[str, ...] = ()
    needed: Callable[[SurveyPlan], bool] = _always


def survey(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    """Add one part of any table."""
    tally.add(counters.ROWS, part.table, value=part.rows)
    if part.rows:
        _SURVEYS[part.table](part, plan, tally)
        plan.judge(part, tally)


def _sends(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    codes, producers = part.codes("producer")
    add_senders(codes, producers, part.ints("incarnation"), tally)
    topics, names = part.codes("topic")
    outcomes, outcome_names = part.codes("outcome")
    partition, offset = part.ints("partition"), part.ints("offset")
    invoked, completed = part.ints("invoked_us"), part.ints("completed_us")
    tally.add(counters.DRIVE_END_US, value=int(completed.max()))
    count_backwards(tally, "sends", codes, producers, completed < invoked)
    ok = part.equals("outcome", "ok")
    if not ok.all():
        for (code,), rows in sections(topics[part.equals("error", *INVALID)]):
            tally.add(counters.REFUSED_TIMESTAMPS, names[code], value=len(rows))
    located = np.flatnonzero(ok & (offset >= 0))
    add_digests(part, counters.ACKED_DIGEST, located, tally)
    _transactions(part, codes, producers, topics, names, tally)
    starts = runs(topics, outcomes, partition, invoked, completed)
    lengths = np.diff(starts, append=part.rows)
    with_offset = np.add.reduceat((offset >= 0).astype(np.int64), starts)
    highest = np.maximum.reduceat(offset, starts)
    columns = [c[starts] for c in (topics, outcomes, partition, invoked, completed)] + [lengths, with_offset, highest]
    for (code,), rows in sections(columns[0]):
        _, outcome, *values = (rows.ints(c) for c in columns)
        masks = {name: outcome == nth for nth, name in enumerate(outcome_names)}
        _sends_of_topic(tally, names[code], masks, values, plan)


_BY_OUTCOME = {"ok": counters.ACKED, "fail": counters.FAILED, "unknown": counters.UNKNOWN}


def _sends_of_topic(tally: Tally, topic: str, outcomes: dict[str, Mask], values: list[Ints], plan: SurveyPlan) -> None:
    """Add the runs of sends to one topic.

    outcomes: the runs with each outcome. values: partition, invoked, completed, length, located, highest offset.
    """
    partition, invoked, completed, count, located, highest = values
    tally.add(counters.TOPICS, value={topic})
    tally.add(counters.SENT, topic, value=int(count.sum()))
    for name, runs_with_outcome in outcomes.items():
        tally.add(_BY_OUTCOME[name], topic, value=int(count[runs_with_outcome].sum()))
    ok = outcomes.get("ok", np.zeros(len(count), np.bool_))
    tally.add(counters.LOCATED, topic, value=int(located[ok].sum()))
    called = bucket(invoked)
    tally.add(counters.CALLED_CURVE, topic, value=counted(called, count))
    if not ok.all():
        tally.add(counters.UNACKED_CURVE, topic, value=counted(called[~ok], count[~ok]))
    for fault, at_us in plan.injected.items():
        late = invoked >= at_us
        for aggregate, rows in ((counters.SENT_AFTER, late), (counters.ACKED_AFTER, late & ok)):
            if rows.any():
                tally.add(aggregate, fault, topic, value=counted(partition[rows], count[rows]))
    if not ok.any():
        return
    partition, invoked, completed, count, highest = (c[ok] for c in (partition, invoked, completed, count, highest))
    add_successes(tally, counters.PRODUCED, topic, partition, completed, invoked, count, plan.injected)
    took = np.maximum(completed - invoked, 0)
    tally.add(counters.LATENCIES["ack_latency"], topic, value=histogram(took, count))
    add_heat(tally, "ack", topic, completed, took, count, plan.cell_us)
    tally.add(counters.ACKED_CURVE, topic, value=counted(bucket(completed), count))
    _add_reached(tally, counters.ACKED_REACHED, (topic,), partition, completed, highest)


def _transactions(part: Part, codes: Ints, producers: list[str], topics: Ints, names: list[str], tally: Tally) -> None:
    """Add the last send of each transaction, and who wrote to which partitions in transactions."""
    txn = part.ints("txn")
    inside = np.flatnonzero(txn != NONE)
    if not len(inside):
        return
    lives, partition, invoked = (part.ints(n)[inside] for n in ("incarnation", "partition", "invoked_us"))
    for (code, life), rows in sections(codes[inside], lives):
        numbers, (last,) = grouped(rows.ints(txn[inside]), (np.maximum, rows.ints(invoked)))
        tally.add(counters.LAST_INVOKED, producers[code], life, value=(numbers, last))
    for (code, life, topic, number), _ in sections(codes[inside], lives, topics[inside], partition):
        tally.add(counters.TRANSACTION_WRITERS, value={(names[topic], number, producers[code], life)})


def _add_reached(
    tally: Tally, aggregate: Aggregate[Sparse], key: tuple[str, ...], partition: Ints, at_us: Ints, offset: Ints
) -> None:
    """Add the highest offset + 1 per partition and time bucket; both numbers share one key."""
    located = offset >= 0
    if located.any():
        keys = (partition[located] << 36) | (at_us[located] // BUCKET_US)
        slots, (highest,) = grouped(keys, (np.maximum, offset[located]))
        tally.add(aggregate, *key, value=(slots, highest + 1))


def _log(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    codes, producers = part.codes("producer")
    topics, names = part.codes("topic")
    partition, offset = part.ints("partition"), part.ints("offset")
    incarnation, seq = part.ints("incarnation"), part.ints("seq")
    _, crc_known = part.flags("crc_ok")
    add_senders(codes, producers, incarnation, tally)
    own = part.own_records(plan.run_token)
    own_rows = np.flatnonzero(own)
    add_digests(part, counters.LOG_DIGEST, own_rows, tally)
    for (code, number), rows in sections(topics, partition):
        topic = names[code]
        tally.add(counters.TOPICS, value={topic})
        tally.add(counters.IN_LOG, topic, value=len(rows))
        tally.add(counters.OWN_RECORDS, topic, value=int(rows.take(own).sum()))
        tally.add(counters.CRC_CHECKED, topic, value=int(rows.take(crc_known).sum()))
        tally.add(counters.LOG_END, topic, number, value=int(rows.ints(offset).max()) + 1)
    columns = [topics, partition, codes, incarnation, seq >> BLOCK_BITS, offset]
    if len(own_rows) < part.rows:
        columns = [c[own] for c in columns]
    _add_lowest_offsets(tally, names, producers, *columns)


def _add_lowest_offsets(tally: Tally, names: list[str], producers: list[str], *columns: Ints) -> None:
    """Add the lowest offset of each block of seqs. columns: topic, partition, producer, incarnation, block, offset."""
    *keys, offset = columns
    starts = runs(*keys)
    if not len(starts):
        return
    lowest = np.minimum.reduceat(offset, starts)
    *where, blocks = (key[starts] for key in keys)
    for (topic, partition, code, life), rows in sections(*where):
        distinct, (least,) = grouped(rows.ints(blocks), (np.minimum, rows.ints(lowest)))
        tally.add(counters.LOWEST_OFFSETS, producers[code], life, names[topic], partition, value=(distinct, least))


def _deliveries(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    codes, producers = part.codes("producer")
    add_senders(codes, producers, part.ints("producer_incarnation"), tally)
    processed, offset = part.ints("processed_us"), part.ints("offset")
    tally.add(counters.DRIVE_END_US, value=int(processed.max()))
    consumers, clients = part.codes("consumer")
    count_backwards(tally, "deliveries", consumers, clients, processed < part.ints("polled_us"))
    for key, reader, rows, segment in segments(part):
        *_, topic, partition = key
        tally.add(counters.SEGMENTS, *key, value=[segment])
        tally.add(counters.DELIVERED, reader, value=segment["rows"])
        tally.add(counters.DELIVERED_FROM, topic, value=segment["rows"])
        _add_progress(tally, reader, topic, partition, rows.ints(processed), rows.ints(offset))
    tally.add(counters.TOPICS, value=set(part.codes("topic")[1]))


def _add_progress(tally: Tally, reader: str, topic: str, partition: int, at_us: Ints, offset: Ints) -> None:
    """Add the number of records that a reader processed over time, and the offsets that it reached."""
    starts = runs(at_us)
    at_us, counts = at_us[starts], np.diff(starts, append=len(offset))
    tally.add(counters.DELIVERED_CURVE, reader, value=counted(bucket(at_us), counts))
    partitions = np.full(len(starts), partition, np.int64)
    highest = np.maximum.reduceat(offset, starts)
    _add_reached(tally, counters.DELIVERED_REACHED, (reader, topic), partitions, at_us, highest)


def _commits(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    topics, names = part.codes("topic")
    partition, offset = part.ints("partition"), part.ints("offset")
    requested, completed = part.ints("requested_us"), part.ints("completed_us")
    tally.add(counters.TOPICS, value=set(names))
    tally.add(counters.DRIVE_END_US, value=int(completed.max()))
    consumers, clients = part.codes("consumer")
    count_backwards(tally, "commits", consumers, clients, (completed < requested) & (completed != NONE))
    outcome, _, by_log = outcomes(part, plan.decisions)
    ok, accepted = outcome == COMMIT_OK, outcome != COMMIT_FAILED
    timed = part.equals("kind", "sync", "async") & (by_log == 0)
    for committer, rows in committers(part):
        committed = rows.index[rows.take(ok).astype(bool)]
        tally.add(counters.COMMITTERS, value={committer})
        tally.add(counters.COMMITTED, committer.reader, value=len(committed))
        if len(answered := committed[timed[committed]]):
            took = np.maximum(completed[answered] - requested[answered], 0)
            value = histogram(took, np.ones(len(took), np.int64))
            tally.add(counters.LATENCIES["commit_latency"], committer.reader, value=value)
        for (code, number), here in sections(topics[committed], partition[committed]):
            highest = int(here.ints(offset[committed]).max())
            key = committer.consumer, committer.incarnation, committer.assignment, names[code], number
            tally.add(counters.COMMITTED_TO, *key, value=highest)
        _count_by_log(rows, outcome, by_log, committer.reader, tally)
        possible = rows.index[rows.take(accepted).astype(bool)]
        for (code, number), here in sections(topics[possible], partition[possible]):
            highest = int(here.ints(offset[possible]).max())
            tally.add(counters.COMMITTED_BY_ANY, committer.group, names[code], number, value=highest)


def _count_by_log(rows: Rows, outcome: Ints, by_log: Ints, reader: str, tally: Tally) -> None:
    """Count the commits of a reader with unknown outcome, and how many of these commits the log decides."""
    outcomes_, decided = rows.ints(outcome), rows.ints(by_log) == 1
    if n := int(((outcomes_ == COMMIT_UNKNOWN) | decided).sum()):
        tally.add(counters.COMMITS_UNKNOWN, reader, value=n)
    for name, code in (("ok", COMMIT_OK), ("fail", COMMIT_FAILED)):
        if n := int((decided & (outcomes_ == code)).sum()):
            tally.add(counters.COMMITS_BY_LOG, reader, name, value=n)


_SURVEYS: dict[str, Callable[[Part, SurveyPlan, Tally], None]] = {
    "sends": _sends,
    "log": _log,
    "deliveries": _deliveries,
    "commits": _commits,
    "acquisitions": lambda part, plan, tally: shares.survey_acquisitions(part, tally),
    "acknowledgements": lambda part, plan, tally: shares.survey_acknowledgements(part, tally),
}

"""The two passes over the large tables, as Spark jobs: `survey` of every row, then `judge` of every block.

Spark passes the bytes of each part to Python workers. Packed tallies return to the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from chaos.errors import RunDirError
from checks.audit.engine import cut as cutting
from checks.audit.engine import part_lives
from checks.audit.engine import survey as surveying
from checks.audit.engine.commits import add_attempts, add_unanswered
from checks.audit.engine.counters import (
    ATTEMPTS,
    BETWEEN,
    COMPARED,
    EXTENTS,
    PART_ROWS,
    SETTLED,
    UNANSWERED,
    UNLOCATED,
    UNREADABLE,
    UNSETTLED,
)
from checks.audit.engine.parts import Part
from checks.audit.engine.tally import Tally, merge_all
from checks.audit.facts.commit_log import Attempt, Decider, Decisions, Logged, Place
from checks.audit.facts.run_facts import RunFacts
from checks.audit.facts.topic_lives import Ack, Extent, Seqs, TopicLives, place
from checks.spark.parts import Files, begin_task, contents, each_file, large_rows

ROWS_PER_TASK = 3_000_000
"""Rows of blocks per task; a task holds them in memory, packed."""
FEW_ROWS = 200_000
"""Rows of blocks up to which one task takes no longer than several."""
MOST_TALLIES = 64
"""Number of tasks above which executors merge the tallies first."""

BlockJudge = Callable[[str, dict[str, list[bytes]], RunFacts, Tally], None]
"""Judges one block: its name, its packed rows by kind, the facts of the run, the tally to add to."""

_TALLY = "tally binary"
_PIECE = "block string, kind string, path string, data binary"
_UNREADABLE = ""
"""The block of parts that cannot be read; its pieces are the errors."""


def settle_lives(
    spark: SparkSession, files: Files, rows: Mapping[str, int], lives: TopicLives, run_token: str
) -> TopicLives:
    """Return lives with the positions in the final log of the records that time does not assign to one of them.

    Runs two jobs, only if a topic was deleted. Raises `RunDirError` for the first part that cannot be read.
    """
    if not lives:
        return lives
    tables = {table: files[table] for table in ("sends", "deliveries")}
    found = _each_part(spark, tables, rows, partial(_add_unsettled, lives))
    unsettled = dict(found.each(UNSETTLED))
    extents: dict[Any, Extent] = dict(found.each(EXTENTS))
    between: list[Ack] = found.get(BETWEEN) or []
    placed, unlocated = place(lives, between, extents), frozenset(found.members(UNLOCATED))
    settled: Any = {}
    if unsettled:
        wanted = {i: np.concatenate([unsettled[t, i] for t in tables if (t, i) in unsettled]) for _, i in unsettled}
        found = _each_part(spark, {"log": files["log"]}, rows, partial(_add_positions, run_token, wanted))
        settled = dict(found.each(SETTLED))
    sends = {identity: seqs for (table, identity), seqs in unsettled.items() if table == "sends"}
    return replace(lives, settled=settled, unsettled_sends=sends, placed=placed, unlocated=unlocated)


def _add_unsettled(lives: TopicLives, table: str, path: str, data: object, tally: Tally) -> None:
    part_lives.add_unsettled(table, path, data, lives, tally)


def _add_positions(run_token: str, wanted: Seqs, table: str, path: str, data: object, tally: Tally) -> None:
    part_lives.add_positions(Part(table, path, data, part_lives.LOG_COLUMNS), run_token, wanted, tally)


def settle_commits(spark: SparkSession, files: Files, rows: Mapping[str, int], decider: Decider) -> Decisions:
    """Return the decisions on commits with an outcome that the client did not learn.

    Runs one job, and a second one if there are such commits. Raises `RunDirError` for the first part that cannot be
    read.
    """
    tables = {"commits": files["commits"]}
    wanted = frozenset(_each_part(spark, tables, rows, _add_unanswered).members(UNANSWERED))
    if not wanted:
        return Decisions()
    logged = decider.log.committed(place[0] for place, _ in wanted)
    add = partial(_add_attempts, wanted, logged, decider.deleted, decider.clock_us)
    found = _each_part(spark, tables, rows, add)
    acknowledged = {group: compared for (group,), compared in found.each(COMPARED)}
    attempts: list[Attempt] = found.get(ATTEMPTS) or []
    return decider.decide(attempts, acknowledged)


def _add_unanswered(table: str, path: str, data: object, tally: Tally) -> None:
    add_unanswered(Part(table, path, data, surveying.COLUMNS[table]), tally)


def _add_attempts(
    wanted: frozenset[tuple[Place, int]],
    logged: Logged,
    deleted: frozenset[str],
    clock_us: int,
    table: str,
    path: str,
    data: object,
    tally: Tally,
) -> None:
    add_attempts(Part(table, path, data, surveying.COLUMNS[table]), wanted, logged, deleted, clock_us, tally)


def _each_part(
    spark: SparkSession, files: Files, rows: Mapping[str, int], add: Callable[[str, str, object, Tally], None]
) -> Tally:
    """Return the tally to which a function added every part. rows: by table."""

    def add_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        tally = Tally()
        for table, path, data in each_file(batches):
            try:
                add(table, path, data, tally)
            except RunDirError as e:
                tally.add(UNREADABLE, value=[(path, str(e))])
        yield _packed(tally)

    with large_rows(spark, files, sum(rows[table] for table in files)):
        return _readable(_collected(contents(spark, files).mapInArrow(add_parts, _TALLY)))


def survey(spark: SparkSession, files: Files, rows: Mapping[str, int], plan: surveying.SurveyPlan) -> Tally:
    """Run the first pass. Raises `RunDirError` for the first part that cannot be read."""

    return _each_part(spark, files, rows, partial(_survey, plan))


def _survey(plan: surveying.SurveyPlan, table: str, path: str, data: object, tally: Tally) -> None:
    part = part_lives.open_part(table, path, data, plan.columns(table), plan.lives)
    tally.add(PART_ROWS, table, path, value=part.rows)
    surveying.survey(part, plan, tally)
    part_lives.count_undecided(part, plan.lives, plan.compacted, tally)


def judge(spark: SparkSession, files: Files, facts: RunFacts, rows: int, judge_block: BlockJudge) -> Tally:
    """Run the second pass: cut all parts, bring the pieces of each block together and judge each block.

    rows: the number of rows in all parts. Raises `RunDirError` for the first part that cannot be read.
    """

    def cut_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for table, path, data in each_file(batches):
            try:
                needed = cutting.columns_of(table, facts)
                part = part_lives.open_part(table, path, data, needed, facts.lives)
                pieces = list(cutting.cut(part, facts))
            except RunDirError as e:
                pieces = [(_UNREADABLE, "", str(e).encode())]
            if pieces:
                blocks, kinds, packed = (list(column) for column in zip(*pieces, strict=True))
                texts = [pa.array(column, pa.string()) for column in (blocks, kinds, [path] * len(pieces))]
                columns = [*texts, pa.array(packed, pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["block", "kind", "path", "data"])

    def judge_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks: dict[str, dict[str, list[tuple[str, bytes]]]] = defaultdict(lambda: defaultdict(list))
        for batch in batches:
            for block, kind, path, data in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                blocks[block][kind].append((path, data))
        tally = Tally()
        for path, message in blocks.pop(_UNREADABLE, {}).get("", []):
            tally.add(UNREADABLE, value=[(path, message.decode())])
        for block in sorted(blocks):
            # ordered by path, so that the result does not depend on the order in which pieces arrive
            packed = {kind: [data for _, data in sorted(pieces)] for kind, pieces in blocks.pop(block).items()}
            judge_block(block, packed, facts, tally)
        yield _packed(tally)

    tasks = max(spark.sparkContext.defaultParallelism if rows > FEW_ROWS else 1, -(-rows // ROWS_PER_TASK))
    with large_rows(spark, files, rows):
        pieces = contents(spark, files).mapInArrow(cut_parts, _PIECE)
        return _readable(_collected(pieces.repartition(tasks, "block").mapInArrow(judge_blocks, _TALLY)))


def _readable(tally: Tally) -> Tally:
    """Return the tally, or raise the error of the first part that could not be read."""
    if unreadable := tally.get(UNREADABLE):
        raise RunDirError(min(unreadable)[1])
    return tally


def _packed(tally: Tally) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([tally.pack()], pa.binary())], names=["tally"])


def _collected(tallies: DataFrame) -> Tally:
    """Return the tallies of all tasks as one."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _packed(merge_all(data.as_py() for batch in batches for data in batch.column(0)))

    if tallies.rdd.getNumPartitions() > MOST_TALLIES:
        tallies = tallies.repartition(MOST_TALLIES // 8).mapInArrow(merge, _TALLY)
    return merge_all(tallies.toArrow().column(0).to_pylist())

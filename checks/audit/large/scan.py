"""The two looks at the large tables, as Spark jobs: `survey` of every row, then `judge` of every block.

Spark reads the parts as they are, from any file system it knows, and hands their bytes to Python workers, where Arrow
decodes them five to eight times faster than rows pass from the JVM (measured). What comes back to the driver are packed
tallies.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from zipimport import zipimporter

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from chaos.errors import RunDirError
from checks.audit.large import cut as cutting
from checks.audit.large import survey as surveying
from checks.audit.large.case import Case
from checks.audit.large.columns import Part
from checks.audit.large.pack import Columns, unpacked
from checks.audit.large.tally import Tally, merge_all
from checks.spark.session import configured

Files = dict[str, list[str]]
"""The parts of each large table."""

ROWS_PER_TASK = 3_000_000
"""Rows of blocks that one task judges: they lie in its memory, packed."""
TASKS_PER_CORE = 4
"""Where there are files enough: the cores then end at about the same time."""
_SPARKS_OWN = ("pyspark.zip", "py4j-", "spark-core_")
MOST_TALLIES = 64
"""From more tasks than this the tallies are merged on executors first."""

_TALLY = "tally binary"
_UNREADABLE = ""
"""The block of parts that cannot be read, with the reason for a piece."""
_PIECE = "block string, kind string, path string, data binary"


def warm(spark: SparkSession) -> None:
    """Start the Python workers, and let them import what they will need, while there is time for it."""
    cores = spark.sparkContext.defaultParallelism

    def idle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _forget_zips()
        yield from batches

    spark.range(0, cores, 1, cores).mapInArrow(idle, "id bigint").toArrow()


def survey(spark: SparkSession, files: Files, wanted: surveying.Wanted) -> Tally:
    """Look at every row of every part. Raises `RunDirError` naming the first part that cannot be read."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _forget_zips()
        tally = Tally()
        for table, path, data in _files(batches):
            try:
                part = Part(table, path, data, wanted.needed(table))
                tally.add("max", "part_rows", table, path, value=part.rows)
                surveying.survey(part, wanted, tally)
            except RunDirError as e:
                tally.add("all", "unreadable", value=[(path, str(e))])
        yield _packed(tally)

    with _by_the_file(spark):
        return _readable(_collected(_contents(spark, files).mapInArrow(look, _TALLY)))


def _readable(found: Tally) -> Tally:
    """The tally, unless a part could not be read."""
    if unreadable := found.get("all", "unreadable"):
        raise RunDirError(min(unreadable)[1])
    return found


def rows_of_parts(surveyed: Tally) -> dict[tuple[str, str], int]:
    """By table and path, the rows of each part that was looked at."""
    return {(table, path): rows for (table, path), rows in surveyed.each("max", "part_rows")}


def judge(
    spark: SparkSession,
    files: Files,
    case: Case,
    rows: int,
    rules: Callable[[str, dict[str, list[bytes]], Case, Tally], None],
) -> Tally:
    """Bring together what belongs together and judge it.

    rules: takes a block's name and its packed rows by kind; `columns_of` unpacks them.
    """

    def pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _forget_zips()
        for table, path, data in _files(batches):
            try:
                found = list(cutting.cut(Part(table, path, data, cutting.needed(table, case)), case))
            except RunDirError as e:
                found = [(_UNREADABLE, "", str(e).encode())]
            if found:
                blocks, kinds, packed = zip(*found, strict=True)
                arrays = [list(blocks), list(kinds), [path] * len(found), list(packed)]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(a, pa.string()) for a in arrays[:3]] + [pa.array(arrays[3], pa.binary())],
                    names=["block", "kind", "path", "data"],
                )

    def verdicts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks: dict[str, dict[str, list[tuple[str, bytes]]]] = defaultdict(lambda: defaultdict(list))
        for batch in batches:
            for block, kind, path, data in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                blocks[block][kind].append((path, data))
        tally = Tally()
        for path, words in blocks.pop(_UNREADABLE, {}).get("", []):
            tally.add("all", "unreadable", value=[(path, words.decode())])
        for block in sorted(blocks):
            kinds = blocks.pop(block)
            # by path, so that the outcome does not hang on the order in which pieces arrive
            packed = {kind: [data for _, data in sorted(pieces)] for kind, pieces in kinds.items()}
            rules(block, packed, case, tally)
        yield _packed(tally)

    tasks = max(spark.sparkContext.defaultParallelism, -(-rows // ROWS_PER_TASK))
    with _by_the_file(spark):
        cut = _contents(spark, files).mapInArrow(pieces, _PIECE)
        return _readable(_collected(cut.repartition(tasks, "block").mapInArrow(verdicts, _TALLY)))


def columns_of(kinds: dict[str, list[bytes]], kind: str, names: tuple[str, ...]) -> Columns:
    """One kind of a block's rows, in the order of their parts."""
    return unpacked(kinds.get(kind, []), names)


def _contents(spark: SparkSession, files: Files) -> DataFrame:
    # said to be local, or else a configured Hadoop would look for plain paths on its own file system
    paths = [f"file:{path}" if path.startswith("/") else path for parts in files.values() for path in parts]
    return spark.read.format("binaryFile").load(paths).select("path", "content")


def _files(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, str, Any]]:
    """Table, path and bytes of each file. The folder that a part lies in names its table."""
    for batch in batches:
        for uri, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            path = uri.removeprefix("file:")
            yield path.rsplit("/", 2)[-2].removesuffix(".parquet"), path, content.as_buffer()


@contextmanager
def _by_the_file(spark: SparkSession) -> Iterator[None]:
    """Few rows at once to Python: a row here is a file, or a piece of one. And several tasks for each core."""
    chosen = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "4",
        "spark.sql.files.minPartitionNum": str(TASKS_PER_CORE * spark.sparkContext.defaultParallelism),
        "spark.sql.files.openCostInBytes": str(1 << 18),
    }
    with configured(spark, chosen):
        yield


def _forget_zips() -> None:
    """Let a worker's next task begin at once.

    Before each task Spark makes Python forget what it knows of the import path, upon which the importers of Spark's own
    zips and jar read their whole directories again: a quarter of a second. What was imported from them stays.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and any(name in path for name in _SPARKS_OWN):
            del sys.path_importer_cache[path]


def _packed(tally: Tally) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([tally.pack()], pa.binary())], names=["tally"])


def _collected(tallies: DataFrame) -> Tally:
    """The one tally of all tasks."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _packed(merge_all(data.as_py() for batch in batches for data in batch.column(0)))

    if tallies.rdd.getNumPartitions() > MOST_TALLIES:
        tallies = tallies.repartition(MOST_TALLIES // 8).mapInArrow(merge, _TALLY)
    return merge_all(tallies.toArrow().column(0).to_pylist())

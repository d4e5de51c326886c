"""Parquet parts as bytes for Python workers, where Arrow decodes them five to eight times faster than rows pass from
the JVM (measured)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from zipimport import zipimporter

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from checks.spark.session import configured

Files = dict[str, list[str]]
"""The paths of the parts of each table."""

TASKS_PER_CORE = 4
"""Tasks per core, if there are files enough, so that all cores finish at about the same time."""
ROWS_PER_TASK = 8_000_000
"""Rows for which a further task saves more than it costs, some 50 ms of CPU time. Bytes say little: rows of the wire
take a fifth of those of clients."""
_SPARK_ARCHIVES = ("pyspark.zip", "py4j-", "spark-core_")


def warm(spark: SparkSession) -> None:
    """Start the Python workers ahead of the first job."""
    cores = spark.sparkContext.defaultParallelism

    def idle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        yield from batches

    spark.range(0, cores, 1, cores).mapInArrow(idle, "id bigint").toArrow()


def contents(spark: SparkSession, files: Files) -> DataFrame:
    """Return path and content of each part, one row per file."""
    # marked as local, because a configured Hadoop would look for plain paths on its default file system
    paths = [f"file:{path}" if path.startswith("/") else path for parts in files.values() for path in parts]
    return spark.read.format("binaryFile").load(paths).select("path", "content")


def each_file(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, str, Any]]:
    """Yield table, path and bytes of each file. The folder of a part has the name of its table."""
    for batch in batches:
        for uri, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            path = uri.removeprefix("file:")
            yield path.rsplit("/", 2)[-2].removesuffix(".parquet"), path, content.as_buffer()


def large_rows(spark: SparkSession, files: Files, rows: int) -> AbstractContextManager[None]:
    """Configure Spark for rows as large as a file: few per batch, and several tasks per core if they hold many rows.

    rows: in all files.
    """
    tasks = tasks_for(files, rows, TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    settings = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "4",
        "spark.sql.files.minPartitionNum": str(tasks),
        "spark.sql.files.openCostInBytes": str(1 << 18),
    }
    return configured(spark, settings)


def tasks_for(files: Files, rows: int, most: int) -> int:
    """Return the number of tasks for files with so many rows; `most` if the driver cannot look into the files."""
    if not all(path.startswith("/") for parts in files.values() for path in parts):
        return most
    return min(most, 1 + rows // ROWS_PER_TASK)


def begin_task() -> None:
    """Shorten the begin of the worker's next task by a quarter of a second.

    Before each task Spark invalidates Python's import caches, and the importers of Spark's own zips and jar then read
    their whole directories again. Modules that were imported from them stay imported.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and any(name in path for name in _SPARK_ARCHIVES):
            del sys.path_importer_cache[path]

"""Loading a sealed ledger, refusing whatever is missing, damaged or of another version: nothing is guessed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from chaos.errors import RunDirError
from chaos.ledger import SCHEMA_VERSION, TABLES, Seal, read_seal
from chaos.ledger.schemas import LOG, LOG_RANGE
from chaos.rundir import RunDir

AUDITED = {name: TABLES[name] for name in TABLES if name != "transactions"}
"""The tables that are looked at; transactional clients come with a later version."""

LARGE = ("sends", "deliveries", "commits")
BY_ASSIGNMENT = ("assignments",)
NO_ASSIGNMENT = -1
"""Stands for a missing assignment number: joins drop nulls, and no row may vanish."""

_SPARK = {pa.string(): "string", pa.int32(): "int", pa.int64(): "bigint", pa.bool_(): "boolean"}


@dataclass(frozen=True)
class Ledger:
    """The tables of one run, columns as in `chaos.ledger.schemas`.

    small: those that are small whatever the load, as DataFrames: assignments, lifecycle, faults, cluster, log_range.
    rows and torn_bytes are by table: rows as the Parquet files say, bytes as the seal says. files: the parts of the
    tables that are as large as the load (sends, deliveries, commits, log), which nobody reads as a DataFrame.
    """

    small: dict[str, DataFrame]
    files: dict[str, list[str]]
    rows: dict[str, int]
    torn_bytes: dict[str, int]


def load(spark: SparkSession, run: RunDir) -> Ledger:
    """The ledger of a run. Raises `RunDirError` naming table, file and column for anything that does not fit."""
    seal = read_seal(run.ledger)
    frames, rows, files = {}, {}, {}
    for name, schema in AUDITED.items():
        parts, rows[name] = _check_table(name, run.ledger / f"{name}.parquet", schema, seal)
        if name in LARGE:
            files[name] = [str(path) for path in parts]
            continue
        frames[name] = read_parquet(spark, parts, schema)
        if name in BY_ASSIGNMENT:
            frames[name] = frames[name].fillna(NO_ASSIGNMENT, ["assignment"])
    rows["log"], files["log"] = _load_log(run.ledger / "log")
    path = run.ledger / "log_range.parquet"
    _check_file("log_range", path, LOG_RANGE)
    frames["log_range"] = read_parquet(spark, [path], LOG_RANGE)
    torn = {name: sum(t.bytes for t in table.torn) for name, table in seal.tables.items() if name in AUDITED}
    return Ledger(frames, files, rows, torn)


def spark_schema(schema: pa.Schema) -> str:
    """An Arrow schema of the ledger as Spark's DDL."""
    return ", ".join(f"`{field.name}` {_SPARK[field.type]}" for field in schema)


def read_parquet(spark: SparkSession, paths: list[Path], schema: pa.Schema) -> DataFrame:
    """Parquet files with their schema given, so that Spark need not look; no files, no rows."""
    if not paths:
        return spark.createDataFrame([], spark_schema(schema))
    return spark.read.schema(spark_schema(schema)).parquet(*(str(path) for path in paths))


def _load_log(folder: Path) -> tuple[int, list[str]]:
    if not folder.is_dir():
        raise RunDirError(f"{folder} is missing: the log was never read back, so nothing can be said of it")
    paths = sorted(folder.glob("*.parquet"))
    rows = sum(_check_file("log", path, LOG) for path in paths)
    return rows, [str(path) for path in paths]


def _check_table(table: str, folder: Path, schema: pa.Schema, seal: Seal) -> tuple[list[Path], int]:
    """The parts of a sealed table and their rows, once each part is as it was sealed and none is missing."""
    if not folder.is_dir():
        raise RunDirError(f"{folder} is missing: table {table} of the ledger was never sealed or not copied")
    sealed = seal.tables.get(table)
    if sealed is None:
        raise RunDirError(f"{folder}: seal.json does not name table {table}, so it cannot be known to be whole")
    paths = sorted(folder.glob("*.parquet"))
    rows = [_check_file(table, path, schema) for path in paths]
    if sealed.parts and len(rows) != len(sealed.parts):
        raise RunDirError(
            f"{folder} has {len(rows)} parts, seal.json says {len(sealed.parts)}: table {table} is not what was sealed"
        )
    for path, found, expected in zip(paths, rows, sealed.parts, strict=False):
        _check_rows(table, path, found, expected)
    _check_rows(table, folder, sum(rows), sealed.rows)
    return paths, sealed.rows


def _check_rows(table: str, path: Path, rows: int, sealed: int) -> None:
    if rows != sealed:
        raise RunDirError(f"{path} has {rows} rows, seal.json says {sealed}: table {table} is not what was sealed")


def _check_file(table: str, path: Path, schema: pa.Schema) -> int:
    """The number of rows of a Parquet file, once its version, columns and types are the expected ones."""
    try:
        meta = pq.read_metadata(path)
        found = meta.schema.to_arrow_schema()
    except FileNotFoundError:
        raise RunDirError(f"{path} is missing: table {table} of the ledger is not all there") from None
    except (pa.ArrowException, OSError) as e:
        raise RunDirError(
            f"{path} is not readable Parquet ({str(e).splitlines()[0]}): table {table} is damaged"
        ) from None
    version = (found.metadata or {}).get(b"aftershock.schema", str(SCHEMA_VERSION).encode()).decode()
    if version != str(SCHEMA_VERSION):
        raise RunDirError(f"{path}: table {table} has schema version {version}, this Aftershock reads {SCHEMA_VERSION}")
    for field in schema:
        index = found.get_field_index(field.name)
        if index < 0:
            raise RunDirError(f"{path}: table {table} has no column {field.name}; was it written by another version?")
        if found.field(index).type != field.type:
            raise RunDirError(
                f"{path}: column {field.name} of table {table} is {found.field(index).type}, not {field.type}; "
                "was it written by another version?"
            )
    return int(meta.num_rows)

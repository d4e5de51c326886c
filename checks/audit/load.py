"""Loading a sealed ledger, refusing whatever is missing, damaged or of another version: nothing is guessed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chaos.errors import RunDirError
from chaos.ledger.schemas import LOG, LOG_RANGE, TABLES
from chaos.ledger.seal import Seal, SealedTable, read_seal
from chaos.run.directory import Run
from checks.audit.large.columns import check_schema
from checks.spark.remote import LARGE, Mirror

AUDITED = TABLES
"""The tables that are looked at: all that are written while driving."""

NO_ASSIGNMENT = -1
"""Stands for a missing assignment number, so that it can be compared as any other."""


@dataclass(frozen=True)
class Ledger:
    """The tables of one run, columns as in `chaos.ledger.schemas`.

    small: those that are small beside the load: assignments, lifecycle, faults, cluster, transactions, log_range. rows
    and torn_bytes are by table: rows as the Parquet files say, bytes as the seal says. files: the parts of the tables
    that are as large as the load (sends, deliveries, commits, log), which the driver never reads. seal: what is still
    to be compared with the rows of those parts (see `settle`); None where the driver could look at them itself.
    """

    small: dict[str, pa.Table]
    files: dict[str, list[str]]
    rows: dict[str, int]
    torn_bytes: dict[str, int]
    seal: Seal | None = None


def load(run: Run) -> Ledger:
    """The ledger of a run. Raises `RunDirError` naming table, file and column for anything that does not fit."""
    seal = read_seal(run.ledger)
    small, rows, files = {}, {}, {}
    for name, schema in AUDITED.items():
        if name in LARGE and isinstance(run, Mirror):
            files[name], rows[name] = _elsewhere(name, run, seal)
            continue
        parts, rows[name] = _check_table(name, run.ledger / f"{name}.parquet", schema, seal)
        if name in LARGE:
            files[name] = [str(path) for path in parts]
        else:
            small[name] = _read(parts, schema)
    rows["log"], files["log"] = _load_log(run)
    path = run.ledger / "log_range.parquet"
    _check_file("log_range", path, LOG_RANGE)
    small["log_range"] = _read([path], LOG_RANGE)
    torn = {name: sum(t.bytes for t in table.torn) for name, table in seal.tables.items() if name in AUDITED}
    return Ledger(small, files, rows, torn, seal if isinstance(run, Mirror) else None)


def settle(ledger: Ledger, read: dict[tuple[str, str], int]) -> None:
    """Hold the rows that executors read of each part, by table and path, against the seal, and note them.

    Raises `RunDirError` if they are not what was sealed. Where `load` could look at the parts it is done already.
    """
    if ledger.seal is None:
        return
    for table in LARGE:
        sealed = ledger.seal.tables[table]
        counts = [(path, rows) for (name, path), rows in sorted(read.items()) if name == table]
        for (path, rows), expected in zip(counts, sealed.parts, strict=False):
            _check_rows(table, path, rows, expected)
        _check_rows(table, f"table {table}", sum(rows for _, rows in counts), sealed.rows)
    ledger.rows["log"] = sum(rows for (name, _), rows in read.items() if name == "log")


def _elsewhere(table: str, run: Mirror, seal: Seal) -> tuple[list[str], int]:
    """The parts of a large table that nobody has looked into yet, and the rows that were sealed."""
    where = f"{run.uri}/ledger/{table}.parquet"
    sealed = _sealed(table, where, seal)
    parts = run.parts(f"ledger/{table}.parquet")
    _check_parts(table, where, len(parts), sealed)
    return parts, sealed.rows


def _read(paths: list[Path], schema: pa.Schema) -> pa.Table:
    """The columns of the schema; no files, no rows."""
    tables = [pq.read_table(path, columns=schema.names, partitioning=None) for path in paths]
    table = pa.concat_tables([schema.empty_table(), *(t.replace_schema_metadata(schema.metadata) for t in tables)])
    if "assignment" in schema.names:
        at = schema.get_field_index("assignment")
        table = table.set_column(at, schema.field(at), pc.fill_null(table["assignment"], NO_ASSIGNMENT))
    return table


def _load_log(run: Run) -> tuple[int, list[str]]:
    """Rows (0 where they are to be counted yet) and parts of the log."""
    folder = run.ledger / "log"
    if not folder.is_dir():
        raise RunDirError(f"{folder} is missing: the log was never read back, so nothing can be said of it")
    if isinstance(run, Mirror):
        return 0, run.parts("ledger/log")
    paths = sorted(folder.glob("*.parquet"))
    rows = sum(_check_file("log", path, LOG) for path in paths)
    return rows, [str(path) for path in paths]


def _check_table(table: str, folder: Path, schema: pa.Schema, seal: Seal) -> tuple[list[Path], int]:
    """The parts of a sealed table and their rows, once each part is as it was sealed and none is missing."""
    if not folder.is_dir():
        raise RunDirError(f"{folder} is missing: table {table} of the ledger was never sealed or not copied")
    sealed = _sealed(table, str(folder), seal)
    paths = sorted(folder.glob("*.parquet"))
    rows = [_check_file(table, path, schema) for path in paths]
    _check_parts(table, str(folder), len(rows), sealed)
    for path, found, expected in zip(paths, rows, sealed.parts, strict=False):
        _check_rows(table, str(path), found, expected)
    _check_rows(table, str(folder), sum(rows), sealed.rows)
    return paths, sealed.rows


def _sealed(table: str, where: str, seal: Seal) -> SealedTable:
    if table not in seal.tables:
        raise RunDirError(f"{where}: seal.json does not name table {table}, so it cannot be known to be whole")
    return seal.tables[table]


def _check_parts(table: str, where: str, parts: int, sealed: SealedTable) -> None:
    if sealed.parts and parts != len(sealed.parts):
        raise RunDirError(
            f"{where} has {parts} parts, seal.json says {len(sealed.parts)}: table {table} is not what was sealed"
        )


def _check_rows(table: str, where: str, rows: int, sealed: int) -> None:
    if rows != sealed:
        raise RunDirError(f"{where} has {rows} rows, seal.json says {sealed}: table {table} is not what was sealed")


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
    check_schema(table, str(path), found, schema)
    return int(meta.num_rows)

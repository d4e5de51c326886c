"""Loading a sealed ledger. Missing or damaged data and other schema versions are refused; nothing is guessed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chaos.errors import RunDirError
from chaos.ledger.schemas import LOG, LOG_RANGE, TABLES, with_columns
from chaos.ledger.seal import Seal, SealedTable, read_seal
from chaos.run.directory import Run
from checks.audit.arrays import NONE
from checks.audit.engine.parts import check_schema
from checks.spark.remote import LARGE, Mirror


@dataclass(frozen=True)
class Ledger:
    """The tables of one run, columns as in `chaos.ledger.schemas`.

    small: the tables that are small beside the load (assignments, lifecycle, faults, cluster, transactions, log_range).
    files: paths of the parts of the tables that are as large as the load (sends, deliveries, commits, log), which the
    driver never reads. rows: rows by table, from the Parquet files. torn_bytes: torn bytes by table, from the seal.
    seal: the seal to compare with the rows that executors read (see `settle`), None if `load` has compared them.
    """

    small: dict[str, pa.Table]
    files: dict[str, list[str]]
    rows: dict[str, int]
    torn_bytes: dict[str, int]
    seal: Seal | None = None


def load(run: Run) -> Ledger:
    """Return the ledger of a run. Raises `RunDirError` with table, file and column for data that does not fit."""
    seal = read_seal(run.ledger)
    small, rows, files = {}, {}, {}
    for name, schema in TABLES.items():
        if name in LARGE and isinstance(run, Mirror):
            files[name], rows[name] = _remote_table(name, run, seal)
            continue
        parts, rows[name] = _local_table(name, run.ledger / f"{name}.parquet", schema, seal)
        if name in LARGE:
            files[name] = [str(path) for path in parts]
        else:
            small[name] = _read(parts, schema)
    rows["log"], files["log"] = _log(run)
    path = run.ledger / "log_range.parquet"
    _check_file("log_range", path, LOG_RANGE)
    small["log_range"] = _read([path], LOG_RANGE)
    torn = {name: sum(t.bytes for t in table.torn) for name, table in seal.tables.items() if name in TABLES}
    return Ledger(small, files, rows, torn, seal if isinstance(run, Mirror) else None)


def settle(ledger: Ledger, read: dict[tuple[str, str], int]) -> None:
    """Compare the rows that executors read of each part, by table and path, with the seal, and record them.

    Raises `RunDirError` if they differ. Does nothing if `load` could open the parts itself.
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


def _remote_table(table: str, run: Mirror, seal: Seal) -> tuple[list[str], int]:
    """Return the parts of a large table, which executors will open, and the sealed number of rows."""
    where = f"{run.uri}/ledger/{table}.parquet"
    sealed = _sealed(table, where, seal)
    parts = run.parts(f"ledger/{table}.parquet")
    _check_parts(table, where, len(parts), sealed)
    return parts, sealed.rows


def _read(paths: list[Path], schema: pa.Schema) -> pa.Table:
    """Return the rows of some parts, with the columns of the schema; a missing assignment is NONE."""
    tables = [with_columns(pq.read_table(path, partitioning=None), schema).cast(schema) for path in paths]
    table = pa.concat_tables([schema.empty_table(), *tables])
    if "assignment" in schema.names:
        at = schema.get_field_index("assignment")
        table = table.set_column(at, schema.field(at), pc.fill_null(table["assignment"], NONE))
    return table


def _log(run: Run) -> tuple[int, list[str]]:
    """Return the rows (0 until `settle` counts them) and the parts of the log."""
    folder = run.ledger / "log"
    if not folder.is_dir():
        raise RunDirError(f"{folder} is missing: the log was never read back; run `readback` while the cluster is up")
    if isinstance(run, Mirror):
        return 0, run.parts("ledger/log")
    paths = sorted(folder.glob("*.parquet"))
    rows = sum(_check_file("log", path, LOG) for path in paths)
    return rows, [str(path) for path in paths]


def _local_table(table: str, folder: Path, schema: pa.Schema, seal: Seal) -> tuple[list[Path], int]:
    """Return the parts of a sealed table and its rows after comparing each part with the seal."""
    if not folder.is_dir():
        raise RunDirError(f"{folder} is missing: table {table} of the ledger was never sealed or not copied")
    sealed = _sealed(table, str(folder), seal)
    paths = sorted(folder.glob("*.parquet"))
    rows = [_check_file(table, path, schema) for path in paths]
    _check_parts(table, str(folder), len(rows), sealed)
    for path, actual, expected in zip(paths, rows, sealed.parts, strict=False):
        _check_rows(table, str(path), actual, expected)
    _check_rows(table, str(folder), sum(rows), sealed.rows)
    return paths, sealed.rows


def _sealed(table: str, where: str, seal: Seal) -> SealedTable:
    if table not in seal.tables:
        raise RunDirError(f"{where}: seal.json does not list table {table}, so the table may be incomplete")
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
    """Return the number of rows of a Parquet file after checking its version, columns and types."""
    try:
        meta = pq.read_metadata(path)
        actual = meta.schema.to_arrow_schema()
    except FileNotFoundError:
        raise RunDirError(f"{path} is missing: table {table} of the ledger is incomplete") from None
    except (pa.ArrowException, OSError) as e:
        raise RunDirError(
            f"{path} is not readable Parquet ({str(e).splitlines()[0]}): table {table} is damaged"
        ) from None
    check_schema(table, str(path), actual, schema)
    return int(meta.num_rows)

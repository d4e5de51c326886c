"""Loading a sealed ledger. Missing or damaged data and other schema versions are refused; nothing is guessed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chaos.errors import RunDirError, first_line
from chaos.ledger.schemas import (
    BATCHES,
    COMMIT_LOG,
    COMMIT_LOG_RANGE,
    LARGE,
    LOG,
    LOG_RANGE,
    OPTIONAL,
    TABLES,
)
from chaos.ledger.seal import Seal, SealedTable, read_seal
from chaos.run.directory import Run
from checks.audit.arrays import NONE
from checks.audit.engine.parts import check_schema
from checks.spark.remote import Mirror


@dataclass(frozen=True)
class Ledger:
    """The tables of one run, columns as in `chaos.ledger.schemas`.

    small: the tables that do not grow with the load (assignments, lifecycle, faults, cluster, transactions, log_range),
    commit_log_range, which is empty if the log of offset commits was not read back, and batches, which is empty if the
    log was read back without them. commit_log: the log of offset commits.
    files: paths of the parts of the tables that are as large as the load (`LARGE` and the log), which the driver never
    reads. rows: rows by table, from the Parquet files. torn_bytes: torn bytes by table, from the seal.
    of_wire: whether it was made from what passed on the wire. undecided: rows that it leaves out: check (or `WIRE`),
    scope, why and count.
    seal: the seal to compare with the rows that executors read (see `settle`), None if `load` has compared them.
    """

    small: dict[str, pa.Table]
    files: dict[str, list[str]]
    rows: dict[str, int]
    torn_bytes: dict[str, int]
    seal: Seal | None = None
    commit_log: pa.Table = field(default_factory=COMMIT_LOG.empty_table)
    of_wire: bool = False
    undecided: list[dict[str, Any]] = field(default_factory=list)


def load(run: Run, folder: Path | None = None) -> Ledger:
    """Return the ledger of a run. Raises `RunDirError` with table, file and column for data that does not fit.

    folder: of another ledger in the same form, such as the one of the wire.
    """
    remote = run if isinstance(run, Mirror) and folder is None else None
    folder = folder or run.ledger
    seal = read_seal(folder)
    small, rows, files = {}, {}, {}
    for name, schema in TABLES.items():
        if name in OPTIONAL and name not in seal.tables:
            small[name], rows[name] = schema.empty_table(), 0
            continue
        where = remote if name in LARGE else None
        parts, rows[name] = _table(name, folder, schema, seal, where)
        if name in LARGE:
            files[name] = parts
        else:
            small[name] = _read(parts, schema)
    rows["log"], files["log"] = _log(folder, remote)
    path = folder / "log_range.parquet"
    _check_file("log_range", path, LOG_RANGE)
    small["log_range"] = _read([str(path)], LOG_RANGE)
    small["commit_log_range"] = _commit_log(folder, "commit_log_range", COMMIT_LOG_RANGE)
    small["batches"] = _if_there(folder, "batches", BATCHES)
    commit_log = _commit_log(folder, "commit_log", COMMIT_LOG)
    torn = {name: sum(t.bytes for t in table.torn) for name, table in seal.tables.items() if name in TABLES}
    left_out = folder / "undecided.parquet"
    undecided = pq.read_table(left_out).to_pylist() if left_out.exists() else []
    return Ledger(small, files, rows, torn, seal if remote else None, commit_log, left_out.exists(), undecided)


def settle(ledger: Ledger, read: dict[tuple[str, str], int]) -> None:
    """Compare the rows that executors read of each part, by table and path, with the seal, and record them.

    Raises `RunDirError` if they differ. Does nothing if `load` could open the parts itself.
    """
    if ledger.seal is None:
        return
    for table in (table for table in LARGE if table in ledger.seal.tables):
        counts = [(path, rows) for (name, path), rows in sorted(read.items()) if name == table]
        _compare(table, f"table {table}", counts, ledger.seal.tables[table])
    ledger.rows["log"] = sum(rows for (name, _), rows in read.items() if name == "log")


def _table(table: str, ledger: Path, schema: pa.Schema, seal: Seal, remote: Mirror | None) -> tuple[list[str], int]:
    """Return the parts of a table and its rows, compared with the seal. Executors open the parts of a remote table."""
    folder = ledger / f"{table}.parquet"
    where = f"{remote.uri}/ledger/{table}.parquet" if remote else str(folder)
    if not remote and not folder.is_dir():
        raise RunDirError(f"{folder} is missing: table {table} of the ledger was never sealed or not copied")
    if table not in seal.tables:
        raise RunDirError(f"{where}: seal.json does not list table {table}, so the table may be incomplete")
    sealed = seal.tables[table]
    paths = remote.parts(f"ledger/{table}.parquet") if remote else _files(folder)
    counts = [] if remote else [(path, _check_file(table, Path(path), schema)) for path in paths]
    if sealed.parts and len(paths) != len(sealed.parts):
        raise RunDirError(
            f"{where} has {len(paths)} parts, seal.json says {len(sealed.parts)}: table {table} is not what was sealed"
        )
    if not remote:
        _compare(table, where, counts, sealed)
    return paths, sealed.rows


def _files(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("*.parquet"))]


def _compare(table: str, where: str, counts: list[tuple[str, int]], sealed: SealedTable) -> None:
    """Compare the rows of each part, and of all together, with the seal."""
    expected = [(path, rows, rows_sealed) for (path, rows), rows_sealed in zip(counts, sealed.parts, strict=False)]
    for what, rows, rows_sealed in (*expected, (where, sum(rows for _, rows in counts), sealed.rows)):
        if rows != rows_sealed:
            raise RunDirError(
                f"{what} has {rows} rows, seal.json says {rows_sealed}: table {table} is not what was sealed"
            )


def _read(paths: list[str], schema: pa.Schema) -> pa.Table:
    """Return the rows of some parts, with the columns of the schema; a missing assignment is NONE."""
    tables = [pq.read_table(path, columns=schema.names, partitioning=None).cast(schema) for path in paths]
    table = pa.concat_tables([schema.empty_table(), *tables])
    if "assignment" in schema.names:
        at = schema.get_field_index("assignment")
        table = table.set_column(at, schema.field(at), pc.fill_null(table["assignment"], NONE))
    return table


def _commit_log(ledger: Path, table: str, schema: pa.Schema) -> pa.Table:
    """Return a table of the log of offset commits; empty for a ledger without it, as earlier releases wrote it."""
    if not (ledger / "commit_log_range.parquet").exists():
        return schema.empty_table()
    path = ledger / f"{table}.parquet"
    _check_file(table, path, schema)
    return _read([str(path)], schema)


def _if_there(ledger: Path, table: str, schema: pa.Schema) -> pa.Table:
    """Return a table that may be missing; empty without it."""
    path = ledger / f"{table}.parquet"
    if not path.exists():
        return schema.empty_table()
    _check_file(table, path, schema)
    return _read([str(path)], schema)


def _log(ledger: Path, remote: Mirror | None) -> tuple[int, list[str]]:
    """Return the rows (0 until `settle` counts them) and the parts of the log."""
    folder = ledger / "log"
    if not folder.is_dir():
        raise RunDirError(f"{folder} is missing: the log was never read back; run `readback` while the cluster is up")
    if remote:
        return 0, remote.parts("ledger/log")
    paths = _files(folder)
    return sum(_check_file("log", Path(path), LOG) for path in paths), paths


def _check_file(table: str, path: Path, schema: pa.Schema) -> int:
    """Return the number of rows of a Parquet file after checking its version, columns and types."""
    try:
        meta = pq.read_metadata(path)
        actual = meta.schema.to_arrow_schema()
    except FileNotFoundError:
        raise RunDirError(f"{path} is missing: table {table} of the ledger is incomplete") from None
    except (pa.ArrowException, OSError) as e:
        raise RunDirError(f"{path} is not readable Parquet ({first_line(e)}): table {table} is damaged") from None
    check_schema(table, str(path), actual, schema)
    return int(meta.num_rows)

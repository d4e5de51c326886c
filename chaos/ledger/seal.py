"""Sealing: from many append-only streams to one Parquet file per table, with every row and every torn byte counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from chaos.errors import RunDirError
from chaos.ledger.reader import StreamEnd, read_stream
from chaos.ledger.schemas import SCHEMA_VERSION, TABLES
from chaos.ledger.writer import SUFFIX
from chaos.rundir import read_json, write_atomically

ROWS_PER_GROUP = 1 << 20


class Torn(BaseModel):
    """A file whose end belongs to no whole batch."""

    file: str
    bytes: int
    reason: str


class SealedTable(BaseModel):
    """One sealed table: how many rows, from how many files, and what could not be read."""

    rows: int = 0
    files: int = 0
    torn: list[Torn] = []


class Seal(BaseModel):
    """`ledger/seal.json`: written last, so its presence says that every table is complete."""

    schema_version: int = SCHEMA_VERSION
    tables: dict[str, SealedTable]


def seal(ledger: Path) -> Seal:
    """Turn every table's streams into `ledger/<table>.parquet` and write `seal.json`.

    Streams are removed only when the seal is written, so a kill at any moment loses nothing: sealing starts over.
    """
    sealed = Seal(tables={table: _seal_table(ledger, table, schema) for table, schema in TABLES.items()})
    write_atomically(ledger / "seal.json", sealed.model_dump_json(indent=1))
    for table in TABLES:
        shutil.rmtree(ledger / table, ignore_errors=True)
    return sealed


def _seal_table(ledger: Path, table: str, schema: pa.Schema) -> SealedTable:
    target, half = ledger / f"{table}.parquet", ledger / f".{table}.parquet.half"
    result = SealedTable()
    with pq.ParquetWriter(half, schema, compression="zstd", compression_level=1) as out:
        pending: list[pa.RecordBatch] = []
        pending_rows = 0
        for path in sorted((ledger / table).glob(f"*{SUFFIX}")):
            end = StreamEnd()
            for batch in read_stream(path, schema, end):
                pending.append(batch)
                pending_rows += batch.num_rows
                result.rows += batch.num_rows
                if pending_rows >= ROWS_PER_GROUP:
                    out.write_table(pa.Table.from_batches(pending, schema))
                    pending, pending_rows = [], 0
            result.files += 1
            if end.torn_bytes:
                result.torn.append(Torn(file=f"{table}/{path.name}", bytes=end.torn_bytes, reason=end.reason))
        if pending:
            out.write_table(pa.Table.from_batches(pending, schema))
    half.replace(target)
    return result


def read_seal(ledger: Path) -> Seal:
    """The seal of a ledger; a ledger that was never sealed, or by another version, is refused with the reason."""
    raw = read_json(ledger / "seal.json", "seal of the ledger")
    if not isinstance(raw, dict) or raw.get("schema_version") != SCHEMA_VERSION:
        version = raw.get("schema_version") if isinstance(raw, dict) else "?"
        raise RunDirError(
            f"{ledger} was sealed with schema version {version}, this Aftershock reads version {SCHEMA_VERSION}"
        )
    return Seal.model_validate(raw)

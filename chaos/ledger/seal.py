"""The conversion of ledger streams to Parquet, with the numbers of rows and torn bytes.

Each table becomes a directory of parts. Arrow encodes parts in parallel, without the GIL, while the streams are read.
Memory holds one part per core and the part that is read, whatever the size of the ledger.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from chaos.errors import RunDirError
from chaos.ledger.files import ledger_files, read_file
from chaos.ledger.schemas import SCHEMA_VERSION, TABLES
from chaos.ledger.stream import StreamEnd
from chaos.run.directory import read_json, write_atomically

ROWS_PER_PART = 1 << 19
"""Rows of a full part: about 60 MB in memory, large enough for dictionary encoding to pay off."""
SEAL = "seal.json"


class Torn(BaseModel):
    """A file with bytes after its last complete batch; see `StreamEnd`."""

    file: str
    bytes: int
    reason: str
    refused: bool = False


class SealedTable(BaseModel):
    """One sealed table: its rows, streams and torn streams.

    parts: rows of each part, in the order of the part names.
    """

    rows: int = 0
    files: int = 0
    parts: list[int] = []
    torn: list[Torn] = []


class Seal(BaseModel):
    """`ledger/seal.json`: written last, so if it exists, every table is complete."""

    schema_version: int = SCHEMA_VERSION
    tables: dict[str, SealedTable]


def seal(ledger: Path) -> Seal:
    """Convert the streams of every table to `ledger/<table>.parquet/part-*.parquet`, and write `seal.json`.

    Streams are removed after the seal is written, so a kill at any moment loses nothing: the next call starts over, or
    only removes the streams if the seal exists.
    """
    if (ledger / SEAL).exists():
        sealed = read_seal(ledger)
    else:
        sealed = Seal(tables=_seal_tables(ledger))
        write_atomically(ledger / SEAL, sealed.model_dump_json(indent=1))
    for table in TABLES:
        shutil.rmtree(ledger / table, ignore_errors=True)
    return sealed


def _seal_tables(ledger: Path) -> dict[str, SealedTable]:
    """Write the parts of all tables in parallel, then rename the table directories to their final names."""
    sealed = {table: SealedTable() for table in TABLES}
    half = {table: ledger / f".{table}.parquet.half" for table in TABLES}
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers, thread_name_prefix="seal") as pool:
        running: set[Future[None]] = set()
        for table, schema in TABLES.items():
            shutil.rmtree(half[table], ignore_errors=True)
            half[table].mkdir()
            for part in _parts(ledger, table, schema, sealed[table]):
                path = half[table] / part_name(len(sealed[table].parts))
                sealed[table].parts.append(part.num_rows)
                if len(running) == workers:
                    running = _finish(running)
                running.add(pool.submit(_write_part, part, path))
        while running:
            running = _finish(running)
    for table in TABLES:
        shutil.rmtree(ledger / f"{table}.parquet", ignore_errors=True)  # left by a killed seal
        half[table].rename(ledger / f"{table}.parquet")
    return sealed


def _finish(running: set[Future[None]]) -> set[Future[None]]:
    """Wait for at least one part, and raise its error. Returns the parts that are still being written."""
    done, running = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        future.result()
    return running


def _parts(ledger: Path, table: str, schema: pa.Schema, sealed: SealedTable) -> Iterator[pa.Table]:
    """Yield the rows of a table in the order of its streams, as one table per part; at least one, maybe empty."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in _batches(ledger, table, schema, sealed):
        while rows + batch.num_rows >= ROWS_PER_PART:
            fits = ROWS_PER_PART - rows
            yield pa.Table.from_batches([*pending, batch.slice(0, fits)], schema)
            batch, pending, rows = batch.slice(fits), [], 0
        if batch.num_rows:
            pending.append(batch)
            rows += batch.num_rows
    if pending or not sealed.rows:
        yield pa.Table.from_batches(pending, schema)


def _batches(ledger: Path, table: str, schema: pa.Schema, sealed: SealedTable) -> Iterator[pa.RecordBatch]:
    """Yield the complete batches of all streams of a table, and count rows, streams and torn bytes in `sealed`."""
    for path in ledger_files(ledger / table):
        end = StreamEnd()
        for batch in read_file(path, schema, end):
            sealed.rows += batch.num_rows
            yield batch
        sealed.files += 1
        if end.torn_bytes:
            sealed.torn.append(_torn(f"{table}/{path.name}", end))


def _torn(file: str, end: StreamEnd) -> Torn:
    return Torn(file=file, bytes=end.torn_bytes, reason=end.reason, refused=end.refused)


def part_name(index: int) -> str:
    """Return the file name of a part; names sort in the order of the parts."""
    return f"part-{index:05}.parquet"


def _write_part(part: pa.Table, path: Path) -> None:
    pq.write_table(part, path, row_group_size=ROWS_PER_PART, **parquet_options(part.schema))


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Return options of `pq.write_table` for ledger columns: half the time and a quarter of the bytes of zstd alone.

    Strings and small integers recur, so they are dictionary encoded. Offsets, times and running numbers (int64) do not
    recur, but each is close to the previous one, so they are delta encoded.
    """
    counting = {field.name: "DELTA_BINARY_PACKED" for field in schema if field.type == pa.int64()}
    recurring = [field.name for field in schema if field.name not in counting]
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": recurring,
        "column_encoding": counting,
    }


def read_seal(ledger: Path) -> Seal:
    """Return the seal of a ledger. Raises `RunDirError` if it is not sealed, or sealed with another schema version."""
    raw = read_json(ledger / SEAL, "seal of the ledger")
    version = raw.get("schema_version") if isinstance(raw, dict) else "?"
    if version != SCHEMA_VERSION:
        raise RunDirError(f"{ledger} was sealed with schema version {version}, this Aftershock reads {SCHEMA_VERSION}")
    return Seal.model_validate(raw)

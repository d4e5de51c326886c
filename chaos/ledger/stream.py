"""The stream of one ledger table and one process: its writer, its reader, and columns of repeated values.

Run-end encoded columns hold the values of the runs and their ends, for values that repeat row after row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.ledger.schemas import RUN_ENDS, SCHEMA_VERSION, STREAMS, TABLES, version_of

SUFFIX = ".arrows"
_NEVER = pa.array([np.iinfo(np.int32).max], RUN_ENDS)


@lru_cache(maxsize=1024)
def same(value: object, kind: pa.DataType) -> pa.Array:
    """Return a column that repeats one value; slice it to length, which costs a tenth of a new array."""
    return pa.RunEndEncodedArray.from_arrays(_NEVER, pa.array([value], kind))


def runs(ends: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return a column in which run i has value i and ends before row `ends[i]`."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends.astype(np.int32)), values)


def _is_encoded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_run_end_encoded(kind))


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    """Return a column of this type from an Arrow array, encoded or not, or from Python values."""
    if not isinstance(values, pa.Array):
        values = pa.array(values, kind.value_type if _is_encoded(kind) else kind)
    return pc.run_end_encode(values) if _is_encoded(kind) and not _is_encoded(values.type) else values


class TableWriter:
    """Appends batches to `ledger/<table>/<writer>.arrows`. A batch survives a SIGKILL once `append` has returned.

    Each batch is one write(2), so a kill leaves at most one torn batch, at the end. Raises `FileExistsError` if another
    writer has the file.
    """

    def __init__(self, ledger: Path, table: str, writer: str) -> None:
        self.schema = STREAMS[table]
        self._types = self.schema.types
        self._names, self._row = set(self.schema.names), pa.struct(list(TABLES[table]))
        self._has_runs = not self.schema.equals(TABLES[table])
        folder = ledger / table
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{writer.replace('/', '-')}{SUFFIX}"
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._write(self.schema.serialize())
        self.rows = 0

    def append(self, columns: Sequence[Any]) -> None:
        """Append a batch of columns in schema order: Arrow arrays, run-end encoded or not, or Python sequences."""
        arrays = [_column(c, kind) for c, kind in zip(columns, self._types, strict=True)]
        self._append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def append_rows(self, rows: Iterable[dict[str, Any]]) -> None:
        """Append rows; a missing column is null. Raises `KeyError` for an unknown column."""
        rows = list(rows)
        for row in rows:
            if unknown := row.keys() - self._names:
                raise KeyError(f"no column {sorted(unknown)} in {self.path.parent.name}")
        # one conversion of all columns costs a quarter of one for each column, for a few rows
        array = pa.array(rows, self._row)
        if self._has_runs:
            self.append(array.flatten())
        else:
            self._append(pa.RecordBatch.from_struct_array(array))

    def _append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._write(batch.serialize())
            self.rows += batch.num_rows

    def _write(self, data: Any) -> None:
        view = memoryview(data)
        while view:  # a disk that is almost full takes a part; the next write then raises OSError
            view = view[os.write(self._fd, view) :]

    def close(self) -> None:
        """Close the file. There is no buffer to flush."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _decoded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with plain columns and this schema."""
    columns = [pc.run_end_decode(c) if _is_encoded(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass
class StreamEnd:
    """The end of a stream: the number of bytes after the last complete batch (0 in a clean file), and the reason.

    refused: the bytes are no batch that was cut off, but one that breaks the rules of the ledger.
    """

    torn_bytes: int = 0
    reason: str = ""
    refused: bool = False


def read_stream(path: Path, schema: pa.Schema, end: StreamEnd) -> Iterator[pa.RecordBatch]:
    """Yield the complete batches of a file with plain columns; `end` is filled when the iterator is exhausted.

    A file without a complete schema yields nothing. A file with another schema than `schema` is unreadable, except that
    any column may be run-end encoded. Each batch has memory that is freed with it; mapped pages would stay until the
    last batch of the file is freed.
    """
    size = path.stat().st_size
    good = 0
    with pa.OSFile(str(path)) as source:
        try:
            stored = pa.ipc.read_schema(source)
            version = version_of(stored)
            plain = pa.schema([pa.field(f.name, f.type.value_type) if _is_encoded(f.type) else f for f in stored])
            if version != str(SCHEMA_VERSION) or not plain.equals(schema):
                end.torn_bytes = size
                end.reason = f"written with schema version {version}, this is version {SCHEMA_VERSION}"
                end.refused = True
                return
            good = source.tell()
            while good < size:
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(source), stored)
                batch.validate(full=True)
                good = source.tell()
                yield _decoded(batch, schema)
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as e:
            end.reason = str(e).splitlines()[0]
        end.torn_bytes = size - good

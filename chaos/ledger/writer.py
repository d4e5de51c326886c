"""The writer of one ledger stream. Appended batches survive a SIGKILL of the writer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from chaos.ledger.runs import column
from chaos.ledger.schemas import STREAMS, TABLES

SUFFIX = ".arrows"


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
        arrays = [column(c, kind) for c, kind in zip(columns, self._types, strict=True)]
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

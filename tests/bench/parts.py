"""A stream of rows as Parquet parts, written as sealing writes them, from columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.ledger.seal import ROWS_PER_PART, parquet_options

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Named:
    """A column of texts: of each row the number of its text."""

    codes: Ints
    texts: list[str]


Column = Ints | Named | str | int | bool
Columns = dict[str, Any]
"""By name a `Column`."""


class Parts:
    """A stream of rows as a folder of Parquet parts, written as rows come, as `chaos.ledger.seal` writes them."""

    def __init__(self, folder: Path, schema: pa.Schema, prefix: str, rows_per_part: int = ROWS_PER_PART) -> None:
        self.folder, self.schema, self.prefix, self.rows_per_part = folder, schema, prefix, rows_per_part
        self.rows: list[int] = []
        """Rows of each part."""
        self._pending: list[pa.Table] = []
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, rows: int, columns: Columns) -> None:
        """One value for all rows, or one for each; a column that is not named is null."""
        arrays = [_column(columns.get(f.name), f.type, rows) for f in self.schema]
        self.append_table(pa.Table.from_arrays(arrays, schema=self.schema))

    def append_table(self, table: pa.Table) -> None:
        self._pending.append(table)
        while sum(map(len, self._pending)) >= self.rows_per_part:
            self._write()

    def close(self) -> None:
        """Write what is left; a stream of no rows is one part of none."""
        if self._pending or not self.rows:
            self._write()

    def paths(self) -> list[Path]:
        return [self.folder / f"{self.prefix}-{n:05}.parquet" for n in range(len(self.rows))]

    def _write(self) -> None:
        table = pa.concat_tables(self._pending or [self.schema.empty_table()])
        part, rest = table.slice(0, self.rows_per_part), table.slice(self.rows_per_part)
        self.rows.append(len(part))
        pq.write_table(part, self.paths()[-1], row_group_size=self.rows_per_part, **parquet_options(self.schema))
        self._pending = [rest] if len(rest) else []


def _column(value: Column | None, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(value, Named):
        return pa.array(value.texts, kind).take(pa.array(value.codes))
    if isinstance(value, np.ndarray):
        return pa.array(value, kind)
    return pa.repeat(pa.scalar(value, kind), rows)

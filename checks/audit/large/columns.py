"""One Parquet part of a large table as columns for numpy, once it is what it claims to be.

A part comes as bytes, so it may lie on any file system that Spark reads. Anything that does not fit raises
`RunDirError` with file, table and column: no row is guessed, none is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.errors import RunDirError
from chaos.ledger.schemas import LOG, SCHEMA_VERSION, TABLES

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NONE = -1
"""Stands for a missing number: offsets, partitions, assignments and seqs that exist are not negative."""

SCHEMAS = {"log": LOG} | {name: TABLES[name] for name in ("sends", "deliveries", "commits")}
REQUIRED = {
    "sends": ("producer", "incarnation", "seq", "topic", "outcome", "invoked_us", "completed_us"),
    "deliveries": ("consumer", "incarnation", "mode", "ordinal", "topic", "partition", "offset", "processed_us"),
    "log": ("topic", "partition", "offset"),
    "commits": ("consumer", "incarnation", "mode", "topic", "partition", "offset", "outcome"),
}
"""Columns without which a row says nothing."""


class Part:
    """The rows of one file. Numbers come with NONE for null, texts as codes into their distinct values; both as wide as
    they are in the file, so 32 bits have to be widened (`Rows.ints` does) before they are shifted or multiplied."""

    def __init__(self, table: str, path: str, data: Any, columns: Sequence[str]) -> None:
        self.table, self.path = table, path
        self._columns = _read(table, path, data, columns)
        self.rows = len(self._columns)

    def ints(self, name: str) -> Ints:
        """A column of numbers; NONE where it is null."""
        column = self._columns[name].chunk(0) if self.rows else pa.array([], pa.int64())
        if column.null_count:
            column = column.fill_null(NONE)
        values: Ints = column.to_numpy(zero_copy_only=False)
        return values

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """A column of texts: the code of each row (NONE where null), and the texts by code."""
        if not self.rows:
            return np.zeros(0, np.int64), []
        column = self._columns[name].chunk(0)
        if not isinstance(column, pa.DictionaryArray):
            column = column.dictionary_encode()
        indices = column.indices.fill_null(NONE) if column.null_count else column.indices
        return indices.to_numpy(zero_copy_only=False), column.dictionary.to_pylist()

    def own_records(self, run: str) -> Mask:
        """Of a part of the log, the records that carry an identity of this run (`run` is the run's token)."""
        carried, tokens = self.codes("run")
        ours = tokens.index(run) if run in tokens else NONE - 1
        own: Mask = (carried == ours) & (self.codes("producer")[0] >= 0)
        return own & (self.ints("incarnation") >= 0) & (self.ints("seq") >= 0)

    def flags(self, name: str) -> tuple[Mask, Mask]:
        """A column of booleans: where it is true, and where it is known."""
        if not self.rows:
            return np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        column = self._columns[name].chunk(0)
        true = column.fill_null(False).to_numpy(zero_copy_only=False)
        return true, column.is_valid().to_numpy(zero_copy_only=False)


def _read(table: str, path: str, data: Any, columns: Sequence[str]) -> pa.Table:
    try:
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=_texts(table))
        check_schema(table, path, file.schema_arrow, SCHEMAS[table])
        found = file.read(list(columns), use_threads=False)
    except (pa.ArrowException, OSError) as e:
        raise RunDirError(f"{path} is not readable Parquet ({_first_line(e)}): table {table} is damaged") from None
    for name in REQUIRED[table]:
        if name in columns and found[name].null_count:
            raise RunDirError(f"{path}: column {name} of table {table} is null in {found[name].null_count} rows")
    return found.unify_dictionaries().combine_chunks()


def check_schema(table: str, path: str, found: pa.Schema, expected: pa.Schema) -> None:
    """Version, columns and types of a file. Raises `RunDirError` naming the first that does not fit."""
    version = (found.metadata or {}).get(b"aftershock.schema", str(SCHEMA_VERSION).encode()).decode()
    if version != str(SCHEMA_VERSION):
        raise RunDirError(f"{path}: table {table} has schema version {version}, this Aftershock reads {SCHEMA_VERSION}")
    for field in expected:
        index = found.get_field_index(field.name)
        if index < 0:
            raise RunDirError(f"{path}: table {table} has no column {field.name}; was it written by another version?")
        kind = found.field(index).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if kind != field.type:
            raise RunDirError(
                f"{path}: column {field.name} of table {table} is {kind}, not {field.type}; "
                "was it written by another version?"
            )


def _texts(table: str) -> list[str]:
    return [field.name for field in SCHEMAS[table] if field.type == pa.string()]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def known(value: Any) -> int | None:
    """A number of a column; None for NONE."""
    return None if value == NONE else int(value)

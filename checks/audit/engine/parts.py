"""One Parquet part of a large table, decoded into NumPy columns after its schema is checked.

A part arrives as bytes, so it may be on any file system that Spark reads. A part that does not fit raises `RunDirError`
with file, table and column: no row is guessed and none is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.errors import RunDirError, first_line
from chaos.ledger.schemas import LOG, SCHEMA_VERSION, SHARE_TABLES, TABLES, version_of
from checks.audit.arrays import NONE, Ints, Mask

SCHEMAS = {"log": LOG} | {name: TABLES[name] for name in ("sends", "deliveries", "commits", *SHARE_TABLES)}
REQUIRED = {
    "sends": ("producer", "incarnation", "seq", "topic", "outcome", "invoked_us", "completed_us"),
    "deliveries": ("consumer", "incarnation", "mode", "ordinal", "topic", "partition", "offset", "processed_us"),
    "log": ("topic", "partition", "offset"),
    "commits": ("consumer", "incarnation", "mode", "topic", "partition", "offset", "outcome"),
    "acquisitions": ("consumer", "incarnation", "group", "ordinal", "topic", "partition", "offset", "delivery_count"),
    "acknowledgements": ("consumer", "incarnation", "group", "ordinal", "topic", "partition", "offset", "type"),
}
"""Columns that must not be null."""


class Part:
    """The rows of one file.

    Numbers are NONE for null, texts are codes of their distinct values. Both are as wide as in the file: widen 32 bits
    (`Rows.ints` does) before a shift or a multiplication.
    """

    def __init__(self, table: str, path: str, data: Any, columns: Sequence[str]) -> None:
        self.table, self.path = table, path
        self._columns = _read(table, path, data, columns)
        self.rows = len(self._columns)

    def ints(self, name: str) -> Ints:
        """Return a column of numbers; NONE for null."""
        column = self._columns[name].chunk(0) if self.rows else pa.array([], pa.int64())
        if column.null_count:
            column = column.fill_null(NONE)
        values: Ints = column.to_numpy(zero_copy_only=False)
        return values

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Return a column of texts: the code of each row (NONE for null) and the texts by code."""
        codes, texts = self.dictionary(name)
        return codes, texts.to_pylist()

    def dictionary(self, name: str) -> tuple[Ints, pa.StringArray]:
        """Return the same with the texts as Arrow has them, for many different ones."""
        if not self.rows:
            return np.zeros(0, np.int64), pa.array([], pa.string())
        column = self._columns[name].chunk(0)
        if not isinstance(column, pa.DictionaryArray):
            column = column.dictionary_encode()
        indices = column.indices.fill_null(NONE) if column.null_count else column.indices
        return indices.to_numpy(zero_copy_only=False), column.dictionary

    def equals(self, name: str, *texts: str) -> Mask:
        """Return the rows with one of these texts."""
        codes, names = self.codes(name)
        return np.isin(codes, [code for code, text in enumerate(names) if text in texts])

    def own_records(self, run_token: str) -> Mask:
        """Return the rows of the log that carry an identity of this run."""
        own: Mask = self.equals("run", run_token) & (self.codes("producer")[0] >= 0)
        return own & (self.ints("incarnation") >= 0) & (self.ints("seq") >= 0)

    def take(self, rows: Ints) -> list[dict[str, Any]]:
        """Return some rows as dicts of all columns that were read; null is None."""
        found: list[dict[str, Any]] = self._columns.take(pa.array(rows)).to_pylist()
        return found

    def flags(self, name: str) -> tuple[Mask, Mask]:
        """Return a column of booleans: where it is true, and where it is not null."""
        if not self.rows:
            return np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        column = self._columns[name].chunk(0)
        true = column.fill_null(False).to_numpy(zero_copy_only=False)
        return true, column.is_valid().to_numpy(zero_copy_only=False)


def _read(table: str, path: str, data: Any, columns: Sequence[str]) -> pa.Table:
    try:
        metadata = pq.read_metadata(pa.BufferReader(data))
        # pyarrow refuses to encode a column that the file does not have
        texts = [f.name for f in SCHEMAS[table] if f.type == pa.string() and f.name in metadata.schema.names]
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts, metadata=metadata)
        check_schema(table, path, file.schema_arrow, SCHEMAS[table])
        rows = file.read(columns, use_threads=False)
    except (pa.ArrowException, OSError) as e:
        raise RunDirError(f"{path} is not readable Parquet ({first_line(e)}): table {table} is damaged") from None
    for name in REQUIRED[table]:
        if name in columns and rows[name].null_count:
            raise RunDirError(f"{path}: column {name} of table {table} is null in {rows[name].null_count} rows")
    return rows.unify_dictionaries().combine_chunks()


def check_schema(table: str, path: str, actual: pa.Schema, expected: pa.Schema) -> None:
    """Check version, columns and types of a file. Raises `RunDirError` for the first mismatch."""
    version = version_of(actual)
    if version != str(SCHEMA_VERSION):
        raise RunDirError(f"{path}: table {table} has schema version {version}, this Aftershock reads {SCHEMA_VERSION}")
    for field in expected:
        index = actual.get_field_index(field.name)
        if index < 0:
            raise RunDirError(f"{path}: table {table} has no column {field.name}; was it written by another version?")
        kind = actual.field(index).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if kind != field.type:
            raise RunDirError(
                f"{path}: column {field.name} of table {table} is {kind}, not {field.type}; "
                "was it written by another version?"
            )

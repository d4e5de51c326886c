"""Run-end encoded Arrow columns, for values that repeat row after row: the values of the runs, and their ends."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

ENDS = pa.int32()
"""Type of the run ends."""
_NEVER = pa.array([np.iinfo(np.int32).max], ENDS)


def encoded(kind: pa.DataType) -> pa.DataType:
    """Return the run-end encoded type for a value type."""
    return pa.run_end_encoded(ENDS, kind)


def is_encoded(kind: pa.DataType) -> bool:
    """Return whether a type is run-end encoded."""
    return bool(pa.types.is_run_end_encoded(kind))


@lru_cache(maxsize=1024)
def same(value: object, kind: pa.DataType) -> pa.Array:
    """Return a column that repeats one value; slice it to length, which costs a tenth of a new array."""
    return pa.RunEndEncodedArray.from_arrays(_NEVER, pa.array([value], kind))


def runs(ends: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return a column in which run i has value i and ends before row `ends[i]`."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends.astype(np.int32)), values)


def column(values: Any, kind: pa.DataType) -> pa.Array:
    """Return a column of this type from an Arrow array, encoded or not, or from Python values."""
    if not isinstance(values, pa.Array):
        values = pa.array(values, kind.value_type if is_encoded(kind) else kind)
    return pc.run_end_encode(values) if is_encoded(kind) and not is_encoded(values.type) else values


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with plain types in place of run-end encoded ones."""
    fields = [pa.field(f.name, f.type.value_type) if is_encoded(f.type) else f for f in schema]
    return pa.schema(fields, schema.metadata)


def decoded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with plain columns and this schema; a column that the batch does not have is null."""
    stored = zip(batch.schema.names, batch.columns, strict=True)
    plain = {name: pc.run_end_decode(c) if is_encoded(c.type) else c for name, c in stored}
    columns = [plain[f.name] if f.name in plain else pa.nulls(batch.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)

"""Columns in which row after row is the same, as Arrow's run-end encoded arrays: the values of runs, and their ends."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

ENDS = pa.int32()
"""The type of the ends of runs."""
_NEVER = pa.array([np.iinfo(np.int32).max], ENDS)


def encoded(kind: pa.DataType) -> pa.DataType:
    """The type of a column of runs of such values."""
    return pa.run_end_encoded(ENDS, kind)


def is_encoded(kind: pa.DataType) -> bool:
    """Whether a column of this type is one of runs."""
    return bool(pa.types.is_run_end_encoded(kind))


@lru_cache(maxsize=1024)
def same(value: object, kind: pa.DataType) -> pa.Array:
    """One value as often as it may be wanted: to be sliced, which costs a tenth of making it."""
    return pa.RunEndEncodedArray.from_arrays(_NEVER, pa.array([value], kind))


def runs(ends: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """A column of the runs that end before these rows."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends.astype(np.int32)), values)


def column(values: Any, kind: pa.DataType) -> pa.Array:
    """A column of this type: of an array, which may be encoded already, or of a sequence of Python values."""
    if not isinstance(values, pa.Array):
        values = pa.array(values, kind.value_type if is_encoded(kind) else kind)
    return pc.run_end_encode(values) if is_encoded(kind) and not is_encoded(values.type) else values


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema without runs."""
    fields = [pa.field(f.name, f.type.value_type) if is_encoded(f.type) else f for f in schema]
    return pa.schema(fields, schema.metadata)


def decoded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch with a value for each; schema: that of the result."""
    columns = [pc.run_end_decode(c) if is_encoded(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)

"""Parquet files with one row group for each bucket of rows, so that a task reads one bucket of all files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Columns = dict[str, npt.NDArray[np.int64]]
"""Columns of one length by name."""


def write(columns: Columns, bucket: npt.NDArray[np.int64], buckets: int, path: Path) -> None:
    """Write rows to a file with `buckets` row groups; rows of a bucket keep their order."""
    order = np.argsort(bucket, kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=buckets))
    table = pa.table({name: values[order] for name, values in columns.items()})
    half = path.with_name(f".{path.name}")
    with pq.ParquetWriter(half, table.schema, compression="none", use_dictionary=False) as writer:
        for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            writer.write_table(table.slice(begin, end - begin), row_group_size=max(1, end - begin))
    half.rename(path)


def read(paths: Iterable[Path], bucket: int | None, names: Iterable[str]) -> Columns:
    """Return the rows of one bucket (None: of all) of files, in the order of the files."""
    names = list(names)
    tables = []
    for path in paths:
        with pq.ParquetFile(path) as file:
            tables.append(file.read(names) if bucket is None else file.read_row_group(bucket, names))
    if not tables:
        return {name: np.zeros(0, np.int64) for name in names}
    whole = pa.concat_tables(tables)
    return {name: whole[name].to_numpy() for name in names}


def select(columns: Columns, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Columns:
    """Return some rows."""
    return {name: values[chosen] for name, values in columns.items()}

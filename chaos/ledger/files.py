"""Files of a ledger table while clients write: Arrow IPC streams, and batch lines where Arrow is heavy.

Batch lines are JSON:

    {"schema": 1, "table": "deliveries"}
    {"consumer": "billing/1", "incarnation": 1, ..., "partition": 0, "offset": [17, 18, 19], "polled_us": 1763697600000}

The first line names the version of the schema and the table. Each further line is one batch: a key is a column, its
value is a list with one item for each row, or a scalar that is the same in all rows. All lists of a line have the same
length; a line without a list is one row. A column that is left out is null. A list of numbers may also be written as
its first number and the steps to each following one, or as consecutive numbers; both are shorter and faster:

    "sent_us": {"first": 1763697600000, "steps": [12, 0, -3]}    1763697600000, 1763697600012, 1763697600012, ...009
    "offset": {"first": 17, "step": 1, "rows": 4}                17, 18, 19, 20

A client writes each line with its newline in one write(2) with O_APPEND. Whatever follows the last newline is torn: it
is dropped and counted. A line that breaks a rule, such as an unknown key or a null in a required column
(`chaos.ledger.schemas`), ends the readable part of the file, and the reason names the line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from chaos.ledger import stream
from chaos.ledger.record_columns import Ints
from chaos.ledger.schemas import REQUIRED, SCHEMA_VERSION, VALUES
from chaos.ledger.stream import StreamEnd

SUFFIX = ".jsonl"
MAX_LINE = 1 << 26
"""Bytes of the longest line that is read."""
MAX_ROWS = 1 << 22
"""Most rows of a line with consecutive numbers, which are as short as one."""
_GATHERED = 1024
"""Batches that are joined to one, because a batch may be a single row."""


class _BadLine(ValueError):
    """A line that breaks a rule of the format."""


def read_lines(path: Path, schema: pa.Schema, end: StreamEnd) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file up to the first line that is none; `end` is filled when the iterator is exhausted."""
    size, good, number = path.stat().st_size, 0, 0
    batches: list[pa.RecordBatch] = []
    with path.open("rb") as lines:
        try:
            for line in _lines(lines):
                content = _object(line)
                if number:
                    batches.append(_batch(content, schema, path.parent.name))
                else:
                    _check_header(content, path.parent.name)
                good, number = good + len(line), number + 1
                if len(batches) >= _GATHERED:
                    yield _joined(batches)
        except (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException) as e:
            end.reason, end.refused = f"line {number + 1}: {str(e).splitlines()[0]}", True
        if batches:
            yield _joined(batches)
    end.torn_bytes = size - good
    if end.torn_bytes and not end.reason:
        end.reason = "the last line has no newline"


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the complete lines of a file."""
    while line := file.readline(MAX_LINE):
        if not line.endswith(b"\n"):
            if len(line) == MAX_LINE:
                raise _BadLine(f"longer than {MAX_LINE} bytes")
            return
        yield line


def _object(line: bytes) -> dict[str, Any]:
    content = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_number)
    if not isinstance(content, dict):
        raise _BadLine("not a JSON object")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _BadLine("a key is there twice")
    return content


def _no_number(text: str) -> None:
    raise _BadLine(f"{text} is not a number of JSON")


def _check_header(content: dict[str, Any], table: str) -> None:
    version = content.get("schema")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise _BadLine(f"written with schema version {version}, this Aftershock reads {SCHEMA_VERSION}")
    if content.get("table") != table:
        raise _BadLine(f"the table is {content.get('table')!r} in a file of {table}")


def _batch(content: dict[str, Any], schema: pa.Schema, table: str) -> pa.RecordBatch:
    """Return a line as a batch with the columns of `schema`."""
    if unknown := content.keys() - set(schema.names):
        raise _BadLine(f"unknown column {sorted(unknown)[0]!r}")
    content = {name: _numbers(name, value) if isinstance(value, dict) else value for name, value in content.items()}
    lengths = {len(value) for value in content.values() if isinstance(value, list | np.ndarray)}
    if len(lengths) > 1:
        raise _BadLine(f"lists of {' and '.join(map(str, sorted(lengths)))} rows")
    rows = lengths.pop() if lengths else 1
    batch = pa.RecordBatch.from_arrays([_column(content.get(f.name), f, rows) for f in schema], schema=schema)
    for name in REQUIRED.get(table, ()):
        if batch.column(name).null_count:
            raise _BadLine(f"column {name!r} is null or left out, and a row needs it")
    for name, known in VALUES.get(table, {}).items():
        value = content.get(name)
        if foreign := {*(value if isinstance(value, list) else [value])} - {*known, None}:
            raise _BadLine(f"{name} is {sorted(foreign)[0]!r}, not one of {', '.join(known)}")
    return batch


def _numbers(name: str, value: dict[str, Any]) -> Ints:
    """Return the numbers that are written as the first one and steps, or as consecutive ones."""
    steps: list[Any] = value["steps"] if isinstance(value.get("steps"), list) else [value.get("rows")]
    consecutive = value.keys() == {"first", "step", "rows"} and value["step"] == 1
    if not consecutive and value.keys() != {"first", "steps"}:
        raise _BadLine(f"column {name!r} is an object, but neither of first and steps nor of first, step 1 and rows")
    if {type(item) for item in (value["first"], *steps)} != {int}:
        raise _BadLine(f"column {name!r} has a first number, steps or a number of rows that are no whole numbers")
    if consecutive and not 1 <= value["rows"] <= MAX_ROWS:
        raise _BadLine(f"column {name!r} has {value['rows']} rows, not 1 to {MAX_ROWS}")
    numbers = np.ones(value["rows"], np.int64) if consecutive else np.array([0, *steps], np.int64)
    numbers[0] = value["first"]
    if np.abs(numbers.astype(np.float64)).sum() >= 2.0**63:
        raise _BadLine(f"column {name!r} has numbers beyond 64 bits")
    return np.cumsum(numbers)


def _column(value: Any, field: pa.Field, rows: int) -> pa.Array:
    stepped = isinstance(value, np.ndarray)
    if stepped and not pa.types.is_integer(field.type):
        raise _BadLine(f"column {field.name!r} has numbers, not {field.type}")
    many = stepped or isinstance(value, list)
    items = () if stepped else value if many else (value,)
    if any(type(item) in (bool, float) for item in items):  # Arrow would convert them
        raise _BadLine(f"column {field.name!r} has a boolean or a fraction, not {field.type}")
    try:
        return pa.array(value, field.type) if many else pa.repeat(pa.scalar(value, field.type), rows)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as e:
        raise _BadLine(f"column {field.name!r} is not {field.type}: {str(e).splitlines()[0]}") from None


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of all batches as one batch, and empty the list."""
    joined = pa.Table.from_batches(batches).combine_chunks().to_batches() or batches[:1]
    batches.clear()
    return joined[0]


_READERS: dict[str, Callable[[Path, pa.Schema, StreamEnd], Iterator[pa.RecordBatch]]] = {
    stream.SUFFIX: stream.read_stream,
    SUFFIX: read_lines,
}
SUFFIXES = tuple(_READERS)
"""Ends of the names of ledger files, one for each form."""


def ledger_files(folder: Path, writer: str = "*") -> list[Path]:
    """Return the files of a table by name, of one writer such as `shop-1.1`, or of all. `writer` may be a pattern."""
    return sorted(path for suffix in SUFFIXES for path in folder.glob(f"{writer}{suffix}"))


def read_file(path: Path, schema: pa.Schema, end: StreamEnd) -> Iterator[pa.RecordBatch]:
    """Yield the complete batches of a file in either form; `end` is filled when the iterator is exhausted."""
    yield from _READERS[path.suffix](path, schema, end)

"""The files of a ledger table while clients write: Arrow IPC streams and batch lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from chaos.ledger import lines, stream
from chaos.ledger.stream import StreamEnd

_READERS: dict[str, Callable[[Path, pa.Schema, StreamEnd], Iterator[pa.RecordBatch]]] = {
    stream.SUFFIX: stream.read_stream,
    lines.SUFFIX: lines.read_lines,
}
SUFFIXES = tuple(_READERS)
"""Ends of the names of ledger files, one for each form."""


def ledger_files(folder: Path, writer: str = "*") -> list[Path]:
    """Return the files of a table by name, of one writer such as `shop-1.1`, or of all. `writer` may be a pattern."""
    return sorted(path for suffix in SUFFIXES for path in folder.glob(f"{writer}{suffix}"))


def read_file(path: Path, schema: pa.Schema, end: StreamEnd) -> Iterator[pa.RecordBatch]:
    """Yield the complete batches of a file in either form; `end` is filled when the iterator is exhausted."""
    yield from _READERS[path.suffix](path, schema, end)

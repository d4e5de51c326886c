"""The reader of one ledger stream, up to its last complete batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from chaos.ledger.runs import decoded, plain_schema
from chaos.ledger.schemas import SCHEMA_VERSION, as_of, is_readable, version_of


@dataclass
class StreamEnd:
    """The end of a stream: the number of bytes after the last complete batch (0 in a clean file), and the reason."""

    torn_bytes: int = 0
    reason: str = ""


def read_stream(path: Path, schema: pa.Schema, end: StreamEnd) -> Iterator[pa.RecordBatch]:
    """Yield the complete batches of a file with plain columns; `end` is filled when the iterator is exhausted.

    A file without a complete schema yields nothing. A file with another schema than `schema` is unreadable, except that
    any column may be run-end encoded, and that columns are null if the version of the file does not have them. Each
    batch has memory that is freed with it; mapped pages would stay until the last batch of the file is freed.
    """
    size = path.stat().st_size
    good = 0
    with pa.OSFile(str(path)) as source:
        try:
            stored = pa.ipc.read_schema(source)
            version = version_of(stored)
            if not is_readable(version) or not plain_schema(stored).equals(as_of(schema, version)):
                end.torn_bytes = size
                end.reason = f"written with schema version {version}, this is version {SCHEMA_VERSION}"
                return
            good = source.tell()
            while good < size:
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(source), stored)
                batch.validate(full=True)
                good = source.tell()
                yield decoded(batch, schema)
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as e:
            end.reason = str(e).splitlines()[0]
        end.torn_bytes = size - good

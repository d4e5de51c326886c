"""Reading what a writer appended, up to the last whole batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from chaos.ledger.runs import decoded, plain_schema
from chaos.ledger.schemas import SCHEMA_VERSION


@dataclass
class StreamEnd:
    """What stood at the end of a stream: bytes that belong to no whole batch (0 in a clean file), and why."""

    torn_bytes: int = 0
    reason: str = ""


def read_stream(path: Path, schema: pa.Schema, end: StreamEnd) -> Iterator[pa.RecordBatch]:
    """Yield the whole batches of one file; `end` is filled when the iterator is exhausted.

    A file without even a whole schema yields nothing. A schema other than `schema` is reported as unreadable: rows
    are never guessed into columns; only, any column may be run-end encoded, and comes out plain. Batches are read into
    memory of their own, which ends with them: mapped pages would stay with the process for as long as one batch of the
    file does.
    """
    size = path.stat().st_size
    good = 0
    with pa.OSFile(str(path)) as source:
        try:
            found = pa.ipc.read_schema(source)
            if not plain_schema(found).equals(schema):
                end.torn_bytes = size
                version = (found.metadata or {}).get(b"aftershock.schema", b"?").decode()
                end.reason = f"written with schema version {version}, this is version {SCHEMA_VERSION}"
                return
            good = source.tell()
            while good < size:
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(source), found)
                batch.validate(full=True)
                good = source.tell()
                yield decoded(batch, schema)
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as e:
            end.reason = str(e).splitlines()[0]
        end.torn_bytes = size - good

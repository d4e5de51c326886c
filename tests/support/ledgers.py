"""Rows of a ledger that is not sealed."""

from __future__ import annotations

import secrets
from typing import Any

from chaos.ledger.files import ledger_files, read_file
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd
from chaos.run.directory import Run


def topic_name() -> str:
    """Return a topic name that no other test uses."""
    return f"t{secrets.token_hex(4)}"


def rows(run: Run, table: str, **where: Any) -> list[dict[str, Any]]:
    """Return the rows of a table with these column values, ordered by file."""
    return [
        row
        for path in ledger_files(run.ledger / table)
        for batch in read_file(path, TABLES[table], StreamEnd())
        for row in batch.to_pylist()
        if all(row[name] == value for name, value in where.items())
    ]

"""The small tables of a run as plain rows: what the audit wrote, and the ledger's tables of events.

A table that is missing reads as empty, so that a run that broke off early can still be told. The
ledger's large tables (sends, deliveries, commits, log) are Spark's and are not read here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.run.directory import Run

Row = dict[str, Any]


def audit_rows(run: Run, table: str) -> list[Row]:
    """All rows of one of the audit's tables."""
    return _rows(run.audit / table, None)


def ledger_rows(run: Run, table: str, columns: Sequence[str]) -> list[Row]:
    """These columns of one of the ledger's sealed tables."""
    return _rows(run.ledger / f"{table}.parquet", columns)


def _rows(path: Path, columns: Sequence[str] | None) -> list[Row]:
    if not path.exists():
        return []
    try:
        rows: list[Row] = pq.read_table(path, columns=columns).to_pylist()
    except (pa.ArrowException, OSError):
        return []  # what needs its rows then counts as not seen, never as zero
    return rows


def json_object(text: Any) -> dict[str, Any]:
    """A JSON object that someone else wrote; anything else counts as empty."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}

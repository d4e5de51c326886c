"""Small tables of a run as plain rows: the output of the audit and the event tables of the ledger.

A missing table reads as empty, so that a run that broke off early still has a report. Spark reads the large tables of
the ledger (sends, deliveries, commits, log).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from chaos.run.directory import Run

Row = dict[str, Any]


def audit_rows(run: Run, table: str) -> list[Row]:
    """Return all rows of a table of the audit."""
    return _rows(run.audit / table, None)


def ledger_rows(run: Run, table: str, columns: Sequence[str]) -> list[Row]:
    """Return the given columns of a sealed table of the ledger; None for columns that an older version lacks."""
    return _rows(run.ledger / f"{table}.parquet", columns)


def _rows(path: Path, columns: Sequence[str] | None) -> list[Row]:
    if not path.exists():
        return []
    try:
        stored = ds.dataset(path, format="parquet")
        absent = dict.fromkeys(c for c in columns or () if c not in stored.schema.names)
        rows: list[Row] = stored.to_table(columns and [c for c in columns if c not in absent]).to_pylist()
    except (pa.ArrowException, OSError):
        return []  # terms that need these rows are then inconclusive: nothing reads as zero
    return [row | absent for row in rows] if absent else rows


def json_object(text: Any) -> dict[str, Any]:
    """Parse a JSON object from a ledger column; anything else is an empty object."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}

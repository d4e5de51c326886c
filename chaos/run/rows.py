"""Files with the rows that producers write in place of records."""

from __future__ import annotations

from pathlib import Path

from chaos.run.directory import Run


def rows_file(run: Run, name: str) -> Path:
    """Return a file with rows: JSON lines."""
    return run.path / "rows" / f"{name}.jsonl"

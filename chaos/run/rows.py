"""Files with the rows that producers write in place of records."""

from __future__ import annotations

from pathlib import Path

from chaos.run.directory import Run


def rows_file(run: Run, producer: str) -> Path:
    """Return the file of a producer of rows: JSON lines."""
    return run.path / "rows" / f"{producer}.jsonl"

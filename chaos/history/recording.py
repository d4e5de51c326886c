"""Recording of runs. A failure is one message and never changes the result of a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from chaos.errors import AftershockError
from chaos.history.entries import read_entry
from chaos.run.directory import Run

VARIABLE = "AFTERSHOCK_HISTORY"
OFF = "off"


def database_url(runs_dir: Path, url: str | None = None) -> str:
    """Return the URL of the database: `url`, else the environment variable, else SQLite in the folder of the runs."""
    from chaos.history.store import default_url  # imported here and below on use: SQLAlchemy takes half a second

    return url or os.environ.get(VARIABLE) or default_url(runs_dir)


def record(runs: Iterable[Run], runs_dir: Path, say: Callable[[str], None]) -> None:
    """Add runs to the history; a run without a verdict is inconclusive. A failure is one line to `say`.

    runs_dir: the folder of the runs, for the default database.
    """
    if os.environ.get(VARIABLE) == OFF:
        return
    try:
        add_runs(runs, database_url(runs_dir))
    except (AftershockError, OSError) as e:
        say(
            f"the run is not in the history, but its results are safe: {e}; "
            f"later: python -m chaos history import {runs_dir}"
        )


def add_runs(runs: Iterable[Run], url: str) -> Counter[str]:
    """Add runs to a database; return the number that is added, unchanged, and judged again.

    Raises `HistoryError` for the database, `RunDirError` for a run that cannot be read.
    """
    from chaos.history.store import Store

    store = Store(url)
    entries = (read_entry(run) for run in runs)
    return Counter(store.add(entry) for entry in entries if entry is not None)

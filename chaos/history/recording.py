"""Recording at the end of a run: what cannot be recorded is said, and changes nothing else."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from chaos.errors import AftershockError
from chaos.history.entries import Entry, broken_off, entry
from chaos.run.directory import Run

VARIABLE = "AFTERSHOCK_HISTORY"
OFF = "off"


def url_for(runs_dir: Path, given: str | None = None) -> str:
    """The database's URL: as given, else from the environment, else SQLite in the folder of the runs."""
    from chaos.history.store import default_url  # on use, here and below: SQLAlchemy takes half a second

    return given or os.environ.get(VARIABLE) or default_url(runs_dir)


def record(runs: Iterable[Run], runs_dir: Path, say: Callable[[str], None]) -> None:
    """Record runs; those that broke off before their verdict are inconclusive. Trouble is one line to `say`.

    runs_dir: the folder in which the runs were made, for the history's own file.
    """
    if os.environ.get(VARIABLE) == OFF:
        return
    try:
        add(runs, url_for(runs_dir))
    except (AftershockError, OSError) as e:
        say(
            f"not in the history, though the run and its results are safe: {e}; "
            f"later: python -m chaos history import {runs_dir}"
        )


def add(runs: Iterable[Run], url: str) -> Counter[str]:
    """Record runs, and count what came of it: added, unchanged, judged anew. Raises `HistoryError`, `RunDirError`."""
    from chaos.history.store import Store

    store = Store(url)
    kept = (_of(run) for run in runs)
    return Counter(store.add(one) for one in kept if one is not None)


def _of(run: Run) -> Entry | None:
    return entry(run) if run.result.exists() else broken_off(run)

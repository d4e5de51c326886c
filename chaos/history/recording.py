"""Recording of runs and publishing of metrics. A failure is one message and never changes the result of a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from chaos.errors import AftershockError
from chaos.history.entries import Entry, read_entry
from chaos.run.directory import Run

VARIABLE = "AFTERSHOCK_HISTORY"
OFF = "off"
METRICS_VARIABLE = "AFTERSHOCK_METRICS"
"""Targets of the metrics, separated by blanks."""


def database_url(runs_dir: Path, url: str | None = None) -> str:
    """Return the URL of the database: `url`, else the environment variable, else SQLite in the folder of the runs."""
    from chaos.history.store import default_url  # imported here and below on use: SQLAlchemy takes half a second

    return url or os.environ.get(VARIABLE) or default_url(runs_dir)


def check_metrics(targets: Sequence[str] | None) -> None:
    """Check the targets of metrics before a run begins. Raises `MetricsError`."""
    if targets:
        from chaos.history.metrics.targets import parse_target

        for target in targets:
            parse_target(target)


def record(
    runs: Iterable[Run], runs_dir: Path, say: Callable[[str], None], metrics: Sequence[str] | None = None
) -> None:
    """Add runs to the history, then publish its metrics. A failure is one line to `say`.

    A run without a verdict is inconclusive. runs_dir: the folder of the runs, for the default database. metrics: their
    targets; those of the environment variable if left out.
    """
    runs = list(runs)
    off, recorded = os.environ.get(VARIABLE) == OFF, False
    try:
        if not off:
            add_runs(runs, database_url(runs_dir))
            recorded = True
    except (AftershockError, OSError) as e:
        say(
            f"the run is not in the history, but its results are safe: {e}; "
            f"later: python -m chaos history import {runs_dir}"
        )
    targets = metrics or os.environ.get(METRICS_VARIABLE, "").split()
    try:
        if targets:
            _publish(runs, runs_dir, targets, "off" if off else "recorded" if recorded else "unreachable")
    except (AftershockError, OSError) as e:
        say(f"the metrics are not up to date: {e}")


def record_part(run: Run, runs_dir: Path, scenario: str, variant: str, say: Callable[[str], None]) -> None:
    """Add a run of a gate or a proof under the name of its scenario, as `record`; its own file has a generated name."""
    if os.environ.get(VARIABLE) == OFF:
        return
    try:
        if (entry := read_entry(run)) is not None:
            from chaos.history.store import Store

            Store(database_url(runs_dir)).add(replace(entry, scenario=scenario, variant=variant))
    except (AftershockError, OSError) as e:
        say(f"{run.run_id} is not in the history, but its results are safe: {e}")


def add_runs(runs: Iterable[Run], url: str) -> Counter[str]:
    """Add runs to a database; return the number that is added, unchanged, and judged again.

    Raises `HistoryError` for the database, `RunDirError` for a run that cannot be read.
    """
    from chaos.history.store import Store

    store = Store(url)
    return Counter(store.add(entry) for entry in _entries(runs))


def _publish(runs: Sequence[Run], runs_dir: Path, targets: Sequence[str], history: str) -> None:
    """Publish the metrics of the history; of the runs alone if it is off. history: off, recorded or unreachable."""
    from chaos.history.metrics import publish
    from chaos.history.metrics.targets import parse_target
    from chaos.history.store import Store

    parsed = [parse_target(target) for target in targets]
    if history == "off":
        publish.publish_runs(list(_entries(runs)), parsed)
    elif history == "unreachable":
        publish.mark_unreachable(parsed)
    else:
        changed = {(entry.scenario, entry.variant) for entry in _entries(runs)}
        publish.publish_history(Store(database_url(runs_dir)), runs_dir, parsed, changed)


def _entries(runs: Iterable[Run]) -> Iterator[Entry]:
    return (entry for entry in map(read_entry, runs) if entry is not None)

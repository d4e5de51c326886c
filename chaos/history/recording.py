"""Recording of runs and publishing of metrics. A failure is one message and never changes the result of a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from chaos.errors import AftershockError
from chaos.history.entries import Entry
from chaos.run.directory import Run
from chaos.run.trend import Trend

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
        from chaos.history.metrics.publish import parse_target

        for target in targets:
            parse_target(target)


def record(
    runs: Iterable[Run],
    runs_dir: Path,
    say: Callable[[str], None],
    metrics: Sequence[str] | None = None,
    named: tuple[str, str] | None = None,
) -> None:
    """Add runs to the history, then publish its metrics. A failure is one line to `say`.

    A run without a verdict is inconclusive. runs_dir: the folder of the runs, for the default database. metrics: their
    targets; the targets of the environment variable if left out. named: the scenario and the variant, for runs with a
    scenario file that has a generated name.
    """
    runs = list(runs)
    off, recorded = os.environ.get(VARIABLE) == OFF, False
    try:
        if not off:
            add_runs(runs, database_url(runs_dir), named)
            recorded = True
    except (AftershockError, OSError) as e:
        say(
            f"the run is not in the history, but its results are safe: {e}; "
            f"later: python -m chaos history import {runs_dir}"
        )
    targets = metrics or os.environ.get(METRICS_VARIABLE, "").split()
    try:
        if targets:
            entries = list(_entries(runs, named))
            _publish(entries, runs_dir, targets, "off" if off else "recorded" if recorded else "unreachable")
    except (AftershockError, OSError) as e:
        say(f"the metrics are not up to date: {e}")


def add_runs(runs: Iterable[Run], url: str, named: tuple[str, str] | None = None) -> Counter[str]:
    """Add runs to a database; return the number that is added, unchanged, and judged again.

    Raises `HistoryError` for the database, `RunDirError` for a run that cannot be read.
    """
    from chaos.history.store import Store

    store = Store(url)
    return Counter(store.add(entry) for entry in _entries(runs, named))


def _publish(entries: Sequence[Entry], runs_dir: Path, targets: Sequence[str], history: str) -> None:
    """Publish the metrics of the history; of the runs alone if it is off. history: off, recorded or unreachable."""
    from chaos.history.metrics import publish
    from chaos.history.metrics.publish import parse_target
    from chaos.history.store import Store

    parsed = [parse_target(target) for target in targets]
    if history == "off":
        publish.publish_runs(list(entries), parsed)
    elif history == "unreachable":
        publish.mark_unreachable(parsed)
    else:
        changed = {(entry.scenario, entry.variant) for entry in entries}
        publish.publish_history(Store(database_url(runs_dir)), runs_dir, parsed, changed)


def _entries(runs: Iterable[Run], named: tuple[str, str] | None = None) -> Iterator[Entry]:
    from chaos.history.runs import read_entry

    for entry in map(read_entry, runs):
        if entry is not None:
            yield entry if named is None else replace(entry, scenario=named[0], variant=named[1])


_RUNS = 3
"""A regression of a time is new after one normal run and then two slower ones."""


def new_regressions(runs: Iterable[Run], runs_dir: Path) -> list[str]:
    """Return the regressions that began with these runs, as text; none without a history. Raises `HistoryError`."""
    from chaos.history.store import Store
    from chaos.history.trends import trends

    store = None if os.environ.get(VARIABLE) == OFF else Store(database_url(runs_dir))
    if store is None or not store.exists():
        return []
    ids = {run.run_id for run in runs}
    return [
        f"{trend.name}: {text}"
        for trend in trends(store.entries(shown=_RUNS), limit=_RUNS)
        if trend.runs[-1].run_id in ids
        for text in _new(trend)
    ]


def _new(trend: Trend) -> list[str]:
    verdict = trend.mark == "regression" and trend.runs[-2].verdict == "pass"
    times = [t for t in trend.times if t.mark == "regression" and not (len(t.slower) == _RUNS and t.slower[0])]
    return [f"verdict: {trend.words}"] * verdict + [f"{time.label}: {time.words}" for time in times]

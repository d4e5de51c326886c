"""Publishing of metrics to every target: what the history contains, and the states of run directories."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

from chaos.errors import MetricsError
from chaos.history.entries import MAX_DEPTH, Entry
from chaos.history.metrics.families import Family, Test, history_families, run_families, state_family, up_family
from chaos.history.metrics.targets import Target
from chaos.history.store import Store
from chaos.run.directory import Run
from chaos.run.events import read_events

ATTEMPTS = 20


def all_families(entries: Sequence[Entry], runs_dir: Path) -> list[Family]:
    """Return everything that is published of a history and of the folder of the runs."""
    return [up_family(True), *history_families(entries), state_family(count_states(runs_dir))]


def publish_history(
    store: Store, runs_dir: Path, targets: Sequence[Target], changed: Collection[Test] | None = None
) -> None:
    """Write the metrics of a history to every target.

    changed: the tests with groups to push; all if left out. If runs were added meanwhile, it writes again: another
    process may have written them before this one wrote its older state. Raises `HistoryError`, `MetricsError`.
    """
    for _ in range(ATTEMPTS):
        before = _content(store, runs_dir)
        families = all_families(store.entries(), runs_dir)
        _each(targets, methodcaller("write", families, changed, whole=True))
        if _content(store, runs_dir) == before:
            return
    raise MetricsError(
        f"the history changed during each of {ATTEMPTS} attempts to publish its metrics; "
        "later: python -m chaos history metrics --to TARGET"
    )


def publish_runs(entries: Sequence[Entry], targets: Sequence[Target]) -> None:
    """Write the metrics of single runs to every target. Groups of a Pushgateway keep their other metrics."""
    _each(targets, methodcaller("write", run_families(entries), None, whole=False))


def mark_unreachable(targets: Sequence[Target]) -> None:
    """Say at every target that the history cannot be reached; everything else stays."""
    _each(targets, methodcaller("mark_unreachable"))


def _each(targets: Sequence[Target], write: Callable[[Target], None]) -> None:
    errors = []
    for target in targets:
        try:
            write(target)
        except MetricsError as e:
            errors.append(str(e))  # the other targets still get theirs
    if errors:
        raise MetricsError("; ".join(errors))


def _content(store: Store, runs_dir: Path) -> Any:
    return store.digests(), count_states(runs_dir)


STATES = ("in_progress", "judged", "broken_off")
SILENCE_S = 6 * 3600.0
"""Seconds without an event after which a run without a result has broken off."""


def count_states(runs_dir: Path) -> dict[str, int]:
    """Return the number of run directories in each state below a folder; all zero if it does not exist."""
    counts = Counter(_state(run) for run in _runs(runs_dir, MAX_DEPTH))
    return {state: counts[state] for state in STATES}


def _runs(folder: Path, depth: int) -> Iterator[Run]:
    """Yield the run directories. It does not look into them: a run may have thousands of files."""
    if (folder / "resolved.json").is_file():
        yield Run(folder)
        return
    try:
        below = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:  # removed meanwhile, or not readable
        return
    for path in below if depth else ():
        yield from _runs(path, depth - 1)


def _state(run: Run) -> str:
    if run.result.is_file():
        return "judged"
    events = read_events(run)
    last = {event.get("stage"): event.get("state") for event in events if event.get("kind") == "stage"}
    began_us = events[-1].get("at_us", 0) if events else run.resolved.stat().st_mtime * 1e6
    silent = time.time() - began_us / 1e6 > SILENCE_S
    return "broken_off" if silent or "failed" in last.values() else "in_progress"

"""The states of run directories, from their files alone."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from chaos.history.entries import MAX_DEPTH
from chaos.run.directory import Run
from chaos.run.events import read_events

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

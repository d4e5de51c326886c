"""What became worse with a run: the regressions that the run before it did not have."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from chaos.history.recording import OFF, VARIABLE, database_url
from chaos.run.directory import Run
from chaos.run.trend import Trend

_RUNS = 3
"""Runs that say whether a regression of a time is new: it takes two slower ones, and one that is not before them."""


def newly_worse(runs: Iterable[Run], runs_dir: Path) -> list[str]:
    """Return what became worse with these runs as text; nothing without a history. Raises `HistoryError`."""
    from chaos.history.store import Store
    from chaos.history.trends import trends

    store = None if os.environ.get(VARIABLE) == OFF else Store(database_url(runs_dir))
    if store is None or not store.exists():
        return []
    ids = {run.run_id for run in runs}
    return [
        f"{trend.name}: {text}"
        for trend in trends(store.entries(), limit=_RUNS)
        if trend.runs[-1].run_id in ids
        for text in _new(trend)
    ]


def _new(trend: Trend) -> list[str]:
    verdict = trend.mark == "regression" and trend.runs[-2].verdict == "pass"
    times = [t for t in trend.times if t.mark == "regression" and not (len(t.slower) == _RUNS and t.slower[0])]
    return [f"verdict: {trend.words}"] * verdict + [f"{time.label}: {time.words}" for time in times]

"""Publishing of metrics: what the history contains, to every target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

from chaos.errors import MetricsError
from chaos.history.entries import Entry
from chaos.history.metrics.families import Family, Test, history_families, run_families, state_family, up_family
from chaos.history.metrics.states import count_states
from chaos.history.metrics.targets import Target
from chaos.history.store import Store

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
        before = _state(store, runs_dir)
        families = all_families(store.entries(), runs_dir)
        _each(targets, methodcaller("write", families, changed, whole=True))
        if _state(store, runs_dir) == before:
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


def _state(store: Store, runs_dir: Path) -> Any:
    return store.digests(), count_states(runs_dir)

"""`history metrics`: the metrics of the history for Prometheus."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from chaos import history
from chaos.cli.options import RUNS_DIR, RunsDir, Url
from chaos.errors import HistoryError, MetricsError, RunDirError, UsageError

if TYPE_CHECKING:
    from chaos.history.entries import Entry
    from chaos.history.store import Store

EXAMPLES = ("alerts.yaml", "dashboard.json")


def metrics(
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE.prom|URL", help="A textfile of node_exporter or a Pushgateway; standard output if left out."
        ),
    ] = None,
    run: Annotated[
        list[Path] | None, typer.Option(metavar="RUN_DIR", help="Only this run, without the history. Repeatable.")
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Copy alert rules and the Grafana dashboard to a folder."),
    ] = None,
    url: Url = None,
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Write verdicts, anomalies, recovery times and states of the runs as OpenMetrics.

    `run`, `catalogue` and the DAGs publish them after each run with AFTERSHOCK_METRICS or --metrics.
    """
    from chaos.history.metrics import publish
    from chaos.history.metrics.families import run_families
    from chaos.history.metrics.targets import parse_target

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    targets = [parse_target(text) for text in to or ()]
    if examples is not None:
        _copy_examples(examples)
        console.print(f"alerts.yaml and dashboard.json are in {examples}", markup=False)
        return
    if run:
        entries = [_entry(path) for path in run]
        publish.publish_runs(entries, targets)
        families = run_families(entries)
    else:
        store = _store(url, runs_dir)
        try:
            publish.publish_history(store, runs_dir, targets)
            families = publish.all_families(store.entries(), runs_dir) if not targets else []
        except HistoryError:
            publish.mark_unreachable(targets)
            raise
    if targets:
        for text in to or ():
            console.print(f"published: {text.rpartition('@')[2]}", markup=False)
        return
    from chaos.history.metrics.exposition import openmetrics_text

    sys.stdout.write(openmetrics_text(families))


def _store(url: str | None, runs_dir: Path) -> Store:
    from chaos.history.recording import OFF, database_url
    from chaos.history.store import Store

    address = database_url(runs_dir, url)
    if address == OFF:
        raise UsageError("the history is off (AFTERSHOCK_HISTORY); name a database with --history, or runs with --run")
    store = Store(address)
    if not store.exists():
        raise HistoryError(f"there is no history at {store.name} yet; run a scenario, or `history import RUNS_DIR`")
    return store


def _entry(path: Path) -> Entry:
    from chaos.history.entries import read_entry
    from chaos.run.directory import Run

    entry = read_entry(Run.open(path))
    if entry is None:
        raise RunDirError(f"{path} has no event, so its run never began; name another run")
    return entry


def _copy_examples(folder: Path) -> None:
    source = Path(history.__file__).parent / "metrics"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in EXAMPLES:
            shutil.copyfile(source / name, folder / name)
    except OSError as e:
        raise MetricsError(f"the examples cannot be written to {folder}: {e.strerror}; name another folder") from None

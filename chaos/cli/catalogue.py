"""`catalogue`: run every shipped scenario, and print the expected and the found anomalies of each."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from chaos.cli.options import RUNS_DIR, RunsDir, Seed
from chaos.cli.output import SIGNS, plain_table, print_json
from chaos.cli.view import RunsView
from chaos.run.result import WORST_FIRST

if TYPE_CHECKING:
    from rich.table import Table

    from chaos.catalogue.runner import EntryResult

EXAMPLES = {"catalogue": "catalogue --only 'leader-*' --only coordinator-loss --repeat 5"}


def catalogue(
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each scenario.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Scenarios with these names. Repeatable.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=16, help="Runs at once, each on its own cluster.")] = 1,
    seed: Seed = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcomes as JSON; progress is on stderr.")] = False,
) -> None:
    """Run the shipped scenarios on shared clusters, and print one table.

    Ends with 1 if a run failed, with 3 if a run was inconclusive. All run directories are in one folder.
    """
    from chaos.catalogue.runner import entries, run_catalogue

    started = time.monotonic()
    selected = entries(only or (), repeat)
    with CatalogueView(len(selected)) as view:
        done = run_catalogue(selected, runs_dir, view, view.run_finished, jobs, seed)
    if as_json:
        print_json([result.as_json() for result in done.results])
    else:
        Console().print(_table(done.results))
        seconds = time.monotonic() - started
        Console().print(f"{len(done.results)} runs in {seconds:.0f} s; their reports are in {done.folder}")
    raise typer.Exit(done.exit_code)


def _table(results: list[EntryResult]) -> Table:
    """Return a row for each scenario and variant; repetitions with the same anomalies share their text."""
    table = plain_table("scenario", "expected", "seen", "verdict", "seconds", right=("seconds",), fixed=("scenario",))
    by_name: dict[str, list[EntryResult]] = defaultdict(list)
    for result in results:
        by_name[result.entry.name].append(result)
    for name, runs in by_name.items():
        texts = list(dict.fromkeys(run.seen or run.finished.outcome.sentence for run in runs))
        more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
        seconds = f"{sum(run.finished.seconds for run in runs) / len(runs):.0f}"
        table.add_row(name, escape(runs[0].expected), escape(texts[0]) + more, _verdicts(runs), seconds)
    return table


def _verdicts(runs: list[EntryResult]) -> str:
    verdicts = [run.finished.outcome.verdict for run in runs]
    return ", ".join(
        SIGNS[verdict] + (f" {verdicts.count(verdict)} of {len(runs)}" if len(runs) > 1 else "")
        for verdict in WORST_FIRST
        if verdict in verdicts
    )


class CatalogueView(RunsView):
    """A line for each finished run, and the number of finished runs in the status line."""

    def __init__(self, runs: int) -> None:
        super().__init__()
        self._total, self._finished = runs, 0

    def run_finished(self, result: EntryResult) -> None:
        """Print the verdict, the expected and the found anomalies of a run."""
        self._finished += 1
        outcome, run = result.finished.outcome, result.finished.run
        shown = result.seen if outcome.verdict == "pass" else f"{outcome.sentence} {run.path}"
        self.say_markup(
            f"{SIGNS[outcome.verdict]}  [bold]{escape(result.entry.name)}[/] {result.finished.seconds:.0f} s: "
            f"expected {escape(result.expected)}, seen {escape(shown)}"
        )
        self._update_status()

    def _status_text(self) -> str:
        return f"{self._finished} of {self._total} finished · {super()._status_text()}"

"""`catalogue`: run every shipped scenario, and show what each was expected to show and did."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from chaos.cli.run import RUNS_DIR, RunsDir, Seed
from chaos.errors import FAIL, INCONCLUSIVE, PASS
from chaos.history.recording import record
from chaos.run.directory import Run, make_folder, new_run_id, write_atomically
from chaos.run.events import Event

if TYPE_CHECKING:  # `--help` needs no Kafka client
    from chaos.catalogue.cases import Case, Outcome

_SIGNS = {"pass": "[green]✓ pass[/]", "fail": "[bold red]✗ fail[/]", "inconclusive": "[bold yellow]? inconclusive[/]"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: python -m chaos catalogue --only 'leader-*' --only coordinator-loss --repeat 5")(
        catalogue
    )


def catalogue(
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="How many times each is run.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Scenarios of these names. Repeatable.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=16, help="How many are run at once, each on its own cluster.")] = 1,
    seed: Seed = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcomes as JSON; progress is on stderr.")] = False,
) -> None:
    """Run the shipped scenarios on clusters that they share where they can; one table at the end.

    Ends with 1 if one of them failed, with 3 if one was inconclusive. Run directories are kept below one folder.
    """
    from chaos.catalogue.cases import cases
    from chaos.catalogue.runner import Catalogue

    wanted = cases(only or (), repeat)
    folder = runs_dir.absolute() / new_run_id("catalogue")
    make_folder(folder)
    began = time.monotonic()
    with _Progress(len(wanted)) as progress:
        progress.say(f"{len(wanted)} runs, in {folder}")
        outcomes = Catalogue(folder, wanted, jobs, seed, progress).run()
        record((Run(o.run_dir) for o in outcomes), runs_dir, lambda words: progress.say(escape(words)))
    rows = [_row(o) for o in outcomes]
    write_atomically(folder / "catalogue.json", json.dumps(rows, indent=1) + "\n")
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    else:
        Console().print(_table(outcomes))
        Console().print(f"{len(outcomes)} runs in {time.monotonic() - began:.0f} s; their reports are in {folder}")
    raise typer.Exit(_exit_code(o.verdict for o in outcomes))


def _exit_code(verdicts: Iterable[str]) -> int:
    found = set(verdicts)
    return FAIL if "fail" in found else PASS if found == {"pass"} else INCONCLUSIVE


def _row(outcome: Outcome) -> dict[str, Any]:
    row = asdict(outcome)
    return {**row.pop("case"), **row, "run_dir": str(outcome.run_dir), "seconds": round(outcome.seconds, 1)}


def _table(outcomes: list[Outcome]) -> Table:
    """One row for each scenario and variant; what all repetitions agree on is said once."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("scenario", "expected", "seen", "verdict"):
        table.add_column(column, overflow="fold", no_wrap=column == "scenario")
    table.add_column("seconds", justify="right")
    by_name: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_name[outcome.case.name].append(outcome)
    for name, ones in by_name.items():
        seen = list(dict.fromkeys(o.seen or o.sentence for o in ones))
        more = f" (and {len(seen) - 1} more)" if len(seen) > 1 else ""
        seconds = f"{sum(o.seconds for o in ones) / len(ones):.0f}"
        table.add_row(name, escape(ones[0].expected), escape(seen[0]) + more, _verdicts(ones), seconds)
    return table


def _verdicts(ones: list[Outcome]) -> str:
    verdicts = [o.verdict for o in ones]
    words = [
        _SIGNS[verdict] + (f" {verdicts.count(verdict)} of {len(ones)}" if len(ones) > 1 else "")
        for verdict in ("fail", "inconclusive", "pass")
        if verdict in verdicts
    ]
    return ", ".join(words)


class _Progress:
    """A line for each case that ended, and what goes on now; see `chaos.catalogue.runner.Told`."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._total, self._done = total, 0
        self._began = time.monotonic()
        self._now: dict[str, str] = {}

    def __enter__(self) -> _Progress:
        if self._console.is_terminal:
            self._status = self._console.status("starting Spark")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def say(self, words: str) -> None:
        """Print a line with the seconds since the start."""
        self._console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/]  {words}")

    def began(self, case: Case) -> None:
        """A case was begun."""
        self._now[case.name] = "starting"
        if self._status is None:
            self.say(f"{escape(case.name)} …")
        self._show()

    def event(self, case: Case, event: Event) -> None:
        """Something happened in a case."""
        if event["kind"] == "stage" and event["state"] == "begin":
            self._now[case.name] = event["stage"]
        elif event["kind"] == "fault":
            self._now[case.name] = f"{event['fault']} {event['phase']}"
        elif event["kind"] == "problem":
            self.say(f"{escape(case.name)}: [bold yellow]problem:[/] {escape(event['words'])}")
        self._show()

    def driven(self, case: Case) -> None:
        """A case needs its cluster no more."""
        self._now.pop(case.name, None)
        self._show()

    def ended(self, outcome: Outcome) -> None:
        """A case has its verdict."""
        self._done += 1
        words = f"{_SIGNS[outcome.verdict]}  [bold]{escape(outcome.case.name)}[/] {outcome.seconds:.0f} s"
        said = outcome.seen if outcome.verdict == "pass" else f"{outcome.sentence} {outcome.run_dir}"
        self.say(f"{words}: expected {escape(outcome.expected)}, seen {escape(said)}")
        self._show()

    def _show(self) -> None:
        if self._status:
            now = ", ".join(f"{name}: {words}" for name, words in sorted(self._now.items()))
            self._status.update(f"{self._done} of {self._total} done · {escape(now)}")

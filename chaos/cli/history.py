"""`history`: verdicts and recovery times over time, what got worse, and the page that shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.cli.run import RUNS_DIR
from chaos.errors import AftershockError, HistoryError, RunDirError
from chaos.history.trends import trends
from chaos.run.events import now_us
from chaos.run.trend import TimeTrend, Trend, Trends, unjudged

_ROOT = Path(__file__).resolve().parents[2]
_VERDICTS = {"pass": "[green]✓[/]", "fail": "[bold red]✗[/]", "inconclusive": "[bold yellow]?[/]"}
_MARKS = {
    "regression": "[bold red]▲ regression[/]",
    "slower": "[yellow]▲ slower[/]",
    "not measured": "[bold yellow]! not measured[/]",
    "steady": "steady",
    "too few runs": "[dim]too few runs[/]",
    "no judgement": "[dim]no judgement[/]",
}
_BARS = "▁▂▃▄▅▆▇█"

Url = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="URL",
        envvar="AFTERSHOCK_HISTORY",
        help="Its database: postgresql://… or sqlite:////…; history.sqlite in the folder of the runs when left out.",
    ),
]
RunsDir = Annotated[Path, typer.Option(help="Where run directories are made.", file_okay=False)]


def register(app: typer.Typer) -> None:
    """Add the command and its own commands."""
    group = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
    group.callback(
        epilog="Example: python -m chaos history --scenario leader-kill --html trends.html",
    )(history)
    group.command("import", epilog="Example: python -m chaos history import runs")(import_)
    app.add_typer(group, name="history")


def history(
    context: typer.Context,
    scenario: Annotated[str | None, typer.Option(help="Only this scenario.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many runs of each are shown.")] = 30,
    html: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write the trend page.")] = None,
    url: Url = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Annotated[bool, typer.Option("--json", help="Print the trends as JSON.")] = False,
) -> None:
    """Show verdicts and recovery times of all recorded runs, with what got worse.

    Runs are recorded at the end of `run`, `catalogue` and each DAG. A time is a regression if two runs in a row are
    beyond 1.25 times the largest, and beyond the median and 3 scaled MADs, of the last 10; the reasons are in
    chaos/history/trends.py.
    """
    if context.invoked_subcommand:
        return
    found = _read(scenario, limit, url, runs_dir)
    if html is not None:
        _write_page(found, html)
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=1) + "\n")
    else:
        show(found, Console())


def import_(
    folder: Annotated[Path, typer.Argument(metavar="RUNS_DIR", help="A run directory, or a folder of them.")],
    url: Url = None,
) -> None:
    """Add runs to the history. A run that is in it already is replaced only if it was judged again."""
    from chaos.history.entries import find_runs, judged_entry
    from chaos.history.recording import database_url
    from chaos.history.store import Store

    if not folder.is_dir():
        raise RunDirError(f"{folder} is not a directory; give a run directory or a folder of them, such as runs")
    single = (folder / "resolved.json").exists()
    store = Store(database_url(folder.absolute().parent if single else folder, url))
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    done: dict[str, int] = {}
    refused = 0
    for run in find_runs(folder):
        try:
            came_of_it = store.add(judged_entry(run))
        except RunDirError as e:
            refused += 1
            console.print(f"[bold yellow]left out:[/] {escape(str(e))}")
            continue
        done[came_of_it] = done.get(came_of_it, 0) + 1
    if not done and not refused:
        raise RunDirError(f"{folder} holds no run that was judged (no result.json beside a resolved.json)")
    words = ", ".join(f"{count} {what}" for what, count in sorted(done.items())) or "nothing added"
    console.print(f"{words}{f', {refused} left out' if refused else ''}: {escape(store.name)}")


def _read(scenario: str | None, limit: int, url: str | None, runs_dir: Path) -> Trends:
    from chaos.history.recording import database_url
    from chaos.history.store import Store

    store = Store(database_url(runs_dir, url))
    if not store.exists():
        raise HistoryError(f"there is no history at {store.name} yet; run a scenario, or `history import RUNS_DIR`")
    entries = store.entries(scenario)
    if not entries:
        which = f" of {scenario!r}" if scenario else ""
        raise HistoryError(f"{store.name} holds no run{which}; run a scenario, or `history import RUNS_DIR`")
    return Trends(database=store.name, made_us=now_us(), trends=trends(entries, limit))


def _write_page(found: Trends, path: Path) -> None:
    """Have the page drawn by the half that draws reports, which has their style."""
    argv = [sys.executable, "-m", "checks.report.trend", str(path.absolute())]
    done = subprocess.run(argv, cwd=_ROOT, input=found.model_dump_json(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise AftershockError((done.stderr.strip() or "the page was not written").splitlines()[-1])
    Console(stderr=True, soft_wrap=True).print(f"page: {path}", highlight=False)


def show(found: Trends, console: Console) -> None:
    """Print it for a person: what got worse first, then every trend."""
    worse = [(trend, words) for trend in found.trends for words in trend.regressions]
    for trend, words in worse:
        console.print(f"[bold red]▲[/] [bold]{escape(trend.name)}[/] {escape(words)}", soft_wrap=True, highlight=False)
    if not worse:
        words = "; ".join([f"no regression in {_count(len(found.trends), 'trend')}", *unjudged(found.trends)])
        console.print(words, soft_wrap=True, highlight=False)
    for trend in found.trends:
        console.print()
        _show_trend(trend, console)


def _show_trend(trend: Trend, console: Console) -> None:
    signs = "".join(_VERDICTS[run.verdict] for run in trend.runs)
    console.print(f"[bold]{escape(trend.name)}[/] {signs} {escape(trend.words)}", soft_wrap=True, highlight=False)
    if trend.runs[-1].verdict != "pass":
        console.print(f"  {escape(trend.runs[-1].sentence)}", soft_wrap=True, highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("time", "runs", "last", "median", "bound", ""):
        table.add_column(column, justify="right" if column in ("last", "median", "bound") else "left", overflow="fold")
    for time in trend.times:
        words = f": {time.words}" if time.mark in ("regression", "slower", "not measured") else ""
        table.add_row(
            escape(time.label),
            _sparkline(time),
            *map(_seconds, (time.values_us[-1], time.median_us, time.bound_us)),
            _MARKS[time.mark] + escape(words),
        )
    console.print(table)


def _sparkline(time: TimeTrend) -> str:
    """The last runs as bars, from zero to the longest; a dot is a run without such a time."""
    values = time.values_us[-20:]
    top = max((v for v in values if v is not None), default=0) or 1
    return "".join("·" if v is None else _BARS[round(v / top * (len(_BARS) - 1))] for v in values)


def _seconds(us: int | None) -> str:
    if us is None:
        return "-"
    return f"{us / 1e6:,.2f} s" if us >= 1_000_000 else f"{us / 1e3:,.1f} ms"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"

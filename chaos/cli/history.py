"""`history`: the verdicts and recovery times of all recorded runs, and what got worse."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.cli.metrics import metrics
from chaos.cli.options import RUNS_DIR, RunsDir, Url
from chaos.cli.view import loading
from chaos.errors import HistoryError, RunDirError, UsageError
from chaos.run.trend import TimeTrend, Trend, Trends, unjudged

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

history = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
history.command("metrics", epilog="Example: python -m chaos history metrics --to http://pushgateway:9091")(metrics)


@history.callback(epilog="Example: python -m chaos history --scenario leader-kill --html trends.html")
def _show(
    context: typer.Context,
    scenario: Annotated[str | None, typer.Option(help="Only this scenario.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of runs to show of each scenario.")] = 30,
    html: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write the trend page.")] = None,
    url: Url = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Annotated[bool, typer.Option("--json", help="Print the trends as JSON.")] = False,
) -> None:
    """Show the verdicts and recovery times of all recorded runs, and what got worse.

    Runs are recorded at the end of `run`, `catalogue` and each DAG. A time is a regression if two runs in a row are
    beyond 1.25 times the largest, and beyond the median and 3 scaled MADs, of the last 10; the reasons are in
    chaos/history/trends.py.
    """
    if context.invoked_subcommand:
        return
    with loading("reading the history") as view:
        trends = _read(scenario, limit, url, runs_dir)
        if html is not None:
            view.doing("drawing the page")
            _write_page(html, trends)
    if html is not None:
        Console(stderr=True, soft_wrap=True).print(f"page: {html}", highlight=False)
    if as_json:
        sys.stdout.write(trends.model_dump_json(indent=1) + "\n")
    else:
        _print_trends(trends)


def _write_page(path: Path, trends: Trends) -> None:
    from chaos.report import trend

    try:
        trend.write(path.absolute(), trends)
    except OSError as e:
        raise UsageError(f"{path} cannot be written: {e.strerror}; name another file with --html") from None


@history.command("import", epilog="Example: python -m chaos history import runs")
def _import(
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
    actions: Counter[str] = Counter()
    refused = 0
    for run in find_runs(folder):
        try:
            actions[store.add(judged_entry(run))] += 1
        except RunDirError as e:
            refused += 1
            console.print(f"[bold yellow]left out:[/] {escape(str(e))}")
    if not actions and not refused:
        raise RunDirError(f"{folder} has no run with a verdict (no result.json beside a resolved.json)")
    summary = ", ".join(f"{count} {action}" for action, count in sorted(actions.items())) or "nothing added"
    console.print(f"{summary}{f', {refused} left out' if refused else ''}: {escape(store.name)}")


def _read(scenario: str | None, limit: int, url: str | None, runs_dir: Path) -> Trends:
    from chaos.history.recording import database_url
    from chaos.history.store import Store
    from chaos.history.trends import trends
    from chaos.run.events import now_us

    store = Store(database_url(runs_dir, url))
    if not store.exists():
        raise HistoryError(f"there is no history at {store.name} yet; run a scenario, or `history import RUNS_DIR`")
    entries = store.entries(scenario)
    if not entries:
        which = f" of {scenario!r}" if scenario else ""
        raise HistoryError(f"{store.name} holds no run{which}; run a scenario, or `history import RUNS_DIR`")
    return Trends(database=store.name, made_us=now_us(), trends=trends(entries, limit))


def _print_trends(trends: Trends) -> None:
    """Print all regressions, then every trend."""
    console = Console(soft_wrap=True, highlight=False)
    regressions = [(trend, text) for trend in trends.trends for text in trend.regressions]
    for trend, text in regressions:
        console.print(f"[bold red]▲[/] [bold]{escape(trend.name)}[/] {escape(text)}")
    if not regressions:
        count = len(trends.trends)
        summary = f"no regression in {count} {'trend' if count == 1 else 'trends'}"
        console.print("; ".join([summary, *unjudged(trends.trends)]))
    for trend in trends.trends:
        console.print()
        _print_trend(trend, console)


def _print_trend(trend: Trend, console: Console) -> None:
    signs = "".join(_VERDICTS[run.verdict] for run in trend.runs)
    console.print(f"[bold]{escape(trend.name)}[/] {signs} {escape(trend.words)}")
    if trend.runs[-1].verdict != "pass":
        console.print(f"  {escape(trend.runs[-1].sentence)}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("time", "runs", "last", "median", "bound", ""):
        table.add_column(column, justify="right" if column in ("last", "median", "bound") else "left", overflow="fold")
    for time in trend.times:
        text = f": {time.words}" if time.mark in ("regression", "slower", "not measured") else ""
        numbers = map(_seconds, (time.values_us[-1], time.median_us, time.bound_us))
        table.add_row(escape(time.label), _sparkline(time), *numbers, _MARKS[time.mark] + escape(text))
    Console().print(table)


def _sparkline(time: TimeTrend) -> str:
    """Return the last 20 values as bars, from zero to the longest; a dot is a run without a value."""
    values = time.values_us[-20:]
    top = max((v for v in values if v is not None), default=0) or 1
    return "".join("·" if v is None else _BARS[round(v / top * (len(_BARS) - 1))] for v in values)


def _seconds(us: int | None) -> str:
    if us is None:
        return "-"
    return f"{us / 1e6:,.2f} s" if us >= 1_000_000 else f"{us / 1e3:,.1f} ms"

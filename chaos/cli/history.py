"""The commands for runs so far: `history` with its metrics for Prometheus, and the web pages (`serve`, `report`)."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.cli.options import RUNS_DIR, RunsDir, Url
from chaos.cli.output import loading
from chaos.errors import HistoryError, MetricsError, RunDirError, UsageError
from chaos.run.trend import TimeTrend, Trend, Trends, unjudged

if TYPE_CHECKING:
    from chaos.history.entries import Entry
    from chaos.history.store import Store


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
    from chaos.history.recording import database_url
    from chaos.history.runs import find_runs, judged_entry
    from chaos.history.store import Store

    if not folder.is_dir():
        raise RunDirError(f"{folder} is not a directory; give a run directory or a folder of them, such as runs")
    single = (folder / "resolved.json").exists()
    store = Store(database_url(folder.absolute().parent if single else folder, url))
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    actions: Counter[str] = Counter()
    refused: list[str] = []
    with loading("looking for runs") as view:
        runs = list(find_runs(folder))
        for done, run in enumerate(runs):
            view.count("adding runs to the history", done, len(runs))
            try:
                actions[store.add(judged_entry(run))] += 1
            except RunDirError as e:
                refused.append(str(e))
    for reason in refused:
        console.print(f"[bold yellow]left out:[/] {escape(reason)}")
    if not actions and not refused:
        raise RunDirError(f"{folder} has no run with a verdict (no result.json next to a resolved.json)")
    summary = ", ".join(f"{count} {action}" for action, count in sorted(actions.items())) or "nothing added"
    console.print(f"{summary}{f', {len(refused)} left out' if refused else ''}: {escape(store.name)}")


def _read(scenario: str | None, limit: int, url: str | None, runs_dir: Path) -> Trends:
    from chaos.history.recording import database_url
    from chaos.history.store import Store
    from chaos.history.trends import trends
    from chaos.run.events import now_us

    store = Store(database_url(runs_dir, url))
    if not store.exists():
        raise HistoryError(f"there is no history at {store.name} yet; run a scenario, or `history import RUNS_DIR`")
    entries = store.entries(scenario, limit)
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


SHIPPED_EXAMPLES = ("alerts.yaml", "dashboard.json")


@history.command("metrics", epilog="Example: python -m chaos history metrics --to http://pushgateway:9091")
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
    from chaos.history.metrics.publish import parse_target

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
    from chaos.history.metrics.families import openmetrics_text

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
    from chaos.history.runs import read_entry
    from chaos.run.directory import Run

    entry = read_entry(Run.open(path))
    if entry is None:
        raise RunDirError(f"{path} has no event, so its run never began; name another run")
    return entry


def _copy_examples(folder: Path) -> None:
    source = Path(__file__).parents[1] / "history" / "metrics"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in SHIPPED_EXAMPLES:
            shutil.copyfile(source / name, folder / name)
    except OSError as e:
        raise MetricsError(f"the examples cannot be written to {folder}: {e.strerror}; name another folder") from None


EXAMPLES = {"serve": "serve runs --port 8000", "report": "report runs --export site"}
Runs = Annotated[
    str,
    typer.Argument(metavar="RUNS_DIR", help="The folder of the runs, or its URL, such as webhdfs://host:9870/runs."),
]


def serve(
    folder: Runs = str(RUNS_DIR),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the pages; 0 for a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on. Another one than 127.0.0.1 has no login.")] = "",
    url: Url = None,
) -> None:
    """Open the web pages over all runs on this machine, until Ctrl-C.

    All runs with filters, trends, gates, proofs, and each run with its report, live while it is driven. The pages only
    read. A run is listed at once if it is in the history; `history import RUNS_DIR` adds the other runs.
    """
    from chaos.pages.app import LOOPBACK
    from chaos.pages.app import serve as serve_pages
    from chaos.pages.local import open_folder
    from chaos.pages.site import Site

    runs = open_folder(folder)
    problem = runs.problem
    if problem and not runs.is_missing:
        raise UsageError(problem)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if problem:
        console.print(f"[bold yellow]note:[/] {escape(problem)}")
    if host not in ("", LOOPBACK):
        console.print(f"[bold yellow]note:[/] anyone who reaches {escape(host)} can read all runs: there is no login")

    def ready(address: str) -> None:
        console.print(f"[bold]{address}[/]  {escape(runs.name)} · Ctrl-C ends it")

    serve_pages(Site(runs, url), host or LOOPBACK, port, ready)
    console.print("ended")


def report(
    export: Annotated[
        Path, typer.Option("--export", metavar="DIR", file_okay=False, help="The folder to write: new, or an export.")
    ],
    folder: Runs = str(RUNS_DIR),
    url: Url = None,
) -> None:
    """Write the web pages over all runs into a folder for a static host.

    All links are relative, so the folder also opens from disk: index.html. It has every report with its Data Docs, the
    trend page, gates and proofs, but no filters and no new bundles. An earlier export there is replaced.
    """
    from chaos.pages.export import export as export_pages
    from chaos.pages.local import open_folder

    done = export_pages(open_folder(folder), url, export)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for reason in done.left_out:
        console.print(f"[bold yellow]left out:[/] {escape(reason)}")
    console.print(f"{done.pages} pages, {done.runs} of runs: {escape(str(export / 'index.html'))}")

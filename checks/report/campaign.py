"""The files of a campaign, from its `campaign.json`: `report.html`, `summary.md`, and a table in a terminal.

Each kind of campaign has its pages in a module of this package; a campaign that only counts has the pages here.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from chaos.run.campaign import RESULT, Campaign, Part, PartsResult, Rate, TrialRun
from chaos.run.directory import read_json, read_model, write_atomically
from chaos.run.result import describe_anomalies
from checks.report.gate import VERDICTS, code, plain
from checks.report.pages import render_page
from checks.report.summary import render_summary
from checks.report.terminal import Page, table

PAGES = {"corpus": "corpus", "gate": "gate", "clients": "clients", "proof": "proof"}
"""The modules of the kinds with other pages."""


def write(folder: Path) -> None:
    """Write the files next to `campaign.json`. Raises `RunDirError` if that is missing or not valid."""
    module, result = _read(folder)
    for name, draw in module.FILES.items():
        write_atomically(folder / name, draw(result))


def show(folder: Path) -> None:
    """Print the result of a campaign to the terminal. Raises as `write`."""
    module, result = _read(folder)
    module.show_result(result, folder)


def _read(folder: Path) -> tuple[ModuleType, Campaign]:
    """Return the result of a campaign, and the module with its `MODEL`, its `FILES` and `show_result`."""
    raw = read_json(folder / RESULT, "result of a campaign")
    kind = raw.get("kind") if isinstance(raw, dict) else None
    module = importlib.import_module(f"checks.report.{PAGES.get(kind, 'campaign') if kind else 'campaign'}")
    return module, read_model(folder / RESULT, module.MODEL, "result of a campaign", "go on with --resume")


def page(result: PartsResult) -> str:
    """Return the page of a campaign that only counts, as text."""
    styles = ("report.css", "trend.css", "clients.css")
    return render_page("campaign.html.j2", styles=styles, scripts=("page.js",), link=quote, **_values(result))


def markdown(result: PartsResult) -> str:
    """Return its summary for a pull request."""
    return render_summary("campaign_summary.md.j2", plain=plain, code=code, VERDICTS=VERDICTS, **_values(result))


MODEL, FILES = PartsResult, {"report.html": page, "summary.md": markdown}


def show_result(result: PartsResult, folder: Path) -> None:
    """Print the parts and their rates to the terminal."""
    console = Console()
    screen = Page(console)
    screen.line(Text.assemble(screen.verdict(result.verdict), "  ", screen.text(result.title, "bold")))
    screen.line(screen.text(result.sentence))
    what = "is" if any(part.state for part in result.parts) else "expected"
    rows = table("verdict", "part", what, "seen", "seconds")
    rows.columns[1].no_wrap = True
    for part in result.parts:
        name = f"{part.name}, {len(part.runs)} runs" if len(part.runs) > 1 else part.name
        shown = (name, part.state or part.expected, seen(part), seconds(part))
        rows.add_row(screen.verdict(part.verdict), *map(screen.text, shown))
    console.print(rows)
    if result.repeat > 1:
        screen.line(Text())
        console.print(_rates(screen, result))
    for part in result.parts:
        for run in part.runs:
            if not run.conclusive:
                screen.line(screen.text(f"inconclusive: {run.run_id}: {run.sentence}"))
    for line in (*(f"note: {note}" for note in result.notes), f"run again: {result.command}"):
        screen.line(screen.text(line))
    screen.line(screen.text(f"report:    {folder}/report.html"))


def _rates(screen: Page, result: PartsResult) -> Any:
    rows = table("part", "seen", "runs", "rate", "95 % interval")
    for part in result.parts:
        for rate in part.rates:
            texts = (part.name, rate.name, f"{rate.count} of {rate.of}", share(rate), bounds(rate))
            rows.add_row(*map(screen.text, texts))
    return rows


def _values(result: PartsResult) -> dict[str, Any]:
    return {"c": result, "seen": seen, "seconds": seconds, "share": share, "bounds": bounds, "shown": describe}


def describe(run: TrialRun) -> str:
    """Return the anomalies of a run; of an inconclusive one, why."""
    return describe_anomalies(run.anomalies) if run.conclusive else run.sentence


def seen(part: Part) -> str:
    """Return what the runs of a part show; different ones as a number."""
    texts = list(dict.fromkeys(map(describe, part.runs)))
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return (texts[0] + more) if texts else "did not run"


def seconds(part: Part) -> str:
    """Return the mean time of a run in seconds."""
    return f"{sum(run.seconds for run in part.runs) / len(part.runs):.0f}" if part.runs else "-"


def share(rate: Rate) -> str:
    """Return the share of runs in percent."""
    return f"{100 * rate.count / rate.of:.0f} %" if rate.of else "-"


def bounds(rate: Rate) -> str:
    """Return the interval of the true rate in percent."""
    return f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"

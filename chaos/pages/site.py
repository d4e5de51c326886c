"""The pages as text, by their address. It knows neither HTTP nor where the pages are served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from chaos.errors import AftershockError, HistoryError
from chaos.history.store import RunFilter
from chaos.history.trends import trends
from chaos.pages import bar
from chaos.pages.folder import REPORT, SEAL, SOURCES, STATE, Found, PageError, RunsFolder, Served
from chaos.pages.listing import Places, RunList, list_campaigns, list_page, state_of, store_of
from chaos.pages.live import Live, read_live
from chaos.report import trend
from chaos.report.pages import digest, environment, script_digests, style
from chaos.report.text import count, number
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.run.trend import Trends

TREND_RUNS = 30
"""Runs of each trend that the trend page shows."""


@dataclass(frozen=True)
class Site:
    """The pages over one folder. url: of the history; None for the default. static: without a server behind them."""

    folder: RunsFolder
    url: str | None = None
    static: bool = False

    def runs(self, wanted: RunFilter, number: int, pager: Callable[[int], str]) -> str:
        """Return a page of the list of runs. pager: returns the address of a page by its number."""
        return self.list_of(list_page(self.folder, self.url, wanted, number), wanted, pager)

    def list_of(self, found: RunList, wanted: RunFilter, pager: Callable[[int], str]) -> str:
        """Return the page of a list that was read."""
        values: dict[str, Any] = {
            "found": found,
            "wanted": wanted,
            "pager": pager,
            "root": self.folder.name,
            "static": self.static,
        }
        return render("runs.html.j2", "", page="runs", **values)

    def campaigns(self) -> str:
        """Return the list of campaigns."""
        shown, more = list_campaigns(self.folder)
        return render("campaigns.html.j2", "", page="campaigns", shown=shown, more=more, problem=self.folder.problem)

    def trends(self) -> str:
        """Return the trend page, at `runs/trends.html`. Raises `PageError`."""
        try:
            store = store_of(self.folder, self.url)
            entries = store.entries(shown=TREND_RUNS) if store is not None and store.exists() else []
        except HistoryError as e:
            raise PageError(503, "No trends", f"The history cannot be read: {e}.", "No run is lost.") from None
        if store is None or not entries:
            step = f"Run a scenario, or add the runs: python -m chaos history import {self.folder.name}"
            raise PageError(404, "No trends", "The history holds no run yet.", step)
        places = Places(self.folder.path_of, self.folder.scan())
        computed = trends(entries, TREND_RUNS)
        with TemporaryDirectory(prefix="aftershock-trends-") as root:
            for run in (run for trend in computed for run in trend.runs):
                run.run_dir = _stand_in(Path(root), places.of(run.run_dir))
            page = Trends(database=store.name, made_us=now_us(), trends=computed)
            return bar.insert(trend.page(page, Path(root) / "trends.html"), self._bar("../", "trends"))

    def report(self, served: Served) -> str:
        """Return the report of a run or campaign with the bar."""
        try:
            page = served.path.read_text(encoding="utf-8", errors="replace")
        except OSError as e:
            raise PageError(503, "The report cannot be read", f"{served.path}: {e.strerror}.") from None
        return bar.insert(page, self._bar(_up(served.directory), _section(served.directory), served.directory))

    def without_report(self, found: Found) -> str:
        """Return the page of a directory that has no report: a run that is driven, or that broke off."""
        if found.kind != "run":
            what = "campaign" if found.kind == "unfinished" else found.kind
            raise PageError(
                404,
                "No page yet",
                f"{found.path} is a {what} without a {REPORT}.",
                "Its page is written at its end. If it was interrupted, continue it.",
            )
        run = Run(self.folder.copy(found, *SOURCES))
        live = read_live(run)
        state = state_of(self.folder, found)
        return render(
            "live.html.j2",
            _up(found),
            script="" if self.static else "live.js",
            page="runs",
            live=live,
            state=state,
            found=found,
            files=bar.files_of(self.folder.names(found)),
            ledger=bar.ledger_of(run),
        )

    def live(self, found: Found) -> Live:
        """Return the state of a run now."""
        return read_live(Run(self.folder.copy(found, *STATE, REPORT)))

    def problem(self, error: PageError, up: str) -> str:
        """Return the page of an error; plain text in HTML if even that cannot be drawn."""
        try:
            return render("problem.html.j2", up, page="", error=error)
        except (AftershockError, PageError, OSError):
            return "<!doctype html><title>Aftershock</title><p>The pages cannot be drawn. Check the installation."

    def _bar(self, up: str, page: str, found: Found | None = None) -> str:
        names = self.folder.names(found) if found is not None else []
        is_run = found is not None and found.kind == "run"
        return render(
            "bar.html.j2",
            up,
            page=page,
            found=found,
            files=bar.files_of(names),
            docs=bar.data_docs(names) if is_run else "",
            ledger=bar.ledger_of(Run(self.folder.copy(found, SEAL))) if found is not None and is_run else None,
            bundle=is_run and not self.static,
        )


def _stand_in(root: Path, path: str) -> str:
    """Make an empty report, because a trend page links to existing reports; the folder may be on another machine.

    path: of the run below the folder of the runs; empty if it is not there.
    """
    if not path:
        return str(root / ".not-here")
    (root / path).mkdir(parents=True, exist_ok=True)
    (root / path / REPORT).touch()
    return str(root / path)


def _up(found: Found) -> str:
    return "../" * (found.path.count("/") + 2)


def _section(found: Found) -> str:
    return "campaigns" if found.kind in ("campaign", "unfinished") else "runs"


_FOLDER = Path(__file__).parent / "page"


def render(template: str, up: str, *, script: str = "", **values: Any) -> str:
    """Return a page as text. up: relative path from the page to the root of the pages, such as `../`."""
    source = (_FOLDER / script).read_text(encoding="utf-8") if script else ""
    values |= {
        "up": up,
        "style": Markup(f"{style()}\n{(_FOLDER / 'pages.css').read_text(encoding='utf-8')}"),  # our own files
        "script": Markup(source),
        "digest": digest(source),
    }
    return _environment().get_template(template).render(values).encode("utf-8", "replace").decode("utf-8")


@cache
def allowed_scripts() -> list[str]:
    """Return the digests of the scripts that this release writes into pages."""
    own = [path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.js"))]
    return [*script_digests(), *map(digest, own)]


@cache
def _environment() -> Environment:
    found = environment(_FOLDER)
    found.filters |= {"wall": wall, "took": took, "number": number, "address": address, "count": count}
    return found


def wall(us: int) -> str:
    """Format a time: `2026-02-03 14:03:12 UTC`."""
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def took(us: float) -> str:
    """Format a length: `42 s`, `3 min 7 s`, `2 h 5 min`."""
    minutes, seconds = divmod(max(0, round(us / 1e6)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def address(path: str) -> str:
    """Return a relative path as part of a URL."""
    return quote(path, safe="/", errors="replace")

"""The pages as text, by their address. It knows neither HTTP nor where the pages are served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from chaos.errors import AftershockError, HistoryError
from chaos.history.listing import RunFilter
from chaos.history.trends import trends
from chaos.pages import beside
from chaos.pages.campaigns import summaries
from chaos.pages.folder import BESIDE, REPORT, SEAL, STATE, Found, RunsFolder, Served
from chaos.pages.listing import PAGE, Places, RunList, list_page, state_of, store_of
from chaos.pages.live import Live, read_live
from chaos.pages.problem import PageError
from chaos.pages.templates import render
from chaos.report import trend
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

    def runs(self, wanted: RunFilter, number: int, pager: Callable[[int], str], size: int = PAGE) -> str:
        """Return a page of the list of runs. pager: returns the address of a page by its number."""
        return self.list_of(list_page(self.folder, self.url, wanted, number, size), wanted, pager)

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
        shown, more = summaries(self.folder)
        return render("campaigns.html.j2", "", page="campaigns", shown=shown, more=more, problem=self.folder.problem)

    def trends(self) -> str:
        """Return the trend page, at `runs/trends.html`. Raises `PageError`."""
        try:
            store = store_of(self.folder, self.url)
            entries = store.entries() if store is not None and store.exists() else []
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
            return beside.insert(trend.page(page, Path(root) / "trends.html"), self._bar("../", "trends"))

    def report(self, served: Served) -> str:
        """Return the report of a run or campaign with the bar."""
        try:
            page = served.path.read_text(encoding="utf-8", errors="replace")
        except OSError as e:
            raise PageError(503, "The report cannot be read", f"{served.path}: {e.strerror}.") from None
        return beside.insert(page, self._bar(_up(served.directory), _section(served.directory), served.directory))

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
        run = Run(self.folder.copy(found, *BESIDE))
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
            files=beside.files_beside(self.folder.names(found)),
            ledger=beside.ledger_of(run),
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
            files=beside.files_beside(names),
            docs=beside.data_docs(names) if is_run else "",
            ledger=beside.ledger_of(Run(self.folder.copy(found, SEAL))) if found is not None and is_run else None,
            bundle=is_run and not self.static,
        )


def _stand_in(root: Path, path: str) -> str:
    """Make an empty report, because a trend page links to those that exist; the folder may be on another machine.

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

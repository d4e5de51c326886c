"""The list of all runs: those of the history, and directories that are not in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.errors import AftershockError, RunDirError
from chaos.history.listing import ListedRun, RunFilter
from chaos.history.recording import OFF, database_url
from chaos.history.store import Store
from chaos.pages.folder import Found, RunsFolder
from chaos.pages.live import read_live
from chaos.run.directory import Run
from chaos.run.result import RunSummary

PAGE = 50
"""Runs on one page of the list."""
UNRECORDED = 30
"""The latest directories outside the history that one page shows."""


@dataclass(frozen=True)
class Row:
    """A recorded run. path: its directory relative to the folder of the runs; empty if it is not there."""

    run: ListedRun
    path: str


@dataclass(frozen=True)
class Unrecorded:
    """A run directory that is not in the history. state: pass, fail, inconclusive, or of `live`; text: a sentence."""

    path: str
    state: str
    text: str


@dataclass(frozen=True)
class RunList:
    """One page of the list. more: number of directories outside the history beyond those shown."""

    rows: list[Row] = field(default_factory=list)
    total: int = 0
    number: int = 1
    pages: int = 1
    scenarios: list[str] = field(default_factory=list)
    releases: list[str] = field(default_factory=list)
    unrecorded: list[Unrecorded] = field(default_factory=list)
    more: int = 0
    problems: list[str] = field(default_factory=list)
    database: str = ""


class Places:
    """Where recorded runs are now. A folder may have moved, or have another path in a container."""

    def __init__(self, root: Path, found: Iterable[Found]) -> None:
        self._root = root
        self._paths = {one.path for one in found}
        self._by_name: dict[str, list[str]] = {}
        for path in self._paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def of(self, run_dir: str) -> str:
        """Return the path relative to the folder; empty if the directory is not there."""
        prefix = f"{self._root}/"
        if run_dir.startswith(prefix) and run_dir.removeprefix(prefix) in self._paths:
            return run_dir.removeprefix(prefix)
        named = self._by_name.get(run_dir.rpartition("/")[2], [])
        if len(named) == 1:
            return named[0]
        # cells of several gates have the same names: the folder around them decides
        inside = [path for path in named if "/" in path and run_dir.endswith(f"/{path}")]
        return inside[0] if len(inside) == 1 else ""


def store_of(folder: RunsFolder, url: str | None) -> Store | None:
    """Return the history of a folder; None if the user has turned it off. Raises `HistoryError` for a bad URL."""
    found = database_url(folder.path, url)
    return None if found == OFF else Store(found)


def list_page(folder: RunsFolder, url: str | None, wanted: RunFilter, number: int, size: int = PAGE) -> RunList:
    """Return one page of the list. Without a history, it has the directories only, and says so."""
    found = folder.scan()
    places = Places(folder.path, found)
    problems = [folder.problem] if folder.problem else []
    recorded: set[str] = set()
    page = RunList()
    try:
        store = store_of(folder, url)
        if store is not None and store.exists():
            recorded = {places.of(run_dir) for run_dir in store.run_dirs()}
            page = _recorded(store, places, wanted, number, size)
    except AftershockError as e:
        problems.append(f"The history cannot be read: {e}. The directories below are complete; no run is lost.")
    others = [one for one in found if one.kind == "run" and one.path not in recorded]
    others.sort(key=lambda one: one.changed_ns, reverse=True)
    shown = others[:UNRECORDED] if page.number == 1 else []
    return RunList(
        rows=page.rows,
        total=page.total,
        number=page.number,
        pages=page.pages,
        scenarios=page.scenarios,
        releases=page.releases,
        unrecorded=[state_of(folder, one) for one in shown],
        more=len(others) - len(shown),
        problems=problems,
        database=page.database,
    )


def _recorded(store: Store, places: Places, wanted: RunFilter, number: int, size: int) -> RunList:
    listing = store.page(wanted, size, (number - 1) * size)
    pages = max(1, -(-listing.total // size))
    if number > pages:  # a link to a page that the filter no longer has
        number = pages
        listing = store.page(wanted, size, (number - 1) * size)
    return RunList(
        rows=[Row(run, places.of(run.run_dir)) for run in listing.runs],
        total=listing.total,
        number=number,
        pages=pages,
        scenarios=listing.scenarios,
        releases=listing.releases,
        database=store.name,
    )


def state_of(folder: RunsFolder, found: Found) -> Unrecorded:
    """Return the state of a run directory, from its result or its events."""
    run = Run(folder.path / found.path)
    if run.result.exists():
        try:
            summary = RunSummary.read(run)
        except RunDirError as e:
            return Unrecorded(found.path, "unreadable", f"{e}. A newer Aftershock may have written it.")
        return Unrecorded(found.path, summary.verdict, summary.sentence)
    live = read_live(run)
    return Unrecorded(found.path, live.state, live.text)

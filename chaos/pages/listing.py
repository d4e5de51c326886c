"""The list of all runs: runs of the history, and directories that are not in it. The list of campaigns.

A campaign is listed from the head of its `campaign.json`, and from `plan.json` where there is no result yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.errors import AftershockError, RunDirError
from chaos.history.recording import OFF
from chaos.history.store import ListedRun, RunFilter, Store
from chaos.pages.folder import REPORT, STATE, Found, PageError, RunsFolder
from chaos.pages.live import read_live
from chaos.report.text import count
from chaos.run.campaign import RESULT, Head
from chaos.run.directory import Run, read_json, read_model
from chaos.run.result import RunSummary

PAGE = 50
"""Runs on one page of the list."""
UNRECORDED = 30
"""The latest directories outside the history that one page shows."""
THREADS = 8


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
    """One page of the list. more: number of directories outside the history beyond those shown.

    is_read: whether the folder was read, so that a directory that was not found is gone.
    """

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
    is_read: bool = True


class Places:
    """Where recorded runs are now. A folder may have moved, or have another path in a container."""

    def __init__(self, path_of: Callable[[str], str | None], found: Iterable[Found]) -> None:
        """path_of: of the folder of the runs."""
        self._path_of = path_of
        self._paths = {one.path for one in found}
        self._by_name: dict[str, list[str]] = {}
        for path in self._paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def of(self, run_dir: str) -> str:
        """Return the path relative to the folder; empty if the directory is not there."""
        if (path := self._path_of(run_dir)) in self._paths and path is not None:
            return path
        named = self._by_name.get(run_dir.rpartition("/")[2], [])
        if len(named) == 1:
            return named[0]
        # cells of several gates have the same names: the folder around them decides
        inside = [path for path in named if "/" in path and run_dir.endswith(f"/{path}")]
        return inside[0] if len(inside) == 1 else ""


def store_of(folder: RunsFolder, url: str | None) -> Store | None:
    """Return the history of a folder; None if the user has turned it off. Raises `HistoryError` for a bad URL."""
    found = folder.database(url)
    return None if found == OFF else Store(found)


def list_page(folder: RunsFolder, url: str | None, wanted: RunFilter, number: int, size: int = PAGE) -> RunList:
    """Return one page of the list. Without a history, the directories themselves are paged."""
    problems = [folder.problem] if folder.problem else []
    found: list[Found] = []
    try:
        found = folder.scan()
    except PageError as e:
        problems = [e.text]
    places = Places(folder.path_of, found)
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
    if page.database:
        shown = others[:UNRECORDED] if page.number == 1 else []
        more = len(others) - len(shown)
    else:
        pages = max(1, -(-len(others) // size))
        page = replace(page, number=min(number, pages), pages=pages)
        shown, more = others[(page.number - 1) * size : page.number * size], 0
    return replace(page, unrecorded=_states(folder, shown), more=more, problems=problems, is_read=not problems)


def _states(folder: RunsFolder, found: list[Found]) -> list[Unrecorded]:
    """Return the states of run directories, without directories that were removed meanwhile."""

    def state(one: Found) -> Unrecorded | None:
        try:
            return state_of(folder, folder.directory(one.path))
        except PageError as e:
            return None if e.status == 404 else Unrecorded(one.path, "unreadable", e.text)

    with ThreadPoolExecutor(THREADS) as threads:  # a file system on the network takes its time for each
        return [one for one in threads.map(state, found) if one is not None]


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
    run = Run(folder.copy(found, *STATE))
    if run.result.exists():
        try:
            summary = RunSummary.read(run)
        except RunDirError as e:
            reason = str(e).replace(str(run.path), f"{folder.name}/{found.path}")
            return Unrecorded(found.path, "unreadable", f"{reason}. A newer Aftershock may have written it.")
        return Unrecorded(found.path, summary.verdict, summary.sentence)
    live = read_live(run)
    return Unrecorded(found.path, live.state, live.text)


MOST_CAMPAIGNS = 200
"""The latest results that a list reads."""


@dataclass(frozen=True)
class CampaignRow:
    """One campaign. verdict: of its result, or `unreadable`, or `not finished`."""

    path: str
    kind: str
    title: str
    verdict: str
    sentence: str
    made_us: int
    has_page: bool = False


def list_campaigns(folder: RunsFolder) -> tuple[list[CampaignRow], int]:
    """Return the latest campaigns, finished or not, and the number of older ones that are left out."""
    found = [one for one in folder.scan() if one.kind in ("campaign", "unfinished")]
    found.sort(key=lambda one: one.changed_ns, reverse=True)
    shown = [s for one in found[:MOST_CAMPAIGNS] if (s := _summary(folder, one)) is not None]
    shown.sort(key=lambda one: one.made_us, reverse=True)
    return shown, max(0, len(found) - MOST_CAMPAIGNS)


def _summary(folder: RunsFolder, found: Found) -> CampaignRow | None:
    changed_us = found.changed_ns // 1000
    if found.kind == "unfinished":
        return _unfinished(folder, found)
    try:
        path = folder.copy(found, RESULT, REPORT)
    except PageError as e:
        return CampaignRow(found.path, "", found.name, "unreadable", e.text, changed_us)
    page = (path / REPORT).is_file()
    try:
        head = read_model(path / RESULT, Head, "result of a campaign", "run it again")
    except (RunDirError, OSError) as e:
        reason = str(e).replace(str(path), f"{folder.name}/{found.path}")
        text = f"{reason}. Another release of Aftershock may have written it; its page is as it was."
        return CampaignRow(found.path, "", found.name, "unreadable", text, changed_us, page)
    return CampaignRow(found.path, head.kind, head.title, head.verdict, head.sentence, head.made_us, page)


def _unfinished(folder: RunsFolder, found: Found) -> CampaignRow | None:
    """Return a campaign without a result; None if the plan is of something else."""
    try:
        plan = read_json(folder.copy(found, "plan.json") / "plan.json", "plan")
    except (RunDirError, PageError):
        return None
    if (
        not isinstance(plan, dict)
        or not plan.keys() >= {"kind", "asked", "parts"}
        or not isinstance(plan["parts"], list)
    ):
        return None
    text = (
        f"It runs, or was interrupted; {count(len(plan['parts']), 'part')} planned. Its finished runs are stored; "
        f"continue with --resume {found.path}."
    )
    return CampaignRow(
        found.path, str(plan["kind"]), Path(found.path).name, "not finished", text, found.changed_ns // 1000
    )

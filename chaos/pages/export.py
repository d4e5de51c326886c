"""The pages as one folder of files, for a static host or to open from disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chaos.errors import UsageError
from chaos.history.store import RunFilter
from chaos.pages.folder import REPORT, Found, PageError, RunsFolder
from chaos.pages.listing import list_page
from chaos.pages.site import Site
from chaos.run.directory import write_atomically

SIZE = 200
"""Runs on one page of the exported list."""
MARK = ".aftershock-export"
"""The file by which a folder is known as an export, so that it may be written again."""


@dataclass
class Exported:
    """What was written. left_out: directories without a page, and why."""

    runs: int = 0
    pages: int = 0
    left_out: list[str] = field(default_factory=list)


def export(folder: RunsFolder, url: str | None, target: Path) -> Exported:
    """Write the pages and the files next to them below a folder, and return what was written.

    An earlier export in the folder is replaced. Raises `UsageError` if the folder has other content, or cannot be
    written to.
    """
    target = target.absolute()
    if folder.problem:
        raise UsageError(folder.problem)
    if folder.path_of(str(target)) is not None:
        raise UsageError(f"{target} is inside {folder.name}; name a folder outside the runs")
    try:
        _prepare(target)
        return _write(Site(folder, url, static=True), target)
    except OSError as e:
        raise UsageError(f"{target} cannot be written: {e.strerror or e}; choose another folder") from None


def _prepare(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        if not (target / MARK).is_file():
            raise UsageError(f"{target} is not empty, and is no earlier export; choose an empty folder")
        for path in target.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (target / MARK).touch()


def _write(site: Site, target: Path) -> Exported:
    done = Exported()
    (target / "runs").mkdir()
    for name, text in _lists(site, done):
        write_atomically(target / name, text)
        done.pages += 1
    for found in site.folder.scan():
        try:
            _write_directory(site, found, target / "runs" / found.path)
        except PageError as e:
            done.left_out.append(f"{found.path}: {e.text}")
        else:
            done.runs += found.kind == "run"
            done.pages += 1
    return done


def _lists(site: Site, done: Exported) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each list."""

    def name(number: int) -> str:
        return "index.html" if number == 1 else f"index-{number}.html"

    number = pages = 1
    while number <= pages:
        found = list_page(site.folder, site.url, RunFilter(), number, SIZE)
        pages = found.pages
        yield name(number), site.list_of(found, RunFilter(), name)
        number += 1
    yield "campaigns.html", site.campaigns()
    try:
        trends = site.trends()
    except PageError as e:
        done.left_out.append(f"trends: {e.text}")
        trends = site.problem(e, "../")
    yield "runs/trends.html", trends


def _write_directory(site: Site, found: Found, target: Path) -> None:
    """Write the page of a directory, and copy the files next to it that a server would serve."""
    names = site.folder.names(found)
    report = site.folder.file(f"{found.path}/{REPORT}") if REPORT in names else None
    page = site.report(report) if report else site.without_report(found)
    target.mkdir(parents=True, exist_ok=True)
    write_atomically(target / REPORT, page)
    for name in names:
        try:
            served = site.folder.file(f"{found.path}/{name}")
        except PageError:
            continue  # removed meanwhile, or a link that leaves the folder
        if name != REPORT:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(served.path, target / name)

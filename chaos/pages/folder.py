"""The folder of the runs: the directories that pages show, and the files in them that may be read.

A directory is shown if it has a file that only Aftershock writes (`MARKS`). Of such a directory, only the files in
`FILES`, the pages of Great Expectations and bundles are served. Hidden files, symbolic links that leave the folder,
devices and everything else are not. `local` is a folder of this machine, `remote` one on another file system.
"""

from __future__ import annotations

import re
from collections.abc import Container
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

from chaos.incident.bundle import SUFFIX

Kind = Literal["run", "campaign", "unfinished"]
MARKS: dict[str, Kind] = {
    "resolved.json": "run",
    "campaign.json": "campaign",
    "plan.json": "unfinished",  # a campaign that has no result yet
}
REPORT = "report.html"
FILES = {
    REPORT: "text/html",
    "result.json": "application/json",
    "resolved.json": "application/json",
    "campaign.json": "application/json",
    # as plain text: an XML document may contain scripts
    "junit.xml": "text/plain",
    "scenario.yaml": "text/plain",
    "events.jsonl": "text/plain",
    "summary.md": "text/plain",
}
"""The files of a run or a campaign that are served, with their types. `cluster.json` may hold passwords."""
DOCS = {".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon"}
"""The files below `gx/` that are served."""
STATE = ("result.json", "events.jsonl", "resolved.json")
"""The files of a run from which its state is read."""
SEAL = "ledger/seal.json"
SOURCES = (*FILES, SEAL)
"""The files of a directory that a page of it is made from, besides the names of all that is served."""
MAX_DEPTH = 3
_DRIVE = re.compile(r"^[A-Za-z]:")


@dataclass(frozen=True)
class Found:
    """A directory that is shown. path: relative to the folder of the runs; changed_ns: its last change."""

    path: str
    kind: Kind
    changed_ns: int

    @property
    def name(self) -> str:
        """Name of the directory."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Served:
    """A file that may be read. path: on this machine; type: of its content; below: its path below the directory."""

    path: Path
    type: str
    directory: Found
    below: str

    @property
    def is_report(self) -> bool:
        """Whether it is the report of its directory."""
        return self.below == REPORT


class RunsFolder(Protocol):
    """A folder of runs. It may be missing or empty, and change at any time.

    A method raises `PageError` for a path that is not shown, and if the file system does not answer.
    """

    @property
    def name(self) -> str:
        """Path or URL of the folder, for people."""

    @property
    def problem(self) -> str:
        """Why the folder cannot be listed; empty if it can."""

    @property
    def is_missing(self) -> bool:
        """Whether the folder does not exist yet, which the first run changes."""

    def scan(self) -> list[Found]:
        """Return the directories that are shown, by path."""

    def directory(self, relative: str) -> Found:
        """Return the directory with this path."""

    def file(self, relative: str) -> Served:
        """Return a file that may be read."""

    def names(self, found: Found) -> list[str]:
        """Return the files of a directory that are served, as paths below it."""

    def copy(self, found: Found, *names: str) -> Path:
        """Return a directory of this machine with these files of a directory, as far as they exist, as they are now."""

    def whole(self, found: Found) -> AbstractContextManager[Path]:
        """Return a directory of this machine with all that a bundle of the run needs."""

    def path_of(self, run_dir: str) -> str | None:
        """Return the path in this folder of a run directory as Airflow and the history name it; None if elsewhere."""

    def database(self, url: str | None) -> str:
        """Return the URL of the history of this folder, or `off`."""


def kind_of(names: Container[str]) -> Kind | None:
    """Return the kind of a directory with files of these names; None if it is not shown."""
    return next((kind for mark, kind in MARKS.items() if mark in names), None)


def checked_parts(relative: str) -> list[str]:
    """Return the parts of a path that is inside the folder by its text. Raises `PageError`."""
    parts = relative.split("/")
    if not relative or "\\" in relative or "\0" in relative or _DRIVE.match(relative):
        raise missing(relative)
    if not all(map(is_shown, parts)):
        raise missing(relative)
    return parts


def is_shown(name: str) -> bool:
    """Return whether an entry of a directory may be shown by its name."""
    return bool(name) and not name.startswith(".") and not any(sign in name for sign in "/\\\0")


def served_type(found: Found, below: str) -> str | None:
    """Return the type of a file by its path below a directory; None if it is not served."""
    parts = PurePosixPath(below).parts
    if found.kind == "unfinished":
        return None
    if len(parts) == 1 and parts[0] in FILES:
        return FILES[parts[0]]
    if len(parts) > 1 and parts[0] == "gx":
        return DOCS.get(Path(parts[-1]).suffix)
    if len(parts) == 2 and parts[0] == "bundles" and parts[1].endswith(SUFFIX):
        return "application/gzip"
    return None


def missing(relative: str) -> PageError:
    """Return the error for a path that is not shown."""
    return PageError(
        404,
        "Not found",
        f"There is no run or campaign, and no file of one, at {relative[:200]!r}.",
        "It may have been deleted. The list has all runs.",
    )


class PageError(Exception):
    """A page that does not exist or cannot be drawn. status: of HTTP; next_step: what the reader can do."""

    def __init__(self, status: int, title: str, text: str, next_step: str = "") -> None:
        super().__init__(text)
        self.status, self.title, self.text, self.next_step = status, title, text, next_step

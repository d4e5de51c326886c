"""The folder of the runs: the directories that pages show, and the files in them that may be read.

A directory is shown if it has a file that only Aftershock writes (`MARKS`). Of such a directory, only the files in
`FILES`, the pages of Great Expectations and bundles are served. Hidden files, symbolic links that leave the folder,
devices and everything else are not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from chaos.incident.bundle import SUFFIX
from chaos.pages.problem import PageError

Kind = Literal["run", "comparison", "gate", "proof", "clients", "corpus"]
MARKS: dict[str, Kind] = {
    "resolved.json": "run",
    "comparison.json": "comparison",
    "gate.json": "gate",
    "proof.json": "proof",
    "clients.json": "clients",
    "corpus.json": "corpus",
}
REPORT = "report.html"
FILES = {
    REPORT: "text/html",
    "result.json": "application/json",
    "resolved.json": "application/json",
    "gate.json": "application/json",
    "proof.json": "application/json",
    "clients.json": "application/json",
    "corpus.json": "application/json",
    # as plain text: an XML document may contain scripts
    "junit.xml": "text/plain",
    "scenario.yaml": "text/plain",
    "events.jsonl": "text/plain",
    "summary.md": "text/plain",
    "card.md": "text/plain",
}
"""The files of a run or a gate that are served, with their types. `cluster.json` may hold passwords."""
DOCS = {".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon"}
"""The files below `gx/` that are served."""
_MAX_DEPTH = 3
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
    """A file that may be read, its type, and the directory that it belongs to."""

    path: Path
    type: str
    directory: Found

    @property
    def is_report(self) -> bool:
        """Whether it is the report of its directory."""
        return self.path.name == REPORT and self.type == "text/html" and self.path.parent.name == self.directory.name


class RunsFolder:
    """The folder of the runs. It may be missing or empty, and change at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def problem(self) -> str:
        """Why the folder cannot be listed; empty if it can."""
        try:
            with os.scandir(self.path):
                return ""
        except FileNotFoundError:
            return f"{self.path} does not exist yet. The first run makes it: python -m chaos run clean-run"
        except NotADirectoryError:
            return f"{self.path} is a file. Name the folder of the runs, such as runs/"
        except OSError as e:
            return f"{self.path} cannot be read: {e.strerror}. Give this user the right to read it."

    def scan(self) -> list[Found]:
        """Return the directories that are shown, by path."""
        return sorted(self._below("", 1), key=lambda found: found.path)

    def _below(self, relative: str, depth: int) -> Iterator[Found]:
        try:
            with os.scandir(self.path / relative) as entries:
                folders = [e for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for entry in folders:
            path = f"{relative}/{entry.name}" if relative else entry.name
            try:
                found = _found(entry.path, path)
            except OSError:
                continue  # it was removed meanwhile
            if found is not None:
                yield found
            if depth < _MAX_DEPTH and (found is None or found.kind != "run"):
                yield from self._below(path, depth + 1)

    def directory(self, relative: str) -> Found:
        """Return the directory with this path. Raises `PageError` if it is none that is shown."""
        path = self._inside(relative)
        found = _found(str(path), relative) if path.is_dir() else None
        if found is None:
            raise _missing(relative)
        return found

    def file(self, relative: str) -> Served:
        """Return a file that may be read. Raises `PageError`."""
        path = self._inside(relative)
        parts = PurePosixPath(relative).parts
        for length in range(len(parts) - 1, 0, -1):
            owner = "/".join(parts[:length])
            if (found := _found(f"{self.path}/{owner}", owner)) is not None:
                type_ = _type(parts[length:])
                if type_ is None or not path.is_file():
                    raise _missing(relative)
                return Served(path, type_, found)
        raise _missing(relative)

    def _inside(self, relative: str) -> Path:
        """Return a path that is inside the folder, links included. Raises `PageError`."""
        parts = relative.split("/")
        if not relative or "\\" in relative or "\0" in relative or _DRIVE.match(relative):
            raise _missing(relative)
        if any(part in ("", ".", "..") or part.startswith(".") for part in parts):
            raise _missing(relative)
        try:
            root = self.path.resolve(strict=True)
            path = self.path.joinpath(*parts).resolve(strict=True)
        except (OSError, RuntimeError):
            raise _missing(relative) from None
        if not path.is_relative_to(root):
            raise PageError(404, "Not in the folder of the runs", f"{relative} is a link that leaves {self.path}.")
        return path


def _found(path: str, relative: str) -> Found | None:
    for mark, kind in MARKS.items():
        if os.path.isfile(f"{path}/{mark}"):  # noqa: PTH113 - three times as fast, for ten thousand runs
            return Found(relative, kind, os.stat(path).st_mtime_ns)  # noqa: PTH116
    return None


def _type(parts: tuple[str, ...]) -> str | None:
    """Return the type of a file by its path in a directory; None if it is not served."""
    if len(parts) == 1 and parts[0] in FILES:
        return FILES[parts[0]]
    if len(parts) > 1 and parts[0] == "gx":
        return DOCS.get(Path(parts[-1]).suffix)
    if len(parts) == 2 and parts[0] == "bundles" and parts[1].endswith(SUFFIX):
        return "application/gzip"
    return None


def _missing(relative: str) -> PageError:
    return PageError(
        404,
        "Not found",
        f"There is no run, gate or proof, and no file of one, at {relative[:200]!r}.",
        "It may have been deleted. The list has all runs.",
    )

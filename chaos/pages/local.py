"""The folder of the runs on a disk of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from urllib.parse import unquote, urlsplit

from chaos.history.recording import database_url
from chaos.pages.folder import (
    FILES,
    MARKS,
    MAX_DEPTH,
    Found,
    PageError,
    RunsFolder,
    Served,
    checked_parts,
    is_shown,
    missing,
    served_type,
)


class LocalFolder:
    """A `RunsFolder` on this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def name(self) -> str:
        """As `RunsFolder.name`."""
        return str(self.path)

    @property
    def problem(self) -> str:
        """As `RunsFolder.problem`."""
        try:
            with os.scandir(self.path):
                return ""
        except FileNotFoundError:
            first = f"python -m chaos run clean-run --runs-dir {self.path}"
            return f"{self.path} does not exist yet. The first run makes it: {first}"
        except NotADirectoryError:
            return f"{self.path} is a file. Name the folder of the runs, such as runs/"
        except OSError as e:
            return f"{self.path} cannot be read: {e.strerror}. Give this user the right to read it."

    @property
    def is_missing(self) -> bool:
        """As `RunsFolder.is_missing`."""
        return not self.path.exists()

    def scan(self) -> list[Found]:
        """As `RunsFolder.scan`."""
        return sorted(self._below("", 1), key=lambda found: found.path)

    def _below(self, relative: str, depth: int) -> Iterator[Found]:
        try:
            with os.scandir(self.path / relative) as entries:
                folders = [e for e in entries if is_shown(e.name) and e.is_dir(follow_symlinks=False)]
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
            if depth < MAX_DEPTH and (found is None or found.kind != "run"):
                yield from self._below(path, depth + 1)

    def directory(self, relative: str) -> Found:
        """As `RunsFolder.directory`."""
        path = self._inside(relative)
        found = _found(str(path), relative) if path.is_dir() else None
        if found is None:
            raise missing(relative)
        return found

    def file(self, relative: str) -> Served:
        """As `RunsFolder.file`."""
        path = self._inside(relative)
        parts = relative.split("/")
        for length in range(len(parts) - 1, 0, -1):
            owner = "/".join(parts[:length])
            if (found := _found(f"{self.path}/{owner}", owner)) is not None:
                below = "/".join(parts[length:])
                type_ = served_type(found, below)
                if type_ is None or not path.is_file():
                    raise missing(relative)
                return Served(path, type_, found, below)
        raise missing(relative)

    def names(self, found: Found) -> list[str]:
        """As `RunsFolder.names`."""
        path = self.path / found.path
        below = [*(path / "gx").rglob("*"), *(path / "bundles").glob("*")]
        candidates = [*FILES, *sorted(one.relative_to(path).as_posix() for one in below)]
        return [name for name in candidates if served_type(found, name) and (path / name).is_file()]

    def copy(self, found: Found, *names: str) -> Path:
        """Return the directory itself."""
        return self.path / found.path

    def whole(self, found: Found) -> AbstractContextManager[Path]:
        """Return the directory itself."""
        return nullcontext(self.path / found.path)

    def path_of(self, run_dir: str) -> str | None:
        """As `RunsFolder.path_of`."""
        path = Path(run_dir)
        return path.relative_to(self.path).as_posix() if path.is_relative_to(self.path) else None

    def database(self, url: str | None) -> str:
        """As `RunsFolder.database`: SQLite in the folder by default."""
        return database_url(self.path, url)

    def _inside(self, relative: str) -> Path:
        """Return a path that is inside the folder, links included. Raises `PageError`."""
        parts = checked_parts(relative)
        try:
            root = self.path.resolve(strict=True)
            path = self.path.joinpath(*parts).resolve(strict=True)
        except (OSError, RuntimeError):
            raise missing(relative) from None
        if not path.is_relative_to(root):
            raise PageError(404, "Not in the folder of the runs", f"{relative} is a link that leaves {self.path}.")
        return path


def _found(path: str, relative: str) -> Found | None:
    for mark, kind in MARKS.items():
        if os.path.isfile(f"{path}/{mark}"):  # noqa: PTH113 - three times as fast, for ten thousand runs
            return Found(relative, kind, os.stat(path).st_mtime_ns)  # noqa: PTH116
    return None


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def open_folder(text: str, local: Path | None = None) -> RunsFolder:
    """Return the folder at a path or a URL. Raises `UsageError` for a URL that cannot be used.

    local: the folder with the runs that are copied to the URL.
    """
    if not _URL.match(text):
        return LocalFolder(Path(text))
    if text.startswith("file://"):
        return LocalFolder(Path(unquote(urlsplit(text).path)))
    from chaos.pages.remote import RemoteFolder  # imported on use: a folder of this machine does not need it

    return RemoteFolder(text, local)

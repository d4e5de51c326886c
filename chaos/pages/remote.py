"""The folder of the runs on another file system, such as HDFS, by a URL that fsspec knows: `webhdfs://host:9870/runs`.

A directory of a run is copied to this machine file by file, when a page needs it, and again when its size or time has
changed. Lists are never older than one request, except for what never changes: that a directory is a run. Only
directories and files are followed: no links, and no names that could lead out of the folder.

Credentials and other settings of a file system belong in the configuration of fsspec, not in the URL.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from chaos.errors import UsageError
from chaos.history.recording import OFF, VARIABLE
from chaos.incident.bundle import EXCLUDED
from chaos.pages.folder import (
    MAX_DEPTH,
    Found,
    PageError,
    Served,
    checked_parts,
    is_shown,
    kind_of,
    missing,
    served_type,
)

THREADS = 8
TIMEOUT_S = 20.0
Value = TypeVar("Value")


@dataclass(frozen=True)
class Entry:
    """An entry of a remote directory. version: changes with its content."""

    name: str
    is_folder: bool
    version: str
    changed_ns: int


class RemoteFolder:
    """A `RunsFolder` at a URL. local: the folder of the runs that are copied there, by its name in Airflow."""

    def __init__(self, url: str, local: Path | None = None) -> None:
        """Raises `UsageError` for a URL that cannot be used."""
        self._url, self._local = url.rstrip("/"), local.absolute() if local else None
        try:
            self._fs, self._root = _opened(self._url)
        except Exception as e:  # noqa: BLE001 - each file system has its errors
            raise UsageError(f"{self.name} cannot be opened: {_reason(e)}; {_advice(url)}") from None
        self._mirror = Mirror()
        self._runs: set[str] = set()
        """Paths that are known as runs."""

    @property
    def name(self) -> str:
        """As `RunsFolder.name`, without a password."""
        parts = urlsplit(self._url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def problem(self) -> str:
        """As `RunsFolder.problem`."""
        try:
            if self._ask(lambda: self._fs.isdir(self._root)):
                return ""
            if self._ask(lambda: self._fs.exists(self._root)):
                return f"{self.name} is a file. Name the folder of the runs."
        except PageError as e:
            return e.text
        return f"{self.name} does not exist yet. Copy the folder of a run into it."

    @property
    def is_missing(self) -> bool:
        """As `RunsFolder.is_missing`."""
        try:
            return not self._ask(lambda: self._fs.exists(self._root))
        except PageError:
            return False

    def scan(self) -> list[Found]:
        """As `RunsFolder.scan`."""
        found: list[Found] = []
        depth, below = 1, [("", entry) for entry in self._list("", missing_ok=True) if entry.is_folder]
        with ThreadPoolExecutor(THREADS) as threads:
            while below and depth <= MAX_DEPTH:
                depth += 1
                look_at = functools.partial(self._look_at, descend=depth <= MAX_DEPTH)
                looked = list(threads.map(look_at, below))
                found += [one for one, _ in looked if one is not None]
                below = [inner for _, inside in looked for inner in inside]
        self._runs = {one.path for one in found if one.kind == "run"}
        return sorted(found, key=lambda one: one.path)

    def _look_at(self, place: tuple[str, Entry], descend: bool) -> tuple[Found | None, list[tuple[str, Entry]]]:
        """Return the directory if it is shown, and the directories below it in which others may be."""
        parent, entry = place
        path = f"{parent}/{entry.name}" if parent else entry.name
        if path in self._runs:
            return Found(path, "run", entry.changed_ns), []
        entries = self._list(path, missing_ok=True)
        found = _found(path, entries, entry.changed_ns)
        if not descend or (found is not None and found.kind == "run"):
            return found, []
        return found, [(path, inner) for inner in entries if inner.is_folder]

    def directory(self, relative: str) -> Found:
        """As `RunsFolder.directory`."""
        checked_parts(relative)
        found = _found(relative, self._list(relative), 0)
        if found is None:
            raise missing(relative)
        return found

    def file(self, relative: str) -> Served:
        """As `RunsFolder.file`."""
        parts = checked_parts(relative)
        for length in range(len(parts) - 1, 0, -1):
            owner, below = "/".join(parts[:length]), "/".join(parts[length:])
            try:
                found = self.directory(owner)
            except PageError as e:
                if e.status != 404:
                    raise
                continue
            type_ = served_type(found, below)
            path = self.copy(found, below) / below
            if type_ is None or not path.is_file():
                raise missing(relative)
            return Served(path, type_, found, below)
        raise missing(relative)

    def names(self, found: Found) -> list[str]:
        """As `RunsFolder.names`."""
        return [name for name in self._walk(found.path, "", MAX_DEPTH + 2) if served_type(found, name)]

    def _walk(self, path: str, below: str, depth: int) -> Iterator[str]:
        """Yield the files below a directory that may be served."""
        entries = self._list(f"{path}/{below}".rstrip("/"), missing_ok=True)
        yield from (below + entry.name for entry in entries if not entry.is_folder)
        for entry in entries:
            if entry.is_folder and depth and (below or entry.name in ("gx", "bundles")):
                yield from self._walk(path, f"{below}{entry.name}/", depth - 1)

    def copy(self, found: Found, *names: str) -> Path:
        """As `RunsFolder.copy`."""
        folders: dict[str, dict[str, Entry]] = {}
        target = self._mirror.of(found.path)
        for name in names:
            parent, _, last = name.rpartition("/")
            if parent not in folders:
                entries = self._list(f"{found.path}/{parent}".rstrip("/"), missing_ok=True)
                folders[parent] = {entry.name: entry for entry in entries if not entry.is_folder}
            if (entry := folders[parent].get(last)) is None:
                self._mirror.remove(target / name)
            else:
                remote = f"{self._root}/{found.path}/{name}"
                self._mirror.update(target / name, entry.version, functools.partial(self._get, remote))
        return target

    @contextlib.contextmanager
    def whole(self, found: Found) -> Iterator[Path]:
        """As `RunsFolder.whole`: a copy that is removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="aftershock-run-") as folder:
            target = Path(folder) / found.name
            self._get_all(found.path, target, EXCLUDED)
            yield target

    def _get_all(self, path: str, target: Path, left_out: frozenset[str] = frozenset()) -> None:
        target.mkdir()
        for entry in self._list(path):
            if entry.is_folder and entry.name not in left_out:
                self._get_all(f"{path}/{entry.name}", target / entry.name)
            elif not entry.is_folder:
                self._get(f"{self._root}/{path}/{entry.name}", target / entry.name)

    def path_of(self, run_dir: str) -> str | None:
        """As `RunsFolder.path_of`: of a URL below this one, or of a directory in the folder that is copied here."""
        if run_dir.startswith(f"{self._url}/"):
            return run_dir.removeprefix(f"{self._url}/")
        if self._local is not None and Path(run_dir).is_relative_to(self._local):
            return Path(run_dir).relative_to(self._local).as_posix()
        return None

    def database(self, url: str | None) -> str:
        """As `RunsFolder.database`: none by default, because SQLite needs a disk."""
        return url or os.environ.get(VARIABLE) or OFF

    def _list(self, relative: str, missing_ok: bool = False) -> list[Entry]:
        """Return the entries of a directory that may be shown."""
        path = f"{self._root}/{relative}".rstrip("/")
        try:
            rows = self._ask(lambda: self._fs.ls(path, detail=True))
        except FileNotFoundError:
            if missing_ok:
                return []
            raise missing(relative) from None
        entries = (_entry(row) for row in rows if row["name"].rstrip("/") != path)  # of a file, `ls` returns itself
        return [entry for entry in entries if entry is not None]

    def _get(self, remote: str, to: Path) -> None:
        """Copy a file; nothing is left if it is gone."""
        with contextlib.suppress(FileNotFoundError):
            self._ask(lambda: self._fs.get_file(remote, str(to)))

    def _ask(self, call: Callable[[], Value]) -> Value:
        """Return the answer of the file system. Raises `FileNotFoundError`, and `PageError` for all other errors."""
        try:
            return call()
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError from None
        except Exception as e:  # noqa: BLE001 - each file system has its errors
            text = f"{self.name} cannot be read: {_reason(e)}"
            raise PageError(503, "The file system does not answer", f"{text}.", _advice(self._url)) from None


def _opened(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it. Raises whatever error that file system has."""
    import fsspec  # on use: most folders of runs need no other file system
    from fsspec.implementations.webhdfs import WebHDFS

    fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False, skip_instance_cache=True)
    if isinstance(fs, WebHDFS):  # a name node that does not answer must not hold a thread for ever
        fs.session.request = functools.partial(fs.session.request, timeout=TIMEOUT_S)
    return fs, root


def _reason(error: Exception) -> str:
    """Return the first line of an error of a file system, or of the one in the network that caused it."""
    inner: BaseException | None = error if isinstance(error, OSError) else None
    while inner is not None:
        if isinstance(inner, ConnectionError) and inner.strerror:
            return inner.strerror
        inner = inner.__context__
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300].rstrip(".")


def _advice(url: str) -> str:
    """Return what to check if the file system of a URL does not answer."""
    if url.startswith("hdfs:"):
        needs = "hdfs:// needs libhdfs (ARROW_LIBHDFS_DIR) and Hadoop's CLASSPATH"
        return f"{needs}; webhdfs://namenode:9870/... needs neither."
    return "Check that it is up, and its settings in fsspec's configuration."


def _found(path: str, entries: list[Entry], changed_ns: int) -> Found | None:
    kind = kind_of({entry.name for entry in entries if not entry.is_folder})
    return None if kind is None else Found(path, kind, changed_ns)


def _entry(row: dict[str, Any]) -> Entry | None:
    """Return an entry from the listing of a file system; None for links, devices and names that are not shown."""
    name = str(row["name"]).rstrip("/").rpartition("/")[2]
    if not is_shown(name) or row.get("type") not in ("file", "directory"):
        return None
    changed = next((row[key] for key in ("mtime", "modificationTime", "LastModified", "created") if key in row), 0)
    version = f"{row.get('size')} {changed} {row.get('ETag', '')}"
    return Entry(name, row["type"] == "directory", version, _ns(changed))


def _ns(time_: Any) -> int:
    """Return a time of a listing in nanoseconds: a datetime, seconds, or milliseconds of HDFS; 0 if it is none."""
    if isinstance(time_, datetime):
        return int(time_.timestamp() * 1e9)
    if isinstance(time_, int | float):
        return int(time_ * (1e6 if time_ > 1e11 else 1e9))
    return 0


KEPT = 100
"""Directories with copies on this machine."""
KEPT_S = 600.0
"""How long a copy is kept at least, because an answer may still read it."""


class Mirror:
    """Mirror of directories in a temporary folder of this process, with the version of each file."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="aftershock-pages-")
        self._versions: dict[Path, str] = {}
        self._used: dict[Path, float] = {}
        self._lock = threading.Lock()

    def of(self, relative: str) -> Path:
        """Return the directory for a copy."""
        path = Path(self._home.name) / relative
        with self._lock:
            self._used.pop(path, None)
            self._used[path] = time.monotonic()
            self._remove_old()
        return path

    def update(self, path: Path, version: str, get: Callable[[Path], None]) -> None:
        """Copy a file unless this version of it is here. A reader sees a complete file."""
        with self._lock:
            if self._versions.get(path) == version and path.is_file():
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".copy.")
        os.close(handle)
        half = Path(name)
        half.unlink()
        try:
            get(half)
            with self._lock:
                if half.is_file():
                    half.replace(path)
                    self._versions[path] = version
                else:
                    self._forget(path)
        finally:
            half.unlink(missing_ok=True)

    def remove(self, path: Path) -> None:
        """Remove the copy of a file that is gone."""
        with self._lock:
            self._forget(path)

    def _forget(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._versions.pop(path, None)

    def _remove_old(self) -> None:
        oldest = list(self._used.items())[: max(0, len(self._used) - KEPT)]
        for path, used in oldest:
            if time.monotonic() - used > KEPT_S:
                del self._used[path]
                self._versions = {file: v for file, v in self._versions.items() if not file.is_relative_to(path)}
                shutil.rmtree(path, ignore_errors=True)

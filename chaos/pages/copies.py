"""Copies of remote files on this machine, for as long as this process runs."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

KEPT = 100
"""Directories of which this machine keeps copies."""
KEPT_S = 600.0
"""How long a copy is kept at least, because an answer may still read it."""


class Copies:
    """Copies of directories in a temporary folder of this process, with the version of each file."""

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

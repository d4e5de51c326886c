"""The user's cache: directories that are either complete or not there, however many runs fill it at once.

A directory is filled beside its final place and renamed into it, under a lock. A list of its files with their sizes
goes with it, so one that lost files, or whose contents never reached the disk before a power cut, is filled anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

from chaos.errors import MachineError

_LIST = "files.json"
_PARTIAL = ".partial-"

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """The progress callback of a caller who does not want to know."""


def cache_dir() -> Path:
    """Where downloads and what is made of them stay between runs: AFTERSHOCK_CACHE, else the user's cache directory."""
    given = os.environ.get("AFTERSHOCK_CACHE")
    return Path(given).absolute() if given else Path(platformdirs.user_cache_dir("aftershock"))


def cached(name: str, fill: Callable[[Path], None], waiting: str, on_progress: Progress = silent) -> Path:
    """The complete directory `name` of the cache, made with `fill(empty directory)` if it is not there.

    `waiting` is reported when another process is at it. What `fill` raises is passed on and leaves nothing behind.
    Raises `MachineError` if the cache cannot be written.
    """
    final = cache_dir() / name
    if _complete(final):
        return final
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with _locked(final.parent / ".lock", lambda: on_progress(waiting)):
            if not _complete(final):
                _fill(final, fill)
    except OSError as e:
        raise MachineError(
            f"cannot fill {final}: {e.strerror or e}; make room there, or set AFTERSHOCK_CACHE to another directory"
        ) from None
    return final


def _fill(final: Path, fill: Callable[[Path], None]) -> None:
    for left_over in final.parent.glob(f"{_PARTIAL}*"):  # of one who was killed: whoever fills holds the lock
        shutil.rmtree(left_over, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=final.parent))
    try:
        fill(partial)
        sizes = {path.name: path.stat().st_size for path in sorted(partial.iterdir())}
        (partial / _LIST).write_text(json.dumps(sizes, indent=1), encoding="utf-8")
        partial.chmod(0o755)
        shutil.rmtree(final, ignore_errors=True)  # incomplete, or this would not be called
        partial.rename(final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _complete(directory: Path) -> bool:
    try:
        sizes = json.loads((directory / _LIST).read_text(encoding="utf-8"))
        return bool(sizes) and all((directory / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


@contextlib.contextmanager
def _locked(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold an exclusive lock, which the kernel gives back even if this process is killed."""
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""The user's cache: directories that are either complete or absent, however many runs fill them at once.

A directory is filled next to its final path and renamed, under a lock. It contains a list of its files with their
sizes: a directory that lost files, or that a power failure truncated, is filled again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import platformdirs

from chaos.errors import MachineError, ResolveError

_LIST = "files.json"
_PARTIAL = ".partial-"

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """Ignore a progress message."""


def cached(name: str, fill: Callable[[Path], None], waiting: str, on_progress: Progress = silent) -> Path:
    """Return the complete cache directory `name`; if it is absent, call `fill(empty directory)` to make it.

    `waiting` is reported while another process fills the directory. Errors of `fill` are passed on and leave nothing
    behind. Raises `MachineError` if the cache cannot be written.
    """
    final = preferred = _preferred_dir() / name
    if _complete(preferred):  # a read-only cache is good enough for what it has
        return preferred
    try:
        final = cache_dir() / name
        if _complete(final):
            return final
        if final != preferred:
            _report_once(f"{_preferred_dir()} cannot be written, so downloads go to {cache_dir()}", on_progress)
        final.parent.mkdir(parents=True, exist_ok=True)
        with _locked(final.parent / ".lock", lambda: on_progress(waiting)):
            if not _complete(final):
                _fill(final, fill)
    except OSError as e:
        raise MachineError(
            f"cannot fill {final}: {e.strerror or e}; make room there, or set AFTERSHOCK_CACHE to another directory"
        ) from None
    return final


def cache_dir() -> Path:
    """Return the cache directory: AFTERSHOCK_CACHE, else the user's if it can be written, else a temporary one."""
    preferred = _preferred_dir()
    return preferred if os.environ.get("AFTERSHOCK_CACHE") or _writable(preferred) else _temporary_dir()


def _preferred_dir() -> Path:
    configured = os.environ.get("AFTERSHOCK_CACHE")
    return Path(configured).absolute() if configured else Path(platformdirs.user_cache_dir("aftershock"))


def _writable(directory: Path) -> bool:
    """Create a directory if necessary, and return whether it can be written."""
    if not directory.is_absolute():  # the user has no home directory at all
        return False
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK | os.X_OK)


def _temporary_dir() -> Path:
    """Create and return a private directory below the temporary directory. Raises `MachineError` if it is not ours."""
    path = Path(tempfile.gettempdir()) / f"aftershock-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.getuid():
        raise MachineError(f"{path} belongs to another user; set AFTERSHOCK_CACHE to a directory that you can write")
    return path


_reported: set[str] = set()


def _report_once(problem: str, on_progress: Progress) -> None:
    if problem not in _reported:
        _reported.add(problem)
        on_progress(f"{problem}; set AFTERSHOCK_CACHE to keep them in another directory")


def _fill(final: Path, fill: Callable[[Path], None]) -> None:
    for stale in final.parent.glob(f"{_PARTIAL}*"):  # of a killed process: the lock is held here
        shutil.rmtree(stale, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=final.parent))
    try:
        fill(partial)
        sizes = {path.name: path.stat().st_size for path in sorted(partial.iterdir())}
        (partial / _LIST).write_text(json.dumps(sizes, indent=1), encoding="utf-8")
        partial.chmod(0o755)
        shutil.rmtree(final, ignore_errors=True)  # incomplete
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
    """Hold an exclusive lock, which the kernel releases even if this process is killed."""
    with path.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_tool(
    argv: Sequence[str], variables: Mapping[str, str], timeout_s: float, late: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without input, and return its exit code and output.

    variables: environment variables in addition to this process's. Raises `ResolveError` with the text `late`
    if the command does not end in time; it is killed then.
    """
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ResolveError(late) from None

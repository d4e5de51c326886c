"""The Java that runs the brokers, and archives of loaded classes, with which JVMs start faster and share memory.

An archive (class data sharing) fits one Java, one list of flags and one class path. It is made once and cached. It is
optional: if it cannot be made, JVMs start without it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from chaos.errors import AftershockError, MachineError
from chaos.install.cache import Progress, cache_dir, cached

NEEDED = 17
JAVA_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""Environment variables for a JVM. Java decodes paths with the locale, and the C locale is limited to ASCII."""

_HINT = f"install a Java {NEEDED} runtime or newer, or point JAVA_HOME at one"


@dataclass(frozen=True)
class Java:
    """A Java launcher. `build` distinguishes two builds of one version."""

    path: Path
    major: int
    build: str


def find_java() -> Java:
    """Return the Java of JAVA_HOME, else the first on PATH. Raises `MachineError` if it is missing or too old."""
    path = _launcher()
    try:
        output = subprocess.run(
            [path, "-version"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stderr
    except (OSError, subprocess.SubprocessError) as e:
        raise MachineError(f"{path} does not run ({e}); {_HINT}") from None
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None:
        raise MachineError(f"{path} -version printed {output.strip()[:200]!r}, which names no version; {_HINT}")
    major = int(version.group(1))
    if major < NEEDED:
        raise MachineError(f"{path} is Java {major}, and Kafka needs {NEEDED} or newer; {_HINT}")
    build = re.search(r"\(build ([^\s,)]+)", output)
    return Java(path, major, build.group(1) if build else str(major))


def _launcher() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise MachineError(f"JAVA_HOME is {home}, but there is no {path}; unset it, or {_HINT}")
        return path
    if on_path := shutil.which("java"):
        return Path(on_path)
    raise MachineError(f"there is no java on PATH; {_HINT}")


_ARCHIVE, _REASON, _TRIES = "classes.jsa", "none.txt", "tries.txt"
_MOST_TRIES = 3
_TIMEOUT_S = 60
_UNUSED_S = 7 * 24 * 3600


def class_archive(
    name: str,
    java: Java,
    flags: Sequence[str],
    class_path: Sequence[Path],
    make: Callable[[tuple[str, ...]], None],
    waiting: str,
    on_progress: Progress,
) -> Path | None:
    """Return the archive of JVMs with these flags and jars; None if it cannot be made.

    name: name of the software and its release. make: runs a JVM with more flags, which loads the classes and ends.
    """

    def fill(directory: Path) -> None:
        archive = directory / _ARCHIVE
        _remove_unused(directory.parent, name)
        try:
            make((f"-XX:ArchiveClassesAtExit={archive}",))
            _verify(java, flags, os.pathsep.join(map(str, class_path)), archive)
        except (AftershockError, OSError, subprocess.SubprocessError) as e:
            archive.unlink(missing_ok=True)
            (directory / _REASON).write_text(f"{e}\n", encoding="utf-8")  # prevents an attempt at every start

    archive = cached(f"classes/{name}-{_key(java, flags, class_path)}", fill, waiting, on_progress) / _ARCHIVE
    return archive if archive.exists() else None


def archive_flags(archive: Path | None) -> tuple[str, ...]:
    """Return the flags of a JVM that uses an archive. It checks the archive, because a damaged one would crash it."""
    return (f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces") if archive else ()


@dataclass
class ExitArchive:
    """The archive of a JVM that this process starts by a library, so that only its own exit can make the archive.

    The first start only notes that there was one: a JVM that makes an archive takes some 13 s of CPU more, which a
    single run never gets back. The next start makes it, or one of the two after that. flags: for the JVM, to use or to
    make the archive.
    """

    flags: tuple[str, ...]
    _made: Path | None = None
    _check: Callable[[str, Path], None] | None = None
    _lock: IO[str] | None = None

    @property
    def makes(self) -> bool:
        """Whether the exit of the JVM makes the archive; `keep` is then due when it has ended."""
        return self._made is not None

    def keep(self, class_path: str) -> None:
        """Keep the archive that a JVM has made, if another JVM accepts it.

        class_path: as that JVM had it.
        """
        if self._made is None or self._check is None:
            return
        try:
            self._check(class_path, self._made)
            self._made.rename(self._made.with_name(_ARCHIVE))
        except (OSError, subprocess.SubprocessError):
            self._made.unlink(missing_ok=True)
        finally:
            if self._lock:
                self._lock.close()


def exit_archive(name: str, java: Java, flags: Sequence[str], jars: Sequence[Path]) -> ExitArchive:
    """Return the archive of a JVM with these flags and jars. None is used or made if the cache cannot be written."""
    folder = cache_dir() / "classes" / f"{name}-{_key(java, flags, jars)}"
    archive, tries = folder / _ARCHIVE, folder / _TRIES
    if archive.exists():
        return ExitArchive(archive_flags(archive))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not tries.exists():
            _remove_unused(folder.parent, name)
            tries.touch()
            return ExitArchive(())
        if len(tries.read_text(encoding="utf-8").splitlines()) >= _MOST_TRIES:
            return ExitArchive(())
        lock = tries.open("a", encoding="utf-8")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of several at once, one makes it
        lock.write(f"process {os.getpid()} made none\n")  # as long as there is none: it may be killed
        lock.flush()
    except OSError:
        return ExitArchive(())
    made = folder / f"made{_ARCHIVE}"
    made.unlink(missing_ok=True)
    # its messages about single classes would be on standard output
    making = (f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable", "-Xlog:all=error:stderr")
    return ExitArchive(making, made, partial(_verify, java, flags), lock)


def _key(java: Java, flags: Sequence[str], class_path: Sequence[Path]) -> str:
    """Return a short hash of everything that must be equal for a JVM to accept an archive."""
    stats = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in class_path]
    facts = (str(java.path.resolve()), java.build, tuple(flags), stats)
    return hashlib.sha256(repr(facts).encode(errors="surrogateescape")).hexdigest()[:12]


def _remove_unused(archives: Path, name: str) -> None:
    """Remove archives of this name that no JVM has opened for a long time: of another Java, or of earlier jars."""
    for old in archives.glob(f"{name}-*/{_ARCHIVE}"):
        if old.stat().st_atime < time.time() - _UNUSED_S:
            shutil.rmtree(old.parent, ignore_errors=True)


def _verify(java: Java, flags: Sequence[str], class_path: str, archive: Path) -> None:
    """Run a JVM that must use the archive. Raises `subprocess.SubprocessError` if it fails."""
    env = {**os.environ, **JAVA_ENVIRONMENT, "CLASSPATH": class_path}
    argv = [str(java.path), *flags, *archive_flags(archive), "-Xshare:on", "-version"]
    subprocess.run(argv, env=env, check=True, capture_output=True, timeout=_TIMEOUT_S)

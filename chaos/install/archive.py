"""Archives of loaded classes (class data sharing), with which JVMs start faster and share memory.

An archive fits one Java, one list of flags and one class path. It is made once and cached. It is optional: if it cannot
be made, JVMs start without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos.errors import AftershockError
from chaos.install.cache import Progress, cached
from chaos.install.java import JAVA_ENVIRONMENT, Java

_ARCHIVE, _REASON = "classes.jsa", "none.txt"
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
            _verify(java, flags, class_path, archive)
        except (AftershockError, OSError, subprocess.SubprocessError) as e:
            archive.unlink(missing_ok=True)
            (directory / _REASON).write_text(f"{e}\n", encoding="utf-8")  # prevents an attempt at every start

    archive = cached(f"classes/{name}-{_key(java, flags, class_path)}", fill, waiting, on_progress) / _ARCHIVE
    return archive if archive.exists() else None


def archive_flags(archive: Path | None) -> tuple[str, ...]:
    """Return the flags of a JVM that uses an archive. It checks the archive, because a damaged one would crash it."""
    return (f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces") if archive else ()


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


def _verify(java: Java, flags: Sequence[str], class_path: Sequence[Path], archive: Path) -> None:
    """Run a JVM that must use the archive. Raises `subprocess.SubprocessError` if it fails."""
    env = {**os.environ, **JAVA_ENVIRONMENT, "CLASSPATH": os.pathsep.join(map(str, class_path))}
    argv = [str(java.path), *flags, *archive_flags(archive), "-Xshare:on", "-version"]
    subprocess.run(argv, env=env, check=True, capture_output=True, timeout=_TIMEOUT_S)

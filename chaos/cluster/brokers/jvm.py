"""The JVMs that run Kafka code, which are brokers and the tools that prepare them, and the errors in their logs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.install.archive import archive_flags
from chaos.install.java import JAVA_ENVIRONMENT, Java
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.run.directory import Run

# The serial collector and the first-tier compiler need the least memory and start fastest. UsePerfData is off because a
# killed JVM leaves its file in /tmp. A class archive fits only JVMs with the same collector, so all share one list.
FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")

LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "-Dorg.slf4j.simpleLogger.levelInBrackets=true",
)


MAX_LINES, MAX_CHARS = 10, 300
_TAIL_BYTES = 256 * 1024

_JVM_ERROR = re.compile(r"^Error: |^Error occurred during init")
_ERROR = re.compile(rf"\[(ERROR|FATAL)\]|^Exception in thread|^Caused by: |{_JVM_ERROR.pattern}")
_TRACE = re.compile(r"^\s+(at |\.\.\. \d+ more)|^\s*$")


@dataclass(frozen=True)
class Release:
    """A Kafka release: its jars, and a Java to run them.

    `storage` is formatted storage; None with ZooKeeper, where brokers create their own. `archive` is a class archive,
    with which JVMs start faster.
    """

    version: str
    java: Java
    classpath: str
    storage: Path | None = None
    archive: Path | None = None

    @property
    def jars(self) -> Path:
        """The directory of its jars."""
        return Path(self.classpath.split(os.pathsep)[0]).parent


@dataclass(frozen=True)
class Job:
    """A main class of Kafka with its arguments, to run in the directory `home`. `role` is also the name of its log.

    env: environment variables in addition to those of every JVM.
    """

    role: str
    home: Path
    main: tuple[str, ...]
    heap_bytes: int = 256 * 2**20
    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def make_tmp(home: Path) -> None:
    """Create the directory for native libraries that compression codecs unpack, which a killed JVM does not remove."""
    (home / "tmp").mkdir(exist_ok=True)


def log_of(run: Run, role: str) -> Path:
    """Return the log file of a role."""
    return run.logs / f"{role}.log"


def arguments(job: Job, home: str, logs: str) -> list[str]:
    """Return the arguments after `java`. `home` and `logs` are paths as the JVM sees them."""
    return [
        *(f"-Xmx{job.heap_bytes}", *FLAGS, "-Xshare:auto", *LOGGING),
        *(f"-Djava.io.tmpdir={home}/tmp", f"-XX:ErrorFile={logs}/{job.role}-crash.log", *job.flags, *job.main),
    ]


def start(release: Release, job: Job, run: Run, owner: ProcessId | None) -> Spawned:
    """Start a JVM in `job.home`, which must exist. Raises `OSError`."""
    make_tmp(job.home)
    argv = [str(release.java.path), *archive_flags(release.archive), *arguments(job, str(job.home), str(run.logs))]
    # the class path is in the environment to keep the output of `ps` readable
    env = {**JAVA_ENVIRONMENT, **job.env, "CLASSPATH": release.classpath}
    return spawn(argv, run=run, role=job.role, owner=owner, log=log_of(run, job.role), env=env, cwd=job.home)


def read_from(log: Path, offset: int) -> str:
    """Return the text of a log from a byte offset on, at most its last 256 KiB; empty if there is no log."""
    try:
        with log.open("rb") as f:
            f.seek(max(offset, log.stat().st_size - _TAIL_BYTES))
            return f.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def errors_in(log: Path, offset: int = 0) -> str:
    """Return the error lines of a log from a byte offset on, indented, after the path of the log."""
    lines = "\n".join(f"  {line}" for line in error_lines(read_from(log, offset)))
    return f"{log} says:\n{lines}" if lines else f"{log} says nothing"


def error_lines(text: str) -> list[str]:
    """Return the last error lines with the exceptions they name; without errors, the last lines of the text."""
    lines = [line for line in text.splitlines() if not _TRACE.match(line)]
    errors = [
        line for i, line in enumerate(lines) if _ERROR.search(line) or (i > 0 and _is_exception_of(lines[i - 1], line))
    ]
    return [line[:MAX_CHARS] for line in (errors or lines)[-MAX_LINES:]]


def _is_exception_of(previous: str, line: str) -> bool:
    """Return whether a line is the reason for the error on the line before it."""
    if _JVM_ERROR.search(previous):
        return True
    return _ERROR.search(previous) is not None and re.match(r"[\w.$]+(Exception|Error)\b", line) is not None

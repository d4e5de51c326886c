"""The command line of a JVM that runs Kafka code: brokers, and the tools that prepare them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass(frozen=True)
class Kafka:
    """The jars of a release and a Java to run them, with an optional class archive for a faster start."""

    version: str
    java: Java
    classpath: str
    archive: Path | None = None


@dataclass(frozen=True)
class Job:
    """A main class of Kafka with its arguments, to run in the directory `home`. `role` is also the name of its log."""

    role: str
    home: Path
    main: tuple[str, ...]
    heap_bytes: int = 256 * 2**20
    flags: tuple[str, ...] = field(default=())


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


def start(kafka: Kafka, job: Job, run: Run, owner: ProcessId | None) -> Spawned:
    """Start a JVM in `job.home`, which must exist. Raises `OSError`."""
    make_tmp(job.home)
    # verify the archive: a truncated one would crash the JVM instead of being ignored
    archive = (f"-XX:SharedArchiveFile={kafka.archive}", "-XX:+VerifySharedSpaces") if kafka.archive else ()
    argv = [str(kafka.java.path), *archive, *arguments(job, str(job.home), str(run.logs))]
    # the class path is in the environment to keep the output of `ps` readable
    env = {**JAVA_ENVIRONMENT, "CLASSPATH": kafka.classpath}
    return spawn(argv, run=run, role=job.role, owner=owner, log=log_of(run, job.role), env=env, cwd=job.home)

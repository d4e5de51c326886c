"""How a JVM with Kafka in it is started: the same way for a broker and for the steps that prepare one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from chaos.install.java import Java
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.run.directory import Run

# Serial collector and first-tier compiler: the least memory and the quickest start. No hsperfdata file, which a killed
# JVM leaves in /tmp. A class archive fits only JVMs with the same collector, so there is one list for all.
FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")

LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "-Dorg.slf4j.simpleLogger.levelInBrackets=true",
)


@dataclass(frozen=True)
class Kafka:
    """The jars of a release, and a Java to run them; with a class archive, if there is one, for a quick start."""

    version: str
    java: Java
    classpath: str
    archive: Path | None = None


@dataclass(frozen=True)
class Job:
    """One of Kafka's main classes, to be run in a directory of its own. `role` also names its log."""

    role: str
    home: Path
    main: tuple[str, ...]
    heap_bytes: int = 256 * 2**20
    flags: tuple[str, ...] = field(default=())


def make_tmp(home: Path) -> None:
    """A place for the native libraries that codecs unpack, and that a killed JVM leaves lying about."""
    (home / "tmp").mkdir(exist_ok=True)


def log_of(run: Run, role: str) -> Path:
    """Where a JVM of this role writes."""
    return run.logs / f"{role}.log"


def arguments(job: Job, home: str, logs: str) -> list[str]:
    """What follows `java`, but for a class archive: `home` and `logs` are paths as the JVM sees them."""
    return [
        *(f"-Xmx{job.heap_bytes}", *FLAGS, "-Xshare:auto", *LOGGING),
        *(f"-Djava.io.tmpdir={home}/tmp", f"-XX:ErrorFile={logs}/{job.role}-crash.log", *job.flags, *job.main),
    ]


def start(kafka: Kafka, job: Job, run: Run, owner: ProcessId | None) -> Spawned:
    """Start a JVM in `job.home`, which exists. Raises `OSError`."""
    make_tmp(job.home)
    # the JVM checks the archive, because one that was cut short would crash it rather than be passed over
    archive = (f"-XX:SharedArchiveFile={kafka.archive}", "-XX:+VerifySharedSpaces") if kafka.archive else ()
    argv = [str(kafka.java.path), *archive, *arguments(job, str(job.home), str(run.logs))]
    # the class path goes into the environment so that the output of `ps` stays readable
    env = {"CLASSPATH": kafka.classpath}
    return spawn(argv, run=run, role=job.role, owner=owner, log=log_of(run, job.role), env=env, cwd=job.home)

"""A Kafka release, prepared to start brokers, and the JVMs that run its code.

A release has its jars and, for KRaft, formatted storage and a class archive.

Each part is made once and cached. A broker spends most of its start on loading about 6,000 classes. The archive holds
them in loaded form (class data sharing), which saves a quarter of the time and the memory of every later start. The
archive is optional: if it cannot be made, brokers start without it.

KRaft requires formatted storage before the first start of a broker. Formatting takes a JVM, and the results for two
brokers differ only in three identifiers. So each release is formatted once, with placeholders, and copied.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.cluster.settings import ClusterSpec, broker_settings, on_this_host, properties
from chaos.errors import ClusterError, MachineError
from chaos.install.cache import Progress, cached
from chaos.install.jars import kafka_jars
from chaos.install.java import JAVA_ENVIRONMENT, Java, archive_flags, class_archive, find_java
from chaos.processes.ports import free_ports
from chaos.processes.process import ProcessId, Spawned, spawn, terminate, wait_gone
from chaos.run.directory import Run
from chaos.wait import wait_until

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

    env: environment variables in addition to the common ones of JVMs.
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


def start_jvm(release: Release, job: Job, run: Run, owner: ProcessId | None) -> Spawned:
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


_TIMEOUT_S, _FORMAT_TIMEOUT_S = 60, 120


def prepare_jars(version: str, on_progress: Progress) -> Release:
    """Return a release with its jars only. Raises `ResolveError` or `MachineError`."""
    java, directory = find_java(), kafka_jars(version, on_progress)
    if os.pathsep in str(directory):
        raise MachineError(
            f"the cache {directory} has a {os.pathsep!r} in its path, which a Java class path cannot contain; "
            "set AFTERSHOCK_CACHE to another directory"
        )
    jars = sorted(directory.glob("*.jar"))
    return Release(version, java, os.pathsep.join(map(str, jars)))


def prepare_files(
    version: str,
    run: Run,
    owner: ProcessId | None,
    on_progress: Progress,
    features: Mapping[str, int] | None = None,
) -> Release:
    """Return a release with its jars and storage, without the class archive. Raises the errors of `prepare`.

    features: levels that differ from the levels of the release.
    """
    release = prepare_jars(version, on_progress)
    levels = features or {}
    name = "-".join([f"storage/kafka-{version}", *_texts(levels)])
    spec = ClusterSpec(brokers=1, kafka=version)
    settings = broker_settings(spec, 1, on_this_host([9092], [9093]))  # nothing listens

    def make(directory: Path) -> None:
        format_storage(release, settings, directory, run, owner, levels, new_id())

    storage = cached(name, make, _waiting(version), on_progress)
    return dataclasses.replace(release, storage=storage)


def prepare(
    version: str,
    run: Run,
    owner: ProcessId | None,
    on_progress: Progress,
    with_zookeeper: bool = False,
    features: Mapping[str, int] | None = None,
) -> Release:
    """Return a release for JVMs on this machine. Raises `ResolveError`, `MachineError` or `ClusterError`."""
    if with_zookeeper:
        return prepare_jars(version, on_progress)
    release = prepare_files(version, run, owner, on_progress, features)

    def make(flags: tuple[str, ...]) -> None:
        on_progress(f"preparing Kafka {version} for quick starts, once")
        _archive_classes(release, flags, run, owner)

    jars = sorted(release.jars.glob("*.jar"))
    archive = class_archive(f"kafka-{version}", release.java, FLAGS, jars, make, _waiting(version), on_progress)
    return dataclasses.replace(release, archive=archive)


def _waiting(version: str) -> str:
    return f"another run prepares Kafka {version}; waiting for it"


def _archive_classes(release: Release, flags: tuple[str, ...], run: Run, owner: ProcessId | None) -> None:
    """Start a one-broker cluster with flags that make it write its loaded classes on exit."""
    role = "class-archive"
    home, log = run.brokers / role, log_of(run, role)
    ports = free_ports(2)
    assert release.storage is not None  # the archive is made with KRaft
    copy_storage(release.storage, home / "data", 1, new_id())
    spec = ClusterSpec(brokers=1, kafka=release.version)
    settings = broker_settings(spec, 1, on_this_host(ports[:1], ports[1:]))
    (home / "server.properties").write_text(properties(settings), encoding="ascii")
    job = Job(role, home, ("kafka.Kafka", "server.properties"), flags=flags)
    broker = start_jvm(release, job, run, owner)

    def started() -> bool:
        if not broker.identity.alive():
            raise ClusterError(f"the broker that archives its classes ended; see {log}")
        return "Kafka Server started" in read_from(log, 0)

    wait_until(started, _TIMEOUT_S, f"the broker that archives its classes did not start; see {log}")
    terminate(broker.identity, _TIMEOUT_S)
    broker.popen.wait()
    shutil.rmtree(home)


def new_id() -> str:
    """Return a random ID in the format of Kafka. It never begins with a dash, which tools would read as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _texts(levels: Mapping[str, int]) -> list[str]:
    return [f"{name}={level}" for name, level in sorted(levels.items())]


def format_storage(
    release: Release,
    settings: Mapping[str, str],
    directory: Path,
    run: Run,
    owner: ProcessId | None,
    levels: Mapping[str, int],
    cluster_id: str,
    more: Sequence[str] = (),
) -> None:
    """Fill `directory` with storage formatted for a node with these settings; log.dirs is `data`.

    levels: of features, where they differ from the release. more: options of kafka-storage.sh. Raises
    `ClusterError` with the output of Kafka.
    """
    home = run.brokers / "format"
    home.mkdir(parents=True)
    (home / "server.properties").write_text(properties(settings), encoding="ascii")
    options = [option for level in _texts(levels) for option in ("--feature", level)]
    main = ("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", "server.properties", *options, *more)
    tool = start_jvm(release, Job("format", home, main), run, owner)
    wait_gone([tool.identity], _FORMAT_TIMEOUT_S)
    if tool.popen.wait() != 0 or not (home / "data" / "meta.properties").exists():
        raise ClusterError(f"Kafka {release.version} could not format its storage; {errors_in(log_of(run, 'format'))}")
    shutil.copytree(home / "data", directory, dirs_exist_ok=True)
    shutil.rmtree(home)


def copy_storage(
    formatted: Path,
    data: Path,
    broker: int,
    cluster_id: str,
    directory_id: str | None = None,
    folders: Sequence[str] = (),
) -> None:
    """Copy formatted storage to `data`, which must not exist, and set the identifiers of a node.

    directory_id: of the new storage; a random one if left out. folders: the data folders below, of a broker with
    several; each has another directory id.
    """
    shutil.copytree(formatted, data)
    meta = data / "meta.properties"
    text = meta.read_text(encoding="utf-8")
    values = {"node.id": str(broker), "cluster.id": cluster_id, "directory.id": directory_id or new_id()}
    for key, value in values.items():
        text = re.sub(rf"^{re.escape(key)}=.*$", f"{key}={value}", text, flags=re.MULTILINE)  # older ones lack a key
    meta.write_text(text, encoding="utf-8")
    for name in folders:
        (data / name).mkdir()
        own = re.sub(r"^directory\.id=.*$", f"directory.id={new_id()}", text, flags=re.MULTILINE)
        (data / name / "meta.properties").write_text(own, encoding="utf-8")

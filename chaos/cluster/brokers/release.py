"""A Kafka release made ready: its jars and, for KRaft, formatted storage to copy and an archive of its loaded classes.

Each is made once and cached. Most of a broker's start is spent on loading some 6,000 classes. The JVM can write them
down in their loaded form (class data sharing), and that takes a quarter off the time and the memory of every broker
started later. The archive is an extra: where it cannot be made, brokers start without.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chaos.cluster.brokers.jvm import FLAGS, Job, Kafka, log_of, start
from chaos.cluster.brokers.log import read_from
from chaos.cluster.brokers.storage import copy_storage, format_storage, new_id
from chaos.cluster.settings import ClusterSpec, broker_settings, on_this_host, properties
from chaos.errors import AftershockError, ClusterError
from chaos.install.cache import Progress, cached
from chaos.install.jars import kafka_jars
from chaos.install.java import Java, find_java
from chaos.processes.ports import free_ports
from chaos.processes.process import ProcessId, terminate
from chaos.run.directory import Run
from chaos.wait import wait_until

_ARCHIVE, _REASON = "classes.jsa", "none.txt"
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Release:
    """A Kafka release, ready to start brokers of. `storage` is None where they make their own (ZooKeeper)."""

    kafka: Kafka
    storage: Path | None

    @property
    def jars(self) -> Path:
        """The directory of its jars."""
        return Path(self.kafka.classpath.split(os.pathsep)[0]).parent


def prepare_jars(version: str, on_progress: Progress) -> Release:
    """The jars of a release alone. Raises `ResolveError` or `MachineError`."""
    java = find_java()
    jars = sorted(kafka_jars(version, on_progress).glob("*.jar"))
    return Release(Kafka(version, java, os.pathsep.join(map(str, jars))), None)


def prepare_files(version: str, run: Run, owner: ProcessId | None, on_progress: Progress) -> Release:
    """The jars and the storage of a release, without the archive. Raises as `prepare` does."""
    kafka = prepare_jars(version, on_progress).kafka
    storage = cached(
        f"storage/kafka-{version}", lambda d: format_storage(kafka, d, run, owner), _waiting(version), on_progress
    )
    return Release(kafka, storage)


def prepare(
    version: str, run: Run, owner: ProcessId | None, on_progress: Progress, with_zookeeper: bool = False
) -> Release:
    """Make a release ready for JVMs of this machine. Raises `ResolveError`, `MachineError` or `ClusterError`."""
    if with_zookeeper:
        return prepare_jars(version, on_progress)
    release = prepare_files(version, run, owner, on_progress)
    jars = sorted(release.jars.glob("*.jar"))

    def write_down(directory: Path) -> None:
        on_progress(f"preparing Kafka {version} for quick starts, once")
        try:
            _write_down_classes(release, directory, run, owner)
        except (AftershockError, OSError, subprocess.SubprocessError) as e:
            (directory / _ARCHIVE).unlink(missing_ok=True)
            (directory / _REASON).write_text(f"{e}\n", encoding="utf-8")  # so that it is not tried every time

    made = cached(
        f"classes/kafka-{version}-{_key(release.kafka.java, jars)}", write_down, _waiting(version), on_progress
    )
    archive = made / _ARCHIVE
    kafka = dataclasses.replace(release.kafka, archive=archive if archive.exists() else None)
    return Release(kafka, release.storage)


def _waiting(version: str) -> str:
    return f"another run prepares Kafka {version}; waiting for it"


def _key(java: Java, jars: Iterable[Path]) -> str:
    """Everything that must be the same for a JVM to accept an archive, in short."""
    stats = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars]
    facts = (str(java.path.resolve()), java.build, FLAGS, stats)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def _write_down_classes(release: Release, directory: Path, run: Run, owner: ProcessId | None) -> None:
    """Run a cluster of one that writes down its classes as it ends, and see that a JVM accepts the result."""
    role, archive = "class-archive", directory / _ARCHIVE
    home, log = run.brokers / role, log_of(run, role)
    ports = free_ports(2)
    assert release.storage is not None  # the archive is made with KRaft
    copy_storage(release.storage, home / "data", 1, new_id())
    spec = ClusterSpec(brokers=1, kafka=release.kafka.version)
    settings = broker_settings(spec, 1, on_this_host(ports[:1], ports[1:]))
    (home / "server.properties").write_text(properties(settings), encoding="ascii")
    job = Job(role, home, ("kafka.Kafka", "server.properties"), flags=(f"-XX:ArchiveClassesAtExit={archive}",))
    broker = start(release.kafka, job, run, owner)

    def started() -> bool:
        if not broker.identity.alive():
            raise ClusterError(f"the broker to learn from ended; see {log}")
        return "Kafka Server started" in read_from(log, 0)

    wait_until(started, _TIMEOUT_S, f"the broker to learn from did not start; see {log}")
    terminate(broker.identity, _TIMEOUT_S)
    broker.popen.wait()
    shutil.rmtree(home)
    _check(release.kafka, archive)


def _check(kafka: Kafka, archive: Path) -> None:
    """Raise if a JVM that must use the archive does not run."""
    flags = (*FLAGS, "-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces")
    env = {**os.environ, "CLASSPATH": kafka.classpath}
    subprocess.run([kafka.java.path, *flags, "-version"], env=env, check=True, capture_output=True, timeout=_TIMEOUT_S)

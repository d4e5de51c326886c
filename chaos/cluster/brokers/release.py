"""A Kafka release, prepared to start brokers: its jars and, for KRaft, formatted storage and a class archive.

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
from pathlib import Path

from chaos.cluster.brokers.jvm import FLAGS, Job, Release, errors_in, log_of, read_from, start
from chaos.cluster.endpoints import on_this_host
from chaos.cluster.settings import ClusterSpec, broker_settings, properties
from chaos.errors import ClusterError, MachineError
from chaos.install.archive import class_archive
from chaos.install.cache import Progress, cached
from chaos.install.jars import kafka_jars
from chaos.install.java import find_java
from chaos.processes.ports import free_ports
from chaos.processes.process import ProcessId, terminate, wait_gone
from chaos.run.directory import Run
from chaos.wait import wait_until

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

    features: levels that differ from those of the release.
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
    broker = start(release, job, run, owner)

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
    """Fill `directory` with storage formatted for a node with these settings, of which log.dirs is `data`.

    levels: of features, where they differ from those of the release. more: options of kafka-storage.sh. Raises
    `ClusterError` with the output of Kafka.
    """
    home = run.brokers / "format"
    home.mkdir(parents=True)
    (home / "server.properties").write_text(properties(settings), encoding="ascii")
    options = [option for level in _texts(levels) for option in ("--feature", level)]
    main = ("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", "server.properties", *options, *more)
    tool = start(release, Job("format", home, main), run, owner)
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

"""The installation of Flink, which the runtimes `flink` and `flink-legacy` share: they differ in the source.

The same program runs a job in a mini cluster, submits one to a session cluster, and is a process of a session cluster.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from chaos.clients.choice import Client
from chaos.clients.jvm import SOURCES, JavaPrograms
from chaos.clients.protocol import Program
from chaos.clients.runtime import Installed
from chaos.install.cache import Progress
from chaos.install.jars import flink_jars
from chaos.install.java import JAVA_ENVIRONMENT

HEAP = 256 * 2**20
MAIN = "aftershock.FlinkMain"
JOB_SOURCES = Path(__file__).parent / "flink" / "src" / "aftershock"
"""The programs, except for the source of the job."""
_OPENED = tuple(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("util", "lang"))
"""Packages of Java with classes that Flink serializes."""


def install(client: Client, connector: str, source: Path, roles: Iterable[Program], on_progress: Progress) -> Installed:
    """Fetch a release and compile the programs with a source; see `Runtime.prepare`.

    connector: release of the Kafka connector. roles: the programs that the source has.
    """
    release = str(client.release)  # `Client` fills it in
    jars = flink_jars(release, connector, on_progress)
    programs = JavaPrograms(client.runtime, release, jars, MAIN, (SOURCES, JOB_SOURCES, source))
    command = programs.command(programs.compiled(on_progress), client.heap or HEAP, *_OPENED)
    return Installed(client.traits.library, dict.fromkeys(roles, command), JAVA_ENVIRONMENT, session=command)


def remove_temporary(folder: Path) -> None:
    """Remove the temporary files of all Flink processes with a spec in this folder; they have ended."""
    for path in folder.glob("*.tmp"):
        shutil.rmtree(path, ignore_errors=True)

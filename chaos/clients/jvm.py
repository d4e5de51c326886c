"""Programs in Java: compiled against the jars of a library at first use, and the commands that start them.

The classes are in the user's cache. The name of their folder has a digest of the sources, so changed programs are
compiled again. A program that loads many classes has a second one, which loads the same classes without a broker, for
an archive of them. `install_flink` has what the runtimes `flink` and `flink-legacy` share: one program runs a job in a
mini cluster, submits one to a session cluster, and is a process of a session cluster.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from chaos.clients.choice import Client
from chaos.clients.protocol import Program
from chaos.clients.runtime import Installed
from chaos.errors import ResolveError
from chaos.install.cache import Progress, cached, run_tool
from chaos.install.jars import compile_java, compiler, digest, first_error, flink_jars, pack
from chaos.install.java import JAVA_ENVIRONMENT, Java, archive_flags, class_archive, find_java

SOURCES = Path(__file__).parent / "java" / "src" / "aftershock"
"""The programs of the Java client, and what all programs in Java share."""
CHECK_S = 60
TRAIN_S = 180
_FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
_END = "-XX:+ExitOnOutOfMemoryError"
"""Without it, the library would go on without the thread that ran out of memory."""
_LOG = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
    # these print every setting at each start
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer.ConsumerConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.producer.ProducerConfig=warn",
)


@dataclass(frozen=True)
class JavaPrograms:
    """The programs of a library in Java.

    library, release: as in the versions of a result; `main` prints the release if it has no argument.
    jars: the folder of the library. sources: folders with classes of one package. more_jars: jars of the
    library that are in other folders. training: the class that loads what the programs load, for an archive of classes;
    its argument is an empty folder.
    """

    library: str
    release: str
    jars: Path
    main: str = "aftershock.Main"
    sources: Sequence[Path] = (SOURCES,)
    more_jars: Sequence[Path] = ()
    training: str = ""

    def compiled(self, on_progress: Progress) -> Path:
        """Return the jar of the classes. Raises `ResolveError` if they do not compile or run with the library."""
        return (
            cached(
                f"clients/{self.library}-{self.release}-{digest(self.sources)}",
                lambda target: self._compile(target, on_progress),
                f"another run compiles the clients for {self.library} {self.release}; waiting for it",
                on_progress,
            )
            / "classes.jar"
        )

    def command(self, classes: Path, heap: int, *options: str) -> tuple[str, ...]:
        """Return the command that runs a program; the path of a spec completes it. heap: in bytes."""
        start = (str(_java().path), f"-Xmx{heap}", _END, *_FAST_START, *_LOG, *options)
        return (*start, "-cp", self._class_path(classes), self.main)

    def archived(self, classes: Path, options: Sequence[str], on_progress: Progress) -> tuple[str, ...]:
        """Return the options of a JVM that uses the archive of the training; none if it cannot be made."""
        flags = (*_FAST_START, *_LOG, *options)

        def train(more: tuple[str, ...]) -> None:
            on_progress(f"preparing the clients for {self.library} {self.release} for quick starts, once")
            with TemporaryDirectory(prefix="aftershock-") as empty:
                argv = [*more, *flags, "-cp", self._class_path(classes), self.training, empty]
                done = _run(argv, TRAIN_S)
            if done.returncode:
                raise ResolveError(first_error(done))

        archive = class_archive(
            f"{self.library}-{self.release}",
            _java(),
            flags,
            self._jars(classes),
            train,
            f"another run prepares the clients for {self.library} {self.release}; waiting for it",
            on_progress,
        )
        return archive_flags(archive)

    def _jars(self, classes: Path) -> list[Path]:
        return [classes, *self.more_jars, *sorted(self.jars.glob("*.jar"))]

    def _class_path(self, classes: Path) -> str:
        """Return the class path. An archive fits one order of jars, and a wildcard has no defined order."""
        jars = self._jars(classes) if self.training else (classes, *self.more_jars, self.jars / "*")
        return os.pathsep.join(map(str, jars))

    def _compile(self, target: Path, on_progress: Progress) -> None:
        """Compile the programs against a release into `classes.jar`, and check that they run."""
        jar = compiler(on_progress)
        on_progress(f"compiling the clients for {self.library} {self.release}, once")
        output = target / "classes"
        done = compile_java(jar, self.sources, [*self.more_jars, *sorted(self.jars.glob("*.jar"))], output)
        if done.returncode:
            why = first_error(done)
            raise ResolveError(f"the clients do not compile against {self.library} {self.release}: {why}")
        pack(output, target / "classes.jar")
        done = _run(["-cp", self._class_path(target / "classes.jar"), self.main], CHECK_S)
        if done.returncode or done.stdout.strip() != self.release:
            why = first_error(done)
            raise ResolveError(f"{self.library} {self.release} was installed, but does not run here: {why}")


@cache
def _java() -> Java:
    return find_java()


def _run(arguments: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    java = _java().path
    late = f"{java} did not end within {timeout_s:g} s; try again"
    return run_tool([str(java), *arguments], JAVA_ENVIRONMENT, timeout_s, late)


FLINK_HEAP = 256 * 2**20
FLINK_MAIN = "aftershock.FlinkMain"
JOB_SOURCES = Path(__file__).parent / "flink" / "src" / "aftershock"
"""The programs, except for the source of the job."""
_OPENED_TO_FLINK = tuple(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("util", "lang"))
"""Packages of Java with classes that Flink serializes."""


def install_flink(
    client: Client, connector: str, source: Path, roles: Iterable[Program], on_progress: Progress
) -> Installed:
    """Fetch a release and compile the programs with a source; see `Runtime.prepare`.

    connector: release of the Kafka connector. roles: the programs that the source has.
    """
    release = str(client.release)  # `Client` fills it in
    jars = flink_jars(release, connector, on_progress)
    programs = JavaPrograms(client.runtime, release, jars, FLINK_MAIN, (SOURCES, JOB_SOURCES, source))
    command = programs.command(programs.compiled(on_progress), client.heap or FLINK_HEAP, *_OPENED_TO_FLINK)
    return Installed(client.traits.library, dict.fromkeys(roles, command), JAVA_ENVIRONMENT, session=command)


def remove_temporary_of_flink(folder: Path) -> None:
    """Remove the temporary files of all Flink processes with a spec in this folder; they have ended."""
    for path in folder.glob("*.tmp"):
        shutil.rmtree(path, ignore_errors=True)

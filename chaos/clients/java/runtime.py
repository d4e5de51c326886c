"""The Java client as a client library: any release from 2.8.2 on, compiled against at first use.

The jars of each release and the classes compiled against them are in the user's cache. The name of the folder of
classes has a digest of the sources, so changed programs are compiled again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from functools import cache
from pathlib import Path

from chaos.clients.protocol import PROGRAMS
from chaos.clients.runtime import Installed, Runtime
from chaos.errors import ResolveError
from chaos.install.cache import Progress, cached
from chaos.install.jars import kafka_client_jars, resolve
from chaos.install.java import JAVA_ENVIRONMENT, Java, find_java
from chaos.install.tool import run_tool
from chaos.scenario.runtimes.choice import Client
from chaos.scenario.runtimes.java import NEWEST, TRAITS

SOURCES = Path(__file__).with_name("src") / "aftershock"
MAIN = "aftershock.Main"
ECJ = ("org.eclipse.jdt", "ecj", "3.45.0")
LEVEL = "17"
"""Version of Java that the sources are written in, and the class files are for."""
HEAP = 96 * 2**20
COMPILE_S = 120
CHECK_S = 60
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


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Fetch and compile what a release needs; see `Runtime`."""
    release = client.release or NEWEST
    java = _java()
    jars = kafka_client_jars(release, on_progress)
    classes = cached(
        f"clients/{TRAITS.library}-{release}-{_digest()}",
        lambda target: _compile(java, release, jars, target, on_progress),
        f"another run compiles the clients for {TRAITS.library} {release}; waiting for it",
        on_progress,
    )
    heap = f"-Xmx{client.heap or HEAP}"
    command = (str(java.path), heap, _END, *_FAST_START, *_LOG, "-cp", _class_path(classes / "classes.jar", jars), MAIN)
    return Installed(TRAITS.library, dict.fromkeys(PROGRAMS, command), JAVA_ENVIRONMENT)


@cache
def _java() -> Java:
    return find_java()


def _digest() -> str:
    """Return a digest of the sources and of what compiles them."""
    content = hashlib.sha256(" ".join((*ECJ, LEVEL)).encode())
    for path in sorted(SOURCES.glob("*.java")):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:12]


def _class_path(classes: Path, jars: Path) -> str:
    return os.pathsep.join([str(classes), str(jars / "*")])


def _compile(java: Java, release: str, jars: Path, target: Path, on_progress: Progress) -> None:
    """Compile the programs against a release into `classes.jar`, and check that they run."""
    compiler = next(resolve(*ECJ, on_progress).glob("ecj-*.jar"))
    on_progress(f"compiling the clients for {TRAITS.library} {release}, once")
    # -17 and not --release 17, which needs a file that a runtime without compiler lacks
    argv = ["-jar", str(compiler), f"-{LEVEL}", "-nowarn", "-proc:none", "-encoding", "UTF-8"]
    found = os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))
    output = target / "classes"
    done = _run(java, [*argv, "-cp", found, "-d", str(output), str(SOURCES)], COMPILE_S)
    if done.returncode:
        raise ResolveError(f"the clients do not compile against {TRAITS.library} {release}: {_last(done)}")
    _pack(output, target / "classes.jar")
    done = _run(java, ["-cp", _class_path(target / "classes.jar", jars), MAIN], CHECK_S)
    if done.returncode or done.stdout.strip() != release:
        raise ResolveError(f"{TRAITS.library} {release} was installed, but does not run here: {_last(done)}")


def _pack(folder: Path, jar: Path) -> None:
    """Move the files of a folder into a jar: one file, which the cache can check."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*.class")):
            packed.write(path, path.relative_to(folder))
    shutil.rmtree(folder)


def _run(java: Java, arguments: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    late = f"{java.path} did not end within {timeout_s:g} s; try again"
    return run_tool([str(java.path), *arguments], JAVA_ENVIRONMENT, timeout_s, late)


def _last(done: subprocess.CompletedProcess[str]) -> str:
    """Return the line of an output that says most: the first error, or else the last line."""
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "Exception" in line or "Error" in line]
    return (errors[:1] or lines[-1:] or ["no output"])[0][:300]


RUNTIME = Runtime(
    traits=TRAITS,
    default_release=lambda: NEWEST,
    prepare=prepare,
    consumer_defaults=lambda release: {},
)

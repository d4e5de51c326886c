"""Kafka releases and other Maven artifacts as directories of jars, resolved by the Ivy that PySpark ships.

To use another Maven repository, set AFTERSHOCK_IVY_SETTINGS to an Ivy settings file that names it. To use a proxy, set
the proxy properties of Java in JAVA_TOOL_OPTIONS.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import MachineError, ResolveError
from chaos.install.cache import Progress, cache_dir, cached, run_tool, silent
from chaos.install.java import JAVA_ENVIRONMENT, find_java

KNOWN_GOOD = ("2.8.2", "3.4.1", "3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1", "4.4.0")
"""One release of each line that resolves and runs, for messages."""
TIMEOUT_S = 900  # for a slow network; without a network, Ivy gives up in seconds

_VERSION = re.compile(r"\d+(\.\d+){1,3}([.-][A-Za-z0-9.]{1,30})?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")


@dataclass(frozen=True)
class Part:
    """A part of Kafka's releases in Maven: its name in messages, its module, and its size with dependencies."""

    name: str
    module: str
    megabytes: int


BROKER = Part("Kafka", "kafka_2.13", 45)
CLIENTS = Part("kafka-clients", "kafka-clients", 20)
STREAMS = Part("kafka-streams", "kafka-streams", 75)
CONNECT = Part("Kafka Connect", "connect-runtime", 25)


def kafka_jars(version: str, on_progress: Progress = silent, part: Part = BROKER) -> Path:
    """Return the directory with the jars of a part of a Kafka release, for a class path.

    Raises `ResolveError` if the release does not exist or cannot be fetched, `MachineError` without Java or space.
    """
    _check(f"{part.name} version", version, _VERSION, f"write one like {KNOWN_GOOD[-1]}")
    name = f"{part.name} {version}"

    def fill(directory: Path) -> None:
        on_progress(f"resolving {name}: about {part.megabytes} MB, once")
        _retrieve("org.apache.kafka", part.module, version, directory)
        _add_logging(name, directory)

    return _cached(name.lower().replace(" ", "-"), fill, on_progress)


def flink_jars(release: str, connector: str, on_progress: Progress = silent) -> Path:
    """Return the directory with the jars of a Flink release and of a release of its Kafka connector.

    Raises like `kafka_jars`.
    """
    _check("release of Flink", release, _VERSION, "write one like 1.20.5")

    def fill(directory: Path) -> None:
        on_progress(f"resolving Flink {release} and its Kafka connector {connector}: about 90 MB, once")
        for module, version in (
            ("flink-clients", release),
            ("flink-connector-base", release),
            ("flink-connector-kafka", connector),
        ):
            _retrieve("org.apache.flink", module, version, directory)
        _add_logging(f"Flink {release}", directory)

    return _cached(f"flink-{release}-{connector}", fill, on_progress)


def _cached(name: str, fill: Callable[[Path], None], on_progress: Progress) -> Path:
    return cached(f"jars/{name}", fill, "another run resolves jars; waiting for it", on_progress)


def _add_logging(name: str, directory: Path) -> None:
    """Retrieve a back end for slf4j, which the artifacts of Kafka and Flink do not contain.

    slf4j-simple works with every release, needs no settings file, and starts fastest. Connect before 3.7 comes with
    another back end, which would be taken in its place and writes nothing without a settings file: it is removed.
    """
    api = max(directory.glob("slf4j-api-*.jar"), default=None)
    if api is None:
        raise ResolveError(f"{name} resolved without slf4j-api, so it could not log")
    for other in (*directory.glob("slf4j-reload4j-*.jar"), *directory.glob("slf4j-log4j12-*.jar")):
        other.unlink()
    _retrieve("org.slf4j", "slf4j-simple", api.stem.removeprefix("slf4j-api-"), directory)


def resolve(org: str, module: str, version: str, on_progress: Progress = silent) -> Path:
    """Return the directory with the jars of a Maven artifact and its dependencies. Raises like `kafka_jars`."""
    _check("organisation", org, _NAME, "write one like org.apache.spark")
    _check("module", module, _NAME, "write one like spark-sql-kafka-0-10_2.13")
    _check("version", version, _VERSION, "write one like 4.0.0")

    def fill(directory: Path) -> None:
        on_progress(f"resolving {org}:{module}:{version}, once")
        _retrieve(org, module, version, directory)

    return _cached(f"{org}-{module}-{version}", fill, on_progress)


def _check(what: str, value: str, pattern: re.Pattern[str], hint: str) -> None:
    if not pattern.fullmatch(value):
        raise ResolveError(f"{value!r} is not a {what}; {hint}")


def _retrieve(org: str, module: str, version: str, directory: Path) -> None:
    """Retrieve an artifact and its dependencies into a directory."""
    settings = os.environ.get("AFTERSHOCK_IVY_SETTINGS")
    argv = [
        *(str(find_java().path), *_home_option(), "-jar", str(_ivy_jar())),
        *(("-settings", str(Path(settings).absolute())) if settings else ()),
        *("-dependency", org, module, version, "-confs", "default"),
        # relative to the working directory: a path may contain characters that are special in an Ivy pattern
        *("-retrieve", "./[artifact]-[revision](-[classifier]).[ext]"),
    ]
    late = f"{org}:{module}:{version} was not resolved within {TIMEOUT_S} s; check the network, then try again"
    done = run_tool(argv, JAVA_ENVIRONMENT, TIMEOUT_S, late, directory)
    if done.returncode != 0 or not any(directory.glob("*.jar")):
        raise ResolveError(_error(f"{org}:{module}:{version}", done.stdout + done.stderr))


def _home_option() -> list[str]:
    """Return a Java option that moves Ivy's own cache to ours if the home directory cannot be written."""
    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a container may run as a user ID without an account
        home = Path("/nonexistent")
    directory = home / ".ivy2" if (home / ".ivy2").exists() else home
    return [] if os.access(directory, os.W_OK) else [f"-Duser.home={cache_dir()}"]


def _error(coordinates: str, output: str) -> str:
    """Return one line for the output of Ivy: what was not found or not reached, and what to do next."""
    if refused := re.search(
        r"(?:Server access error|SERVER ERROR|Failed download)[^\n]*?(?:\(([^()\n]+)\))?$", output, re.M
    ):
        return (
            f"cannot resolve {coordinates}: the repository cannot be reached ({refused.group(1) or refused.group(0)}); "
            "check the network or proxy, or set AFTERSHOCK_IVY_SETTINGS to an Ivy settings file for your own repository"
        )
    missing = re.findall(r"^\s*::\s+(\S+#\S+;\S+: [^\n]*?)\s*$", output, re.M)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    reason = "; ".join(missing[:3]) or (lines[-1][:200] if lines else "nothing")
    return f"cannot resolve {coordinates}: Ivy says {reason}; Kafka releases known to work: {', '.join(KNOWN_GOOD)}"


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # located, not imported
    for directory in (spec.submodule_search_locations or []) if spec else []:
        if jars := sorted(Path(directory).glob("jars/ivy-*.jar")):
            return jars[-1]
    raise MachineError(
        "PySpark's Ivy jar is not there; install the project's requirements: pip install -r requirements.txt"
    )


ECJ = ("org.eclipse.jdt", "ecj", "3.45.0")
LEVEL = "17"
"""Version of Java that the sources are written in, and the class files are for."""
COMPILE_S = 120
MANIFEST = "META-INF/MANIFEST.MF"


def compiler(on_progress: Progress) -> Path:
    """Return the jar of the compiler. Raises `ResolveError` if it cannot be fetched."""
    return next(resolve(*ECJ, on_progress).glob("ecj-*.jar"))


def compile_java(
    compiler_jar: Path, sources: Sequence[Path], jars: Sequence[Path], output: Path
) -> subprocess.CompletedProcess[str]:
    """Compile files or folders with the jars on the class path; the classes go to the folder `output`."""
    java = find_java().path
    # -17 and not --release 17, which needs a file that a runtime without compiler lacks
    argv = ["-jar", str(compiler_jar), f"-{LEVEL}", "-nowarn", "-proc:none", "-encoding", "UTF-8"]
    found = os.pathsep.join(map(str, jars))
    late = f"{java} did not end within {COMPILE_S:g} s; try again"
    argv = [str(java), *argv, "-cp", found, "-d", str(output), *map(str, sources)]
    return run_tool(argv, JAVA_ENVIRONMENT, COMPILE_S, late)


def digest(sources: Sequence[Path]) -> str:
    """Return a digest of the sources and of what compiles them."""
    content = hashlib.sha256(" ".join((*ECJ, LEVEL)).encode())
    for path in (path for folder in sources for path in sorted(folder.glob("*.java"))):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:12]


def pack(folder: Path, jar: Path, manifest: Mapping[str, str] | None = None) -> None:
    """Move the classes in a folder into a jar: one file, which the cache can check."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
        if manifest:
            packed.writestr(MANIFEST, "".join(f"{key}: {value}\n" for key, value in manifest.items()))
        for path in sorted(folder.rglob("*.class")):
            packed.write(path, path.relative_to(folder))
    shutil.rmtree(folder)


def first_error(done: subprocess.CompletedProcess[str]) -> str:
    """Return the line of an output that says most: the first error, or else the last line."""
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "Exception" in line or "Error" in line]
    return (errors[:1] or lines[-1:] or ["no output"])[0][:300]

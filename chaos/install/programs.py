"""Programs of users, from one source file and the libraries that it needs, which are installed and compiled once.

The suffix of the file says the language. Libraries are pinned, in the words of the language's own tool; what they
depend on is what that tool chooses:

    .py          name==1.2             pip, wheels only
    .js .mjs     name@1.2              npm, without scripts of packages; node and npm must be on PATH
    .go          path@v1.2             the Go of the machine, or one from the package index
    .java        group:artifact:1.2    Ivy, and the compiler that client programs are compiled with

Everything is in the user's cache, by a digest of the libraries and, where they are compiled together, of the source. Go
keeps its modules and what it has compiled there, too (some 300 MB), so a changed program is built in seconds.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.errors import ResolveError
from chaos.install.cache import Progress, cache_dir, cached, run_tool, silent
from chaos.install.go import NEEDED, find_go, last_lines
from chaos.install.jars import CONNECT, compile_java, compiler, digest, first_error, kafka_jars, pack, resolve
from chaos.install.java import JAVA_ENVIRONMENT, find_java

INSTALL_S = 600
PROVIDED = ("kafka-clients", "connect-api", "connect-json", "connect-transforms", "slf4j-", "jackson-")
"""How the names of the jars begin that a worker of Kafka Connect provides to its connectors, if it has them."""
WORKER_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
FAULTS = r"^\S+\.go:\d+|^go: (?!(downloading|finding|added|upgraded|found) )|^npm error|^ERROR|error|cannot"
"""Lines in the output of a tool that say what is wrong."""


@dataclass(frozen=True)
class Built:
    """A program that is ready to run. command: what starts it; env: the variables that it needs.

    folder: of a worker of Kafka Connect, the folder with a folder for each connector; of a database, its programs.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""


def build(program: Path, libraries: Sequence[str], on_progress: Progress = silent) -> Built:
    """Install the libraries of a program, compile it, and return how it starts; what is there is used again.

    Raises `ResolveError` if a library is not available, or the program does not compile.
    """
    return _BUILDERS[program.suffix](program, libraries, on_progress)


def _python(program: Path, libraries: Sequence[str], on_progress: Progress) -> Built:
    if not libraries:
        return Built((sys.executable, str(program)))

    def fill(target: Path) -> None:
        argv = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run([*argv, "--only-binary", ":all:", "--target", str(target), *libraries], program, target)

    folder = _folder(program, libraries, sys.implementation.cache_tag or "", fill, on_progress)
    return Built((sys.executable, str(program)), {"PYTHONPATH": str(folder)})


def _node(program: Path, libraries: Sequence[str], on_progress: Progress) -> Built:
    def fill(target: Path) -> None:
        shutil.copy(program, target)  # an import is looked up from the folder of the program
        if libraries:
            argv = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--engine-strict", "--save-exact")
            _run([*argv, "--prefix", str(target), *libraries], program, target)

    folder = _folder(program, libraries, _content(program), fill, on_progress)
    return Built((shutil.which("node") or "node", str(folder / program.name)))


def _go(program: Path, libraries: Sequence[str], on_progress: Progress) -> Built:
    go = find_go(on_progress)

    def fill(target: Path) -> None:
        folder, store = target / "src", cache_dir() / "go"
        folder.mkdir()
        shutil.copy(program, folder)
        (folder / "go.mod").write_text(f"module app\n\ngo {'.'.join(map(str, NEEDED))}\n", encoding="utf-8")
        output = str(target / program.stem)
        for arguments in (["get", *libraries], ["build", "-trimpath", "-o", output, "."]):
            if arguments != ["get"] and (done := go.run(arguments, folder, store, INSTALL_S)).returncode:
                raise ResolveError(f"{program.name} cannot be built: {last_lines(done, FAULTS)}")
        shutil.rmtree(folder)

    return Built((str(_folder(program, libraries, go.release + _content(program), fill, on_progress) / program.stem),))


def build_worker(release: str, distributed: bool, libraries: Sequence[str], on_progress: Progress = silent) -> Built:
    """Install Kafka Connect and connectors, and return how a worker starts: its arguments are files with settings.

    Each connector has a class loader for itself, so its dependencies may be other releases than Connect has. What
    Connect provides is left out, as the archives of connectors do: two releases of a class do not fit together.
    Raises as `build`.
    """
    runtime = kafka_jars(release, on_progress, CONNECT)
    plugins = _artifacts(libraries, on_progress)

    def fill(target: Path) -> None:
        provided = {_artifact(jar) for jar in runtime.glob("*.jar") if _artifact(jar).startswith(PROVIDED)}
        for plugin in plugins:
            (target / plugin.name).mkdir()
            for jar in plugin.glob("*.jar"):
                if _artifact(jar) not in provided:
                    (target / plugin.name / jar.name).symlink_to(jar)

    key = hashlib.sha256("\0".join(map(str, [runtime, *plugins])).encode()).hexdigest()[:12]
    folder = cached(f"apps/worker-{key}", fill, "another run prepares connectors; waiting for it", on_progress)
    path = os.pathsep.join(map(str, sorted(runtime.glob("*.jar"))))
    main = f"org.apache.kafka.connect.cli.Connect{'Distributed' if distributed else 'Standalone'}"
    return Built((str(find_java().path), *WORKER_OPTIONS, "-cp", path, main), JAVA_ENVIRONMENT, str(folder))


def _artifact(jar: Path) -> str:
    """Return the name of a jar without its version."""
    return re.sub(r"-\d.*", "", jar.name)


def build_postgres(release: str, on_progress: Progress = silent) -> Path:
    """Install a release of PostgreSQL, and return the folder of its programs. Raises as `build`."""
    machine = {"x86_64": "amd64", "aarch64": "arm64v8"}.get(platform.machine(), platform.machine())
    module = f"embedded-postgres-binaries-linux-{machine}"
    (jar,) = resolve("io.zonky.test.postgres", module, release, on_progress).glob("*.jar")

    def fill(target: Path) -> None:
        with zipfile.ZipFile(jar) as packed:
            (name,) = (name for name in packed.namelist() if name.endswith(".txz"))
            with packed.open(name) as archive, tarfile.open(fileobj=archive, mode="r:xz") as files:
                files.extractall(target, filter="tar")

    waiting = "another run unpacks PostgreSQL; waiting for it"
    return cached(f"apps/postgres-{release}-{machine}", fill, waiting, on_progress) / "bin"


def _artifacts(libraries: Sequence[str], on_progress: Progress) -> list[Path]:
    """Return the folder of jars of each Maven artifact."""
    artifacts = (name.split(":") for name in libraries)
    return [resolve(org, module, version, on_progress) for org, module, version in artifacts]


def _java(program: Path, libraries: Sequence[str], on_progress: Progress) -> Built:
    jars = [jar for folder in _artifacts(libraries, on_progress) for jar in sorted(folder.glob("*.jar"))]
    compile_with, source = compiler(on_progress), program.read_text(encoding="utf-8")

    def fill(target: Path) -> None:
        done = compile_java(compile_with, [program], jars, target / "classes")
        if done.returncode:
            raise ResolveError(f"{program.name} cannot be compiled: {first_error(done)}")
        pack(target / "classes", target / "classes.jar")

    folder = _folder(program, libraries, digest([]) + _content(program), fill, on_progress)
    package = re.search(r"^package\s+([\w.]+)\s*;", source, re.MULTILINE)
    main = f"{package[1]}.{program.stem}" if package else program.stem
    path = os.pathsep.join(map(str, [folder / "classes.jar", *jars]))
    return Built((str(find_java().path), "-XX:TieredStopAtLevel=1", "-cp", path, main), JAVA_ENVIRONMENT)


def _run(argv: Sequence[str], program: Path, target: Path) -> None:
    late = f"the libraries of {program.name} were not installed within {INSTALL_S} s; check the network, then try again"
    done = run_tool(argv, {}, INSTALL_S, late, target)
    if done.returncode:
        raise ResolveError(f"the libraries of {program.name} cannot be installed: {last_lines(done, FAULTS)}")


def _folder(
    program: Path, libraries: Sequence[str], also: str, fill: Callable[[Path], None], on_progress: Progress
) -> Path:
    """Return the folder in the cache that `fill` fills. also: what it depends on besides the libraries."""
    key = hashlib.sha256("\0".join((*libraries, also)).encode()).hexdigest()[:12]

    def say_and_fill(target: Path) -> None:
        on_progress(f"preparing {program.name} with {', '.join(libraries) or 'no library'}, once")
        fill(target)

    return cached(
        f"apps/{program.suffix[1:]}-{key}",
        say_and_fill,
        f"another run prepares {program.name}; waiting for it",
        on_progress,
    )


def _content(program: Path) -> str:
    return hashlib.sha256(program.name.encode() + b"\0" + program.read_bytes()).hexdigest()


_BUILDERS: Mapping[str, Callable[[Path, Sequence[str], Progress], Built]] = {
    ".py": _python,
    ".js": _node,
    ".mjs": _node,
    ".go": _go,
    ".java": _java,
}

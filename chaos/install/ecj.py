"""The compilation of sources in Java by the Eclipse compiler, which needs no JDK."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.install.cache import Progress
from chaos.install.jars import resolve
from chaos.install.java import JAVA_ENVIRONMENT, find_java
from chaos.install.tool import run_tool

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

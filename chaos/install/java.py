"""The Java that runs the brokers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import MachineError

NEEDED = 17
JAVA_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""Environment variables for a JVM. Java decodes paths with the locale, and the C locale is limited to ASCII."""

_HINT = f"install a Java {NEEDED} runtime or newer, or point JAVA_HOME at one"


@dataclass(frozen=True)
class Java:
    """A Java launcher. `build` distinguishes two builds of one version."""

    path: Path
    major: int
    build: str


def find_java() -> Java:
    """Return the Java of JAVA_HOME, else the first on PATH. Raises `MachineError` if it is missing or too old."""
    path = _launcher()
    try:
        output = subprocess.run(
            [path, "-version"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stderr
    except (OSError, subprocess.SubprocessError) as e:
        raise MachineError(f"{path} does not run ({e}); {_HINT}") from None
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None:
        raise MachineError(f"{path} -version printed {output.strip()[:200]!r}, which names no version; {_HINT}")
    major = int(version.group(1))
    if major < NEEDED:
        raise MachineError(f"{path} is Java {major}, and Kafka needs {NEEDED} or newer; {_HINT}")
    build = re.search(r"\(build ([^\s,)]+)", output)
    return Java(path, major, build.group(1) if build else str(major))


def _launcher() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise MachineError(f"JAVA_HOME is {home}, but there is no {path}; unset it, or {_HINT}")
        return path
    if on_path := shutil.which("java"):
        return Path(on_path)
    raise MachineError(f"there is no java on PATH; {_HINT}")

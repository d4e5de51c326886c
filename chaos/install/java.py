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
_HINT = f"install a Java {NEEDED} runtime or newer, or point JAVA_HOME at one"


@dataclass(frozen=True)
class Java:
    """A Java launcher. `build` tells two builds of one version apart."""

    path: Path
    major: int
    build: str


def find_java() -> Java:
    """The Java of JAVA_HOME, else the first on PATH. Raises `MachineError` if there is none, or an old one."""
    path = _launcher()
    try:
        said = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=60, check=True, stdin=subprocess.DEVNULL
        ).stderr
    except (OSError, subprocess.SubprocessError) as e:
        raise MachineError(f"{path} does not run ({e}); {_HINT}") from None
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None:
        raise MachineError(f"{path} -version said {said.strip()[:200]!r}, which names no version; {_HINT}")
    major = int(version.group(1))
    if major < NEEDED:
        raise MachineError(f"{path} is Java {major}, and Kafka needs {NEEDED} or newer; {_HINT}")
    build = re.search(r"\(build ([^\s,)]+)", said)
    return Java(path, major, build.group(1) if build else str(major))


def _launcher() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise MachineError(f"JAVA_HOME is {home}, but there is no {path}; unset it, or {_HINT}")
        return path
    if found := shutil.which("java"):
        return Path(found)
    raise MachineError(f"there is no java on PATH; {_HINT}")

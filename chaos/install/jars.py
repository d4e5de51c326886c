"""Any Kafka release (or other Maven artifact) as a directory of jars, resolved by the Ivy that PySpark ships.

Behind a company's own repository, set AFTERSHOCK_IVY_SETTINGS to an Ivy settings file that names it; Java's proxy
settings go through JAVA_TOOL_OPTIONS.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

from chaos.errors import MachineError, ResolveError
from chaos.install.cache import Progress, cached, silent
from chaos.install.java import find_java

# releases that are known to resolve and to run, one of each line, for messages
KNOWN_GOOD = ("2.8.2", "3.4.1", "3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1")
TIMEOUT_S = 900  # a cold download over a slow line; without any line Ivy gives up in seconds

_VERSION = re.compile(r"\d+(\.\d+){1,3}(-[A-Za-z0-9.]{1,30})?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}")


def kafka_jars(version: str, on_progress: Progress = silent) -> Path:
    """The directory with the jars of a Kafka broker of this release, ready for a class path.

    Raises `ResolveError` if there is no such release or it cannot be fetched, `MachineError` without Java or space.
    """
    _check("Kafka version", version, _VERSION, f"write one like {KNOWN_GOOD[-1]}")

    def fill(directory: Path) -> None:
        on_progress(f"resolving Kafka {version}: about 45 MB, once")
        _retrieve("org.apache.kafka", "kafka_2.13", version, directory)
        # Kafka logs through slf4j, and its artifacts bring no back end for it: without one a broker says nothing.
        # slf4j-simple serves every release alike, needs no settings file, and costs the least of all at start.
        api = next(directory.glob("slf4j-api-*.jar"), None)
        if api is None:
            raise ResolveError(f"Kafka {version} resolved without slf4j-api, so a broker of it could not log")
        _retrieve("org.slf4j", "slf4j-simple", api.stem.removeprefix("slf4j-api-"), directory)

    return cached(f"jars/kafka-{version}", fill, "another run resolves Kafka jars; waiting for it", on_progress)


def resolve(org: str, module: str, version: str, on_progress: Progress = silent) -> Path:
    """The directory with the jars of a Maven artifact and all it needs. Raises like `kafka_jars`."""
    _check("organisation", org, _NAME, "write one like org.apache.spark")
    _check("module", module, _NAME, "write one like spark-sql-kafka-0-10_2.13")
    _check("version", version, _VERSION, "write one like 4.0.0")

    def fill(directory: Path) -> None:
        on_progress(f"resolving {org}:{module}:{version}, once")
        _retrieve(org, module, version, directory)

    return cached(f"jars/{org}-{module}-{version}", fill, "another run resolves jars; waiting for it", on_progress)


def _check(what: str, value: str, pattern: re.Pattern[str], hint: str) -> None:
    if not pattern.fullmatch(value):
        raise ResolveError(f"{value!r} is not a {what}; {hint}")


def _retrieve(org: str, module: str, version: str, directory: Path) -> None:
    """Let Ivy put an artifact and what it needs into a directory."""
    settings = os.environ.get("AFTERSHOCK_IVY_SETTINGS")
    argv = [
        *(str(find_java().path), "-jar", str(_ivy_jar())),
        *(("-settings", settings) if settings else ()),
        *("-dependency", org, module, version, "-confs", "default"),
        *("-retrieve", f"{directory}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise ResolveError(
            f"{org}:{module}:{version} was not resolved within {TIMEOUT_S} s; check the network, then try again"
        ) from None
    if done.returncode != 0 or not any(directory.glob("*.jar")):
        raise ResolveError(_why(f"{org}:{module}:{version}", done.stdout + done.stderr))


def _why(coordinates: str, said: str) -> str:
    """One line out of Ivy's many: what was not found or not reached, and what to do about it."""
    if refused := re.search(
        r"(?:Server access error|SERVER ERROR|Failed download)[^\n]*?(?:\(([^()\n]+)\))?$", said, re.M
    ):
        return (
            f"cannot resolve {coordinates}: the repository cannot be reached ({refused.group(1) or refused.group(0)}); "
            "check the network or proxy, or set AFTERSHOCK_IVY_SETTINGS to an Ivy settings file for your own repository"
        )
    missing = re.findall(r"^\s*::\s+(\S+#\S+;\S+: [^\n]*?)\s*$", said, re.M)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reason = "; ".join(missing[:3]) or (lines[-1][:200] if lines else "it said nothing")
    return f"cannot resolve {coordinates}: Ivy says {reason}; Kafka releases known to work: {', '.join(KNOWN_GOOD)}"


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # located, not imported
    for place in (spec.submodule_search_locations or []) if spec else []:
        if jars := sorted(Path(place).glob("jars/ivy-*.jar")):
            return jars[-1]
    raise MachineError(
        "PySpark's Ivy jar is not there; install the project's requirements: pip install -r requirements.txt"
    )

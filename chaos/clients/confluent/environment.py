"""The release of confluent-kafka that clients use: this environment's own, or any other one with a wheel for it.

Another release is installed once, alone, into a directory of the cache, and client processes find that directory before
everything else. The rest of their environment (numpy, pyarrow, this package) is this one's. The platform's own
questions to the cluster, and the reading of the final log, always use this environment's release.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from chaos.errors import ResolveError
from chaos.install.cache import Progress, cached, silent
from chaos.processes.process import PACKAGE_ROOT

PACKAGE = "confluent-kafka"
OLDEST = (2, 0, 2)
"""The first release with wheels for the oldest Python that Aftershock runs on (3.11)."""
INSTALL_S = 600
_ASK = "import confluent_kafka; print(confluent_kafka.__version__, confluent_kafka.libversion()[0])"


def own() -> str:
    """The release in this environment."""
    return version(PACKAGE)


def number(release: str) -> tuple[int, ...]:
    """A release as something to compare."""
    return tuple(int(part) for part in release.split("."))


def prepare(release: str | None, on_progress: Progress = silent) -> dict[str, str]:
    """What to add to the environment of client processes; nothing for this environment's own release.

    Raises `ResolveError` if the release cannot be had or does not run here, `MachineError` if there is no room.
    """
    if release is None or release == own():
        return {}
    if number(release) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ResolveError(f"{PACKAGE} {release} is too old: the first that clients can run with is {oldest}")
    name = f"clients/{PACKAGE}-{release}-{sys.implementation.cache_tag}"
    found = cached(
        name,
        lambda directory: _install(release, directory, on_progress),
        f"another run installs {PACKAGE} {release}; waiting for it",
        on_progress,
    )
    return _env(found)


def _env(directory: Path) -> dict[str, str]:
    paths = (str(directory), PACKAGE_ROOT, os.environ.get("PYTHONPATH"))
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _install(release: str, directory: Path, on_progress: Progress) -> None:
    on_progress(f"installing {PACKAGE} {release} for the clients, once")
    argv = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--only-binary", ":all:", "--target", str(directory), f"{PACKAGE}=={release}"),
    ]
    done = _run(argv, {})
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-1:]
        raise ResolveError(
            f"{PACKAGE} {release} cannot be installed: {' '.join(said)[:300]}; "
            "is there such a release, with a wheel for this Python, and is the package index within reach?"
        )
    done = _run([sys.executable, "-c", _ASK], _env(directory))
    if done.returncode or done.stdout.split()[:1] != [release]:
        said = (done.stderr.splitlines() or done.stdout.splitlines() or ["nothing"])[-1:]
        raise ResolveError(f"{PACKAGE} {release} was installed, but does not run here: {said[0][:300]}")


def _run(argv: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ResolveError(f"{argv[2]} did not end within {INSTALL_S} s; look at the network, then try again") from None

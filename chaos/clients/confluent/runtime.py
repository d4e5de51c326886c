"""confluent-kafka as a client library: the installed release, or any other release with a wheel.

Another release is installed once, without dependencies, into a cache directory that comes first on the module path of
the client processes. The rest of their environment (numpy, pyarrow, this package) is the installed one. The platform's
own Kafka connections and the read-back of the final log always use the installed release.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from chaos.clients.protocol import PROGRAMS, Config
from chaos.clients.runtime import Installed, Runtime
from chaos.errors import ResolveError
from chaos.install.cache import Progress, cached, silent
from chaos.install.locations import python_path
from chaos.install.tool import run_tool
from chaos.scenario.runtimes.choice import Client
from chaos.scenario.runtimes.confluent import TRAITS
from chaos.scenario.runtimes.traits import number

PACKAGE = "confluent-kafka"
OLDEST = (2, 0, 2)
"""First release with wheels for Python 3.11, the oldest Python that Aftershock supports."""
INSTALL_S = 600
_PRINT_RELEASE = "import confluent_kafka; print(confluent_kafka.__version__, confluent_kafka.libversion()[0])"

CONSUMER_DEFAULTS: Config = {
    # After its queue was full, librdkafka fetches nothing for this time (1000 ms by default), even if the application
    # empties the queue: a drain would mostly wait.
    "fetch.queue.backoff.ms": 10,
}
"""Settings of each consumer unless the scenario sets them."""
_CONSUMER_DEFAULTS_SINCE = (2, 2, 0)


def installed_release() -> str:
    """Return the release in this environment."""
    return version(PACKAGE)


def consumer_defaults(release: str | None) -> Config:
    """Return `CONSUMER_DEFAULTS` if the release knows them."""
    return CONSUMER_DEFAULTS if release is None or number(release) >= _CONSUMER_DEFAULTS_SINCE else {}


def prepare(client: Client, on_progress: Progress = silent) -> Installed:
    """Install a release; see `Runtime`."""
    return Installed(PACKAGE, PROGRAMS_IN_PYTHON, _environment(client.release, on_progress))


def _environment(release: str | None, on_progress: Progress) -> dict[str, str]:
    """Install a release, and return the environment variables of its programs."""
    if release is None or release == installed_release():
        return {}
    if number(release) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ResolveError(f"{PACKAGE} {release} is too old: the first release that clients can use is {oldest}")
    directory = cached(
        f"clients/{PACKAGE}-{release}-{sys.implementation.cache_tag}",
        lambda target: _install(release, target, on_progress),
        f"another run installs {PACKAGE} {release}; waiting for it",
        on_progress,
    )
    return _variables(directory)


def _variables(directory: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(directory), python_path()])}


def _install(release: str, directory: Path, on_progress: Progress) -> None:
    on_progress(f"installing {PACKAGE} {release} for the clients, once")
    argv = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--only-binary", ":all:", "--target", str(directory), f"{PACKAGE}=={release}"),
    ]
    done = _run(argv, {})
    if done.returncode:
        lines = done.stderr.splitlines()
        reason = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise ResolveError(
            f"{PACKAGE} {release} cannot be installed: {' '.join(reason)[:300]}; check that the release exists, "
            "that it has a wheel for this Python, and that the package index is within reach"
        )
    done = _run([sys.executable, "-c", _PRINT_RELEASE], _variables(directory))
    if done.returncode or done.stdout.split()[:1] != [release]:
        output = (done.stderr.splitlines() or done.stdout.splitlines() or ["no output"])[-1]
        raise ResolveError(f"{PACKAGE} {release} was installed, but does not run here: {output[:300]}")


def _run(argv: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run_tool(
        argv, variables, INSTALL_S, f"{argv[2]} did not end within {INSTALL_S} s; check the network, then try again"
    )


PROGRAMS_IN_PYTHON = {program: (sys.executable, "-m", f"chaos.clients.confluent.{program}") for program in PROGRAMS}

RUNTIME = Runtime(
    traits=TRAITS,
    default_release=installed_release,
    prepare=prepare,
    consumer_defaults=consumer_defaults,
)

"""Releases of Python libraries from the package index, each in a folder of the user's cache for client processes.

The folder comes first on the module path of these processes. The rest of their environment (numpy, pyarrow, this
package) is the installed one, and so are the libraries with which the platform itself speaks Kafka.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from chaos.errors import ResolveError
from chaos.install.cache import Progress, cached, run_tool
from chaos.install.locations import python_path

INSTALL_S = 600
CODECS = ("cramjam==2.14.0", "lz4==4.4.5", "python-snappy==0.7.3", "zstandard==0.25.0")
"""What kafka-python and aiokafka need to read batches that other clients compress: franz-go does so by default."""


def client_environment(
    package: str, release: str, module: str, on_progress: Progress, others: Sequence[str] = ()
) -> dict[str, str]:
    """Install a release once, and return the environment variables of programs that use it.

    module: what they import; its `__version__` must be the release. others: requirements that it needs and that this
    environment may lack. Only wheels are installed, without further dependencies. Raises `ResolveError` if the release
    is not available or does not run here.
    """
    more = hashlib.sha256(" ".join(others).encode()).hexdigest()[:8]
    directory = cached(
        f"clients/{package}-{release}-{more}-{sys.implementation.cache_tag}",
        lambda target: _install(package, release, module, target, others, on_progress),
        f"another run installs {package} {release}; waiting for it",
        on_progress,
    )
    return _variables(directory)


def _variables(directory: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(directory), python_path()])}


def _install(
    package: str, release: str, module: str, directory: Path, others: Sequence[str], on_progress: Progress
) -> None:
    on_progress(f"installing {package} {release} for the clients, once")
    argv = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--only-binary", ":all:", "--target", str(directory), f"{package}=={release}", *others),
    ]
    done = _run(argv, {})
    if done.returncode:
        lines = done.stderr.splitlines()
        reason = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise ResolveError(
            f"{package} {release} cannot be installed: {' '.join(reason)[:300]}; check that the release exists, "
            "that it has a wheel for this Python, and that the package index is within reach"
        )
    done = _run([sys.executable, "-c", f"import {module}; print({module}.__version__)"], _variables(directory))
    if done.returncode or done.stdout.split()[:1] != [release]:
        output = (done.stderr.splitlines() or done.stdout.splitlines() or ["no output"])[-1]
        raise ResolveError(f"{package} {release} was installed, but does not run here: {output[:300]}")


def _run(argv: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run_tool(
        argv, variables, INSTALL_S, f"{argv[2]} did not end within {INSTALL_S} s; check the network, then try again"
    )

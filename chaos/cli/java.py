"""`java`: whether this machine has the Java that Kafka and Spark need, and getting it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Annotated

import typer
from rich.console import Console

from chaos.errors import MachineError
from chaos.install.java import find_java

PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: python -m chaos java --install")(java)


def java(
    install: Annotated[bool, typer.Option("--install", help="As root on Debian or Ubuntu, install it.")] = False,
) -> None:
    """Look for Java 17 or newer."""
    try:
        found = find_java()
    except MachineError:
        if not (install and os.geteuid() == 0 and shutil.which("apt-get")):
            raise
        _install()
        found = find_java()
    Console(highlight=False).print(f"Java {found.major} at {found.path}", soft_wrap=True)


def _install() -> None:
    """Install the first of the distribution's packages that there is."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=env, check=False)
    for package in PACKAGES:
        Console().print(f"installing {package}")
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        if subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False).returncode == 0:
            return
    raise MachineError(f"none of {', '.join(PACKAGES)} could be installed; install a Java 17 or newer by hand")

"""`java`: find the Java that Kafka and Spark need, or install it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Annotated

import typer
from rich.console import Console

from chaos.errors import MachineError

EXAMPLE = "java --install"
PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")


def command(
    install: Annotated[bool, typer.Option("--install", help="As root on Debian or Ubuntu, install it.")] = False,
) -> None:
    """Find Java 17 or newer."""
    from chaos.install.java import find_java

    try:
        java = find_java()
    except MachineError:
        if not (install and os.geteuid() == 0 and shutil.which("apt-get")):
            raise
        _install()
        java = find_java()
    Console(highlight=False).print(f"Java {java.major} at {java.path}", soft_wrap=True)


def _install() -> None:
    """Install the first of the distribution's packages that exists. Raises `MachineError` if none does."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=env, check=False)
    for package in PACKAGES:
        Console().print(f"installing {package}")
        argv = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        if subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=False).returncode == 0:
            return
    raise MachineError(f"none of {', '.join(PACKAGES)} could be installed; install a Java 17 or newer by hand")

"""The client libraries: each folder of `chaos.clients` with a module `runtime` is one, described by its `RUNTIME`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from chaos.clients.protocol import ClientSpec, Config, Program
from chaos.errors import ClientError
from chaos.install.cache import Progress

DEFAULT = "confluent"
"""Folder of the library that all clients use; a scenario cannot choose another one yet."""


@dataclass(frozen=True)
class Runtime:
    """A client library: its releases, their installation, and the programs that use them.

    package: name of the library, as in the versions of a result.
    programs: command line of each program that the library has; the path of a spec completes it.
    installed_release: returns the release that needs no installation.
    prepare: installs a release and returns the environment variables of its programs; None means the installed release.
        Raises `ResolveError` if the release is not available or does not run, `MachineError` if the disk is full.
    consumer_defaults: returns settings of each consumer of a release; the scenario can override them.
    """

    package: str
    programs: Mapping[Program, tuple[str, ...]]
    installed_release: Callable[[], str]
    prepare: Callable[[str | None, Progress], dict[str, str]]
    consumer_defaults: Callable[[str | None], Config]

    def command(self, spec: ClientSpec, path: Path) -> list[str]:
        """Return the command that runs a spec. Raises `ClientError` if the library has no program for it."""
        if spec.program not in self.programs:
            raise ClientError(f"{spec.client} cannot run: {self.package} has no program for a {spec.program}")
        return [*self.programs[spec.program], str(path)]


def runtime(folder: str = DEFAULT) -> Runtime:
    """Return the library in a folder of `chaos.clients`. Raises `ModuleNotFoundError` if there is none."""
    found: Runtime = import_module(f"chaos.clients.{folder}.runtime").RUNTIME
    return found

"""The client libraries: each folder of `chaos.clients` with a module `runtime` is one, described by its `RUNTIME`.

What a library can do and its defaults are in its module `traits`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import get_args

from chaos.clients.choice import DEFAULT, Client
from chaos.clients.protocol import ClientSpec, Config, Program
from chaos.clients.traits import Traits
from chaos.errors import ClientError
from chaos.install.cache import Progress


@dataclass(frozen=True)
class Installed:
    """A release of a library that is ready to run.

    package: name of the library, as in the versions of a result.
    programs: command line of each program that the library has; the path of a spec completes it.
    env: environment variables of the programs.
    session: command line of a process of a session cluster; its kind, `jobmanager` or `taskmanager`, the folder of its
        settings, and the name of a task manager complete it.
    """

    package: str
    programs: Mapping[Program, tuple[str, ...]]
    env: Mapping[str, str] = field(default_factory=dict)
    session: tuple[str, ...] = ()

    def command(self, spec: ClientSpec, path: Path) -> list[str]:
        """Return the command that runs a spec. Raises `ClientError` if the library has no program for it."""
        if spec.program not in self.programs:
            raise ClientError(f"{spec.client} cannot run: {self.package} has no program for a {spec.program}")
        return [*self.programs[spec.program], str(path)]


@dataclass(frozen=True)
class Runtime:
    """A client library: its releases, their installation, and the programs that use them.

    traits: what it can do.
    default_release: returns the release of an entry that names none.
    prepare: installs the chosen release into the user's cache, unless it is there. Raises `ResolveError` if the release
        is not available or does not run, `MachineError` if the machine lacks what it needs.
    consumer_defaults: returns settings of each consumer of a release; the scenario can override them.
    """

    traits: Traits
    default_release: Callable[[], str]
    prepare: Callable[[Client, Progress], Installed]
    consumer_defaults: Callable[[str | None], Config]

    @property
    def package(self) -> str:
        """Name of the library, as in the versions of a result."""
        return self.traits.library


def runtime(name: str = DEFAULT) -> Runtime:
    """Return the library in a folder of `chaos.clients`. Raises `ModuleNotFoundError` if there is none."""
    found: Runtime = import_module(f"{__package__}.{name.replace('-', '_')}.runtime").RUNTIME
    return found


def prepare(client: Client, on_progress: Progress) -> Installed:
    """Install what an entry runs with; see `Runtime.prepare`. A program of the user is there."""
    if client.command is not None:
        return Installed(client.describe(), dict.fromkeys(get_args(Program), client.command))
    return runtime(client.runtime).prepare(client, on_progress)

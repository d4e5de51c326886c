"""The place where clients run: what the fleet needs of it and of a process there, and this machine as the usual one."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from chaos.clients.checkpoint import LedgerRows, WrittenRows
from chaos.clients.protocol import ClientSpec
from chaos.clients.runtime import Installed, prepare
from chaos.clients.specs import write_spec
from chaos.install.cache import silent
from chaos.kafka.access import Access
from chaos.processes import process
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.processes.scrub import Scrubber
from chaos.processes.usage import Usage, UsageMeter, read_all
from chaos.run.directory import Run
from chaos.scenario.runtimes.choice import Client

METER_EVERY_S = 0.5
LAST_LINES = 20
MAX_EVENT = 1 << 20
"""Bytes of the longest event."""


class Meter(Protocol):
    """The usage of a process and its children; see `UsageMeter`."""

    total: Usage | None
    started: Usage | None

    def mark_started(self) -> None:
        """Keep the usage up to now as that of the start."""


class ClientProcess(Protocol):
    """The process of a client, wherever it runs.

    log: what it wrote to stderr, in the run directory.
    """

    pid: int
    log: Path

    @property
    def meter(self) -> Meter:
        """The usage of the process and its children."""

    def read_events(self) -> Iterator[bytes]:
        """Yield the lines on stdout until it ends."""

    def write(self, line: bytes) -> None:
        """Write a line to stdin. Raises `OSError` or `ValueError` if the process is gone."""

    def signal(self, number: int) -> bool:
        """Send a signal to the process and its children; return False if it is gone."""

    def pause(self) -> bool:
        """Send SIGSTOP to the process and its children, and wait until it is paused; return False if it is gone."""

    def wait(self) -> int | None:
        """Wait for the end. Returns the exit code, None if it is not known."""

    def last_lines(self) -> list[str]:
        """Return the last lines of the log; empty if it is not readable."""


class Host(Protocol):
    """A machine that runs clients."""

    @property
    def written(self) -> WrittenRows:
        """The rows that clients wrote there."""

    def prepare(self, libraries: Iterable[Client]) -> None:
        """Install client libraries, unless they are there. Raises `ResolveError`, `MachineError`, `ClientError`."""

    def start(self, spec: ClientSpec, library: Client, log: Path, env: Mapping[str, str]) -> ClientProcess:
        """Start the program of a spec. Raises `OSError`, `ClientError`."""

    def measure(self, meters: Iterable[Meter]) -> None:
        """Read the usage of processes that this host started."""


class RemoteHosts(Protocol):
    """The workers of a run; see `chaos.workers`."""

    @property
    def all(self) -> Sequence[Host]:
        """All workers."""

    def host_of(self, client: str) -> Host:
        """Return the worker of a client."""

    def check(self) -> None:
        """Raise `ClientError` if a worker is gone."""


class LocalProcess:
    """The process of a client on this machine."""

    def __init__(self, spawned: Spawned, log: Path, scrubber: Scrubber) -> None:
        self._spawned, self.log, self._scrubber = spawned, log, scrubber
        self.pid = spawned.identity.pid
        self._meter = UsageMeter(self.pid)

    @property
    def meter(self) -> UsageMeter:
        """The usage of the process and its children."""
        return self._meter

    def read_events(self) -> Iterator[bytes]:
        """Yield the lines on stdout until it ends."""
        stdout = self._spawned.popen.stdout
        assert stdout is not None  # the host made the pipe
        while line := stdout.readline(MAX_EVENT):
            yield self._scrubber.raw(line)

    def write(self, line: bytes) -> None:
        """Write a line to stdin. Raises `OSError` or `ValueError` if the process is gone."""
        stdin = self._spawned.popen.stdin
        assert stdin is not None  # the host made the pipe
        stdin.write(line)
        stdin.flush()

    def end_orders(self) -> None:
        """Close stdin, as when the fleet is gone."""
        stdin = self._spawned.popen.stdin
        assert stdin is not None  # the host made the pipe
        stdin.close()

    def signal(self, number: int) -> bool:
        """Send a signal to the process and its children; return False if it is gone."""
        if number == signal.SIGKILL:
            self.meter.read()
        return self._spawned.signal_group(number)

    def pause(self) -> bool:
        """Send SIGSTOP to the process and its children, and wait until it is paused; return False if it is gone."""
        return process.pause(self._spawned.identity, group=True)

    def wait(self) -> int:
        """Wait for the end, then kill the children that it left. Returns the exit code."""
        return self._spawned.wait(at_end=self.meter.read)

    def last_lines(self) -> list[str]:
        """Return the last lines of the log; empty if it is not readable."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        except OSError:
            return []


class LocalHost:
    """This machine.

    folder: where ledger and specs are; the run directory, unless this is one of several workers. owner: the clients end
    with this process.
    """

    def __init__(self, run: Run, owner: ProcessId, folder: Path | None = None) -> None:
        here = Run(folder) if folder else run
        self._run, self._owner, self._specs = run, owner, here.path / "clients"
        self.written = LedgerRows(here.ledger)
        self.installed: dict[Client, Installed] = {}

    def prepare(self, libraries: Iterable[Client]) -> None:
        """Install client libraries, unless they are there. Raises `ResolveError`, `MachineError`."""
        self.installed |= {library: prepare(library, silent) for library in libraries}

    def start(self, spec: ClientSpec, library: Client, log: Path, env: Mapping[str, str]) -> LocalProcess:
        """Start the program of a spec. Raises `OSError`, `ClientError`."""
        installed = self.installed[library]
        access = Access.of(spec.security)
        scrubber = access.scrubber if access else Scrubber()
        spawned = spawn(
            installed.command(spec, write_spec(self._specs, spec)),
            run=self._run,
            role=f"{spec.role} {spec.client}",
            owner=self._owner,
            log=log,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**installed.env, **env},
            scrubber=scrubber,
        )
        return LocalProcess(spawned, log, scrubber)

    def measure(self, meters: Iterable[Meter]) -> None:
        """Read the usage of processes that this host started, in one pass."""
        read_all(meter for meter in meters if isinstance(meter, UsageMeter))

"""The processes of clients: how the fleet starts one, what it asks of one that runs, and the clock that one sees.

Each process of an entry with a fault of the clock preloads `chaos.preload`, and has a control file. Its rows keep the
clock of the machine: `now_us` derives their times from the monotonic clock, which stays right.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from chaos.clients.choice import Client
from chaos.clients.protocol import ClientSpec, ProducerSpec
from chaos.clients.python.start import ENTRY
from chaos.clients.runtime import Installed, prepare
from chaos.fleet.specs import write_spec
from chaos.install.cache import silent
from chaos.kafka.security import Access
from chaos.preload import libraries
from chaos.preload.libraries import Skew
from chaos.processes import process
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.processes.scrub import Scrubber
from chaos.processes.usage import UsageMeter
from chaos.run.directory import Run
from chaos.run.events import MACHINE_CLOCK, machine_clock

LAST_LINES = 20
MAX_EVENT = 1 << 20
"""Bytes of the longest event."""


class ClientProcess:
    """The process of a client.

    log: what it wrote to stderr. hidden: whether no text of the run may have a part of its output, which may have a
    payload in it; its log has it.
    """

    def __init__(self, spawned: Spawned, log: Path, scrubber: Scrubber, hidden: bool = False) -> None:
        self._spawned, self.log, self._scrubber, self.hidden = spawned, log, scrubber, hidden
        self.pid = spawned.identity.pid
        self.meter = UsageMeter(self.pid)
        """The usage of the process and its children."""

    def read_events(self) -> Iterator[bytes]:
        """Yield the lines on stdout until it ends."""
        stdout = self._spawned.popen.stdout
        assert stdout is not None  # the launcher made the pipe
        while line := stdout.readline(MAX_EVENT):
            yield self._scrubber.raw(line)

    def write(self, line: bytes) -> None:
        """Write a line to stdin. Raises `OSError` or `ValueError` if the process is gone."""
        stdin = self._spawned.popen.stdin
        assert stdin is not None  # the launcher made the pipe
        stdin.write(line)
        stdin.flush()

    def end_orders(self) -> None:
        """Close stdin, as when the fleet is gone."""
        stdin = self._spawned.popen.stdin
        assert stdin is not None  # the launcher made the pipe
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
        """Return the last lines of the log; empty if it is not readable, or not to be shown."""
        if self.hidden:
            return []
        try:
            return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        except OSError:
            return []


class Launcher:
    """Starts the clients of a run.

    owner: they end with this process. hides_payloads: whether no text of the run may have a part of a payload.
    """

    def __init__(self, run: Run, owner: ProcessId, hides_payloads: bool) -> None:
        self._run, self._owner, self._hides_payloads = run, owner, hides_payloads
        self.installed: dict[Client, Installed] = {}

    def prepare(self, libraries: Iterable[Client]) -> None:
        """Install client libraries, unless they are there. Raises `ResolveError`, `MachineError`."""
        self.installed |= {library: prepare(library, silent) for library in libraries}

    def start(self, spec: ClientSpec, library: Client, log: Path, env: Mapping[str, str]) -> ClientProcess:
        """Start the program of a spec. Raises `OSError`, `ClientError`."""
        if isinstance(spec, ProducerSpec) and spec.rows:
            installed = Installed("SQLAlchemy", {"producer": (*ENTRY, "rows")})
        else:
            installed = self.installed[library]
        access = Access.of(spec.security)
        scrubber = access.scrubber if access else Scrubber()
        spawned = spawn(
            installed.command(spec, write_spec(self._run.path / "clients", spec)),
            run=self._run,
            role=f"{spec.role} {spec.client}",
            owner=self._owner,
            log=log,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**installed.env, **env},
            scrubber=scrubber,
        )
        # programs of ours write no payloads
        return ClientProcess(spawned, log, scrubber, self._hides_payloads and library.command is not None)


class ClientClocks:
    """The clocks of the clients of some entries. Clients of other entries have the clock of the machine.

    folder: of the control files.
    """

    def __init__(self, folder: Path, entries: Collection[str]) -> None:
        self._folder, self._entries = folder, entries
        if entries:
            libraries.compiled("clock")

    def environment(self, client: str) -> dict[str, str]:
        """Return the environment variables that give the process of a client its clock."""
        if client.partition("/")[0] not in self._entries:
            return {}
        self._folder.mkdir(exist_ok=True)
        libraries.create_clock(self._control(client))
        return {**libraries.environment(libraries.preload_clock(self._control(client))), MACHINE_CLOCK: machine_clock()}

    def set(self, client: str, skew: Skew) -> None:
        """Change the clock of the process of a client. It stays until it is set again, also over restarts.

        Raises `OSError`.
        """
        libraries.set_skew(self._control(client), skew)

    def ahead_s(self, client: str) -> float:
        """Return how many seconds the clock is ahead, as it was set. Raises `OSError`."""
        return libraries.ahead_s(self._control(client))

    def _control(self, client: str) -> Path:
        return self._folder / f"{client.replace('/', '-')}.clock"

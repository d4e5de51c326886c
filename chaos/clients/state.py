"""The fleet's view of one client incarnation: its process, its last progress event and its end."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from chaos.errors import ClientError
from chaos.processes.process import Spawned

LAST_LINES = 20


class ClientState:
    """One incarnation of a client. Its methods are thread-safe.

    Clients that are threads of one process are `mates`: each has a state, and they share the process and its exit.

    asked_to_end: the fleet ordered the client to stop, or killed it.
    killed_for: why the fleet killed the client; empty if it did not.
    exit_lines: last lines of the log at an exit without an order or a kill from the fleet.
    superseded: the fleet started the next incarnation while this one ran, which ends this one.
    """

    def __init__(self, client: str, role: str, incarnation: int, spawned: Spawned, log: Path) -> None:
        self.client, self.role, self.incarnation, self.log = client, role, incarnation, log
        self.spawned = spawned
        self.mates: list[ClientState] = [self]
        self.started = threading.Event()
        self.gone = threading.Event()
        self.exit_code: int | None = None
        self.asked_to_end = False
        self.killed_for = ""
        self.superseded = False
        self.exit_lines: list[str] = []
        self.errors: list[str] = []
        self._lock = threading.Lock()
        self._progress: dict[str, Any] = {}

    @property
    def alive(self) -> bool:
        """Whether the fleet has not yet seen the process end."""
        return not self.gone.is_set()

    def progress(self) -> dict[str, Any]:
        """Return the last progress event; empty before the first."""
        with self._lock:
            return self._progress

    def count(self, name: str) -> int:
        """Return a count from the last progress event; 0 before the first."""
        return int(self.progress().get(name, 0))

    def assigned(self) -> list[str]:
        """Return the assigned partitions as `topic/partition`; empty if the client is gone."""
        return list(self.progress().get("assigned", [])) if self.alive else []

    def positions(self) -> dict[str, int]:
        """Return the next offset of each assigned partition; empty if the client is gone."""
        return dict(self.progress().get("positions", {})) if self.alive else {}

    def listen(self, on_exit: Callable[[ClientState], None]) -> None:
        """Read events in a thread until the process exits; then call `on_exit` with this state and each mate."""
        stdout = self.spawned.popen.stdout
        assert stdout is not None  # the fleet made the pipe
        name = f"{self.client}.{self.incarnation}"
        threading.Thread(target=self._listen, args=(stdout, on_exit), name=name, daemon=True).start()

    def _listen(self, stdout: IO[bytes], on_exit: Callable[[ClientState], None]) -> None:
        try:
            for line in stdout:
                self._receive(line)
            exit_code = self.spawned.popen.wait()
            for mate in self.mates:
                mate.exit_code = exit_code
                on_exit(mate)
        finally:
            for mate in self.mates:
                mate.gone.set()

    def _receive(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, client = event.pop("event"), event.pop("client", self.client)
        except (ValueError, KeyError, AttributeError, TypeError):  # cut by a SIGKILL, or not of the protocol
            self.errors.append(f"not an event: {line[:200]!r}")
            return
        for mate in [m for m in self.mates if m.client == client]:
            mate._apply(kind, event)

    def _apply(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "started":
            self.started.set()
        elif kind == "progress":
            with self._lock:
                self._progress = event
        elif kind == "error":
            self.errors.append(str(event.get("detail")))

    def order(self, order: dict[str, Any]) -> None:
        """Send an order. Raises `ClientError` if the client is gone."""
        stdin = self.spawned.popen.stdin
        assert stdin is not None  # the fleet made the pipe
        if len(self.mates) > 1:
            order = {**order, "client": self.client}
        try:
            stdin.write(json.dumps(order).encode() + b"\n")
            stdin.flush()
        except (BrokenPipeError, ValueError):
            raise ClientError(f"{self.client} is gone and takes no order; see {self.log}") from None

    def kill(self, timeout_s: float) -> None:
        """Send SIGKILL and wait for the exit. Raises `ClientError` after `timeout_s`."""
        self.spawned.identity.signal(signal.SIGKILL)
        if not self.gone.wait(timeout_s):
            raise ClientError(f"{self.client} (process {self.spawned.identity.pid}) does not end after SIGKILL")

    def describe_exit(self) -> str:
        """Return a sentence about an unexpected exit."""
        how = f"signal {-self.exit_code}" if self.exit_code is not None and self.exit_code < 0 else self.exit_code
        last = "".join(f": {line}" for line in self.exit_lines[-1:])
        return f"{self.client} (incarnation {self.incarnation}) exited unexpectedly with {how}{last}"

    def last_lines(self) -> list[str]:
        """Return the last lines of the log; empty if it is not readable."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        except OSError:
            return []

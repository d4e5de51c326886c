"""What a running client last told, as its supervisor knows it: one object for each life of a client process."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from chaos.errors import ClientError
from chaos.processes.process import Spawned
from chaos.run.events import now_us

LAST_LINES = 20


@dataclass(frozen=True)
class UnexpectedExit:
    """A client that ended without having been asked to."""

    client: str
    incarnation: int
    exit_code: int | None
    last_lines: tuple[str, ...]

    def words(self) -> str:
        """As a person reads it."""
        how = f"signal {-self.exit_code}" if self.exit_code is not None and self.exit_code < 0 else self.exit_code
        last = f": {self.last_lines[-1]}" if self.last_lines else ""
        return f"{self.client} (incarnation {self.incarnation}) ended by itself with {how}{last}"


class ClientState:
    """One incarnation of a client: its process, its last progress, and how it ended. Safe to use from any thread.

    Clients that are threads of one process are `mates`: each has a state, and they share the process and its end.
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
        """Why its supervisor ended it by force, if it did."""
        self.superseded = False
        """Whether its next incarnation was started while it ran, which is to end it."""
        self.errors: list[str] = []
        self._lock = threading.Lock()
        self._progress: dict[str, Any] = {}

    @property
    def alive(self) -> bool:
        """Whether the process has not ended, as far as its supervisor noticed."""
        return not self.gone.is_set()

    def progress(self) -> dict[str, Any]:
        """The last progress event; empty before the first."""
        with self._lock:
            return self._progress

    def count(self, name: str) -> int:
        """A count of the last progress event; 0 before the first."""
        return int(self.progress().get(name, 0))

    def assigned(self) -> list[str]:
        """The partitions it holds, as `topic/partition`; none when it is gone."""
        return list(self.progress().get("assigned", [])) if self.alive else []

    def positions(self) -> dict[str, int]:
        """Next offset of each partition it holds; none when it is gone."""
        return dict(self.progress().get("positions", {})) if self.alive else {}

    def listen(self, when_gone: Callable[[ClientState], None]) -> None:
        """Follow the process in a thread until it is gone and `when_gone` has returned, for it and all its mates."""
        stdout = self.spawned.popen.stdout
        assert stdout is not None  # the fleet's own pipe
        name = f"{self.client}.{self.incarnation}"
        threading.Thread(target=self._listen, args=(stdout, when_gone), name=name, daemon=True).start()

    def _listen(self, stdout: IO[bytes], when_gone: Callable[[ClientState], None]) -> None:
        try:
            for line in stdout:
                self._hear(line)
            exit_code = self.spawned.popen.wait()
            for mate in self.mates:
                mate.exit_code = exit_code
                when_gone(mate)
        finally:
            for mate in self.mates:
                mate.gone.set()

    def _hear(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, client = event.pop("event"), event.pop("client", self.client)
        except (ValueError, KeyError, AttributeError, TypeError):  # torn by a SIGKILL, or not of the protocol
            self.errors.append(f"not an event: {line[:200]!r}")
            return
        for mate in [m for m in self.mates if m.client == client]:
            mate._take(kind, event)

    def _take(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "started":
            self.started.set()
        elif kind == "progress":
            with self._lock:
                self._progress = event
        elif kind == "error":
            self.errors.append(str(event.get("detail")))

    def order(self, order: dict[str, Any]) -> None:
        """Give an order. Raises `ClientError` if the client is gone."""
        stdin = self.spawned.popen.stdin
        assert stdin is not None  # the fleet's own pipe
        if len(self.mates) > 1:
            order = {**order, "client": self.client}
        try:
            stdin.write(json.dumps(order).encode() + b"\n")
            stdin.flush()
        except (BrokenPipeError, ValueError):
            raise ClientError(f"{self.client} is gone and takes no order; see {self.log}") from None

    def kill(self, timeout_s: float) -> None:
        """SIGKILL, and wait until it is gone and reaped. Raises `ClientError` if that takes longer."""
        self.spawned.identity.signal(signal.SIGKILL)
        if not self.gone.wait(timeout_s):
            raise ClientError(f"{self.client} (process {self.spawned.identity.pid}) does not end after SIGKILL")

    def crashed(self, detail: dict[str, Any]) -> dict[str, object]:
        """The row of its end, which it could not write itself."""
        return {
            "client": self.client,
            "role": self.role,
            "incarnation": self.incarnation,
            "event": "crashed",
            "detail": json.dumps(detail),
            "at_us": now_us(),
        }

    def last_lines(self) -> list[str]:
        """The end of its log."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        except OSError:
            return []

"""Proxy and switch as the platform sees them: started for a run, found again from any process, told what to do."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

from chaos.errors import ClusterError, WaitTimeout
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.relay.cuts import LISTENERS, Cut, Listener
from chaos.relay.rules import ADDRESSES, SOCKET, SWITCH_ADDRESSES, SWITCH_SOCKET, Rule
from chaos.run.directory import Run, read_json
from chaos.wait import wait_until

ROLE, SWITCH_ROLE = "proxy", "switch"

READY_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 10.0

Addresses = Mapping[int, tuple[str, int]]
Places = Mapping[int, Mapping[Listener, tuple[str, int]]]
"""Of each broker, where its listeners are."""


def start(run: Run, brokers: Addresses, owner: ProcessId | None) -> None:
    """Start the proxy of a run in front of these brokers. Raises `ClusterError`."""
    _start(run, ROLE, ["chaos.relay.server", str(run.path), json.dumps(brokers)], (SOCKET, ADDRESSES), owner)


def start_switch(run: Run, brokers: Places, owner: ProcessId | None) -> tuple[Spawned, Places]:
    """Start the switch of a cluster, for brokers that will listen there; where it stands for them. `ClusterError`."""
    argv = ["chaos.relay.switch", str(run.path), json.dumps(brokers)]
    spawned = _start(run, SWITCH_ROLE, argv, (SWITCH_SOCKET, SWITCH_ADDRESSES), owner)
    raw: Any = read_json(run.path / SWITCH_ADDRESSES, "switch's addresses")
    return spawned, {int(b): {name: (of[name][0], of[name][1]) for name in LISTENERS} for b, of in raw.items()}


def _start(run: Run, role: str, argv: list[str], files: tuple[str, str], owner: ProcessId | None) -> Spawned:
    for name in files:
        (run.path / name).unlink(missing_ok=True)
    log = run.logs / f"{role}.log"
    spawned = spawn([sys.executable, "-m", *argv], run=run, role=role, owner=owner, log=log)

    def ready() -> bool:
        if spawned.popen.poll() is not None:
            raise ClusterError(f"the wire {role} did not start; see {log}")
        return (run.path / files[1]).exists()

    try:
        wait_until(ready, READY_TIMEOUT_S, f"the wire {role} is not ready; see {log}", every_s=0.02)
    except WaitTimeout as e:
        raise ClusterError(str(e)) from None
    return spawned


class Control:
    """A control connection; what was made over it ends with it. For several threads."""

    role: ClassVar[str]
    socket_name: ClassVar[str]

    def __init__(self, run: Run) -> None:
        """Connect to what some process started for this run. Raises `ClusterError`."""
        self._log = run.logs / f"{self.role}.log"
        self._lock = threading.Lock()
        self._gone = ""
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(ANSWER_TIMEOUT_S)
        with tempfile.TemporaryDirectory() as short:  # the path of a Unix socket has room for some 100 characters
            link = Path(short) / "run"
            link.symlink_to(run.path)
            try:
                self._connection.connect(str(link / self.socket_name))
            except OSError as e:
                self._connection.close()
                raise ClusterError(f"the wire {self.role} of {run.run_id} is gone ({e}); see {self._log}") from None
        self._answers = self._connection.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and what was made over it."""
        self._answers.close()
        self._connection.close()

    def check(self) -> None:
        """Raise `ClusterError` if it has ended: nothing reaches the brokers any more."""
        if self._gone:
            raise ClusterError(self._gone)
        with self._lock:
            self._connection.setblocking(False)
            try:
                ended = self._connection.recv(1, socket.MSG_PEEK) == b""
            except BlockingIOError:
                ended = False
            except OSError:
                ended = True
            finally:
                self._connection.settimeout(ANSWER_TIMEOUT_S)
        if ended:
            self._fail("its control connection is closed")

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            try:
                self._connection.sendall(json.dumps(order).encode() + b"\n")
                line = self._answers.readline()
            except OSError as e:
                self._fail(str(e) or type(e).__name__)
        if not line:
            self._fail("its control connection is closed")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ClusterError(f"the wire {self.role} refused {order['do']}: {answer['error']}")
        return answer

    def _fail(self, why: str) -> NoReturn:
        self._gone = f"the wire {self.role} ended in the middle of the run ({why}); see {self._log}"
        raise ClusterError(self._gone)


class Proxy(Control):
    """A control connection to the proxy of a run, and the rules made over it."""

    role, socket_name = ROLE, SOCKET

    def __init__(self, run: Run) -> None:
        raw: Any = read_json(run.path / ADDRESSES, "wire proxy's addresses")
        self._addresses = {int(broker): (host, port) for broker, (host, port) in raw.items()}
        super().__init__(run)

    @classmethod
    def attach(cls, run: Run) -> Self:
        """Connect to the proxy that some process started for this run. Raises `ClusterError`, `RunDirError`."""
        return cls(run)

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of the clients that go through it."""
        return ",".join(f"{host}:{port}" for host, port in self._addresses.values())

    def address(self, broker: int) -> tuple[str, int]:
        """Where it stands for a broker. Raises `ClusterError` for one that it does not know."""
        if broker not in self._addresses:
            raise ClusterError(f"the wire proxy does not stand in front of broker {broker}")
        return self._addresses[broker]

    def add(self, rule: Rule) -> int:
        """Put a rule in force; its id."""
        return int(self._ask({"do": "add", "rule": rule.to_json()})["id"])

    def matches(self, rule: int) -> int:
        """How many frames a rule has hit."""
        return int(self._ask({"do": "matches", "id": rule})["matches"])

    def remove(self, rule: int) -> int:
        """Take a rule out of force, if it is not yet; how many frames it hit."""
        return int(self._ask({"do": "remove", "id": rule})["matches"])


class Switch(Control):
    """A control connection to the switch of a cluster, and the cuts made over it."""

    role, socket_name = SWITCH_ROLE, SWITCH_SOCKET

    def cut(self, cut: Cut) -> int:
        """Put a cut in force; its id."""
        return int(self._ask({"do": "cut", "cut": asdict(cut)})["id"])

    def held(self, cut: int) -> int:
        """How many pieces of data a cut has held back."""
        return int(self._ask({"do": "held", "id": cut})["held"])

    def mend(self, cut: int) -> None:
        """Take a cut out of force, if it is not yet; what it held passes."""
        self._ask({"do": "mend", "id": cut})

    def seen(self) -> dict[tuple[int, str], list[str]]:
        """The client ids that have come so far, by broker and listener; those of the cluster's clients are not read."""
        found = self._ask({"do": "seen"})["seen"]
        return {(one["broker"], one["listener"]): one["clients"] for one in found}

"""The proxy as the platform sees it: started for a run, found again from any process, told what to do."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Self

from chaos.cluster.processes import Identity, spawn
from chaos.errors import ClusterError, WaitTimeout
from chaos.proxy.rules import ADDRESSES, SOCKET, Rule
from chaos.rundir import RunDir, read_json
from chaos.wait import wait_until

ROLE = "proxy"

READY_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 10.0

Addresses = Mapping[int, tuple[str, int]]


def start(run: RunDir, brokers: Addresses, owner: Identity | None) -> None:
    """Start the proxy of a run in front of these brokers. Raises `ClusterError`."""
    for name in (SOCKET, ADDRESSES):
        (run.path / name).unlink(missing_ok=True)
    log = run.logs / f"{ROLE}.log"
    argv = [sys.executable, "-m", "chaos.proxy.server", str(run.path), json.dumps(brokers)]
    spawned = spawn(argv, run=run, role=ROLE, owner=owner, log=log)

    def ready() -> bool:
        if spawned.popen.poll() is not None:
            raise ClusterError(f"the wire proxy did not start; see {log}")
        return (run.path / ADDRESSES).exists()

    try:
        wait_until(ready, READY_TIMEOUT_S, f"the wire proxy is not ready; see {log}", every_s=0.02)
    except WaitTimeout as e:
        raise ClusterError(str(e)) from None


def has_proxy(run: RunDir) -> bool:
    """Whether a proxy was started for this run."""
    return (run.path / ADDRESSES).exists()


class Proxy:
    """A control connection to the proxy of a run; the rules made over it end with it. For several threads."""

    def __init__(self, run: RunDir, addresses: Addresses, connection: socket.socket) -> None:
        self._log = run.logs / f"{ROLE}.log"
        self._addresses = addresses
        self._connection = connection
        self._answers = connection.makefile("rb")
        self._lock = threading.Lock()
        self._gone = ""

    @classmethod
    def attach(cls, run: RunDir) -> Self:
        """Connect to the proxy that some process started for this run. Raises `ClusterError`, `RunDirError`."""
        raw: Any = read_json(run.path / ADDRESSES, "wire proxy's addresses")
        addresses = {int(broker): (host, port) for broker, (host, port) in raw.items()}
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(ANSWER_TIMEOUT_S)
        with tempfile.TemporaryDirectory() as short:  # the path of a Unix socket has room for some 100 characters
            link = Path(short) / "run"
            link.symlink_to(run.path)
            try:
                connection.connect(str(link / SOCKET))
            except OSError as e:
                connection.close()
                raise ClusterError(f"the wire proxy of {run.run_id} is gone ({e}); see {run.logs}/proxy.log") from None
        return cls(run, addresses, connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._answers.close()
        self._connection.close()

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

    def check(self) -> None:
        """Raise `ClusterError` if the proxy has ended: nothing reaches the brokers any more."""
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
            raise ClusterError(f"the wire proxy refused {order['do']}: {answer['error']}")
        return answer

    def _fail(self, why: str) -> NoReturn:
        self._gone = f"the wire proxy ended in the middle of the run ({why}); see {self._log}"
        raise ClusterError(self._gone)

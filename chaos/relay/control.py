"""The relay as the rest of the platform uses it: start it for a run, and control it from any process."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

from chaos.errors import ClusterError
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.relay.cuts import Cut
from chaos.relay.roles import Address, Encryption, Endpoints, Payloads, Role, address_name, socket_name
from chaos.relay.rules import Rule
from chaos.run.directory import Run, read_json
from chaos.wait import wait_until

READY_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Hits:
    """The counts of a rule or cut."""

    hits: int
    """Frames that the rule matched, or pieces of data that the cut held."""
    released: int
    """Frames that the rule held until another one had passed."""
    outlived: int
    """Connections with frames that the rule held, and that reached the broker after their client had gone."""
    front: str = ""
    broker: int = -1
    """The front and the broker of the last frame that a rule matched."""


def start_proxy(
    run: Run,
    brokers: Mapping[int, Address],
    owner: ProcessId | None,
    sessions: bool = False,
    payloads: Payloads | None = None,
    encryption: Encryption | None = None,
    session: int = 0,
) -> None:
    """Start the proxy of a run in front of these brokers. Raises `ClusterError`.

    sessions: whether it reads every Fetch request, for rules that select them by topic. payloads: what is kept of the
    records in a capture of its fronts; None: no capture. encryption: of connections to the proxy and to the brokers.
    session: of the capture, see `chaos.relay.capture.Recorder`.
    """
    endpoints: Endpoints = {broker: {"clients": address} for broker, address in brokers.items()}
    options = [*["sessions"] * sessions, *([payloads] if payloads else [])]
    options += [json.dumps(asdict(encryption))] if encryption else []
    options += [str(session)] if session else []
    _start(run, "proxy", endpoints, owner, options)


def start_switch(run: Run, brokers: Endpoints, owner: ProcessId | None) -> tuple[Spawned, Endpoints]:
    """Start the switch of a run, in front of brokers that may start later.

    Returns the process and the addresses to advertise. Raises `ClusterError`.
    """
    spawned = _start(run, "switch", brokers, owner)
    raw: Any = read_json(run.path / address_name("switch"), "switch's addresses")
    return spawned, {int(node): {name: (at[0], at[1]) for name, at in of.items()} for node, of in raw.items()}


def _start(run: Run, role: Role, brokers: Endpoints, owner: ProcessId | None, options: Sequence[str] = ()) -> Spawned:
    for name in (socket_name(role), address_name(role)):
        (run.path / name).unlink(missing_ok=True)
    log = run.logs / f"{role}.log"
    argv = [
        sys.executable,
        "-m",
        "chaos.relay.server",
        str(run.path),
        role,
        json.dumps(brokers),
        *options,
    ]
    spawned = spawn(argv, run=run, role=role, owner=owner, log=log)

    def ready() -> bool:
        if spawned.popen.poll() is not None:
            raise ClusterError(f"the wire {role} did not start; see {log}")
        return (run.path / address_name(role)).exists()

    wait_until(ready, READY_TIMEOUT_S, f"the wire {role} is not ready; see {log}", every_s=0.02, error=ClusterError)
    return spawned


class Control:
    """A control connection to a relay. The rules or cuts that it adds end with it. Safe for several threads."""

    role: ClassVar[Role]

    def __init__(self, run: Run) -> None:
        """Connect to the relay that any process started for this run. Raises `ClusterError`."""
        self._log = run.logs / f"{self.role}.log"
        self._lock = threading.Lock()
        self._failure = ""
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(ANSWER_TIMEOUT_S)
        with tempfile.TemporaryDirectory() as short:  # the path of a Unix socket is limited to some 100 characters
            link = Path(short) / "run"
            link.symlink_to(run.path)
            try:
                self._connection.connect(str(link / socket_name(self.role)))
            except OSError as e:
                self._connection.close()
                raise ClusterError(f"the wire {self.role} of {run.run_id} is gone ({e}); see {self._log}") from None
        self._answers = self._connection.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, and so end the rules or cuts that it added."""
        self._answers.close()
        self._connection.close()

    def add(self, item: Rule | Cut) -> int:
        """Put a rule (proxy) or a cut (switch) in force. Returns its id."""
        return int(self._ask({"do": "add", "item": asdict(item)})["id"])

    def hits(self, number: int) -> int:
        """Return how many frames a rule matched, or how many pieces of data a cut held."""
        return self.counts(number).hits

    def counts(self, number: int) -> Hits:
        """Return the counts of a rule or cut."""
        return Hits(**self._ask({"do": "hits", "id": number}))

    def remove(self, number: int, lose: bool = False) -> Hits:
        """Take a rule or cut out of force, if it is still in force. Returns its counts.

        lose: whether what a rule held is lost, with its connection; else it passes.
        """
        return Hits(**self._ask({"do": "remove", "id": number, "lose": lose}))

    def status(self) -> dict[str, Any]:
        """Return the rules or cuts in force (`active`), connections and client ids by port (`ports`), and why a capture
        ended early (`failure`)."""
        return self._ask({"do": "status"})

    def check(self) -> None:
        """Raise `ClusterError` if the relay has ended: nothing reaches the brokers any more."""
        if self._failure:
            raise ClusterError(self._failure)
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
        self._failure = f"the wire {self.role} ended in the middle of the run ({why}); see {self._log}"
        raise ClusterError(self._failure)


class Proxy(Control):
    """A control connection to the proxy of a run."""

    role = "proxy"

    def __init__(self, run: Run) -> None:
        """Connect. Raises `ClusterError`, `RunDirError`."""
        raw: Any = read_json(run.path / address_name("proxy"), "wire proxy's addresses")
        self._addresses = {int(broker): (host, port) for broker, (host, port) in raw.items()}
        super().__init__(run)

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers for clients that connect through the proxy."""
        return ",".join(f"{host}:{port}" for host, port in self._addresses.values())

    def front(self, name: str, listen: str = HOST, advertise: str = "", ports: Mapping[int, int] | None = None) -> str:
        """Return the bootstrap servers of the front of an instance; the first call opens it.

        listen: address of this machine. advertise: host that clients get, `listen` if empty. ports: by broker, any if
        left out.
        """
        order = {"do": "front", "name": name, "listen": listen, "advertise": advertise, "ports": ports or {}}
        addresses = self._ask(order)["addresses"]
        return ",".join(f"{host}:{port}" for host, port in addresses.values())

    def begin(self, front: str) -> None:
        """Let the moments at a front start from the beginning, because a new process begins there."""
        self._ask({"do": "begin", "front": front})

    def broker(self, broker: int, address: Address, port: int = 0) -> None:
        """Go on in front of a broker that has another address now, or that is new: at this port of each front."""
        self._ask({"do": "broker", "broker": broker, "address": list(address), "port": port})

    def used(self) -> set[str]:
        """Return the names of the fronts to which something connected so far."""
        return {port["front"] for port in self.status()["ports"] if port["opened"]}

    def moments(self) -> dict[str, dict[tuple[str, str], int]]:
        """Return how often each moment came at each front so far, by the last step and the moment."""
        answer = self._ask({"do": "moments"})
        return {front: {(last, moment): count for last, moment, count in of} for front, of in answer.items()}

    def steps(self) -> dict[str, str]:
        """Return the last step of the process at each front, such as `OffsetCommit response`."""
        return self._ask({"do": "steps"})

    def members(self, front: str) -> dict[str, list[str]]:
        """Return the ids of the dynamic members that the process at a front is or was, by group."""
        found: dict[str, list[str]] = {}
        for group, member in self._ask({"do": "members"}).get(front, ()):
            found.setdefault(group, []).append(member)
        return found

    def seal(self) -> dict[str, Any]:
        """End the capture of the fronts, and return its seal: segments, entries, failure."""
        return self._ask({"do": "seal"})

    def address(self, broker: int) -> Address:
        """Return the proxy's address for a broker. Raises `ClusterError` for an unknown broker."""
        if broker not in self._addresses:
            raise ClusterError(f"the wire proxy has no port for broker {broker}")
        return self._addresses[broker]


class Switch(Control):
    """A control connection to the switch of a run."""

    role = "switch"

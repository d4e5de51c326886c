"""The ZooKeeper server of a run, for brokers that keep their metadata in one.

It is a single server from the jar that comes with the release. It is a process of the run, but never the target of a
fault. The platform queries it with four-letter commands, which need no client library.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence

from chaos.cluster.brokers.release import Job, Release, errors_in, log_of, start_jvm
from chaos.cluster.brokers.startup import start_error
from chaos.cluster.settings import properties
from chaos.cluster.state import ZooKeeperState
from chaos.errors import ClusterError, WaitTimeout
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId, Spawned
from chaos.run.directory import Run
from chaos.wait import wait_until

ROLE = "zookeeper"
TICK_MS = 500
"""The session granularity: sessions end on a tick, and last for at least two ticks."""

_ANSWER_S = 5.0
_HEAP_BYTES = 96 * 2**20
_REGISTRATION = re.compile(r"^\s*/brokers/ids/(\d+)\s*$", re.MULTILINE)


def settings(port: int) -> dict[str, str]:
    """Return the settings of the server."""
    return {
        "dataDir": "./data",  # ZooKeeper warns about a relative path without ./
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "tickTime": str(TICK_MS),
        "maxSessionTimeout": str(3600 * 1000),  # ZooKeeper silently shortens longer sessions; the default is 20 ticks
        "maxClientCnxns": "0",
        "admin.enableServer": "false",  # it would take port 8080
        "4lw.commands.whitelist": "srvr,dump",
    }


def write_files(run: Run, port: int) -> ZooKeeperState:
    """Write the files of a new server."""
    home = run.brokers / ROLE
    home.mkdir(parents=True)
    (home / "zookeeper.properties").write_text(properties(settings(port)), encoding="ascii")
    return ZooKeeperState(host=HOST, port=port, log=str(log_of(run, ROLE).relative_to(run.path)))


def start(release: Release, run: Run, owner: ProcessId | None) -> Spawned:
    """Start the server; `wait_ready` waits until it serves. Raises `OSError`."""
    main = ("org.apache.zookeeper.server.quorum.QuorumPeerMain", "./zookeeper.properties")
    return start_jvm(release, Job(ROLE, run.brokers / ROLE, main, _HEAP_BYTES), run, owner)


def wait_ready(run: Run, server: ZooKeeperState, timeout_s: float) -> None:
    """Wait until the server serves. Raises `AddressTaken`, `BrokerDied` or `ClusterError` with its log errors."""
    log = log_of(run, ROLE)

    def serves() -> bool:
        if not server.alive:
            raise start_error("ZooKeeper did not start", log)
        return "Mode: standalone" in _query(server, "srvr")

    try:
        wait_until(serves, timeout_s, "it does not serve", every_s=0.02)
    except WaitTimeout as e:
        raise ClusterError(f"ZooKeeper did not start: {e}; {errors_in(log)}") from None


def wait_unregistered(server: ZooKeeperState, brokers: Sequence[int], timeout_s: float) -> None:
    """Wait until none of these brokers, which are down, is registered. Raises `ClusterError`.

    A registration lasts as long as the session of the broker. A killed broker cannot end its session, and a broker that
    finds its ID registered by another session exits at once.
    """

    def unregistered() -> bool:
        if not server.alive:
            raise ClusterError(f"the run's ZooKeeper is gone; see {server.log} in the run directory")
        present = registered(server)
        return present is not None and not present & set(brokers)

    try:
        wait_until(unregistered, timeout_s, "their previous sessions have not ended", every_s=0.05)
    except WaitTimeout as e:
        names = ", ".join(map(str, brokers))
        raise ClusterError(f"broker {names} cannot be started: {e}; see {server.log} in the run directory") from None


def registered(server: ZooKeeperState) -> set[int] | None:
    """Return the brokers that have a session with the server; None if it does not answer."""
    answer = _query(server, "dump")
    return {int(broker) for broker in _REGISTRATION.findall(answer)} if "ephemeral nodes dump" in answer else None


def _query(server: ZooKeeperState, command: str) -> str:
    """Return the answer to a four-letter command; empty if the server cannot be reached."""
    answer = b""
    try:
        with socket.create_connection((server.host, server.port), timeout=_ANSWER_S) as connection:
            connection.sendall(command.encode())
            while received := connection.recv(1 << 16):
                answer += received
    except OSError:
        return ""
    return answer.decode("utf-8", errors="replace")

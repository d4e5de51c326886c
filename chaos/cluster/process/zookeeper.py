"""The ZooKeeper server of a run, where its brokers keep their metadata in one.

One server, from the jar that comes with the release; a process of the run like any other, but no target of faults. It
is asked by its four-letter words, so that no client of it is needed.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence

from chaos.cluster.brokers.broker import BrokerDied
from chaos.cluster.brokers.jvm import Job, Kafka, log_of
from chaos.cluster.brokers.jvm import start as start_jvm
from chaos.cluster.brokers.log import read_from, telling_lines
from chaos.cluster.settings import properties
from chaos.cluster.state import ZooKeeperState
from chaos.errors import ClusterError, WaitTimeout
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId, Spawned
from chaos.run.directory import Run
from chaos.wait import wait_until

ROLE = "zookeeper"
TICK_MS = 500
"""Sessions end on a tick, and last for two of them at least."""

_ANSWER_S = 5.0
_HEAP_BYTES = 96 * 2**20
_REGISTRATION = re.compile(r"^\s*/brokers/ids/(\d+)\s*$", re.MULTILINE)


def settings(port: int) -> dict[str, str]:
    """The settings of the server."""
    return {
        "dataDir": "./data",  # it warns of a relative path that does not begin like this
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "tickTime": str(TICK_MS),
        "maxSessionTimeout": str(3600 * 1000),  # by default 20 ticks: a longer one would be cut without a word
        "maxClientCnxns": "0",
        "admin.enableServer": "false",  # it would take port 8080
        "4lw.commands.whitelist": "srvr,dump",
    }


def lay_out(run: Run, port: int) -> ZooKeeperState:
    """Write the files of a new server."""
    home = run.brokers / ROLE
    home.mkdir(parents=True)
    (home / "zookeeper.properties").write_text(properties(settings(port)), encoding="ascii")
    return ZooKeeperState(host=HOST, port=port, log=str(log_of(run, ROLE).relative_to(run.path)))


def start(kafka: Kafka, run: Run, owner: ProcessId | None) -> Spawned:
    """Start the server; `wait_ready` says when it serves. Raises `OSError`."""
    main = ("org.apache.zookeeper.server.quorum.QuorumPeerMain", "./zookeeper.properties")
    return start_jvm(kafka, Job(ROLE, run.brokers / ROLE, main, _HEAP_BYTES), run, owner)


def wait_ready(run: Run, server: ZooKeeperState, timeout_s: float) -> None:
    """Wait until it serves. Raises `BrokerDied` or `ClusterError` with what its log says."""

    def serves() -> bool:
        if not server.alive:
            taken = "Address already in use" in read_from(log_of(run, ROLE), 0)
            raise BrokerDied(f"ZooKeeper did not start; {_told(run)}", taken)
        return "Mode: standalone" in _ask(server, "srvr")

    try:
        wait_until(serves, timeout_s, "it does not serve", every_s=0.02)
    except WaitTimeout as e:
        raise ClusterError(f"ZooKeeper did not start: {e}; {_told(run)}") from None


def wait_forgotten(server: ZooKeeperState, brokers: Sequence[int], timeout_s: float) -> None:
    """Wait until none of these brokers, which are down, is registered any more. Raises `ClusterError`.

    A registration lasts as long as the session of the broker that made it. One that was killed cannot end its session,
    and a broker that finds its number registered by another session gives up at once.
    """

    def forgotten() -> bool:
        if not server.alive:
            raise ClusterError(f"the run's ZooKeeper is gone; {server.log} in the run directory says why")
        known = registered(server)
        return known is not None and not known & set(brokers)

    try:
        wait_until(forgotten, timeout_s, "the sessions of their former lives have not ended", every_s=0.05)
    except WaitTimeout as e:
        names = ", ".join(map(str, brokers))
        raise ClusterError(f"broker {names} cannot be started: {e}; see {server.log} in the run directory") from None


def registered(server: ZooKeeperState) -> set[int] | None:
    """The brokers that have a session with it; None where it does not tell."""
    said = _ask(server, "dump")
    return {int(broker) for broker in _REGISTRATION.findall(said)} if "ephemeral nodes dump" in said else None


def _ask(server: ZooKeeperState, word: str) -> str:
    """What it answers to a four-letter word; nothing where it is not there."""
    answer = b""
    try:
        with socket.create_connection((server.host, server.port), timeout=_ANSWER_S) as connection:
            connection.sendall(word.encode())
            while received := connection.recv(1 << 16):
                answer += received
    except OSError:
        return ""
    return answer.decode("utf-8", errors="replace")


def _told(run: Run) -> str:
    log = log_of(run, ROLE)
    lines = "\n".join(f"  {line}" for line in telling_lines(read_from(log, 0)))
    return f"{log} says:\n{lines}" if lines else f"{log} says nothing"

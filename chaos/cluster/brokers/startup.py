"""The start of one broker: its files, its JVM, and the wait until it is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos.cluster.brokers.jvm import Job, Release, errors_in, log_of, read_from
from chaos.cluster.brokers.release import copy_storage
from chaos.cluster.settings import properties
from chaos.cluster.state import BrokerState
from chaos.errors import ClusterError, WaitTimeout
from chaos.kafka import messages
from chaos.kafka.connection import BrokerConnection
from chaos.run.directory import Run
from chaos.wait import wait_until

READY_TIMEOUT_S = 120.0  # a start takes seconds; a busy machine takes longer
STOP_TIMEOUT_S = 120.0  # a controlled shutdown first moves leadership away
_ANSWER_S = 1.0
_PORT_TAKEN = "Address already in use"


class BrokerDied(ClusterError):
    """A broker, or its ZooKeeper, ended before it became ready."""


class AddressTaken(ClusterError):
    """Another program took a port or an address between the choice and the start."""


def start_error(message: str, log: Path, offset: int = 0) -> ClusterError:
    """Return `AddressTaken` or `BrokerDied` for a JVM that ended at its start, with the errors in its log."""
    kind = AddressTaken if _PORT_TAKEN in read_from(log, offset) else BrokerDied
    return kind(f"{message}; {errors_in(log, offset)}")


def role(broker: int) -> str:
    """Return the role of a broker: the mark of its process, and the name of its log."""
    return f"broker-{broker}"


def home(run: Run, broker: int) -> Path:
    """Return the working directory of a broker, with its settings and data."""
    return run.brokers / str(broker)


def write_files(run: Run, broker: int, settings: dict[str, str], release: Release, cluster_id: str) -> None:
    """Write the settings and the formatted storage of a new broker."""
    home(run, broker).mkdir(parents=True)
    if release.storage is not None:
        copy_storage(release.storage, home(run, broker) / "data", broker, cluster_id)
    (home(run, broker) / "server.properties").write_text(properties(settings), encoding="ascii")


def cluster_id(run: Run, broker: int) -> str:
    """Return the cluster ID that a broker has written next to its data."""
    text = (home(run, broker) / "data" / "meta.properties").read_text(encoding="utf-8")
    return next(line.partition("=")[2] for line in text.splitlines() if line.startswith("cluster.id="))


def job(run: Run, broker: int, heap_bytes: int) -> Job:
    """Return the JVM job of a broker."""
    return Job(role(broker), home(run, broker), ("kafka.Kafka", "server.properties"), heap_bytes)


class StartingBroker:
    """A broker that is starting. Create the object just before the start: only later log lines count.

    `ended` returns how the broker ended, such as "was killed by signal 9", or None while it lives.
    """

    def __init__(self, run: Run, state: BrokerState) -> None:
        self.broker = state.id
        self.log = log_of(run, role(state.id))
        self.ended: Callable[[], str | None] = lambda: None
        self._offset = self.log.stat().st_size if self.log.exists() else 0
        # not a client library: it would soon ask other brokers, which may know more than this one
        self._link = BrokerConnection(state.host, state.port)

    def sees(self, brokers: Sequence[int]) -> bool:
        """Return whether the broker answers with metadata that lists all these brokers. Raises `BrokerDied`.

        Metadata lists a broker only while it is registered and unfenced, which requires an active controller.
        """
        if reason := self.ended():
            raise start_error(f"broker {self.broker} did not start: it {reason}", self.log, self._offset)
        try:
            answer = self._link.ask(messages.metadata(), _ANSWER_S)
        except OSError:
            return False
        if answer.controller_id < 0 or not set(brokers) <= {b.node_id for b in answer.brokers}:
            return False
        self._link.close()
        return True

    def errors(self) -> str:
        """Return the errors in the log since the start, indented, with the path of the log."""
        return errors_in(self.log, self._offset)


def wait_ready(starting: Sequence[StartingBroker], timeout_s: float) -> None:
    """Wait until each of these brokers sees all of them. Raises `ClusterError` with the errors in their logs."""
    brokers = [s.broker for s in starting]
    missing = list(starting)

    def ready() -> bool:
        # check every broker: one that died is the reason why the others are not ready
        missing[:] = [s for s in missing if not s.sees(brokers)]
        return not missing

    began = time.monotonic()
    try:
        wait_until(ready, timeout_s, "not ready", every_s=0.02)
    except WaitTimeout:
        waited = time.monotonic() - began
        raise ClusterError(
            f"broker {', '.join(str(s.broker) for s in missing)} did not get ready in {waited:.0f} s; "
            + "\n".join(s.errors() for s in missing)
        ) from None

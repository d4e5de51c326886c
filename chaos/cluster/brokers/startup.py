"""The start of one node, a broker or a dedicated controller: its files, its JVM, and the wait until it is ready."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from chaos.cluster.brokers.release import (
    Job,
    Release,
    copy_storage,
    errors_in,
    format_storage,
    log_of,
    new_id,
    read_from,
)
from chaos.cluster.settings import FIRST_CONTROLLER, ClusterSpec, ControllerEndpoints, controller_settings, properties
from chaos.cluster.state import NodeState
from chaos.errors import ClusterError, WaitTimeout
from chaos.kafka import messages
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.security import Access
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.wait import wait_until

READY_TIMEOUT_S = 120.0  # a start takes seconds; a busy machine takes longer
STOP_TIMEOUT_S = 120.0  # a controlled shutdown first moves leadership away
_ANSWER_S = 1.0
_PORT_TAKEN = "Address already in use"


class BrokerDied(ClusterError):
    """A broker, a controller or the ZooKeeper ended before it became ready."""


class AddressTaken(ClusterError):
    """Another program took a port or an address between the choice and the start."""


def start_error(message: str, log: Path, offset: int = 0) -> ClusterError:
    """Return `AddressTaken` or `BrokerDied` for a JVM that ended at its start, with the errors in its log."""
    kind = AddressTaken if _PORT_TAKEN in read_from(log, offset) else BrokerDied
    return kind(f"{message}; {errors_in(log, offset)}")


def role(node: int) -> str:
    """Return the role of a node: the mark of its process, and the name of its log."""
    return f"{'controller' if node >= FIRST_CONTROLLER else 'broker'}-{node}"


def home(run: Run, node: int) -> Path:
    """Return the working directory of a node, with its settings and data."""
    return run.brokers / str(node)


def write_files(run: Run, node: int, settings: dict[str, str], release: Release, cluster_id: str) -> None:
    """Write the settings and the formatted storage of a new node."""
    home(run, node).mkdir(parents=True)
    if release.storage is not None:
        folders = [name for path in settings["log.dirs"].split(",") if (name := path.rpartition("/")[2]) != "data"]
        copy_storage(release.storage, home(run, node) / "data", node, cluster_id, folders=folders)
    (home(run, node) / "server.properties").write_text(properties(settings), encoding="ascii")


def cluster_id(run: Run, broker: int) -> str:
    """Return the cluster ID that a broker has written next to its data."""
    meta = next((home(run, broker) / "data").rglob("meta.properties"))
    text = meta.read_text(encoding="utf-8")
    return next(line.partition("=")[2] for line in text.splitlines() if line.startswith("cluster.id="))


def job(run: Run, node: int, heap_bytes: int, env: Mapping[str, str] | None = None, flags: tuple[str, ...] = ()) -> Job:
    """Return the JVM job of a node. env, flags: what the node has besides the common ones of JVMs."""
    return Job(role(node), home(run, node), ("kafka.Kafka", "server.properties"), heap_bytes, flags, env or {})


class StartingNode(ABC):
    """A node that is starting. Create the object just before the start: only later log lines count.

    `ended` returns how the node ended, such as "was killed by signal 9", or None while it lives.
    """

    kind: ClassVar[str]

    def __init__(self, run: Run, state: NodeState, access: Access | None = None) -> None:
        self.node = state.id
        self.log = log_of(run, role(state.id))
        self.ended: Callable[[], str | None] = lambda: None
        self._offset = self.log.stat().st_size if self.log.exists() else 0
        # not a client library: it would soon ask other brokers, which may know more than this one
        self._link = BrokerConnection(state.host, state.port, access)

    def ready(self, brokers: Sequence[int]) -> bool:
        """Return whether the node serves; `brokers` start together. Raises `BrokerDied`."""
        if reason := self.ended():
            raise start_error(f"{self.kind} {self.node} did not start: it {reason}", self.log, self._offset)
        try:
            serves = self._serves(brokers)
        except OSError:
            return False
        if serves:
            self._link.close()
        return serves

    @abstractmethod
    def _serves(self, brokers: Sequence[int]) -> bool:
        """Return whether the answer to a request shows that the node serves. Raises `OSError` without an answer."""

    def errors(self) -> str:
        """Return the errors in the log since the start, indented, with the path of the log."""
        return errors_in(self.log, self._offset)


class StartingBroker(StartingNode):
    """A broker that is starting. It is ready when its metadata lists all brokers that start with it.

    Metadata lists a broker only while it is registered and unfenced, which requires an active controller.
    """

    kind = "broker"

    def _serves(self, brokers: Sequence[int]) -> bool:
        answer = self._link.ask(messages.metadata(), _ANSWER_S)
        return answer.controller_id >= 0 and set(brokers) <= {b.node_id for b in answer.brokers}


class StartingController(StartingNode):
    """A dedicated controller that is starting. It is ready when it answers: alone, it cannot become active."""

    kind = "controller"

    def _serves(self, brokers: Sequence[int]) -> bool:
        self._link.ask(messages.versions(), _ANSWER_S)
        return True


def wait_ready(starting: Sequence[StartingNode], timeout_s: float) -> None:
    """Wait until all of these nodes are ready. Raises `ClusterError` with the errors in their logs."""
    brokers = [s.node for s in starting if isinstance(s, StartingBroker)]
    missing = list(starting)

    def ready() -> bool:
        # check every node: one that died is the reason why the others are not ready
        missing[:] = [s for s in missing if not s.ready(brokers)]
        return not missing

    began = time.monotonic()
    try:
        wait_until(ready, timeout_s, "not ready", every_s=0.02)
    except WaitTimeout:
        waited = time.monotonic() - began
        raise ClusterError(
            f"{', '.join(f'{s.kind} {s.node}' for s in missing)} did not get ready in {waited:.0f} s; "
            + "\n".join(s.errors() for s in missing)
        ) from None


def write_voters(
    run: Run,
    spec: ClusterSpec,
    controllers: Mapping[int, ControllerEndpoints],
    release: Release,
    cluster_id: str,
    owner: ProcessId | None,
) -> None:
    """Replace the formatted storage of the first voters of a dynamic quorum (KIP-853). Raises `ClusterError`.

    Their identifiers and addresses are in the first snapshot of the metadata log. So the storage of each cluster is
    formatted once, when its addresses are known, and copied to the first `spec.voters` controllers.
    """
    directories = {node: new_id() for node in sorted(controllers)[: spec.voters]}
    first = next(iter(directories))
    voters = ",".join(f"{node}@{controllers[node].quorum}:{found}" for node, found in directories.items())
    formatted = run.brokers / "voters"
    formatted.mkdir()
    settings = controller_settings(spec, first, controllers)
    format_storage(
        release, settings, formatted, run, owner, spec.features, cluster_id, ("--initial-controllers", voters)
    )
    for node, directory_id in directories.items():
        data = home(run, node) / "data"
        shutil.rmtree(data)
        copy_storage(formatted, data, node, cluster_id, directory_id)
    shutil.rmtree(formatted)

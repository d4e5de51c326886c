"""The cluster of the attached driver."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Self

from chaos.cluster import deployment, state
from chaos.cluster.api import Cluster
from chaos.cluster.attached import commands, discovery
from chaos.cluster.settings import ClusterSpec
from chaos.cluster.state import Attachment, BrokerStatus, ClusterState, NodeState
from chaos.errors import AftershockError, ClusterError, UsageError
from chaos.install.cache import Progress, silent
from chaos.kafka import cleanup
from chaos.kafka.client import Kafka
from chaos.kafka.connection import accepts_connections
from chaos.kafka.security import Access
from chaos.processes.process import ProcessId, wait_gone
from chaos.run.directory import Run
from chaos.wait import wait_until

CONNECT_S = 2.0
"""The timeout for a connection to a broker."""
TAKEN_DOWN: tuple[BrokerStatus, ...] = ("killed", "stopped", "starting")
"""The status of a broker that the run took down and that is not back."""


class AttachedCluster(Cluster):
    """An existing cluster, for one run; `address` is what a broker advertised when the run began.

    It operates on brokers with the user's commands. The exit code of a command is not enough: a broker that was killed
    or stopped must refuse connections, a broker that was started must answer and appear in the metadata.

    A start command that ended with exit code 0 is not run again before the broker is taken down again: a broker may
    take long to start.
    """

    def __init__(self, run: Run, state: ClusterState) -> None:
        super().__init__(run, state)
        self._starts: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        """By broker, held while its start command runs: two faults of one broker may heal at once."""

    @classmethod
    def deploy(
        cls, run: Run, spec: ClusterSpec, owner: ProcessId | None, deadline_s: float, on_progress: Progress = silent
    ) -> Self:
        """Connect to the cluster; this creates nothing there.

        Raises `UsageError` if the cluster refuses access or lacks what the run needs, `ClusterError` if it does not
        answer.
        """
        existing = spec.existing
        if existing is None:
            raise UsageError("the attached driver needs an existing cluster: cluster.bootstrap in a scenario")
        if run.cluster.exists() and not _attachment(state.load(run)).cleared:
            raise ClusterError(f"{run.path} is attached to a cluster already; destroy it first, or make a new run")
        on_progress(f"connecting to {existing.bootstrap}")
        metadata = discovery.discover(existing, Access.of(existing.security))
        with deployment.deploying(run, spec, owner, deadline_s, partial(cls.clear, run)) as deploying:
            brokers = [
                NodeState(id=b, kafka="", host=host, port=port, state="running")
                for b, (host, port) in metadata.brokers.items()
            ]
            cluster_state = deploying.new_state("attached", brokers, existing.bootstrap, metadata.cluster_id)
            cluster_state.attached = Attachment(
                prefix=existing.prefix, security=existing.security, verbs=existing.verbs
            )
            cluster_state.save(run.cluster)
        return cls(run, cluster_state)

    @staticmethod
    def clear(run: Run) -> None:
        """Restore the cluster: brokers back, topics and groups of the run removed. Raises `AftershockError`."""
        cluster_state = state.load(run)
        attached = _attachment(cluster_state)
        if attached.cleared:
            return
        for command in attached.commands:
            commands.end(command)  # another process started it
            wait_gone([command], 10)
        problems = AttachedCluster(run, cluster_state)._restore_brokers()
        try:
            if attached.prefix:
                cleanup.remove(
                    cluster_state.bootstrap, lambda name: name.startswith(attached.prefix), cluster_state.access()
                )
        except AftershockError as e:
            again = f"remove what begins with {attached.prefix}, or try again: python -m chaos down {run.path}"
            raise type(e)(f"{e}; {again}") from None
        attached.cleared, attached.commands = True, []
        cluster_state.save(run.cluster)
        if problems:
            raise ClusterError("; ".join(problems))

    def broker_alive(self, broker: int) -> bool:
        """Return whether the broker accepts a connection; that of a paused broker is accepted by its kernel."""
        return accepts_connections(*self.address(broker), CONNECT_S, self._access)

    def kill_broker(self, broker: int) -> None:
        """Run the kill command, and wait until the broker is gone. Raises `ClusterError` if it was gone before."""
        self._take_down("kill", broker, "killed")

    def stop_broker(self, broker: int) -> None:
        """Run the stop command, and wait until the broker is gone. Raises `ClusterError` if it was gone before."""
        self._take_down("stop", broker, "stopped")

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several brokers together: without a quorum majority, a single broker never becomes ready.

        Wait also for brokers that a supervisor has started again.
        """
        with ThreadPoolExecutor(max(1, len(brokers))) as pool:  # a command may wait for its broker
            ordered = zip(brokers, pool.map(self._order_start, brokers), strict=True)
            down = [broker for broker, was_down in ordered if was_down]
        back = [b for b in brokers if self.state.node(b).state in TAKEN_DOWN]
        for broker in dict.fromkeys([*down, *back]):
            self._wait_for(partial(self._ready, broker), f"broker {broker} is not ready")
            self._set_status(broker, "running")

    def _order_start(self, broker: int) -> bool:
        """Run the start command of a broker that is down, unless it has run; return whether the broker is down."""
        with self._starts[broker]:
            if self.broker_alive(broker):
                return False
            if self.state.node(broker).state != "starting":
                self._command("start", broker)
                self._set_status(broker, "starting")
            return True

    def pause_broker(self, broker: int) -> None:
        """Run the pause command. Raises `ClusterError` if the broker is gone."""
        self._check_reachable("paused", broker)
        self._set_status(broker, "paused")  # first: a command that fails may have paused the broker
        self._command("pause", broker)

    def resume_broker(self, broker: int) -> None:
        """Run the resume command; do nothing if the broker is not paused. Raises `ClusterError` if it is gone."""
        self._check_reachable("resumed", broker)
        if self.state.node(broker).state == "paused":
            self._command("resume", broker)
            self._set_status(broker, "running")

    def end_brokers(self) -> None:
        """Do nothing: the brokers belong to the user."""

    def _record_end(self) -> None:
        self.state = state.load(self.run)  # `clear` has changed the file; the brokers continue

    def _take_down(self, verb: str, broker: int, status: BrokerStatus) -> None:
        """Run a command, and wait until the broker is gone.

        A supervisor may restart the broker quickly, so the check runs during the command too.
        """
        self._check_reachable(status, broker)
        self._set_status(broker, status)
        gone = threading.Event()

        def check_gone() -> bool:
            if not gone.is_set() and not self.broker_alive(broker):
                gone.set()
            return gone.is_set()

        self._command(verb, broker, meanwhile=check_gone)
        self._wait_for(check_gone, f"broker {broker} is still there after the {verb} command")

    def _check_reachable(self, status: str, broker: int) -> None:
        if not self.broker_alive(broker):
            address = self.state.node(broker).address
            raise ClusterError(f"broker {broker} cannot be {status}: it is not there, at {address}")

    def _command(self, verb: str, broker: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        command = _attachment(self.state).verbs.commands().get(verb)
        if command is None:
            raise ClusterError(f"there is no command to {verb} a broker: give cluster.verbs.{verb}")
        commands.run(
            f"{verb} of broker {broker}",
            commands.fill_in(command, broker, *self.address(broker)),
            self._timeout_s,
            self.run.logs / "verbs.log",
            self._access.secrets if self._access else (),
            meanwhile=meanwhile,
            on_change=self._record_command,
        )

    def _record_command(self, command: ProcessId, running: bool) -> None:
        with self._lock:
            attached = _attachment(self.state)
            attached.commands = [c for c in attached.commands if c != command] + ([command] if running else [])
            self.state.save(self.run.cluster)

    def _ready(self, broker: int) -> bool:
        kafka = Kafka(self.state.node(broker).address, CONNECT_S, self._access, topics=())
        try:
            metadata = kafka.metadata()
        finally:
            kafka.close()
        return metadata is not None and broker in metadata.brokers

    def _restore_brokers(self) -> list[str]:
        """Start or resume every broker that the run took down, and return the problems."""
        problems = []
        for broker in self.state.brokers:
            try:
                if broker.state == "paused":
                    self.resume_broker(broker.id)
                elif broker.state in TAKEN_DOWN:
                    self.start_broker(broker.id)
            except AftershockError as e:
                was = "taken down" if broker.state == "starting" else broker.state
                problems.append(f"broker {broker.id} was {was} by the run and is not back: {e}")
        return problems

    @cached_property
    def _access(self) -> Access | None:
        return self.state.access()

    def _wait_for(self, condition: Callable[[], bool], why: str) -> None:
        wait_until(condition, self._timeout_s, why, every_s=0.1, error=ClusterError)

    @property
    def _timeout_s(self) -> float:
        return _attachment(self.state).verbs.timeout


def _attachment(cluster_state: ClusterState) -> Attachment:
    if cluster_state.attached is None:
        raise ClusterError(f"this run uses the {cluster_state.driver} driver, and no existing cluster")
    return cluster_state.attached

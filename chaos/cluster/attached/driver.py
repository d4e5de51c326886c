"""The attached driver itself; see the package."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Self

from chaos.cluster import deploy, state
from chaos.cluster.attached import entry, verbs
from chaos.cluster.deployed import Deployed
from chaos.cluster.lifecycle.gc import end_all
from chaos.cluster.settings import ClusterSpec
from chaos.cluster.state import Attachment, BrokerState, BrokerStatus, ClusterState, ProcessState
from chaos.errors import AftershockError, ClusterError, UsageError, WaitTimeout
from chaos.install.cache import Progress, silent
from chaos.kafka import cleanup
from chaos.kafka.access import Access
from chaos.kafka.client import Kafka
from chaos.kafka.connection import is_there
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.wait import wait_until

THERE_S = 2.0
"""How long a broker may take to accept a connection."""


class AttachedCluster(Deployed):
    """A cluster that exists, for one run; `address` is what a broker advertised when the run began.

    What it does to brokers it does by the user's commands. A command that ends well is not believed: a broker that was
    killed or stopped must refuse connections, one that was started must answer and be in the metadata.
    """

    @classmethod
    def deploy(
        cls,
        run: Run,
        spec: ClusterSpec,
        owner: ProcessId | None,
        deadline_s: float,
        on_progress: Progress = silent,
    ) -> Self:
        """Connect to the cluster; nothing is made there yet.

        Raises `UsageError` where it does not let us in or lacks what the run needs, `ClusterError` where it does not
        answer; the cluster is untouched then.
        """
        existing = spec.existing
        if existing is None:
            raise UsageError("the attached driver needs a cluster that exists: cluster.bootstrap in a scenario")
        if run.cluster.exists() and not _attachment(state.load(run)).cleared:
            raise ClusterError(f"{run.path} is attached to a cluster already; destroy it first, or make a new run")
        deploy.check_disk(run)
        on_progress(f"connecting to {existing.bootstrap}")
        metadata = entry.find(existing, Access.of(existing.security))
        with deploy.all_or_nothing(run):
            reaper = deploy.start_reaper(run, owner, deadline_s)
            found = ClusterState(
                driver="attached",
                kafka="",
                cluster_id=metadata.cluster_id,
                bootstrap=existing.bootstrap,
                heap_bytes=0,
                owner=None if owner is None else ProcessState.of(owner),
                reaper=ProcessState.of(reaper.identity),
                attached=Attachment(prefix=existing.prefix, security=existing.security, verbs=existing.verbs),
                deadline_at=time.time() + deadline_s,
                brokers=[
                    BrokerState(id=b, host=host, port=port, state="running")
                    for b, (host, port) in metadata.brokers.items()
                ],
            )
            found.save(run.cluster)
            deploy.check_reaper(run, reaper.identity)
            cluster = cls(run, found)
        return cluster

    @staticmethod
    def clear(run: Run) -> None:
        """Leave the cluster as it was: brokers back, topics and groups of the run gone. Raises `AftershockError`."""
        found = state.load(run)
        attached = _attachment(found)
        if attached.cleared:
            return
        for command in attached.commands:
            verbs.end_and_wait(command.identity)
        problems = AttachedCluster(run, found)._bring_back()
        try:
            if not attached.prefix:
                raise ClusterError("a run without a prefix has nothing on a cluster that exists")
            cleanup.remove(found.bootstrap, lambda name: name.startswith(attached.prefix), found.access())
        except AftershockError as e:
            again = f"remove what begins with {attached.prefix}, or try again: python -m chaos down {run.path}"
            raise type(e)(f"{e}; {again}") from None
        attached.cleared, attached.commands = True, []
        found.save(run.cluster)
        if problems:
            raise ClusterError("; ".join(problems))

    def broker_alive(self, broker: int) -> bool:
        """Whether the broker accepts a connection, as a paused one does: its system does so in its place."""
        return is_there(*self.address(broker), THERE_S, self._access)

    def kill_broker(self, broker: int) -> None:
        """End a broker at once. Returns when it is gone; raises `ClusterError` if it was gone before."""
        self._take_down("kill", broker, "killed")

    def stop_broker(self, broker: int) -> None:
        """Shut a broker down. Returns when it is gone; raises `ClusterError` if it was gone before."""
        self._take_down("stop", broker, "stopped")

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several at once: after the loss of the majority, no single one gets ready by itself."""
        down = [b for b in brokers if not self.broker_alive(b)]
        with ThreadPoolExecutor(max(1, len(down))) as pool:  # a command may wait until its broker is ready
            list(pool.map(partial(self._command, "start"), down))
        for broker in down:
            wait_for(partial(self._ready, broker), self._timeout_s, f"broker {broker} is not ready")
            self._note(broker, "running")

    def pause_broker(self, broker: int) -> None:
        """Stop a broker's execution. Raises `ClusterError` if it is gone."""
        self._must_be_there("paused", broker)
        self._note(broker, "paused")  # first: a command that failed half-way may have done it
        self._command("pause", broker)

    def resume_broker(self, broker: int) -> None:
        """Let a broker go on; nothing to do for one that is not paused. Raises `ClusterError` if it is gone."""
        self._must_be_there("resumed", broker)
        if self.state.broker(broker).state == "paused":
            self._command("resume", broker)
            self._note(broker, "running")

    def end_brokers(self) -> None:
        """They are not the run's to end."""

    def destroy(self) -> None:
        """End everything of the run, and leave the cluster as it was."""
        end_all(self.run.path)
        if self.run.cluster.exists():  # the whole run directory may have been removed
            self.state = state.load(self.run)

    def _take_down(self, verb: str, broker: int, status: BrokerStatus) -> None:
        """By a command. What brings brokers back by itself may be quick, so it is looked for while the command runs."""
        self._must_be_there(status, broker)
        self._note(broker, status)
        seen_gone = threading.Event()

        def look() -> bool:
            if not seen_gone.is_set() and not self.broker_alive(broker):
                seen_gone.set()
            return seen_gone.is_set()

        self._command(verb, broker, meanwhile=look)
        wait_for(look, self._timeout_s, f"broker {broker} is still there after the {verb} command")

    def _must_be_there(self, done: str, broker: int) -> None:
        if not self.broker_alive(broker):
            where = self.state.broker(broker).address
            raise ClusterError(f"broker {broker} cannot be {done}: it is not there, at {where}")

    def _command(self, verb: str, broker: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        command = _attachment(self.state).verbs.given().get(verb)
        if command is None:
            raise ClusterError(f"there is no command to {verb} a broker: give cluster.verbs.{verb}")
        verbs.run(
            f"{verb} of broker {broker}",
            verbs.fill_in(command, broker, *self.address(broker)),
            self._timeout_s,
            self.run.logs / "verbs.log",
            self._access.secrets if self._access else (),
            meanwhile=meanwhile,
            under_way=self._under_way,
        )

    def _under_way(self, command: ProcessId, running: bool) -> None:
        with self._lock:
            attached, this = _attachment(self.state), ProcessState.of(command)
            attached.commands = [c for c in attached.commands if c != this] + ([this] if running else [])
            self.state.save(self.run.cluster)

    def _ready(self, broker: int) -> bool:
        kafka = Kafka(self.state.broker(broker).address, THERE_S, self._access, topics=())
        try:
            metadata = kafka.metadata()
        finally:
            kafka.close()
        return metadata is not None and broker in metadata.brokers

    def _bring_back(self) -> list[str]:
        """Start or resume every broker that the run took down and did not bring back; what could not be done."""
        problems = []
        for known in self.state.brokers:
            try:
                if known.state == "paused":
                    self.resume_broker(known.id)
                elif known.state in ("killed", "stopped"):
                    self.start_broker(known.id)
            except AftershockError as e:
                problems.append(f"broker {known.id} was {known.state} by the run and is not back: {e}")
        return problems

    @cached_property
    def _access(self) -> Access | None:
        return self.state.access()

    @property
    def _timeout_s(self) -> float:
        return _attachment(self.state).verbs.timeout


def wait_for(condition: Callable[[], bool], timeout_s: float, why: str) -> None:
    """Wait until it holds. Raises `ClusterError`."""
    try:
        wait_until(condition, timeout_s, why, every_s=0.1)
    except WaitTimeout as e:
        raise ClusterError(str(e)) from None


def _attachment(found: ClusterState) -> Attachment:
    if found.attached is None:
        raise ClusterError(f"this run is of the {found.driver} driver, and has no cluster that existed before it")
    return found.attached

"""Deployment: the base class of drivers that start brokers, and the steps that all drivers share.

These are checks, the reaper, free ports, and the files of the brokers.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from chaos.cluster import state
from chaos.cluster.api import Cluster
from chaos.cluster.brokers import startup
from chaos.cluster.brokers.release import Release, log_of, new_id, prepare_jars
from chaos.cluster.brokers.startup import AddressTaken, StartingBroker, StartingController, StartingNode
from chaos.cluster.secured import credentials, issuer
from chaos.cluster.secured.credentials import Secured
from chaos.cluster.settings import (
    BrokerEndpoints,
    ClusterSpec,
    ControllerEndpoints,
    broker_settings,
    controller_settings,
)
from chaos.cluster.state import ClusterState, NodeState, ZooKeeperState
from chaos.cluster.teardown import Clear, end_all, end_all_but_reaper, remove_data
from chaos.errors import ClusterError, MachineError, RunDirError
from chaos.install.cache import Progress, silent
from chaos.kafka import users
from chaos.kafka.client import Kafka
from chaos.kafka.connection import login_works
from chaos.kafka.security import OAUTHBEARER, Access
from chaos.processes.ports import HOST, free_ports, is_free
from chaos.processes.process import REAPER, ProcessId, Spawned, find_marked, spawn
from chaos.run.directory import Run
from chaos.wait import wait_until

NEEDED_DISK_BYTES = 2**30
ATTEMPTS = 5
"""Attempts to start a cluster when other programs take its ports or addresses."""


@dataclass(frozen=True)
class Deployment:
    """A deployment in progress. The reaper ends the run if `owner` is gone."""

    run: Run
    spec: ClusterSpec
    owner: ProcessId | None
    reaper: ProcessId

    def new_state(self, driver: str, brokers: list[NodeState], bootstrap: str, cluster_id: str) -> ClusterState:
        """Return the state of the new cluster."""
        existing = self.spec.existing is not None
        return ClusterState(
            driver=driver,
            kafka="" if existing else self.spec.kafka,
            cluster_id=cluster_id,
            bootstrap=bootstrap,
            heap_bytes=0 if existing else self.spec.heap_bytes,
            owner=self.owner,
            reaper=self.reaper,
            brokers=brokers,
        )


@contextlib.contextmanager
def deploying(
    run: Run, spec: ClusterSpec, owner: ProcessId | None, deadline_s: float, clear: Clear
) -> Iterator[Deployment]:
    """Start the reaper of a run and yield the deployment. On failure or interruption, remove everything it made."""
    check_disk(run)
    try:
        remove_data(run.path)
        reaper = start_reaper(run, owner, deadline_s)
        yield Deployment(run, spec, owner, reaper.identity)
        check_reaper(run, reaper.identity)
    except BaseException:
        end_all(run.path, clear)
        run.cluster.unlink(missing_ok=True)
        raise


class StartedCluster(Cluster):
    """A cluster with brokers that are started for one run. Subclasses define `_prepare` and `_start`."""

    @classmethod
    def install(cls, spec: ClusterSpec, on_progress: Progress = silent) -> None:
        """Bring the jars of the release onto this machine. Raises `UsageError`, `ResolveError` or `MachineError`."""
        spec.check()
        prepare_jars(spec.kafka, on_progress)

    @classmethod
    def deploy(
        cls, run: Run, spec: ClusterSpec, owner: ProcessId | None, deadline_s: float, on_progress: Progress = silent
    ) -> Self:
        """Start a new cluster, and return it when every broker is registered and unfenced.

        The cluster ends when `owner` is gone or after `deadline_s` seconds, whichever comes first; without an owner it
        outlives its starter. Raises `UsageError`, `ResolveError`, `MachineError` or `ClusterError` after it removed
        everything it started.
        """
        spec.check()
        if cls._is_deployed(run):
            raise ClusterError(f"{run.path} has a running cluster already; destroy it first, or make a new run")
        clear = partial(cls.clear, run)
        with deploying(run, spec, owner, deadline_s, clear) as deployment:
            create = cls._prepare(with_issuer(deployment), on_progress)
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    cluster = create()
                    cluster._start_issuer(owner)
                    cluster.start_brokers(cluster.node_ids)
                    cluster._create_users()
                    break
                except AddressTaken:
                    if attempt == ATTEMPTS:
                        raise
                    end_all_but_reaper(run.path, clear)
        return cluster

    def _start_issuer(self, owner: ProcessId | None) -> None:
        """Start the issuer of tokens, if the clients log in with tokens."""
        clients = self.state.client_security
        if clients is not None and clients.mechanism == OAUTHBEARER:
            issuer.start(self.run, credentials.folder(self.run), clients, owner)

    def _create_users(self) -> None:
        """Create the users that brokers keep in their metadata; do nothing without security."""
        if self.state.secured is not None:
            create_users(self.state.secured, self.bootstrap, map(self.address, self.broker_ids))

    @classmethod
    def _is_deployed(cls, run: Run) -> bool:
        if not run.cluster.exists():
            return False
        cluster = cls.attach(run)
        return any(map(cluster.broker_alive, cluster.node_ids))

    @classmethod
    @abstractmethod
    def _prepare(cls, deployment: Deployment, on_progress: Progress) -> Callable[[], Self]:
        """Prepare the release, and return a function that creates the cluster, with other addresses at each call.

        The function writes all files, and starts everything but the brokers.
        """

    @abstractmethod
    def _start(self, broker: int) -> Callable[[], str | None]:
        """Start one broker, set its status, and return a function that returns how it ended; None while it lives."""

    @abstractmethod
    def kill_broker(self, broker: int) -> None:
        """End the broker at once, and wait until it is gone. Raises `ClusterError` if it was gone before."""

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several nodes together: without a quorum majority, a single broker never becomes ready.

        Raises `ClusterError` with the errors in the logs of the nodes.
        """
        down = [broker for broker in brokers if not self.broker_alive(broker)]
        starting = [self._starting(node) for node in down]
        try:
            with ThreadPoolExecutor(max(1, len(down))) as pool:
                for broker, ended in zip(starting, pool.map(self._start, down), strict=True):
                    broker.ended = ended
            startup.wait_ready(starting, startup.READY_TIMEOUT_S)
        except BaseException:
            for number in down:
                with contextlib.suppress(ClusterError):  # it did not start, or has ended
                    self.kill_broker(number)
                self._set_status(number, "killed")
            raise
        for number in down:
            self._set_status(number, "running")

    def _starting(self, node: int) -> StartingNode:
        kind = StartingController if node in self.controller_ids else StartingBroker
        return kind(self.run, self.state.node(node), self.state.access(node))


def with_issuer(deployment: Deployment) -> Deployment:
    """Return the deployment with an address for the issuer of tokens, if clients log in with tokens."""
    security = issuer.with_endpoint(deployment.spec.security)
    return replace(deployment, spec=replace(deployment.spec, security=security))


def check_disk(run: Run) -> None:
    """Raise `MachineError` if there is little room for the data of the run."""
    free = shutil.disk_usage(run.path).free
    if free < NEEDED_DISK_BYTES:
        raise MachineError(
            f"only {free / 2**20:.0f} MiB are free at {run.path}, and a run needs {NEEDED_DISK_BYTES / 2**20:.0f}; "
            "make room, or choose another --runs-dir"
        )


def start_reaper(run: Run, owner: ProcessId | None, deadline_s: float) -> Spawned:
    """Start the reaper, which ends everything of the run if nothing else does; see `chaos.cluster.reaper`."""
    argv = [sys.executable, "-m", "chaos.cluster.reaper", str(run.path), "--deadline", str(deadline_s)]
    if owner is not None:
        argv += ["--owner", str(owner)]
    return spawn(argv, run=run, role=REAPER, owner=owner, log=log_of(run, REAPER))


def check_reaper(run: Run, reaper: ProcessId) -> None:
    """Raise `ClusterError` if the reaper has ended."""
    if not reaper.alive():
        raise ClusterError(f"the reaper of the run ended too early; see {run.logs / 'reaper.log'}")


def write_cluster(
    deployment: Deployment,
    release: Release,
    endpoints: Sequence[BrokerEndpoints],
    driver: str = "process",
    data: str = "data",
    zookeeper: ZooKeeperState | None = None,
    controllers: Mapping[int, ControllerEndpoints] | None = None,
) -> ClusterState:
    """Write the files of every node and `cluster.json`, and return the state.

    `endpoints` are the brokers' endpoints by node ID from 1, `data` is the log directory as a node sees it.
    `controllers` are the dedicated ones by node ID.
    """
    run, spec = deployment.run, deployment.spec
    # with ZooKeeper, the first broker creates the cluster ID
    cluster_id = "" if zookeeper else new_id()

    def write(node: int, host: str, port: int, settings: dict[str, str]) -> NodeState:
        startup.write_files(run, node, settings, release, cluster_id)
        return NodeState(
            id=node,
            kafka=spec.kafka,
            host=host,
            port=port,
            log=str(log_of(run, startup.role(node)).relative_to(run.path)),
            data=str((startup.home(run, node) / "data").relative_to(run.path)),
        )

    server = zookeeper.address if zookeeper else None
    brokers = [
        write(broker, at.host, at.port, broker_settings(spec, broker, endpoints, data, server, controllers))
        for broker, at in enumerate(endpoints, start=1)
    ]
    bootstrap = ",".join(b.address for b in brokers)
    cluster_state = deployment.new_state(driver, brokers, bootstrap, cluster_id)
    cluster_state.zookeeper = zookeeper
    cluster_state.controllers = [
        write(node, at.host, at.port, controller_settings(spec, node, controllers or {}, data))
        for node, at in (controllers or {}).items()
    ]
    for controller in cluster_state.controllers:
        controller.quorum = (controllers or {})[controller.id].quorum
    if spec.voters:
        cluster_state.voters = sorted(controllers or {})[: spec.voters]
        startup.write_voters(run, spec, controllers or {}, release, cluster_id, deployment.owner)
    if spec.security.secured:
        homes = {node.id: startup.home(run, node.id) for node in cluster_state.nodes}
        cluster_state.secured = credentials.make(run, spec.security, homes, _hosts(endpoints, controllers or {}))
    cluster_state.save(run.cluster)
    return cluster_state


def _hosts(endpoints: Sequence[BrokerEndpoints], controllers: Mapping[int, ControllerEndpoints]) -> list[str]:
    """Return the hosts at which nodes, clients and the platform reach the nodes."""
    listeners = [a for e in endpoints for a in (f"{e.host}:", e.controller, e.peers) if a]
    listeners += [a for c in controllers.values() for a in (f"{c.host}:", c.quorum)]
    return [*dict.fromkeys([*(address.rpartition(":")[0] for address in listeners), "localhost"])]


def choose_ports(spec: ClusterSpec, more: int) -> list[int]:
    """Return a client port for each broker, then `more` other ports. Raises `MachineError` if a fixed port is taken."""
    fixed, excluded = spec.fixed_ports(), _ports_in_use()
    if fixed is None:
        return free_ports(spec.brokers + more, but=excluded)
    for port in fixed:
        if not is_free(port):
            raise MachineError(
                f"port {port} on {HOST} is taken, and listeners in cluster.config asks for it; "
                "end what listens there, choose another port, or leave listeners out"
            )
    return [*fixed, *free_ports(more, but={*fixed, *excluded})]


def _ports_in_use() -> set[int]:
    """Return the ports of all live runs, including brokers that are down: these return to their ports."""
    ports: set[int] = set()
    for run_dir in {p.run_dir for p in find_marked()}:
        with contextlib.suppress(RunDirError):  # nothing is deployed yet, or the directory was removed
            other = state.load(Run(run_dir))
            ports |= {p for b in other.nodes for p in (b.port, b.controller_port, *b.behind) if p is not None}
            ports |= {other.zookeeper.port} if other.zookeeper else set()
    return ports


_USERS_S = 30.0
_LOGIN_S = 5.0


def create_users(secured: Secured, bootstrap: str, brokers: Iterable[tuple[str, int]]) -> None:
    """Create the credentials of the clients, if brokers keep them, and wait until every broker takes them.

    Raises `ClusterError`.
    """
    access = Access.of(secured.clients)
    mechanism = secured.spec.mechanism or ""
    if access is None or not mechanism.startswith("SCRAM"):
        return
    kafka = Kafka(bootstrap, access=Access.of(secured.platform))
    try:
        users.set_password(kafka, str(secured.clients.username), mechanism, access.password)
    finally:
        kafka.close()
    missing = [*brokers]

    def accepted() -> bool:
        missing[:] = [at for at in missing if not login_works(*at, _LOGIN_S, access)]
        return not missing

    def refused() -> str:
        host, port = missing[0]
        return f"{host}:{port} does not take the {mechanism} credentials of the clients; see the logs of the brokers"

    wait_until(accepted, _USERS_S, refused, every_s=0.05, error=ClusterError)

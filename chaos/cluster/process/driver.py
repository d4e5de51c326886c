"""The cluster of the process driver."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from chaos.cluster import deployment
from chaos.cluster.api import LogTail
from chaos.cluster.brokers import startup
from chaos.cluster.brokers.release import Release, copy_storage, errors_in, prepare, start_jvm
from chaos.cluster.deployment import Deployment, StartedCluster
from chaos.cluster.process import partition_log, preloads, zookeeper
from chaos.cluster.process.preloads import Preloads
from chaos.cluster.settings import (
    FIRST_CONTROLLER,
    BrokerEndpoints,
    ClusterSpec,
    ControllerEndpoints,
    on_this_host,
    properties,
)
from chaos.cluster.state import BrokerStatus, ClusterState, ZooKeeperState
from chaos.cluster.teardown import remove_data
from chaos.errors import ClusterError, WaitTimeout
from chaos.install.cache import Progress, silent
from chaos.kafka.partition import TopicPartition
from chaos.processes import process
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId, Spawned
from chaos.relay.control import Switch, start_switch
from chaos.relay.cuts import Cut
from chaos.relay.roles import Listener
from chaos.run.directory import Run

_LOGGED_RELEASE = re.compile(rb"AppInfoParser - Kafka version: (\S+)")


class ReleaseChanges(StartedCluster):
    """The part of the process driver that changes the release, or the settings, of single nodes."""

    def __init__(self, run: Run, cluster_state: ClusterState, release: Release | None = None) -> None:
        super().__init__(run, cluster_state)
        self._releases = {release.version: release} if release else {}  # others are prepared when a node starts

    def prepare_release(self, release: str, on_progress: Progress = silent) -> None:
        """Fetch a release, and make its class archive."""
        self._prepared(release, on_progress)

    def set_release(self, broker: int, release: str) -> None:
        """Let the next start of a broker run this release. It is recorded, so that every later start does."""
        self.prepare_release(release)
        with self._lock:
            self.state.node(broker).kafka = release
            self.state.save(self.run.cluster)

    def set_settings(self, broker: int, settings: Mapping[str, str]) -> None:
        """Append the settings to the file of a broker; the last value of a setting counts."""
        with (startup.home(self.run, broker) / "server.properties").open("a", encoding="ascii") as file:
            file.write(properties(settings))

    def logged_release(self, broker: int) -> str | None:
        """Return the release that the broker has logged since its last start."""
        with Path(self._log(broker)).open("rb") as log:
            log.seek(self.state.node(broker).log_start)
            found = next(filter(None, map(_LOGGED_RELEASE.search, log)), None)
        return found.group(1).decode() if found else None

    def logged_errors(self, broker: int) -> str:
        """Return the errors that the broker has logged since its last start."""
        return errors_in(Path(self._log(broker)), self.state.node(broker).log_start)

    def note_refinalized(self) -> None:
        """Record it, so that the cluster is not lent on."""
        with self._lock:
            self.state.refinalized = True
            self.state.save(self.run.cluster)

    def _note_log_start(self, node: int) -> None:
        log = Path(self._log(node))
        self.state.node(node).log_start = log.stat().st_size if log.exists() else 0

    def _release_of(self, broker: int) -> Release:
        return self._prepared(self.state.node(broker).kafka)

    def _prepared(self, version: str, on_progress: Progress = silent) -> Release:
        if version not in self._releases:
            with_zookeeper = self.state.zookeeper is not None
            self._releases[version] = prepare(version, self.run, self.state.owner, on_progress, with_zookeeper)
        return self._releases[version]


_NAMES: dict[Listener, str] = {"clients": "CLIENT", "peers": "PEERS", "quorum": "CONTROLLER"}
"""The names of the listeners in the broker settings."""


FAILED = ".failed"
"""The suffix of a data folder that was taken away from its broker."""


class ProcessCluster(ReleaseChanges, Preloads):
    """The brokers of one run, each a JVM on this machine.

    All of them use 127.0.0.1, and dropping packets needs root. So if the scenario cuts links (`ClusterSpec.switch`),
    every listener of every broker is advertised at a port of the switch (`chaos.relay`), which forwards everything
    until a link is cut.
    """

    def __init__(self, run: Run, cluster_state: ClusterState, release: Release | None = None) -> None:
        super().__init__(run, cluster_state, release)
        self._switch: Switch | None = None
        self._cuts: dict[Cut, int] = {}
        self._children: list[subprocess.Popen[bytes]] = []  # this process must reap them

    @classmethod
    def _prepare(cls, deployment: Deployment, on_progress: Progress) -> Callable[[], Self]:
        spec = deployment.spec
        preloads.prepare(spec, on_progress)
        release = prepare(spec.kafka, deployment.run, deployment.owner, on_progress, spec.zookeeper, spec.features)
        on_progress(f"starting {spec.describe()}{' with ZooKeeper' * spec.zookeeper}")
        return partial(cls._create, deployment, release)

    @classmethod
    def _create(cls, deployment: Deployment, release: Release) -> Self:
        cluster = cls(deployment.run, create_layout(deployment, release), release)
        cluster._note_preloads(deployment.spec)
        if cluster.state.zookeeper is not None:
            cluster._start_zookeeper(release, cluster.state.zookeeper)
        return cluster

    def _start_zookeeper(self, release: Release, server: ZooKeeperState) -> None:
        spawned = zookeeper.start(release, self.run, self.state.owner)
        self._children.append(spawned.popen)
        with self._lock:
            server.process = spawned.identity
            self.state.save(self.run.cluster)
        zookeeper.wait_ready(self.run, server, startup.READY_TIMEOUT_S)

    def broker_alive(self, broker: int) -> bool:
        """Return whether the process of a broker exists; the process of a paused broker does."""
        identity = self.state.node(broker).process
        return identity is not None and identity.alive()

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several nodes together: without a quorum majority, a single broker never becomes ready.

        After a kill, the controller accepts a broker only when its previous session has expired
        (`broker.session.timeout.ms`, 9 s); with ZooKeeper, the broker starts only then. Raises `ClusterError` with the
        errors in the log of the broker.
        """
        down = [broker for broker in brokers if not self.broker_alive(broker)]
        if self.state.zookeeper is not None:
            zookeeper.wait_unregistered(self.state.zookeeper, down, startup.READY_TIMEOUT_S)
        if down:
            for broker in down:  # here, because the threads that start brokers would all prepare it
                self._release_of(broker)
        super().start_brokers(down)
        if not self.state.cluster_id:  # with ZooKeeper, the first broker creates it
            self.state.cluster_id = startup.cluster_id(self.run, 1)
            self.state.save(self.run.cluster)

    def _start(self, broker: int) -> Callable[[], str | None]:
        self._note_log_start(broker)
        spawned = start_jvm(self._release_of(broker), self._job(broker), self.run, self.state.owner)
        self._set_process(broker, "starting", spawned)
        return partial(_exit_reason, spawned.popen)

    def stop_broker(self, broker: int) -> None:
        """Send SIGTERM for a controlled shutdown, and wait until the process is gone. Raises `ClusterError`."""
        self._act(broker, lambda identity: process.terminate(identity, startup.STOP_TIMEOUT_S), "stopped")

    def kill_broker(self, broker: int) -> None:
        """Send SIGKILL, and wait until the process is gone. Raises `ClusterError` if it was gone before."""
        self._act(broker, process.kill, "killed")

    def pause_broker(self, broker: int) -> None:
        """Send SIGSTOP, and wait until the process is suspended. Raises `ClusterError` if it is gone."""
        self._act(broker, process.pause, "paused")

    def resume_broker(self, broker: int) -> None:
        """Send SIGCONT; this has no effect on a broker that is not paused. Raises `ClusterError` if it is gone."""
        self._act(broker, process.cont, "running")

    def wipe_disk(self, broker: int) -> None:
        """Replace the disk of a broker by an empty, formatted one. Raises `ClusterError` while the broker runs."""
        data = self._unused_data(broker)
        storage = self._release_of(broker).storage
        folders = [meta.parent.name for meta in data.glob("*/meta.properties")]
        shutil.rmtree(data)
        if storage is None:  # with ZooKeeper, a broker creates its files
            data.mkdir()
        else:
            copy_storage(storage, data, broker, self.state.cluster_id, folders=folders)

    def replicas_on_disk(self, broker: int) -> int:
        """Return the number of partition replicas on the disk of a broker, running or not."""
        return sum(1 for path in self._data(broker).rglob("partition.metadata"))

    def cut_log(self, broker: int, partition: TopicPartition, records: int | None) -> LogTail:
        """Cut the log as described in `chaos.cluster.process.partition_log`. Raises `ClusterError` while it runs."""
        return partition_log.cut_tail(self._unused_data(broker), partition, records)

    def limit_disk(self, broker: int, partition: TopicPartition, free_bytes: int) -> int:
        """Set RLIMIT_FSIZE of the running process: a write beyond it fails, as on a full disk."""
        active = partition_log.segments(partition_log.log_dir(self._data(broker), partition))[-1]
        limit = active.stat().st_size + free_bytes
        self._act(broker, lambda identity: process.limit_files(identity, limit), "running")
        return limit

    def unlimit_disk(self, broker: int) -> None:
        """Remove the limit; a broker that is gone starts without it."""
        identity = self.state.node(broker).process
        if identity is not None:
            process.limit_files(identity, None)

    def fail_folder(self, broker: int, partition: TopicPartition) -> str:
        """Move the data folder with a partition away, and put a file in its place, which no broker can use."""
        folder = partition_log.log_dir(self._data(broker), partition).parent
        if folder == self._data(broker):
            raise ClusterError(f"{self.state.name(broker)} has one data folder, without which it cannot live")
        folder.rename(folder.with_suffix(FAILED))
        folder.touch()
        return folder.name

    def mend_folders(self, broker: int) -> None:
        """Move the data folders back that `fail_folder` moved away; do nothing if there are none."""
        for away in self._data(broker).glob(f"*{FAILED}"):
            away.with_suffix("").unlink(missing_ok=True)
            away.rename(away.with_suffix(""))

    def cut_network(self, cut: Cut) -> None:
        """Block the links of a cut; the switch holds the data that is sent meanwhile, as a TCP sender would."""
        if self.state.switch is None:
            raise ClusterError("the cluster was made without a switch, so none of its links can be cut")
        with self._lock:
            if self._switch is None:
                self._switch = Switch(self.run)
            if cut not in self._cuts:
                self._cuts[cut] = self._switch.add(cut)

    def mend_network(self, cut: Cut) -> None:
        """Unblock the links of a cut; do nothing if the cut does not exist."""
        with self._lock:
            if self._switch is not None and (cut_id := self._cuts.pop(cut, None)) is not None:
                self._switch.remove(cut_id)

    def dropped_packets(self, cut: Cut) -> int:
        """Return how many pieces of data, as the switch read them, this cut has held so far."""
        with self._lock:
            cut_id = self._cuts.get(cut)
            return 0 if self._switch is None or cut_id is None else self._switch.hits(cut_id)

    def check(self) -> None:
        """Raise `ClusterError` if the switch has ended: nothing reaches the brokers without it."""
        switch = self.state.switch
        if switch is not None and not switch.alive():
            raise ClusterError(
                f"the switch between the brokers ended in the middle of the run; see {self.run.logs}/switch.log"
            )

    def end_brokers(self) -> None:
        """End all nodes, ZooKeeper and the switch, and remove their data; clients and reaper continue."""
        processes = [*(n.process for n in self.state.nodes), self.state.switch]
        if self.state.zookeeper is not None:
            processes.append(self.state.zookeeper.process)
        for identity in filter(None, processes):
            process.kill(identity)
        self._reap()
        remove_data(self.run.path)

    def destroy(self) -> None:
        """Do what every cluster does, and reap the child processes."""
        super().destroy()
        self._reap()

    def _data(self, broker: int) -> Path:
        return startup.home(self.run, broker) / "data"

    def _unused_data(self, broker: int) -> Path:
        if self.broker_alive(broker):
            raise ClusterError(
                f"{self.state.name(broker)} runs, so its disk cannot be changed; see {self._log(broker)}"
            )
        return self._data(broker)

    def _act(self, broker: int, act: Callable[[ProcessId], bool], status: BrokerStatus) -> None:
        """Apply an operation to a live broker, and record its new status."""
        identity = self.state.node(broker).process
        try:
            done = identity is not None and act(identity)
        except WaitTimeout as e:
            name = self.state.name(broker)
            raise ClusterError(f"{name} could not be {status}: {e}; see {self._log(broker)}") from None
        if not done:
            name = self.state.name(broker)
            raise ClusterError(f"{name} cannot be {status}: it is not running; see {self._log(broker)}")
        self._reap()
        self._set_status(broker, status)

    def _set_process(self, broker: int, status: BrokerStatus, spawned: Spawned) -> None:
        with self._lock:
            self._children.append(spawned.popen)
            self.state.node(broker).process = spawned.identity
            self._set_status(broker, status)

    def _reap(self) -> None:
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]


def _exit_reason(child: subprocess.Popen[bytes]) -> str | None:
    code = child.poll()
    if code is None:
        return None
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def create_layout(deploying: Deployment, release: Release) -> ClusterState:
    """Choose ports, start the switch if the cluster has one, write all files, and return the state."""
    run, spec = deploying.run, deploying.spec
    if spec.switch:
        return _create_behind_switch(deploying, release)
    secured = spec.brokers if spec.security.secured else 0  # brokers then have a separate listener for each other
    ports = deployment.choose_ports(spec, more=secured + (1 if spec.zookeeper else spec.controllers or spec.brokers))
    clients, peers = ports[: spec.brokers], ports[spec.brokers : spec.brokers + secured]
    more = ports[spec.brokers + secured :]
    if spec.zookeeper:
        server = zookeeper.write_files(run, more[0])
        return deployment.write_cluster(deploying, release, on_this_host(clients), zookeeper=server)
    if spec.controllers:
        addresses = {node: (HOST, port) for node, port in enumerate(more, start=FIRST_CONTROLLER)}
        controllers, combined = _controllers(addresses, addresses), []
    else:
        controllers, combined = {}, more
    endpoints = on_this_host(clients, combined, peers)
    created = deployment.write_cluster(deploying, release, endpoints, controllers=controllers)
    for i, broker in enumerate(created.brokers):
        broker.controller_port, broker.behind = (combined[i] if combined else None), peers[i : i + 1]
    created.save(run.cluster)
    return created


def _controllers(
    bound: Mapping[int, tuple[str, int]], advertised: Mapping[int, tuple[str, int]]
) -> dict[int, ControllerEndpoints]:
    """Return the endpoints of the dedicated controllers. The platform does not connect through the switch."""
    return {
        node: ControllerEndpoints(*at, quorum=_address(advertised[node]), bind=_address(at))
        for node, at in bound.items()
    }


def _create_behind_switch(deploying: Deployment, release: Release) -> ClusterState:
    run, spec = deploying.run, deploying.spec
    listeners = _listeners(deployment.choose_ports(spec, more=spec.brokers + (spec.controllers or spec.brokers)), spec)
    switch, fronts = start_switch(run, listeners, deploying.owner)
    brokers = {node: bound for node, bound in listeners.items() if node < FIRST_CONTROLLER}
    endpoints = [
        BrokerEndpoints(
            *fronts[broker]["clients"],
            controller=_address(fronts[broker]["quorum"]) if "quorum" in bound else "",
            peers=_address(fronts[broker]["peers"]),
            behind={_NAMES[listener]: _address(address) for listener, address in bound.items()},
        )
        for broker, bound in brokers.items()
    ]
    dedicated = {node: bound["quorum"] for node, bound in listeners.items() if node >= FIRST_CONTROLLER}
    controllers = _controllers(dedicated, {node: fronts[node]["quorum"] for node in dedicated})
    created = deployment.write_cluster(deploying, release, endpoints, controllers=controllers)
    created.switch = switch.identity
    for broker in created.brokers:
        broker.behind = [port for _, port in brokers[broker.id].values()]
    created.save(run.cluster)
    return created


def _listeners(ports: list[int], spec: ClusterSpec) -> dict[int, dict[Listener, tuple[str, int]]]:
    """Return the addresses that each node binds, with the clients' ports first in `ports`."""
    clients, peers, quorum = ports[: spec.brokers], ports[spec.brokers : 2 * spec.brokers], ports[2 * spec.brokers :]
    bound: dict[int, dict[Listener, tuple[str, int]]] = {
        broker: {"clients": (HOST, clients[broker - 1]), "peers": (HOST, peers[broker - 1])}
        for broker in range(1, spec.brokers + 1)
    }
    for node, port in enumerate(quorum, start=FIRST_CONTROLLER if spec.controllers else 1):
        bound.setdefault(node, {})["quorum"] = (HOST, port)
    return bound


def _address(host_and_port: tuple[str, int]) -> str:
    return f"{host_and_port[0]}:{host_and_port[1]}"

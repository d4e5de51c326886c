"""The process driver: each broker is a JVM of its own on this machine, a KRaft broker and controller in one.

Releases before Kafka 3.3, and others that are asked to, keep their metadata in a ZooKeeper server beside them.
Traffic stays on 127.0.0.1. What outlives the platform's own process is ended by the reaper, which is started first.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from chaos.cluster import deploy, state
from chaos.cluster.brokers.broker import BrokerDied, Starting, cluster_id, home, wait_ready
from chaos.cluster.brokers.broker import job as broker_job
from chaos.cluster.brokers.jvm import start
from chaos.cluster.brokers.release import Release, prepare
from chaos.cluster.brokers.storage import copy_storage
from chaos.cluster.process import log_files, network, zookeeper
from chaos.cluster.process.log_files import Tail
from chaos.cluster.process.network import Switched
from chaos.cluster.settings import ClusterSpec, on_this_host
from chaos.cluster.state import BrokerState, BrokerStatus, ClusterState, ProcessState
from chaos.errors import ClusterError, WaitTimeout
from chaos.install.cache import Progress, silent
from chaos.kafka.partition import TopicPartition
from chaos.processes import process
from chaos.processes.process import ProcessId, Spawned
from chaos.processes.process_table import remove_data
from chaos.run.directory import Run

READY_TIMEOUT_S = 120.0  # a start takes seconds; a machine busy with other things is given time
STOP_TIMEOUT_S = 120.0  # controlled shutdown moves leadership away first
PORT_ATTEMPTS = 5


class ProcessCluster(Switched):
    """The brokers of one run."""

    def __init__(self, run: Run, found: ClusterState, release: Release | None = None) -> None:
        super().__init__(run, found)
        self._release = release  # None: looked up when a broker is to be started
        self._children: list[subprocess.Popen[bytes]] = []  # this process is their parent and has to reap them

    @classmethod
    def deploy(
        cls,
        run: Run,
        spec: ClusterSpec,
        owner: ProcessId | None,
        deadline_s: float,
        on_progress: Progress = silent,
    ) -> Self:
        """Start a new cluster, and return when every broker is registered and unfenced.

        The cluster ends when `owner` is gone or after `deadline_s` seconds, whichever is first; without an owner it
        outlives its starter. Raises `UsageError`, `ResolveError`, `MachineError` or `ClusterError`, and has then
        removed everything it started.
        """
        spec.check()
        deploy.check_disk(run)
        if run.cluster.exists() and any(_alive(b) for b in state.load(run).brokers):
            raise ClusterError(f"{run.path} has a running cluster already; destroy it first, or make a new run")
        with deploy.all_or_nothing(run):
            remove_data(run.path)
            run.brokers.mkdir()
            reaper = deploy.start_reaper(run, owner, deadline_s)
            release = prepare(spec.kafka, run, owner, on_progress, spec.zookeeper)
            on_progress(f"starting {spec.brokers} brokers of Kafka {spec.kafka}{' with ZooKeeper' * spec.zookeeper}")
            make = partial(lay_out, run, spec, release, owner, reaper.identity, deadline_s)
            cluster = cls._start(run, release, make)
            cluster._children.append(reaper.popen)
            deploy.check_reaper(run, reaper.identity)
        return cluster

    @classmethod
    def _start(cls, run: Run, release: Release, make: Callable[[], ClusterState]) -> Self:
        """Start all brokers; with other ports if somebody else took one in between."""
        for attempt in range(1, PORT_ATTEMPTS + 1):
            cluster = cls(run, make(), release)
            try:
                cluster._start_zookeeper()
                cluster.start_brokers(cluster.broker_ids)
            except BrokerDied as e:
                if not e.port_taken or attempt == PORT_ATTEMPTS:
                    raise
                cluster.end_brokers()
            else:
                if cluster.state.zookeeper is not None:
                    cluster.state.cluster_id = cluster_id(run, 1)
                    cluster.state.save(run.cluster)
                return cluster
        raise AssertionError("the last attempt returns or raises")

    def broker_alive(self, broker: int) -> bool:
        """Whether the broker's process exists; a paused one does."""
        return _alive(self.state.broker(broker))

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several at once: after the loss of the majority, no single one gets ready by itself.

        After a kill, the controller lets a broker in again only when the session of its former life has run out
        (`broker.session.timeout.ms`, 9 s); with ZooKeeper, it is started only then. Raises `ClusterError` with the
        broker's last log lines.
        """
        starting: list[tuple[Starting, Spawned]] = []
        down = [known for b in brokers if not _alive(known := self.state.broker(b))]
        if self.state.zookeeper is not None:
            zookeeper.wait_forgotten(self.state.zookeeper, [known.id for known in down], READY_TIMEOUT_S)
        try:
            for known in down:
                one, job = Starting(self.run, known), broker_job(self.run, known.id, self.state.heap_bytes)
                spawned = start(self._ready_release().kafka, job, self.run, self._owner)
                one.ended = partial(_how_ended, spawned.popen)
                starting.append((one, spawned))
                self._children.append(spawned.popen)
                self._note(known.id, "starting", spawned)
            wait_ready([one for one, _ in starting], READY_TIMEOUT_S)
        except BaseException:
            for one, spawned in starting:
                process.kill(spawned.identity)
                self._note(one.broker, "killed")
            self._reap()
            raise
        for one, _ in starting:
            self._note(one.broker, "running")

    def stop_broker(self, broker: int) -> None:
        """SIGTERM: controlled shutdown. Returns when the process is gone; raises `ClusterError`."""
        self._act(broker, lambda identity: process.terminate(identity, STOP_TIMEOUT_S), "stopped")

    def kill_broker(self, broker: int) -> None:
        """SIGKILL. Returns when the process is gone; raises `ClusterError` if it was gone before."""
        self._act(broker, process.kill, "killed")

    def pause_broker(self, broker: int) -> None:
        """SIGSTOP. Returns when the process stands still; raises `ClusterError` if it is gone."""
        self._act(broker, process.pause, "paused")

    def resume_broker(self, broker: int) -> None:
        """SIGCONT; nothing to do for one that is not paused. Raises `ClusterError` if it is gone."""
        self._act(broker, process.cont, "running")

    def wipe_disk(self, broker: int) -> None:
        """Replace its disk by an empty one, formatted where Kafka wants that. Raises `ClusterError` while it runs."""
        data = self._data_at_rest(broker)
        storage = self._ready_release().storage
        shutil.rmtree(data)
        if storage is None:  # with ZooKeeper, a broker makes what it needs
            data.mkdir()
        else:
            copy_storage(storage, data, broker, self.state.cluster_id)

    def replicas_on_disk(self, broker: int) -> int:
        """How many replicas of partitions lie on its disk, running or not."""
        return sum(1 for path in self._data(broker).glob("*-*/partition.metadata"))

    def cut_log(self, broker: int, partition: TopicPartition, records: int | None) -> Tail:
        """See `chaos.cluster.process.log_files`. Raises `ClusterError` while the broker runs."""
        return log_files.cut_tail(self._data_at_rest(broker), partition, records)

    def limit_disk(self, broker: int, partition: TopicPartition, free_bytes: int) -> int:
        """RLIMIT_FSIZE of the running process: a write beyond it fails, as on a full disk."""
        active = log_files.segments(log_files.log_dir(self._data(broker), partition))[-1]
        limit = active.stat().st_size + free_bytes
        self._act(broker, lambda identity: process.limit_files(identity, limit), "running")
        return limit

    def unlimit_disk(self, broker: int) -> None:
        """Lift it; one that is gone starts without."""
        known = self.state.broker(broker).process
        if known is not None:
            process.limit_files(known.identity, None)

    def end_brokers(self) -> None:
        """End the brokers, with their ZooKeeper and switch, and remove their data; clients and reaper go on."""
        server, switch = self.state.zookeeper, self.state.switch
        for known in [*(one.process for one in self.state.brokers), server.process if server else None, switch]:
            if known is not None:
                process.kill(known.identity)
        self._reap()
        remove_data(self.run.path)

    def destroy(self) -> None:
        """As every cluster does; this process is the parent of what was ended, and has to reap it."""
        super().destroy()
        self._reap()

    @staticmethod
    def clear(run: Run) -> None:
        """Everything of a run is found by its marks: nothing is left to do."""

    def _start_zookeeper(self) -> None:
        """Start the server that the brokers keep their metadata in; nothing to do in KRaft mode."""
        server = self.state.zookeeper
        if server is None:
            return
        spawned = zookeeper.start(self._ready_release().kafka, self.run, self._owner)
        self._children.append(spawned.popen)
        with self._lock:
            server.process = ProcessState.of(spawned.identity)
            self.state.save(self.run.cluster)
        zookeeper.wait_ready(self.run, server, READY_TIMEOUT_S)

    def _data(self, broker: int) -> Path:
        return home(self.run, broker) / "data"

    def _data_at_rest(self, broker: int) -> Path:
        if self.broker_alive(broker):
            raise ClusterError(f"broker {broker} runs, so its disk is not to be touched; see {self._log(broker)}")
        return self._data(broker)

    @property
    def _owner(self) -> ProcessId | None:
        return self.state.owner.identity if self.state.owner else None

    def _ready_release(self) -> Release:
        if self._release is None:
            with_zookeeper = self.state.zookeeper is not None
            self._release = prepare(self.state.kafka, self.run, self._owner, silent, with_zookeeper)
        return self._release

    def _act(self, broker: int, act: Callable[[ProcessId], bool], status: BrokerStatus) -> None:
        """Do something to a live broker, and note what it is afterwards."""
        known = self.state.broker(broker).process
        try:
            done = known is not None and act(known.identity)
        except WaitTimeout as e:
            raise ClusterError(f"broker {broker} could not be {status}: {e}; see {self._log(broker)}") from None
        if not done:
            raise ClusterError(f"broker {broker} cannot be {status}: it is not running; see {self._log(broker)}")
        self._reap()
        self._note(broker, status)

    def _note(self, broker: int, status: BrokerStatus, spawned: Spawned | None = None) -> None:
        with self._lock:
            known = self.state.broker(broker)
            known.state = status
            if spawned is not None:
                known.process = ProcessState.of(spawned.identity)
            self.state.save(self.run.cluster)

    def _reap(self) -> None:
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]


def lay_out(
    run: Run, spec: ClusterSpec, release: Release, owner: ProcessId | None, reaper: ProcessId, deadline_s: float
) -> ClusterState:
    """Choose ports, and write every file of a new cluster; its switch, where it has one, is up then."""
    if spec.switch:
        return _lay_out_behind_switch(run, spec, release, owner, reaper, deadline_s)
    ports = deploy.choose_ports(spec, more=1 if spec.zookeeper else spec.brokers)
    clients, more = ports[: spec.brokers], ports[spec.brokers :]
    if spec.zookeeper:
        places = on_this_host(clients)
        return deploy.lay_out(run, spec, release, owner, reaper, deadline_s, places, zookeeper_port=more[0])
    found = deploy.lay_out(run, spec, release, owner, reaper, deadline_s, on_this_host(clients, more))
    for broker, port in zip(found.brokers, more, strict=True):
        broker.controller_port = port
    found.save(run.cluster)
    return found


def _lay_out_behind_switch(
    run: Run, spec: ClusterSpec, release: Release, owner: ProcessId | None, reaper: ProcessId, deadline_s: float
) -> ClusterState:
    ports = deploy.choose_ports(spec, more=2 * spec.brokers)
    clients, more = ports[: spec.brokers], ports[spec.brokers :]
    behind = [[clients[i], more[2 * i], more[2 * i + 1]] for i in range(spec.brokers)]
    switch, places = network.start(run, behind, owner)
    found = deploy.lay_out(run, spec, release, owner, reaper, deadline_s, places)
    found.switch = ProcessState.of(switch.identity)
    for broker, own in zip(found.brokers, behind, strict=True):
        broker.behind = own
    found.save(run.cluster)
    return found


def _alive(broker: BrokerState) -> bool:
    """Whether its process exists; a paused one does."""
    return broker.process is not None and broker.process.identity.alive()


def _how_ended(child: subprocess.Popen[bytes]) -> str | None:
    code = child.poll()
    if code is None:
        return None
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

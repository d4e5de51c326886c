"""The cluster of the process driver."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from chaos.cluster import deployment, state
from chaos.cluster.api import LogTail
from chaos.cluster.brokers import jvm, startup
from chaos.cluster.brokers.release import Release, prepare
from chaos.cluster.brokers.startup import READY_TIMEOUT_S, STOP_TIMEOUT_S, StartingBroker
from chaos.cluster.brokers.storage import copy_storage
from chaos.cluster.deployment import Deployment
from chaos.cluster.process import layout, partition_log, zookeeper
from chaos.cluster.process.network import SwitchedCluster
from chaos.cluster.settings import ClusterSpec
from chaos.cluster.state import BrokerState, BrokerStatus, ClusterState
from chaos.cluster.teardown import remove_data
from chaos.errors import ClusterError, WaitTimeout
from chaos.install.cache import Progress, silent
from chaos.kafka.partition import TopicPartition
from chaos.processes import process
from chaos.processes.process import ProcessId, Spawned
from chaos.run.directory import Run


class ProcessCluster(SwitchedCluster):
    """The brokers of one run, each a JVM on this machine."""

    def __init__(self, run: Run, cluster_state: ClusterState, release: Release | None = None) -> None:
        super().__init__(run, cluster_state)
        self._release = release  # None: prepared when a broker starts
        self._children: list[subprocess.Popen[bytes]] = []  # this process must reap them

    @classmethod
    def deploy(
        cls,
        run: Run,
        spec: ClusterSpec,
        owner: ProcessId | None,
        deadline_s: float,
        on_progress: Progress = silent,
    ) -> Self:
        """Start a new cluster, and return it when every broker is registered and unfenced.

        The cluster ends when `owner` is gone or after `deadline_s` seconds, whichever comes first; without an owner it
        outlives its starter. Raises `UsageError`, `ResolveError`, `MachineError` or `ClusterError` after it removed
        everything it started.
        """
        spec.check()
        if run.cluster.exists() and any(_alive(b) for b in state.load(run).brokers):
            raise ClusterError(f"{run.path} has a running cluster already; destroy it first, or make a new run")
        with deployment.deploying(run, spec, owner, deadline_s, partial(cls.clear, run)) as deploying:
            release = prepare(spec.kafka, run, owner, on_progress, spec.zookeeper)
            on_progress(f"starting {spec.brokers} brokers of Kafka {spec.kafka}{' with ZooKeeper' * spec.zookeeper}")
            return deployment.retry_taken_addresses(run, partial(cls._start, deploying, release))

    @classmethod
    def _start(cls, deploying: Deployment, release: Release) -> Self:
        run = deploying.run
        cluster = cls(run, layout.create(deploying, release), release)
        cluster._start_zookeeper()
        cluster.start_brokers(cluster.broker_ids)
        if cluster.state.zookeeper is not None:
            cluster.state.cluster_id = startup.cluster_id(run, 1)
            cluster.state.save(run.cluster)
        return cluster

    def broker_alive(self, broker: int) -> bool:
        """Return whether the process of a broker exists; that of a paused broker does."""
        return _alive(self.state.broker(broker))

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several brokers together: without a quorum majority, a single broker never becomes ready.

        After a kill, the controller accepts a broker only when its previous session has expired
        (`broker.session.timeout.ms`, 9 s); with ZooKeeper, the broker starts only then. Raises `ClusterError` with the
        errors in the log of the broker.
        """
        starting: list[tuple[StartingBroker, Spawned]] = []
        down = [broker_state for b in brokers if not _alive(broker_state := self.state.broker(b))]
        if self.state.zookeeper is not None:
            zookeeper.wait_unregistered(self.state.zookeeper, [b.id for b in down], READY_TIMEOUT_S)
        try:
            for broker_state in down:
                broker = StartingBroker(self.run, broker_state)
                job = startup.job(self.run, broker_state.id, self.state.heap_bytes)
                spawned = jvm.start(self._prepared_release().kafka, job, self.run, self.state.owner)
                broker.ended = partial(_exit_reason, spawned.popen)
                starting.append((broker, spawned))
                self._children.append(spawned.popen)
                self._set_process(broker_state.id, "starting", spawned)
            startup.wait_ready([broker for broker, _ in starting], READY_TIMEOUT_S)
        except BaseException:
            for broker, spawned in starting:
                process.kill(spawned.identity)
                self._set_status(broker.broker, "killed")
            self._reap()
            raise
        for broker, _ in starting:
            self._set_status(broker.broker, "running")

    def stop_broker(self, broker: int) -> None:
        """Send SIGTERM for a controlled shutdown, and wait until the process is gone. Raises `ClusterError`."""
        self._act(broker, lambda identity: process.terminate(identity, STOP_TIMEOUT_S), "stopped")

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
        storage = self._prepared_release().storage
        shutil.rmtree(data)
        if storage is None:  # with ZooKeeper, a broker creates its files
            data.mkdir()
        else:
            copy_storage(storage, data, broker, self.state.cluster_id)

    def replicas_on_disk(self, broker: int) -> int:
        """Return the number of partition replicas on the disk of a broker, running or not."""
        return sum(1 for path in self._data(broker).glob("*-*/partition.metadata"))

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
        identity = self.state.broker(broker).process
        if identity is not None:
            process.limit_files(identity, None)

    def end_brokers(self) -> None:
        """End the brokers, ZooKeeper and the switch, and remove their data; clients and reaper continue."""
        server = self.state.zookeeper
        processes = [*(b.process for b in self.state.brokers), server.process if server else None, self.state.switch]
        for identity in filter(None, processes):
            process.kill(identity)
        self._reap()
        remove_data(self.run.path)

    def destroy(self) -> None:
        """Do what every cluster does, and reap the child processes."""
        super().destroy()
        self._reap()

    def _start_zookeeper(self) -> None:
        """Start the ZooKeeper server; do nothing in KRaft mode."""
        server = self.state.zookeeper
        if server is None:
            return
        spawned = zookeeper.start(self._prepared_release().kafka, self.run, self.state.owner)
        self._children.append(spawned.popen)
        with self._lock:
            server.process = spawned.identity
            self.state.save(self.run.cluster)
        zookeeper.wait_ready(self.run, server, READY_TIMEOUT_S)

    def _data(self, broker: int) -> Path:
        return startup.home(self.run, broker) / "data"

    def _unused_data(self, broker: int) -> Path:
        if self.broker_alive(broker):
            raise ClusterError(f"broker {broker} runs, so its disk cannot be changed; see {self._log(broker)}")
        return self._data(broker)

    def _prepared_release(self) -> Release:
        if self._release is None:
            with_zookeeper = self.state.zookeeper is not None
            self._release = prepare(self.state.kafka, self.run, self.state.owner, silent, with_zookeeper)
        return self._release

    def _act(self, broker: int, act: Callable[[ProcessId], bool], status: BrokerStatus) -> None:
        """Apply an operation to a live broker, and record its new status."""
        identity = self.state.broker(broker).process
        try:
            done = identity is not None and act(identity)
        except WaitTimeout as e:
            raise ClusterError(f"broker {broker} could not be {status}: {e}; see {self._log(broker)}") from None
        if not done:
            raise ClusterError(f"broker {broker} cannot be {status}: it is not running; see {self._log(broker)}")
        self._reap()
        self._set_status(broker, status)

    def _set_process(self, broker: int, status: BrokerStatus, spawned: Spawned) -> None:
        with self._lock:
            self.state.broker(broker).process = spawned.identity
            self._set_status(broker, status)

    def _reap(self) -> None:
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]


def _alive(broker: BrokerState) -> bool:
    """Return whether the process of a broker exists; that of a paused broker does."""
    return broker.process is not None and broker.process.alive()


def _exit_reason(child: subprocess.Popen[bytes]) -> str | None:
    code = child.poll()
    if code is None:
        return None
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

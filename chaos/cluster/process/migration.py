"""The migration of a cluster from ZooKeeper to KRaft: new controllers, modes of nodes, and the end of ZooKeeper."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chaos.cluster import deployment
from chaos.cluster.brokers import startup
from chaos.cluster.brokers.release import prepare, prepare_jars
from chaos.cluster.endpoints import FIRST_CONTROLLER, ControllerEndpoints, quorum_settings
from chaos.cluster.migration import Mode
from chaos.cluster.process import modes, znodes, zookeeper
from chaos.cluster.process.releases import ReleaseChanges
from chaos.cluster.settings import ClusterSpec, controller_settings
from chaos.cluster.state import ZooKeeperState
from chaos.errors import ClusterError
from chaos.install.cache import Progress, silent
from chaos.kafka.settings import Scalar
from chaos.processes import process
from chaos.processes.ports import HOST, free_ports

_ORIGINAL = "zookeeper-mode.properties"
"""The settings of a broker before the migration, beside its present ones."""
_METADATA_LOG = "__cluster_metadata-0"


class Migrations(ReleaseChanges):
    """The part of the process driver that migrates the metadata of a cluster."""

    _children: list[subprocess.Popen[bytes]]

    def prepare_migration(self, release: str, on_progress: Progress = silent) -> None:
        """Prepare a release for nodes without ZooKeeper, so that their first start is quick."""
        self._releases[release] = prepare(release, self.run, self.state.owner, on_progress)

    def provision_controllers(self, count: int, config: Mapping[str, Scalar]) -> list[int]:
        """Add controllers in migration mode, with the cluster ID of the brokers. Raises `ClusterError`."""
        if self.state.zookeeper is None or self.state.controllers:
            raise ClusterError("controllers are provisioned once, for a cluster that keeps its metadata in ZooKeeper")
        self.prepare_migration(self.state.brokers[0].kafka)
        self.note_refinalized()
        for attempt in range(1, deployment.ATTEMPTS + 1):
            self._write_controllers(count, config)
            try:
                self.start_brokers(self.controller_ids)
                break
            except startup.AddressTaken:
                self.remove_controllers()
                if attempt == deployment.ATTEMPTS:
                    raise
        return self.controller_ids

    def _write_controllers(self, count: int, config: Mapping[str, Scalar]) -> None:
        kafka, taken = self.state.brokers[0].kafka, deployment.ports_in_use()
        ports = free_ports(count, but=taken)
        addresses = {node: f"{HOST}:{port}" for node, port in enumerate(ports, start=FIRST_CONTROLLER)}
        endpoints = {
            node: ControllerEndpoints(HOST, port, addresses[node], addresses[node])
            for node, port in zip(addresses, ports, strict=True)
        }
        spec = ClusterSpec(len(self.state.brokers), kafka, config, self.state.heap_bytes, controllers=count)
        zookeeper_at, broker = self._server().address, self._original(self.state.brokers[0].id)
        written = []
        for node, at in endpoints.items():
            settings = modes.of_controller(controller_settings(spec, node, endpoints), zookeeper_at, broker)
            state = deployment.write_node(
                self.run, spec, node, (at.host, at.port), settings, self._prepared(kafka), self.state.cluster_id
            )
            state.quorum = at.quorum
            written.append(state)
        with self._lock:
            self.state.controllers = written
            self.state.save(self.run.cluster)

    def remove_controllers(self) -> None:
        """End the controllers together, because the last ones would wait for a majority, and remove their data."""
        alive = [c.process for c in self.state.controllers if c.process is not None and c.process.alive()]
        with ThreadPoolExecutor(max(1, len(alive))) as pool:
            list(pool.map(process.kill, alive))
        for controller in self.state.controllers:
            shutil.rmtree(startup.home(self.run, controller.id), ignore_errors=True)
        with self._lock:
            self.state.controllers = []
            self.state.save(self.run.cluster)

    def set_mode(self, node: int, mode: Mode) -> None:
        """Rewrite the settings of a node. A broker that goes back to ZooKeeper loses its copy of the metadata log.

        The only change of a controller is the end of its migration mode.
        """
        home = startup.home(self.run, node)
        present = home / "server.properties"
        if node in self.controller_ids:
            text = modes.after_migration(present.read_text(encoding="ascii"))
        else:
            before = self._original(node)
            (home / _ORIGINAL).write_text(before, encoding="ascii")
            text = modes.of_broker(before, mode, node, self.state.node(node).kafka, self._quorum())
        present.write_text(text, encoding="ascii")
        if mode == "zookeeper":
            (home / _ORIGINAL).unlink(missing_ok=True)
            shutil.rmtree(home / "data" / _METADATA_LOG, ignore_errors=True)

    def _original(self, broker: int) -> str:
        """Return the settings of a broker as they were before the migration."""
        home = startup.home(self.run, broker)
        original = home / _ORIGINAL
        return (original if original.exists() else home / "server.properties").read_text(encoding="ascii")

    def _quorum(self) -> dict[str, Scalar]:
        endpoints = {
            c.id: ControllerEndpoints(c.host, c.port, c.quorum or c.address, c.address) for c in self.state.controllers
        }
        return quorum_settings(endpoints)

    def in_zookeeper_mode(self, broker: int) -> bool:
        """Return whether the settings of a broker name a ZooKeeper."""
        text = (startup.home(self.run, broker) / "server.properties").read_text(encoding="ascii")
        return bool(modes.value_of(text, modes.CONNECT))

    def znode(self, path: str) -> str | None:
        """Return the data of a znode; None if there is none. Raises `ClusterError` without an answer."""
        return znodes.read(self._server(), path)

    def delete_znode(self, path: str) -> None:
        """Delete a znode; do nothing if there is none. Raises `ClusterError` if the server does not do it."""
        znodes.delete(self._server(), path)

    def logged(self, node: int, pattern: str) -> str | None:
        """Return the last match of a pattern in the log of a node since its last start."""
        with Path(self._log(node)).open("rb") as log:
            log.seek(self.state.node(node).log_start)
            found = [m for line in log if (m := re.search(pattern, line.decode("utf-8", errors="replace")))]
        return found[-1].group() if found else None

    def end_zookeeper(self) -> None:
        """End the server, and record that the cluster has none any more; do nothing if it has none."""
        with self._lock:
            if self.state.zookeeper is not None:
                self.state.former_zookeeper, self.state.zookeeper = self.state.zookeeper, None
                self.state.save(self.run.cluster)
        self.lend_zookeeper(False)

    def lend_zookeeper(self, running: bool) -> None:
        """Start or end the former server. Raises `ClusterError` if it does not start."""
        server = self._server()
        if running and not server.alive:
            self._start_server(server)
        elif not running and server.process is not None:
            process.kill(server.process)

    def zookeeper_answers(self) -> bool:
        """Return whether the server answers, present or former."""
        return zookeeper.registered(self._server()) is not None

    def _start_server(self, server: ZooKeeperState) -> None:
        """Start the ZooKeeper server, and wait until it serves."""
        release = prepare_jars(self.state.kafka, silent)
        spawned = zookeeper.start(release, self.run, self.state.owner)
        self._children.append(spawned.popen)
        with self._lock:
            server.process = spawned.identity
            self.state.save(self.run.cluster)
        zookeeper.wait_ready(self.run, server, startup.READY_TIMEOUT_S)

    def _server(self) -> ZooKeeperState:
        server = self.state.zookeeper or self.state.former_zookeeper
        if server is None:
            raise ClusterError("the cluster has no ZooKeeper")
        return server

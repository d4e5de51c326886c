"""The cluster of the docker driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

from docker import DockerClient

from chaos.cluster import deployment, state
from chaos.cluster.brokers.release import Release, prepare_files
from chaos.cluster.brokers.startup import STOP_TIMEOUT_S, AddressTaken, home
from chaos.cluster.deployment import Deployment, StartedCluster
from chaos.cluster.docker import container
from chaos.cluster.docker.engine import connect, engine_errors, find_labelled, image_of, remove
from chaos.cluster.secured.settings import TOKEN_KEYS_SETTING
from chaos.cluster.settings import FIRST_CONTROLLER, BrokerEndpoints, ControllerEndpoints
from chaos.cluster.state import BrokerStatus, ClusterState
from chaos.cluster.teardown import remove_data
from chaos.errors import ClusterError, MachineError, WaitTimeout
from chaos.install.cache import Progress
from chaos.kafka.security import OAUTHBEARER
from chaos.processes.ports import HOST
from chaos.relay.cuts import Cut
from chaos.run.directory import Run
from chaos.wait import wait_until

_PEERS_PORT, _CONTROLLER_PORT = 9092, 9093


class DockerCluster(StartedCluster):
    """The brokers of one run, each in a container."""

    def __init__(self, run: Run, cluster_state: ClusterState, client: DockerClient | None = None) -> None:
        super().__init__(run, cluster_state)
        self._client = client or connect()

    @classmethod
    def _is_deployed(cls, run: Run) -> bool:
        return bool(find_labelled(connect(), run.path))

    @classmethod
    def _prepare(cls, deployment: Deployment, on_progress: Progress) -> Callable[[], Self]:
        deployment = _with_token_keys(deployment)
        run, spec, client = deployment.run, deployment.spec, connect()
        release = prepare_files(spec.kafka, run, deployment.owner, on_progress, spec.features)
        image = image_of(client, spec.kafka, release.jars, on_progress)
        on_progress(f"starting containers for {spec.describe()}")
        return lambda: cls(run, _create_layout(deployment, client, release, image), client)

    @classmethod
    def attach(cls, run: Run) -> Self:
        """Return the deployed cluster of a run. Raises `RunDirError` if `cluster.json` is missing or damaged."""
        cluster_state = state.load(run)
        try:
            return cls(run, cluster_state)
        except MachineError as e:
            raise ClusterError(f"the containers of {run.run_id} cannot be reached: {e}") from None

    @staticmethod
    def clear(run: Run) -> None:
        """Remove the containers, the network and the volumes of the run. Raises `ClusterError`."""
        try:
            remove(find_labelled(connect(), run.path))
        except (MachineError, ClusterError) as e:
            again = f"when it answers again: python -m chaos gc --run {run.run_id}"
            raise ClusterError(f"containers of {run.run_id} may be left: {e}; {again}") from None

    def broker_alive(self, broker: int) -> bool:
        """Return whether the container of the broker runs; the container of a paused broker does."""
        return self._status(broker) in ("running", "paused")

    def _start(self, broker: int) -> Callable[[], str | None]:
        try:
            with engine_errors(f"{self.state.name(broker)} cannot be started"):
                self._container(broker).start()
        except ClusterError as e:
            if "already allocated" in str(e) or "address already in use" in str(e):
                raise AddressTaken(str(e)) from None
            raise
        self._set_status(broker, "starting")
        return partial(self._exit_reason, broker)

    def stop_broker(self, broker: int) -> None:
        """Send SIGTERM for a controlled shutdown, and wait until the broker is gone. Raises `ClusterError`."""
        self._signal(broker, "SIGTERM", STOP_TIMEOUT_S, "stopped")

    def kill_broker(self, broker: int) -> None:
        """Send SIGKILL, and wait until the broker is gone. Raises `ClusterError` if it was gone before."""
        self._signal(broker, "SIGKILL", 10, "killed")

    def pause_broker(self, broker: int) -> None:
        """Freeze the container. Raises `ClusterError` if it is gone."""
        with engine_errors(f"{self.state.name(broker)} cannot be paused"):
            container.freeze(self._container(broker))
        self._set_status(broker, "paused")

    def resume_broker(self, broker: int) -> None:
        """Thaw the container; do nothing if it is not paused. Raises `ClusterError` if it is gone."""
        status = self._status(broker)
        if status == "paused":
            with engine_errors(f"{self.state.name(broker)} cannot be resumed"):
                self._container(broker).unpause()
        elif status != "running":
            raise ClusterError(f"{self.state.name(broker)} cannot be resumed: it is {status}; see {self._log(broker)}")
        self._set_status(broker, "running")

    def cut_network(self, cut: Cut) -> None:
        """Drop the packets of a cut with iptables in the container; a restart of the container ends the cut."""
        container.drop(self._container(cut.broker), cut, self._addresses(cut))

    def mend_network(self, cut: Cut) -> None:
        """Let the packets of a cut pass again; do nothing if they pass, or if the broker is gone."""
        if self.broker_alive(cut.broker):
            container.let_pass(self._container(cut.broker), cut, self._addresses(cut))

    def dropped_packets(self, cut: Cut) -> int:
        """Return how many packets a cut has dropped so far, as counted by the kernel."""
        return container.dropped(self._container(cut.broker), self._addresses(cut))

    def disconnect_broker(self, broker: int) -> None:
        """Detach a broker from the network of the run, which also disables its published port."""
        with engine_errors(f"broker {broker} cannot be disconnected"):
            self._network().disconnect(self._container(broker).id, force=True)

    def reconnect_broker(self, broker: int) -> None:
        """Attach a broker to the network again at its old address; do nothing if it is attached."""
        this = self._container(broker)
        if self.state.network not in this.attrs["NetworkSettings"]["Networks"]:
            with engine_errors(f"broker {broker} cannot be connected"):
                self._network().connect(this, ipv4_address=self.state.node(broker).ip)

    def throttle_broker(self, broker: int, cpus: float) -> None:
        """Limit a broker to `cpus` CPUs."""
        with engine_errors(f"the CPU of broker {broker} cannot be limited"):
            container.limit_cpus(self._container(broker), cpus)

    def unthrottle_broker(self, broker: int) -> None:
        """Restore the CPU limit of the scenario."""
        with engine_errors(f"the CPU of broker {broker} cannot be given back"):
            container.limit_cpus(self._container(broker), None)

    def throttled_s(self, broker: int) -> float:
        """Return the seconds that a broker has waited because of its CPU limit, as counted by the kernel."""
        with engine_errors(f"broker {broker} cannot be measured"):
            return container.throttled_s(self._container(broker))

    def exhaust_memory(self, broker: int) -> None:
        """Use up the memory of a broker, so that the kernel kills it, and wait until it is gone."""
        with engine_errors(f"the memory of broker {broker} cannot be used up"):
            container.eat_memory(self._container(broker))
        self._wait_gone(broker, 30, "did not run out of memory")
        self._set_status(broker, "killed")

    def killed_for_memory(self, broker: int) -> bool:
        """Return whether the kernel killed a broker for lack of memory since its last start."""
        with engine_errors(f"broker {broker} cannot be inspected"):
            return container.ran_out_of_memory(self._client, self._container(broker))

    def fill_disk(self, broker: int, free_bytes: int) -> None:
        """Fill the disk until `free_bytes` are left. Raises `ClusterError` if the disk has no fixed size."""
        container.fill_disk(self._keeper(), broker, free_bytes)

    def free_disk(self, broker: int) -> None:
        """Remove what `fill_disk` wrote, if anything."""
        container.empty_disk(self._keeper(), broker)

    def disk_room(self, broker: int) -> int:
        """Return the free bytes on the disk of a broker."""
        return container.free_bytes_of(self._keeper(), broker)

    def end_brokers(self) -> None:
        """Remove the containers and their data; clients and reaper continue."""
        self.clear(self.run)
        remove_data(self.run.path)

    def _container(self, broker: int) -> Any:
        """Return the container in its current state. Raises `ClusterError` if it was removed."""
        with engine_errors(f"{self.state.name(broker)} cannot be inspected, see {self._log(broker)}"):
            return self._client.containers.get(str(self.state.node(broker).container))

    def _keeper(self) -> Any:
        if self.state.keeper is None:
            raise ClusterError("the brokers' disks have no fixed size; set cluster.disk, such as 256MiB")
        with engine_errors("the brokers' disks cannot be inspected"):
            return self._client.containers.get(self.state.keeper)

    def _network(self) -> Any:
        return self._client.networks.get(str(self.state.network))

    def _addresses(self, cut: Cut) -> list[str]:
        peers = [str(self.state.node(other).ip) for other in cut.others]
        return [*peers, str(self.state.gateway)] if cut.clients else peers

    def _status(self, broker: int) -> str:
        return str(self._container(broker).status)

    def _exit_reason(self, broker: int) -> str | None:
        this = self._container(broker)
        return None if this.status == "running" else f"ended with exit code {this.attrs['State']['ExitCode']}"

    def _signal(self, broker: int, signal: str, timeout_s: float, status: BrokerStatus) -> None:
        if not self.broker_alive(broker):
            raise ClusterError(
                f"{self.state.name(broker)} cannot be {status}: it is not running; see {self._log(broker)}"
            )
        with engine_errors(f"{self.state.name(broker)} cannot be {status}"):
            self._container(broker).kill(signal)
        self._wait_gone(broker, timeout_s, f"could not be {status}")
        self._set_status(broker, status)

    def _wait_gone(self, broker: int, timeout_s: float, why: str) -> None:
        try:
            wait_until(lambda: not self.broker_alive(broker), timeout_s, "it still runs", every_s=0.02)
        except WaitTimeout as e:
            raise ClusterError(f"{self.state.name(broker)} {why}: {e}; see {self._log(broker)}") from None


def _with_token_keys(deployment: Deployment) -> Deployment:
    """Let brokers read the public keys of the issuer of tokens from a file (KIP-768): containers do not reach it."""
    spec = deployment.spec
    if spec.security.mechanism != OAUTHBEARER:
        return deployment

    def extra(node: int) -> Mapping[str, str]:
        return {**(spec.extra(node) if spec.extra else {}), TOKEN_KEYS_SETTING: container.TOKEN_KEYS_URL}

    return replace(deployment, spec=replace(spec, extra=extra))


def _create_layout(deploying: Deployment, client: DockerClient, release: Release, image: str) -> ClusterState:
    """Create everything but start no broker; return the state.

    `cluster.json` is written before the first object exists on the engine, so that any process that ends the run finds
    them. Raises `MachineError` if a fixed port is taken, `AddressTaken`, or another `ClusterError`.
    """
    run, spec, owner = deploying.run, deploying.spec, deploying.owner
    subnet = container.choose_subnet()
    ports = deployment.choose_ports(spec, more=spec.controllers)
    quorum = f":{_CONTROLLER_PORT}"
    endpoints = [
        BrokerEndpoints(HOST, port, "" if spec.controllers else ip + quorum, f"{ip}:{_PEERS_PORT}", bind="0.0.0.0")
        for port, ip in (
            (port, container.address(subnet, broker)) for broker, port in enumerate(ports[: spec.brokers], 1)
        )
    ]
    controllers = {
        node: ControllerEndpoints(HOST, port, quorum=ip + quorum, bind=ip + quorum)
        for node, port in enumerate(ports[spec.brokers :], start=FIRST_CONTROLLER)
        for ip in [container.address(subnet, node)]
    }
    data = container.DATA if spec.disk_bytes else "data"
    created = deployment.write_cluster(deploying, release, endpoints, "docker", data, controllers=controllers)
    created.gateway = str(subnet[1])
    created.network = container.create_network(client, run, subnet, owner)
    nodes = [node.id for node in created.nodes]
    if spec.disk_bytes:
        created.keeper = container.create_disks(client, run, image, nodes, spec.disk_bytes, owner)
    for node in created.nodes:
        if created.keeper:
            container.put_storage(client, created.keeper, node.id, home(run, node.id) / "data")
        node.ip = container.address(subnet, node.id)
        inside = _CONTROLLER_PORT if node.id in controllers else node.port
        node.container = container.create_container(client, deploying, image, created.network, node, inside)
    created.save(run.cluster)
    return created

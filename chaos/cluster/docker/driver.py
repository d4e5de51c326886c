"""The docker driver itself; see the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Self

from docker import DockerClient

from chaos.cluster import deploy, state
from chaos.cluster.brokers.broker import BrokerDied, Starting, wait_ready
from chaos.cluster.brokers.release import prepare_files
from chaos.cluster.deployed import Deployed
from chaos.cluster.docker import containers, disk, making, network
from chaos.cluster.docker.engine import asking, connect, find_labelled, remove
from chaos.cluster.docker.image import image_of
from chaos.cluster.process.driver import PORT_ATTEMPTS, READY_TIMEOUT_S, STOP_TIMEOUT_S
from chaos.cluster.settings import ClusterSpec
from chaos.cluster.state import BrokerStatus, ClusterState
from chaos.errors import ClusterError, MachineError, WaitTimeout
from chaos.install.cache import Progress, silent
from chaos.processes.process import ProcessId
from chaos.processes.process_table import remove_data
from chaos.relay.cuts import Cut
from chaos.run.directory import Run
from chaos.wait import wait_until


class DockerCluster(Deployed):
    """The containers of one run."""

    def __init__(self, run: Run, found: ClusterState, client: DockerClient | None = None) -> None:
        super().__init__(run, found)
        self._client = client or connect()

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

        Ends and raises as `ProcessCluster.deploy` does, and has then removed everything it made but the image.
        """
        spec.check()
        client = connect()
        deploy.check_disk(run)
        if find_labelled(client, run.path):
            raise ClusterError(f"{run.path} has a running cluster already; destroy it first, or make a new run")
        with deploy.all_or_nothing(run):
            remove_data(run.path)
            run.brokers.mkdir()
            reaper = deploy.start_reaper(run, owner, deadline_s).identity
            release = prepare_files(spec.kafka, run, owner, on_progress)
            image = image_of(client, spec.kafka, release.jars, on_progress)
            on_progress(f"starting {spec.brokers} containers of Kafka {spec.kafka}")
            lay_out = partial(making.lay_out, client, run, spec, release, image, owner, reaper, deadline_s)
            cluster = cls._start(client, run, lay_out)
            deploy.check_reaper(run, reaper)
        return cluster

    @classmethod
    def _start(cls, client: DockerClient, run: Run, lay_out: Callable[[], ClusterState]) -> Self:
        """Start all; with other ports and addresses if somebody else took one in between."""
        for attempt in range(1, PORT_ATTEMPTS + 1):
            try:
                cluster = cls(run, lay_out(), client)
                cluster.start_brokers(cluster.broker_ids)
            except (BrokerDied, network.AddressesTaken) as e:
                if attempt == PORT_ATTEMPTS or (isinstance(e, BrokerDied) and not e.port_taken):
                    raise
                cls.clear(run)
                remove_data(run.path)
            else:
                return cluster
        raise AssertionError("the last attempt returns or raises")

    @classmethod
    def attach(cls, run: Run) -> Self:
        """The cluster that some process deployed for this run. Raises `RunDirError` without a sound `cluster.json`."""
        found = state.load(run)
        try:
            return cls(run, found)
        except MachineError as e:
            raise ClusterError(f"the containers of {run.run_id} cannot be reached: {e}") from None

    @staticmethod
    def clear(run: Run) -> None:
        """Remove the run's containers, network and volumes. Raises `ClusterError`."""
        try:
            remove(find_labelled(connect(), run.path))
        except (MachineError, ClusterError) as e:
            again = f"when it answers again: python -m chaos gc --run {run.run_id}"
            raise ClusterError(f"containers of {run.run_id} may be left: {e}; {again}") from None

    def broker_alive(self, broker: int) -> bool:
        """Whether the broker's container runs; a paused one does."""
        return self._status(broker) in ("running", "paused")

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several at once: after the loss of the majority, no single one gets ready by itself."""
        down = [b for b in brokers if not self.broker_alive(b)]
        starting = {b: Starting(self.run, self.state.broker(b)) for b in down}
        try:
            with ThreadPoolExecutor(max(1, len(down))) as pool:
                list(pool.map(self._start_container, down))
            for broker, one in starting.items():
                one.ended = partial(self._how_ended, broker)
            wait_ready(list(starting.values()), READY_TIMEOUT_S)
        except BaseException:
            for broker in down:
                if self.broker_alive(broker):
                    self.kill_broker(broker)
            raise
        for broker in down:
            self._note(broker, "running")

    def _start_container(self, broker: int) -> None:
        try:
            with asking(f"broker {broker} cannot be started"):
                self._container(broker).start()
        except ClusterError as e:
            if "already allocated" in str(e) or "address already in use" in str(e):
                raise BrokerDied(str(e), port_taken=True) from None
            raise
        self._note(broker, "starting")

    def stop_broker(self, broker: int) -> None:
        """SIGTERM: controlled shutdown. Returns when the broker is gone; raises `ClusterError`."""
        self._signal(broker, "SIGTERM", STOP_TIMEOUT_S, "stopped")

    def kill_broker(self, broker: int) -> None:
        """SIGKILL. Returns when the broker is gone; raises `ClusterError` if it was gone before."""
        self._signal(broker, "SIGKILL", 10, "killed")

    def pause_broker(self, broker: int) -> None:
        """Freeze the container. Returns when it stands still; raises `ClusterError` if it is gone."""
        with asking(f"broker {broker} cannot be paused"):
            containers.freeze(self._container(broker))
        self._note(broker, "paused")

    def resume_broker(self, broker: int) -> None:
        """Thaw it; nothing to do for one that is not paused. Raises `ClusterError` if it is gone."""
        status = self._status(broker)
        if status == "paused":
            with asking(f"broker {broker} cannot go on"):
                self._container(broker).unpause()
        elif status != "running":
            raise ClusterError(f"broker {broker} cannot go on: it is {status}; see {self._log(broker)}")
        self._note(broker, "running")

    def cut_network(self, cut: Cut) -> None:
        """Drop the packets of a cut, by iptables in the container; they pass again when it is started anew."""
        network.drop(self._container(cut.broker), cut, self._addresses(cut))

    def mend_network(self, cut: Cut) -> None:
        """Let the packets of a cut pass again; nothing to do where they do, or where the broker is gone."""
        if self.broker_alive(cut.broker):
            network.let_pass(self._container(cut.broker), cut, self._addresses(cut))

    def dropped_packets(self, cut: Cut) -> int:
        """How many packets a cut has dropped so far, as the kernel counts."""
        return network.dropped(self._container(cut.broker), self._addresses(cut))

    def disconnect_broker(self, broker: int) -> None:
        """Take a broker off the run's network; its published port goes with it."""
        with asking(f"broker {broker} cannot be disconnected"):
            self._network().disconnect(self._container(broker).id, force=True)

    def reconnect_broker(self, broker: int) -> None:
        """Put it on the network again, at its old address; nothing to do for one that is."""
        container = self._container(broker)
        if self.state.network not in container.attrs["NetworkSettings"]["Networks"]:
            with asking(f"broker {broker} cannot be connected"):
                self._network().connect(container, ipv4_address=self.state.broker(broker).ip)

    def throttle_broker(self, broker: int, cpus: float) -> None:
        """Give a broker no more than so many CPUs."""
        with asking(f"the CPU of broker {broker} cannot be limited"):
            containers.limit_cpus(self._container(broker), cpus)

    def unthrottle_broker(self, broker: int) -> None:
        """Give a broker what the scenario gives it."""
        with asking(f"the CPU of broker {broker} cannot be given back"):
            containers.limit_cpus(self._container(broker), None)

    def throttled_s(self, broker: int) -> float:
        """Seconds that a broker has waited because its share of the CPU was used up, as the kernel counts."""
        with asking(f"broker {broker} cannot be measured"):
            return containers.throttled_s(self._container(broker))

    def exhaust_memory(self, broker: int) -> None:
        """Use up a broker's memory: the kernel then kills its largest process. Returns when the broker is gone."""
        with asking(f"the memory of broker {broker} cannot be used up"):
            containers.eat_memory(self._container(broker))
        self._wait_gone(broker, 30, "did not run out of memory")
        self._note(broker, "killed")

    def killed_for_memory(self, broker: int) -> bool:
        """Whether the kernel ended a broker's latest life for want of memory."""
        with asking(f"broker {broker} cannot be looked at"):
            return containers.ran_out_of_memory(self._client, self._container(broker))

    def fill_disk(self, broker: int, free_bytes: int) -> None:
        """Leave so many bytes on a broker's disk. Raises `ClusterError` where the disk has no size of its own."""
        disk.fill(self._keeper(), broker, free_bytes)

    def free_disk(self, broker: int) -> None:
        """Take away what filled it."""
        disk.free(self._keeper(), broker)

    def disk_room(self, broker: int) -> int:
        """Bytes that are free on a broker's disk."""
        return disk.room(self._keeper(), broker)

    def end_brokers(self) -> None:
        """Remove the containers and their data; clients and reaper go on."""
        self.clear(self.run)
        remove_data(self.run.path)

    def _container(self, broker: int) -> Any:
        """As it is now. Raises `ClusterError` if it was removed."""
        with asking(f"broker {broker} cannot be looked at, see {self._log(broker)}"):
            return self._client.containers.get(str(self.state.broker(broker).container))

    def _keeper(self) -> Any:
        if self.state.keeper is None:
            raise ClusterError("the brokers' disks have no size of their own; set cluster.disk, such as 256MiB")
        with asking("the brokers' disks cannot be looked at"):
            return self._client.containers.get(self.state.keeper)

    def _network(self) -> Any:
        return self._client.networks.get(str(self.state.network))

    def _addresses(self, cut: Cut) -> list[str]:
        found = [str(self.state.broker(other).ip) for other in cut.others]
        return [*found, str(self.state.gateway)] if cut.clients else found

    def _status(self, broker: int) -> str:
        return str(self._container(broker).status)

    def _how_ended(self, broker: int) -> str | None:
        container = self._container(broker)
        return None if container.status == "running" else f"ended with exit code {container.attrs['State']['ExitCode']}"

    def _signal(self, broker: int, signal: str, timeout_s: float, status: BrokerStatus) -> None:
        if not self.broker_alive(broker):
            raise ClusterError(f"broker {broker} cannot be {status}: it is not running; see {self._log(broker)}")
        with asking(f"broker {broker} cannot be {status}"):
            self._container(broker).kill(signal)
        self._wait_gone(broker, timeout_s, f"could not be {status}")
        self._note(broker, status)

    def _wait_gone(self, broker: int, timeout_s: float, why: str) -> None:
        try:
            wait_until(lambda: not self.broker_alive(broker), timeout_s, "it still runs", every_s=0.02)
        except WaitTimeout as e:
            raise ClusterError(f"broker {broker} {why}: {e}; see {self._log(broker)}") from None

"""The content of `cluster.json`: what was deployed, and how to reach it. Paths are relative to the run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from chaos.cluster.secured.credentials import Secured
from chaos.cluster.settings import Verbs
from chaos.errors import ClusterError, RunDirError
from chaos.kafka.security import Access, Endpoint, Security
from chaos.processes.process import ProcessId
from chaos.run.directory import Run, read_json, write_atomically

BrokerStatus = Literal["starting", "running", "paused", "stopped", "killed", "ended"]


class NodeState(BaseModel):
    """One broker or dedicated controller: its address, files and status. Fields that a driver does not use are None.

    The address is the clients' listener of a broker, and the only listener of a controller.
    """

    model_config = ConfigDict(extra="forbid")

    id: int
    kafka: str  # the release that its next start runs; empty for an existing cluster
    host: str
    port: int
    controller_port: int | None = None  # if it is a port of this machine
    quorum: str | None = None  # the address of a dedicated controller for all other nodes
    behind: list[int] = []  # the ports that the broker binds, if its clients connect to a switch
    log: str | None = None
    log_start: int = 0  # the size of the log before the last start
    data: str | None = None
    state: BrokerStatus = "starting"
    process: ProcessId | None = None  # None before the first start
    container: str | None = None
    ip: str | None = None  # in the network of the run

    @property
    def address(self) -> str:
        """The host and port at which the node answers."""
        return f"{self.host}:{self.port}"


class ZooKeeperState(BaseModel):
    """The ZooKeeper server that holds the metadata of the brokers."""

    model_config = ConfigDict(extra="forbid")

    host: str
    port: int
    log: str
    process: ProcessId | None = None  # None before the start

    @property
    def address(self) -> str:
        """The host and port at which brokers reach the server."""
        return f"{self.host}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether the process exists."""
        return self.process is not None and self.process.alive()


class Attachment(BaseModel):
    """The use of an existing cluster by a run. It names the places of secrets, never the secrets."""

    model_config = ConfigDict(extra="forbid")

    prefix: str  # of all topics and groups of the run; nothing else is ever removed. Empty: the run makes none
    security: Security
    verbs: Verbs
    commands: list[ProcessId] = []  # running now
    cleared: bool = False  # the cluster is in its original state
    trusted: str | None = None  # the authorities for clients, if the relay ends their TLS; None: `security` has them


class ClusterState(BaseModel):
    """The cluster of a run, as `cluster.json` holds it."""

    model_config = ConfigDict(extra="forbid")

    driver: str = "process"  # a name in `chaos.cluster.drivers`
    kafka: str  # the release that was deployed; faults may change the release of single brokers
    cluster_id: str
    bootstrap: str
    heap_bytes: int
    owner: ProcessId | None  # None: the cluster outlives its starter, up to the deadline
    reaper: ProcessId
    network: str | None = None
    gateway: str | None = None  # the address from which clients reach containers
    keeper: str | None = None  # see chaos.cluster.docker.container
    attached: Attachment | None = None
    secured: Secured | None = None  # None: plain connections, or an existing cluster
    lender: str | None = None  # the run directory of the lender, if the cluster is borrowed
    zookeeper: ZooKeeperState | None = None  # None: KRaft
    switch: ProcessId | None = None  # see chaos.cluster.process.driver; None: brokers connect to each other directly
    refinalized: bool = False  # a run changed finalized features or settings of the release
    clocks: bool = False  # nodes have control files of their clocks, see chaos.preload
    skewed: bool = False  # a run changed the clock of a node, so files may have times of the future
    disks: bool = False  # nodes have control files of their disks, see chaos.preload
    slow: bool = False  # the disk of a node is slow now
    brokers: list[NodeState]
    controllers: list[NodeState] = []  # dedicated ones; empty: every broker is a controller too, or ZooKeeper
    voters: list[int] = []  # the first ones of a dynamic quorum; empty: a static quorum, or ZooKeeper

    @property
    def nodes(self) -> list[NodeState]:
        """The controllers, if they are dedicated, and the brokers."""
        return [*self.controllers, *self.brokers]

    @property
    def controller_addresses(self) -> dict[int, tuple[str, int]]:
        """The hosts and ports at which the dedicated controllers answer, by node ID."""
        return {c.id: (c.host, c.port) for c in self.controllers}

    def node(self, node: int) -> NodeState:
        """Return the broker or controller with this node ID. Raises `ClusterError` if there is none."""
        for node_state in self.nodes:
            if node_state.id == node:
                return node_state
        raise ClusterError(f"there is no node {node}; there are {', '.join(str(n.id) for n in self.nodes)}")

    def name(self, node: int) -> str:
        """Return the role and the ID of a node, such as `controller 101`."""
        return f"{'controller' if any(c.id == node for c in self.controllers) else 'broker'} {node}"

    @property
    def as_deployed(self) -> bool:
        """Whether every node has the deployed release with its features and a fast disk, and had the right time."""
        changed = self.refinalized or self.skewed or self.slow
        return not changed and all(node.kafka == self.kafka for node in self.nodes)

    @property
    def platform_security(self) -> Security | None:
        """The way of the platform to the brokers; None for plain connections."""
        if self.secured is not None:
            return self.secured.platform
        return self.attached.security if self.attached else None

    @property
    def client_security(self) -> Security | None:
        """The way of clients to the brokers; None for plain connections."""
        if self.secured is not None:
            return self.secured.clients
        if self.attached and self.attached.trusted:
            return self.attached.security.model_copy(update={"ca": self.attached.trusted})
        return self.platform_security

    @property
    def endpoint(self) -> Endpoint:
        """How the platform and clients reach the brokers, without a relay."""
        return Endpoint(self.bootstrap, self.client_security, self.platform_security)

    def access(self, node: int | None = None) -> Access | None:
        """Return the credentials of the platform for a node, by default for any broker; None for plain connections.

        Raises `UsageError` without a secret.
        """
        if self.secured is not None and any(c.id == node for c in self.controllers):
            return Access.of(self.secured.quorum)
        return Access.of(self.platform_security)

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        write_atomically(path, self.model_dump_json(indent=2) + "\n")


def load(run: Run) -> ClusterState:
    """Read `cluster.json`. Raises `RunDirError` if it is missing or damaged."""
    value = read_json(run.cluster, "cluster's state")
    try:
        return ClusterState.model_validate(value)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise RunDirError(
            f"{run.cluster} is damaged or of another version: {where}: {first['msg']}; "
            f"end what is left of the run with: python -m chaos gc {run.run_id}"
        ) from None

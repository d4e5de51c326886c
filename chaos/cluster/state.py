"""`cluster.json`: what was deployed, and how another process reaches it again. Paths are relative to the run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from chaos.cluster.verbs import Verbs
from chaos.errors import ClusterError, RunDirError
from chaos.kafka.access import Access
from chaos.kafka.security import Security
from chaos.processes.process import ProcessId
from chaos.run.directory import Run, read_json, write_atomically

DriverName = Literal["process", "docker", "attached"]
BrokerStatus = Literal["starting", "running", "paused", "stopped", "killed", "ended"]


class ProcessState(BaseModel):
    """A process as it is written down."""

    model_config = ConfigDict(extra="forbid")

    pid: int
    started: float  # see `chaos.processes.process.ProcessId`

    @classmethod
    def of(cls, identity: ProcessId) -> ProcessState:
        """Write an identity down."""
        return cls(pid=identity.pid, started=identity.started)

    @property
    def identity(self) -> ProcessId:
        """The identity that was written down."""
        return ProcessId(self.pid, self.started)


class BrokerState(BaseModel):
    """One broker: where it listens, where its files are, and what was last done to it.

    What only some drivers know is None with the others.
    """

    model_config = ConfigDict(extra="forbid")

    id: int
    host: str
    port: int
    controller_port: int | None = None  # where it is one of this machine
    behind: list[int] = []  # the ports on which it really listens, where a switch stands in front of it
    log: str | None = None
    data: str | None = None
    state: BrokerStatus = "starting"
    process: ProcessState | None = None  # None until it is first started
    container: str | None = None
    ip: str | None = None  # in the run's own network

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"{self.host}:{self.port}"


class ZooKeeperState(BaseModel):
    """The ZooKeeper server that the brokers keep their metadata in."""

    model_config = ConfigDict(extra="forbid")

    host: str
    port: int
    log: str
    process: ProcessState | None = None  # None until it is started

    @property
    def address(self) -> str:
        """Where brokers reach it."""
        return f"{self.host}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether its process exists."""
        return self.process is not None and self.process.identity.alive()


class Attachment(BaseModel):
    """What a run has to do with a cluster that existed before it. Of secrets it says where they are."""

    model_config = ConfigDict(extra="forbid")

    prefix: str  # of all topics and groups of the run; nothing else is ever removed
    security: Security
    verbs: Verbs
    commands: list[ProcessState] = []  # under way
    cleared: bool = False  # the cluster is as it was


class ClusterState(BaseModel):
    """The whole of `cluster.json`."""

    model_config = ConfigDict(extra="forbid")

    driver: DriverName = "process"
    kafka: str
    cluster_id: str
    bootstrap: str
    heap_bytes: int
    owner: ProcessState | None  # None: it outlives its starter, up to the deadline
    reaper: ProcessState
    network: str | None = None
    gateway: str | None = None  # the address from which clients reach containers
    keeper: str | None = None  # see chaos.cluster.docker.disk
    attached: Attachment | None = None
    lender: str | None = None  # the run directory whose cluster this is, where it is not this run's own
    deadline_at: float  # seconds since the epoch
    zookeeper: ZooKeeperState | None = None  # None: KRaft
    switch: ProcessState | None = None  # see chaos.cluster.process.network; None: brokers reach each other directly
    brokers: list[BrokerState]

    def broker(self, broker: int) -> BrokerState:
        """The broker with this node id. Raises `ClusterError` for an unknown one."""
        for found in self.brokers:
            if found.id == broker:
                return found
        raise ClusterError(f"there is no broker {broker}; there are {', '.join(str(b.id) for b in self.brokers)}")

    def access(self) -> Access | None:
        """How to get into the cluster; None where connections are plain. Raises `UsageError` without a secret."""
        return Access.of(self.attached.security) if self.attached else None

    def save(self, path: Path) -> None:
        """Write the file; a reader sees the old or the new one."""
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

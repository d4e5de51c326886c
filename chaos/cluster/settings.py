"""What a cluster is asked to be, and the settings of its brokers that follow from it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.cluster.metadata_mode import Metadata, choose
from chaos.cluster.verbs import Verbs
from chaos.errors import UsageError
from chaos.kafka.security import Security
from chaos.kafka.settings import Scalar, as_text
from chaos.processes.ports import HOST

# what the driver decides, with what to do instead
_OWNED = {
    **dict.fromkeys(["node.id", "broker.id", "process.roles"], "set the number of brokers"),
    **dict.fromkeys(
        ["controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.listener.names"],
        "every broker is a controller too",
    ),
    **dict.fromkeys(["log.dirs", "log.dir", "metadata.log.dir"], "data lies in the run directory"),
    **dict.fromkeys(
        ["advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name"],
        f"set listeners to one such as PLAINTEXT://{HOST}:19092",
    ),
    "security.inter.broker.protocol": "brokers talk plaintext",
    "zookeeper.connect": "with cluster.metadata: zookeeper a run has a ZooKeeper of its own",
}


PLAIN, NO_VERBS = Security(), Verbs()
_LISTENERS = {"listeners", "advertised.listeners", "listener.security.protocol.map"}


@dataclass(frozen=True)
class Existing:
    """A cluster that is there already, and what a run may do to it.

    Topics and groups of the run begin with `prefix`. It needs as many brokers as `replicas`, and `brokers` among them.
    """

    bootstrap: str
    prefix: str
    security: Security = PLAIN
    verbs: Verbs = NO_VERBS
    replicas: int = 1
    brokers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ClusterSpec:
    """The cluster to deploy.

    `config` overrides any broker setting but those the driver decides. `listeners`, such as
    `PLAINTEXT://127.0.0.1:19092`, fixes the client ports: broker 1 gets that port, broker 2 the next one, and so on.
    `metadata` says where its metadata is kept (None: see `chaos.cluster.metadata_mode.choose`).
    `cpus`, `memory_bytes` and `disk_bytes` limit each broker, where the driver can (None: no limit). `extra` gives more
    settings for a broker of this number, which win over all others; listeners are added to the driver's. `existing` is
    for the driver that makes no brokers. `switch`: the process driver is to cut links, see `cluster.process.network`.
    """

    brokers: int = 3
    kafka: str = "4.3.1"
    config: Mapping[str, Scalar] = field(default_factory=dict)
    heap_bytes: int = 256 * 2**20
    cpus: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    metadata: Metadata | None = None
    extra: Callable[[int], Mapping[str, str]] | None = None
    existing: Existing | None = None
    switch: bool = False

    @property
    def zookeeper(self) -> bool:
        """Whether the brokers keep their metadata in ZooKeeper. Raises `UsageError` for what does not go."""
        return choose(self.kafka, self.metadata) == "zookeeper"

    def check(self) -> None:
        """Raise `UsageError` for what this driver cannot deploy."""
        if self.brokers < 1:
            raise UsageError(f"a cluster needs at least one broker, not {self.brokers}")
        choose(self.kafka, self.metadata)
        if self.switch and self.zookeeper:
            raise UsageError(
                f"links cannot be cut where Kafka {self.kafka} keeps its metadata in ZooKeeper, which would still be "
                "reached; choose kraft, and a release from 3.3 on"
            )
        if self.switch and "listeners" in self.config:
            raise UsageError(
                "cluster.config: listeners cannot be fixed where links between brokers are cut, for clients go to the "
                "ports of a switch then; leave it out"
            )
        for key in self.config:
            if key in _OWNED:
                raise UsageError(f"cluster.config: {key} is decided by Aftershock; {_OWNED[key]}")
        self.fixed_ports()

    def fixed_ports(self) -> list[int] | None:
        """The client ports that the user fixed by `listeners`, one per broker; None if free ones are to be chosen."""
        listeners = self.config.get("listeners")
        if listeners is None:
            return None
        match = re.fullmatch(r"[A-Za-z0-9_]+://(?:127\.0\.0\.1|localhost):(\d{1,5})", str(listeners))
        first = int(match.group(1)) if match else 0
        if not 1 <= first <= 65_536 - self.brokers:
            raise UsageError(
                f"cluster.config: listeners is {listeners!r}; write one such as PLAINTEXT://{HOST}:19092, "
                "the port of broker 1 (the others count up from it)"
            )
        return list(range(first, first + self.brokers))


@dataclass(frozen=True)
class Place:
    """Where a broker listens: for clients at host and port, for the quorum and the other brokers at `host:port`.

    `controller` is empty where there is no quorum (ZooKeeper). Without `peers`, the other brokers come by the clients'
    listener. `bind` is the address that it binds for clients. `behind` says, by the name of the listener, where it
    really listens if something stands in front of it.
    """

    host: str
    port: int
    controller: str
    peers: str | None = None
    bind: str = HOST
    behind: Mapping[str, str] = field(default_factory=dict)


def on_this_host(ports: Sequence[int], controller_ports: Sequence[int] = ()) -> list[Place]:
    """The places of brokers that share this machine's loopback address, by node id from 1."""
    controllers = [f"{HOST}:{port}" for port in controller_ports] or [""] * len(ports)
    return [Place(HOST, port, controller) for port, controller in zip(ports, controllers, strict=True)]


def broker_settings(
    spec: ClusterSpec, broker: int, places: Sequence[Place], data: str = "data", zookeeper: str | None = None
) -> dict[str, str]:
    """The settings of one broker. `places` are those of all brokers, by node id from 1; `data` its log directory.

    With the address of a `zookeeper` the brokers keep their metadata there, else they are controllers too (KRaft).
    Differences from Kafka's defaults are what a small cluster needs, and few: replication of the internal topics no
    wider than the cluster, a short wait for further members when a group first forms (3 s by default), a log cleaner
    that does not take half of a small heap (128 MiB by default). Each of them can be overridden.
    """
    defaults: dict[str, Scalar] = {
        "offsets.topic.replication.factor": min(3, spec.brokers),
        "transaction.state.log.replication.factor": min(3, spec.brokers),
        "transaction.state.log.min.isr": min(2, spec.brokers),
        "share.coordinator.state.topic.replication.factor": min(3, spec.brokers),
        "share.coordinator.state.topic.min.isr": min(2, spec.brokers),
        "group.initial.rebalance.delay.ms": 1000,
        "log.cleaner.dedupe.buffer.size": 8 * 2**20,
    }
    here = places[broker - 1]
    bound = {"CLIENT": f"{here.bind}:{here.port}"}
    advertised = {"CLIENT": f"{here.host}:{here.port}"}
    if here.peers:
        bound["PEERS"] = advertised["PEERS"] = here.peers
    if zookeeper:
        defaults |= _session_in_zookeeper(spec)
        mode: dict[str, Scalar] = {"broker.id": broker, "zookeeper.connect": zookeeper}
    else:
        bound["CONTROLLER"] = here.controller
        mode = _quorum(broker, places)
        if here.behind and advertises_controllers(spec.kafka):
            advertised["CONTROLLER"] = here.controller  # or the leader of the quorum would tell where it really is
    bound |= here.behind
    decided: dict[str, Scalar] = {
        **mode,
        "listeners": ",".join(f"{name}://{address}" for name, address in bound.items()),
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in bound),
        "inter.broker.listener.name": "PEERS" if here.peers else "CLIENT",
        "log.dirs": data,  # relative to the working directory: a path with a comma would be taken for two
    }
    extra = dict(spec.extra(broker)) if spec.extra else {}
    for key in _LISTENERS & extra.keys():
        extra[key] = f"{decided[key]},{extra[key]}"
    return {key: as_text(value) for key, value in {**defaults, **spec.config, **decided, **extra}.items()}


def advertises_controllers(kafka: str) -> bool:
    """Whether a release lets a controller's listener be advertised (KIP-853); before, only the voters' list has it."""
    major, minor = map(int, kafka.split(".")[:2])
    return (major, minor) >= (3, 9)


def _quorum(broker: int, places: Sequence[Place]) -> dict[str, Scalar]:
    """What makes a broker a controller too."""
    return {
        "process.roles": "broker,controller",
        "node.id": broker,
        "controller.quorum.voters": ",".join(f"{i}@{place.controller}" for i, place in enumerate(places, start=1)),
        "controller.listener.names": "CONTROLLER",
    }


def _session_in_zookeeper(spec: ClusterSpec) -> dict[str, Scalar]:
    """How long a broker's silence goes unnoticed: as long as in KRaft, so that a scenario takes its time in both.

    There `broker.session.timeout.ms` (9 s) says it, and brokers in ZooKeeper mode do not know that setting. Their own,
    `zookeeper.session.timeout.ms` (18 s by default), wins where it is given. The first connection is given more time
    than a session, for a busy machine.
    """
    return {
        "zookeeper.session.timeout.ms": spec.config.get("broker.session.timeout.ms", 9000),
        "zookeeper.connection.timeout.ms": 60_000,
    }


def properties(settings: Mapping[str, str]) -> str:
    """The text of a Java properties file with these settings, whatever characters they hold."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    text = re.sub(r"([\\=:#! ])", r"\\\1", text).replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")
    # Java reads the file as Latin-1 and takes anything else as UTF-16 escapes
    return "".join(c if c.isascii() else _utf16(c) for c in text)


def _utf16(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))

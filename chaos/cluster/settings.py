"""The specification of a cluster: metadata mode, addresses, commands of the user, and settings of its brokers.

Pure functions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from chaos.cluster.secured.settings import listener_protocols, security_settings
from chaos.errors import UsageError
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import ClusterSecurity, Security
from chaos.kafka.settings import Scalar, as_text
from chaos.processes.ports import HOST
from chaos.units import Duration

FIRST_CONTROLLER = 101
"""Node ID of the first dedicated controller of a started cluster; the brokers are numbered from 1."""
LISTENER = "CONTROLLER"
"""The name of the listener of controllers."""


@dataclass(frozen=True)
class BrokerEndpoints:
    """The addresses of one broker: `host` and `port` for clients, `controller` for the quorum, `peers` for brokers.

    `controller` and `peers` are `host:port`. `controller` is empty if the broker is no controller. Without `peers`,
    brokers use the clients' listener. `bind` is the address that the broker binds for clients. If a switch is in front
    of the broker, `behind` maps the name of each listener to the address that the broker really binds.
    """

    host: str
    port: int
    controller: str
    peers: str | None = None
    bind: str = HOST
    behind: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ControllerEndpoints:
    """The addresses of one dedicated controller: `host` and `port` for the platform, `quorum` for all other nodes.

    `quorum` and `bind` are `host:port`; the controller binds `bind`.
    """

    host: str
    port: int
    quorum: str
    bind: str


def on_this_host(
    ports: Sequence[int], controller_ports: Sequence[int] = (), peer_ports: Sequence[int] = ()
) -> list[BrokerEndpoints]:
    """Return the endpoints of brokers on the loopback address of this machine, by node ID from 1."""
    controllers = [f"{HOST}:{port}" for port in controller_ports] or [""] * len(ports)
    peers: list[str | None] = [f"{HOST}:{port}" for port in peer_ports]
    peers = peers or [None] * len(ports)
    together = zip(ports, controllers, peers, strict=True)
    return [BrokerEndpoints(HOST, port, controller, between) for port, controller, between in together]


def combined_settings(broker: int, endpoints: Sequence[BrokerEndpoints]) -> dict[str, Scalar]:
    """Return the settings that make a broker a controller too."""
    voters = (f"{i}@{e.controller}" for i, e in enumerate(endpoints, start=1))
    return {"process.roles": "broker,controller", "node.id": broker, **_quorum_of("voters", voters)}


def quorum_settings(controllers: Mapping[int, ControllerEndpoints], dynamic: bool = False) -> dict[str, Scalar]:
    """Return the settings with which a node finds the dedicated controllers.

    dynamic: the voters are in the metadata log, and the settings only name nodes to ask (KIP-853).
    """
    if dynamic:
        return _quorum_of("bootstrap.servers", (at.quorum for at in controllers.values()))
    return _quorum_of("voters", (f"{node}@{at.quorum}" for node, at in controllers.items()))


def _quorum_of(setting: str, nodes: Iterable[str]) -> dict[str, Scalar]:
    return {f"controller.quorum.{setting}": ",".join(nodes), "controller.listener.names": LISTENER}


PLACEHOLDERS = ("broker", "host", "port")
PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_]+)\}")
"""A placeholder in a command; ${name} belongs to the shell."""

CAPABILITY_NEEDS = {
    "kill": frozenset({"kill"}),
    "stop": frozenset({"stop"}),
    "start": frozenset({"start"}),
    "pause": frozenset({"pause", "resume"}),
}
"""The commands that each capability of a driver needs."""


def _check_placeholders(command: str) -> str:
    if not command.strip():
        raise ValueError("the command is empty")
    for name in PLACEHOLDER.findall(command):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
            raise ValueError(f"{{{name}}} is no placeholder; known are {known}")
    return command


Command = Annotated[str, AfterValidator(_check_placeholders)]


class Verbs(BaseModel):
    """Commands for /bin/sh on the machine of Aftershock. {broker}, {host} and {port} are replaced by the target's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kill: Command | None = Field(None, description="ends a broker at once, as SIGKILL does")
    stop: Command | None = Field(None, description="requests a controlled shutdown of a broker")
    start: Command | None = Field(None, description="starts a broker that was killed or stopped, with its data")
    pause: Command | None = Field(None, description="suspends a broker, as SIGSTOP does")
    resume: Command | None = Field(None, description="resumes a paused broker")
    timeout: Duration = Field(60.0, gt=0, description="for each command, and again for its effect on the broker")

    def commands(self) -> dict[str, str]:
        """Return the commands that are set, by verb."""
        return {verb: text for verb in ("kill", "stop", "start", "pause", "resume") if (text := getattr(self, verb))}


# settings that the driver owns, with the alternative for the user
_OWNED = {
    **dict.fromkeys(["node.id", "broker.id", "process.roles"], "set the number of brokers"),
    **dict.fromkeys(
        ["controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.listener.names"],
        "set cluster.controllers for dedicated controllers; without it every broker is a controller too",
    ),
    **dict.fromkeys(
        ["log.dir", "metadata.log.dir"],
        "data lies in the run directory; log.dirs: d1,d2 gives brokers two data folders",
    ),
    **dict.fromkeys(
        ["advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name"],
        f"set listeners to one such as PLAINTEXT://{HOST}:19092",
    ),
    "broker.rack": "set cluster.racks",
    "security.inter.broker.protocol": "set cluster.security",
    "zookeeper.connect": "with cluster.metadata: zookeeper each run starts a ZooKeeper",
}

Metadata = Literal["kraft", "zookeeper"]

OLDEST = (2, 8)
"""The oldest release that Aftershock was tested with."""

KRAFT_SINCE, ZOOKEEPER_BEFORE = (3, 3), (4, 0)
"""The first release with production-ready KRaft, and the first without ZooKeeper. Between them there is a choice."""

SCRAM_SINCE = (3, 5)
"""The first release that keeps SCRAM credentials in KRaft (KIP-900)."""

ADVERTISED_CONTROLLERS_SINCE = (3, 9)
"""The first release with advertised controller listeners (KIP-853)."""

FOLDERS_SINCE = (3, 7)
"""The first release with several data folders in KRaft (KIP-858)."""

DYNAMIC_SINCE = (3, 9)
"""The first release with dynamic quorums (KIP-853)."""

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The class with which a leader sends a consumer to a replica in the rack of the consumer (KIP-392)."""

METADATA_VERSION = "metadata.version"
FEATURES = (
    METADATA_VERSION,
    *("transaction.version", "group.version", "eligible.leader.replicas.version", "share.version", "streams.version"),
)
"""The features of a cluster in KRaft mode that depend on its release."""

PLAIN, UNSECURED, NO_VERBS = Security(), ClusterSecurity(), Verbs()
_LISTENERS = {"listeners", "advertised.listeners", "listener.security.protocol.map"}


def line_of(kafka: str) -> tuple[int, int]:
    """Return the line of a release, such as (4, 3)."""
    numbers = re.match(r"(\d+)\.(\d+)", kafka)
    return (int(numbers.group(1)), int(numbers.group(2))) if numbers else ZOOKEEPER_BEFORE


def choose_metadata(kafka: str, asked: Metadata | None = None, driver: str = "process") -> Metadata:
    """Return the metadata mode of a release: as asked, else KRaft if possible. Raises `UsageError` if impossible."""
    release = line_of(kafka)
    if release < OLDEST:
        raise UsageError(f"Kafka {kafka} is too old; choose 2.8 or newer")
    if asked == "zookeeper" and release >= ZOOKEEPER_BEFORE:
        raise UsageError(f"Kafka {kafka} has no ZooKeeper mode, 4.0 removed it; choose an older release, or kraft")
    if asked == "kraft" and release < KRAFT_SINCE:
        raise UsageError(f"KRaft is supported since Kafka 3.3, and this is {kafka}; choose a newer one, or zookeeper")
    chosen = asked or ("kraft" if release >= KRAFT_SINCE else "zookeeper")
    if chosen == "zookeeper" and driver != "process":
        raise UsageError(
            f"Kafka {kafka} would run with ZooKeeper, which the {driver} driver does not support; "
            "choose the process driver, or a release from 3.3 on with kraft"
        )
    return chosen


def dynamic_problem(kafka: str, controllers: int, voters: int) -> str | None:
    """Return why a cluster cannot have a dynamic quorum with these voters (KIP-853); None if it can."""
    if line_of(kafka) < DYNAMIC_SINCE:
        return f"Kafka {kafka} has static quorums only; leave voters out, or choose 3.9 or later"
    if not controllers:
        return "a dynamic quorum needs dedicated controllers; give cluster.controllers, such as 3"
    if voters > controllers:
        return f"{voters} voters do not fit {controllers} controllers; add controllers"
    return None


def data_folders(config: Mapping[str, Scalar]) -> list[str]:
    """Return the names of the data folders of a broker, if a cluster has several; else none."""
    return [name.strip() for name in str(config.get("log.dirs", "")).split(",") if name.strip()]


def folders_problem(kafka: str, kraft: bool, config: Mapping[str, Scalar]) -> str | None:
    """Return why brokers cannot have the data folders that log.dirs names; None if they can, or it is not given."""
    if "log.dirs" not in config:
        return None
    names = data_folders(config)
    if len(set(names)) < 2 or not all(re.fullmatch(r"[A-Za-z0-9_]{1,40}", name) for name in names):
        return f"log.dirs: data lies in the run directory; name two or more folders there, such as d1,d2, not {names}"
    if len(set(names)) < len(names):
        return f"log.dirs: a folder is given twice in {','.join(names)}"
    if kraft and line_of(kafka) < FOLDERS_SINCE:
        return f"log.dirs: Kafka {kafka} has one data folder in KRaft (KIP-858); leave it out, or choose 3.7 or later"
    return None


@dataclass(frozen=True)
class Existing:
    """An existing cluster, and the limits within which a run may use it.

    Topics and groups of the run begin with `prefix`. The cluster needs at least `replicas` brokers, including the node
    IDs in `brokers`, and the partitions and groups of the user that faults aim at.
    """

    bootstrap: str
    prefix: str
    security: Security = PLAIN
    verbs: Verbs = NO_VERBS
    replicas: int = 1
    brokers: frozenset[int] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ClusterSpec:
    """The cluster to deploy.

    - `config` overrides any broker setting that the driver does not own. `listeners`, such as
      `PLAINTEXT://127.0.0.1:19092`, fixes the client ports: broker 1 gets that port, broker 2 the next one, and so on.
    - `cpus`, `memory_bytes` and `disk_bytes` limit each broker (None: no limit). `metadata`: None for the default.
    - `racks` are the racks of the brokers in turn: the first one of broker 1, and so on. Consumers may then read from
      followers (KIP-392).
    - `features` are levels at which the storage is formatted, where they differ from the levels of the release.
    - `controllers` is the number of dedicated controllers (0: every broker is a controller too). The first `voters` of
      them form a dynamic quorum, and the others follow it as observers (0: all are voters, of a static quorum).
    - `security`: TLS, SASL and ACLs, see `chaos.cluster.secured`.
    - `extra` returns more settings for a node ID. They win over all others; listeners are added to the driver's
      listeners.
    - `existing` is the cluster for the attached driver.
    - `switch`, `clocks`, `disks`: the process driver must be able to cut links (`chaos.cluster.process.driver`), to
      change the clocks of nodes, or to slow their disks (`chaos.preload`).
    """

    brokers: int = 3
    kafka: str = "4.3.1"
    config: Mapping[str, Scalar] = field(default_factory=dict)
    heap_bytes: int = 256 * 2**20
    cpus: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    metadata: Metadata | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    controllers: int = 0
    voters: int = 0
    racks: tuple[str, ...] = ()
    security: ClusterSecurity = UNSECURED
    extra: Callable[[int], Mapping[str, str]] | None = None
    existing: Existing | None = None
    switch: bool = False
    clocks: bool = False
    disks: bool = False

    @property
    def zookeeper(self) -> bool:
        """Whether the brokers keep their metadata in ZooKeeper. Raises `UsageError` if that is impossible."""
        return choose_metadata(self.kafka, self.metadata) == "zookeeper"

    def describe(self) -> str:
        """Return the size and the release, such as `3 controllers and 3 brokers of Kafka 4.3.1`."""
        controllers = f"{self.controllers} controller{'s' * (self.controllers != 1)} and " * bool(self.controllers)
        return f"{controllers}{self.brokers} broker{'s' * (self.brokers != 1)} of Kafka {self.kafka}"

    def check(self) -> None:
        """Raise `UsageError` if the cluster cannot be deployed."""
        if self.brokers < 1:
            raise UsageError(f"a cluster needs at least one broker, not {self.brokers}")
        choose_metadata(self.kafka, self.metadata)
        if self.controllers and self.zookeeper:
            raise UsageError(
                f"Kafka {self.kafka} keeps its metadata in ZooKeeper and has no KRaft controllers; "
                "leave cluster.controllers out, or choose kraft and a release from 3.3 on"
            )
        if self.voters and (problem := dynamic_problem(self.kafka, self.controllers, self.voters)):
            raise UsageError(f"cluster.voters: {problem}")
        for problem in self.config_problems():
            raise UsageError(problem)

    def config_problems(self) -> Iterator[str]:
        """Yield what is wrong with `config`, apart from unknown names and values, and with cut links."""
        if self.switch and self.zookeeper:
            yield (
                f"cluster.metadata: links cannot be cut if Kafka {self.kafka} keeps its metadata in ZooKeeper, which "
                "stays reachable; choose kraft, and a release from 3.3 on"
            )
        if self.switch and "listeners" in self.config:
            yield (
                "cluster.config: listeners cannot be fixed if links between brokers are cut, because clients then "
                "connect to the ports of a switch; leave it out"
            )
        for key in self.config:
            if key in _OWNED:
                yield f"cluster.config: {key} is decided by Aftershock; {_OWNED[key]}"
        if problem := folders_problem(self.kafka, not self.zookeeper, self.config):
            yield f"cluster.config: {problem}"
        try:
            self.fixed_ports()
        except UsageError as e:
            yield str(e)

    def fixed_ports(self) -> list[int] | None:
        """Return the client ports fixed by `listeners`, one per broker; None to choose free ports."""
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


def broker_settings(
    spec: ClusterSpec,
    broker: int,
    endpoints: Sequence[BrokerEndpoints],
    data: str = "data",
    zookeeper: str | None = None,
    controllers: Mapping[int, ControllerEndpoints] | None = None,
) -> dict[str, str]:
    """Return the settings of one broker. `endpoints` has all brokers, by node ID from 1; `data` is the log directory.

    With the address of a `zookeeper`, the brokers keep their metadata there. In KRaft, they are also controllers unless
    the cluster has dedicated `controllers`, by node ID.
    """
    defaults = small_defaults(spec)
    if spec.racks:
        defaults["replica.selector.class"] = RACK_AWARE_SELECTOR
    here = endpoints[broker - 1]
    bound = {"CLIENT": f"{here.bind}:{here.port}"}
    advertised = {"CLIENT": f"{here.host}:{here.port}"}
    if here.peers:
        bound["PEERS"] = advertised["PEERS"] = here.peers
    if zookeeper:
        defaults |= _session_in_zookeeper(spec)
        mode: dict[str, Scalar] = {"broker.id": broker, "zookeeper.connect": zookeeper}
    elif controllers:
        mode = {"process.roles": "broker", "node.id": broker, **quorum_settings(controllers, bool(spec.voters))}
    else:
        bound["CONTROLLER"] = here.controller
        mode = combined_settings(broker, endpoints)
        if here.behind and advertises_controllers(spec.kafka):
            advertised["CONTROLLER"] = here.controller  # else the quorum leader reveals the real address
    bound |= here.behind
    names = [*bound, "CONTROLLER"] if controllers else list(bound)
    decided: dict[str, Scalar] = {
        **mode,
        "listeners": ",".join(f"{name}://{address}" for name, address in bound.items()),
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
        "listener.security.protocol.map": listener_protocols(names, spec.security),
        "inter.broker.listener.name": "PEERS" if here.peers else "CLIENT",
        "log.dirs": data,  # relative to the working directory: Kafka would split an absolute path at a comma
    }
    if folders := data_folders(spec.config):
        decided["log.dirs"] = ",".join(f"{data}/{name}" for name in folders)
        if not zookeeper:  # so that no folder is needed for the metadata: a broker ends without it
            decided["metadata.log.dir"] = data
    decided |= security_settings(spec.security)
    if spec.racks:
        decided["broker.rack"] = spec.racks[(broker - 1) % len(spec.racks)]
    extra = dict(spec.extra(broker)) if spec.extra else {}
    for key in _LISTENERS & extra.keys():
        extra[key] = f"{decided[key]},{extra[key]}"
    return {key: as_text(value) for key, value in {**defaults, **spec.config, **decided, **extra}.items()}


def small_defaults(spec: ClusterSpec) -> dict[str, Scalar]:
    """Return defaults for a small cluster. The user can override each of them.

    Internal topics have at most as many replicas as there are brokers, a new group waits less for members (Kafka: 3 s),
    and the log cleaner uses less of a small heap (Kafka: 128 MiB).
    """
    return {
        **internal_replicas(spec.brokers),
        "share.coordinator.state.topic.replication.factor": min(3, spec.brokers),
        "share.coordinator.state.topic.min.isr": min(2, spec.brokers),
        "group.initial.rebalance.delay.ms": 1000,
        "log.cleaner.dedupe.buffer.size": 8 * 2**20,
    }


def internal_replicas(brokers: int) -> dict[str, Scalar]:
    """Return the replicas that the topics of offsets and transactions have in a new cluster, if nothing else is set."""
    return {
        "offsets.topic.replication.factor": min(3, brokers),
        "transaction.state.log.replication.factor": min(3, brokers),
        "transaction.state.log.min.isr": min(2, brokers),
    }


def advertises_controllers(kafka: str) -> bool:
    """Return whether a release supports advertised controller listeners (KIP-853)."""
    return line_of(kafka) >= ADVERTISED_CONTROLLERS_SINCE


def controller_settings(
    spec: ClusterSpec, controller: int, controllers: Mapping[int, ControllerEndpoints], data: str = "data"
) -> dict[str, str]:
    """Return the settings of one dedicated controller. `controllers` has all of them, by node ID."""
    here = controllers[controller]
    decided: dict[str, Scalar] = {
        "process.roles": "controller",
        "node.id": controller,
        **quorum_settings(controllers, bool(spec.voters)),
        "listeners": f"CONTROLLER://{here.bind}",
        "listener.security.protocol.map": listener_protocols(["CONTROLLER"], spec.security),
        "log.dirs": data,
        **security_settings(spec.security, clients=False),
    }
    if here.quorum != here.bind and advertises_controllers(spec.kafka):
        decided["advertised.listeners"] = f"CONTROLLER://{here.quorum}"  # else the quorum leader reveals the real one
    return {key: as_text(value) for key, value in {**small_defaults(spec), **spec.config, **decided}.items()}


def _session_in_zookeeper(spec: ClusterSpec) -> dict[str, Scalar]:
    """Return the session settings for ZooKeeper, with the same session timeout as in KRaft.

    KRaft uses `broker.session.timeout.ms` (9 s), which brokers in ZooKeeper mode do not know; their own setting,
    `zookeeper.session.timeout.ms` (18 s by default), wins if the user gives it. The first connection gets more time
    than a session, because the machine may be busy.
    """
    return {
        "zookeeper.session.timeout.ms": spec.config.get("broker.session.timeout.ms", 9000),
        "zookeeper.connection.timeout.ms": 60_000,
    }


def properties(settings: Mapping[str, str]) -> str:
    """Return the text of a Java properties file with these settings, in ASCII: other characters are escaped."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    text = re.sub(r"([\\=:#! ])", r"\\\1", text).replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")
    # Java reads the file as Latin-1, with UTF-16 escapes for other characters
    return "".join(c if c.isascii() else json.dumps(c).strip('"') for c in text)

"""The setup of a scenario: the cluster, its topics, the clients that write and read, and the schedule of its DAG.

The methods `*_problems` of `Setup` check references: a topic, partition, group or broker that a scenario names has to
exist in it. Each yields one message per problem, which begins with `where`, the key that holds the reference.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_validator

from chaos.clients.choice import DEFAULT, Client
from chaos.cluster.drivers import DriverName
from chaos.cluster.settings import Metadata, Verbs, choose_metadata
from chaos.errors import UsageError
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import ClusterSecurity
from chaos.kafka.settings import Config
from chaos.relay.roles import Payloads
from chaos.setup.apps import App
from chaos.setup.clients import Consumer, ConsumerEntry, Entry, Processor, Producer, Subscribe
from chaos.setup.effects import Effect
from chaos.setup.names import PRIMARY, Bootstrap, EntryName, RackName, TopicName
from chaos.setup.share import Share
from chaos.setup.triggers import Strict, Target
from chaos.units import Duration, Release, Size

Features = dict[str, Annotated[int, Field(ge=0)]]
"""Levels of features by their names, such as share.version."""

DEFAULT_KAFKA = "4.3.1"
PARTITION_TARGETS = frozenset({"leader_of", "followers_of", "follower_of", "isr_of", "partition"})
THEIRS = frozenset(
    {"leader_of", "followers_of", "follower_of", "isr_of", "coordinator_of", "transaction_coordinator_of"}
)
"""Targets that mean brokers by a name in the cluster. On a cluster that exists, it may be a name of the user."""
SCHEDULES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
"""Airflow's presets of schedules, except `@once` and `@continuous`, which are not schedules."""


def _check_schedule(text: str) -> str:
    from croniter import CroniterError, croniter  # on use: most scenarios have no schedule

    if text in SCHEDULES:
        return text
    if text.startswith("@"):
        raise ValueError(f"{text!r} is no preset; there are {', '.join(SCHEDULES)}")
    if (fields := len(text.split())) != 5:
        raise ValueError(
            f"{text!r} has {fields} fields and a cron expression five (minute, hour, day, month, weekday), "
            "such as '30 2 * * *'"
        )
    if "R" in text or "H" in text:  # croniter draws another time on each call
        raise ValueError(f"{text!r}: H and R are not supported, because each process would draw another time")
    try:
        # from a fixed moment, so that validity does not depend on the current day
        croniter(text, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)).get_next()
    except CroniterError as e:
        raise ValueError(f"{text!r} is no cron expression, or one that never fires: {e}") from None
    return text


Schedule = Annotated[str, AfterValidator(_check_schedule), Field(examples=["30 2 * * *", "@daily"])]
"""A cron expression of five fields, or a preset."""


class Cluster(Strict):
    """The nodes. Each new one is a JVM: a KRaft broker, a controller, or both in one, or a broker with ZooKeeper.

    The attached driver uses brokers that already exist.
    """

    driver: DriverName = Field(
        "process",
        description="process: JVMs on this machine; docker: one container per broker; attached: an existing cluster",
    )
    brokers: int = Field(3, ge=1, le=9, description="number of brokers; ignored by the attached driver")
    controllers: int | None = Field(
        None,
        ge=1,
        le=9,
        description="number of dedicated KRaft controllers, with the node ids 101, 102, …; if left out, every broker "
        "is a controller too",
    )
    voters: int | None = Field(
        None,
        ge=1,
        le=9,
        description="number of controllers that form a dynamic quorum (KIP-853, from Kafka 3.9 on), the others are "
        "observers; if left out, the quorum is static, and all are voters",
    )
    racks: list[RackName] = Field(
        [],
        description="racks of the brokers in turn: the first one of broker 1, and so on; consumers with a `rack` then "
        "read from the replica in their rack (KIP-392)",
    )
    kafka: Release = Field(DEFAULT_KAFKA, description="Apache Kafka release")
    metadata: Metadata | None = Field(
        None,
        validate_default=True,
        description="where metadata is kept; if left out: kraft from Kafka 3.3 on, zookeeper before",
    )
    features: Features = Field(
        {},
        description="levels that differ from the release, such as share.version: 0",
    )
    config: Config = Field({}, description="broker settings by their Kafka names")
    proxy: bool = Field(False, description="connect clients through the wire proxy even if no fault needs it")
    heap: Size = Field(256 * 2**20, ge=64 * 2**20, description="heap of each broker")
    cpus: float | None = Field(None, gt=0, description="docker: CPUs of each broker; no limit if left out")
    memory: Size | None = Field(
        None, ge=128 * 2**20, description="docker: memory of each broker, above its heap; no limit if left out"
    )
    disk: Size | None = Field(
        None, ge=64 * 2**20, description="docker: size of each broker's disk, held in memory; the host's if left out"
    )
    bootstrap: Bootstrap | None = Field(None, description="attached: host:port of one or more brokers, comma-separated")
    security: ClusterSecurity = Field(ClusterSecurity(), description="TLS, SASL and ACLs; plain if left out")
    allow_faults: bool = Field(
        False, description="attached: allow faults of brokers; the run also needs --i-own-this-cluster"
    )
    verbs: Verbs = Field(Verbs(), description="attached: the commands that stop and start brokers")
    asked: bool = Field(
        False, description="attached: `config` is what the brokers answered when the run began; not to be given"
    )

    @field_validator("metadata")
    @classmethod
    def _fill_in(cls, requested: Metadata | None, others: ValidationInfo) -> Metadata | None:
        """Return the metadata mode of the release, so that `resolved.json` records it."""
        if not {"kafka", "driver"} <= others.data.keys():  # one of them is invalid and has its own error
            return requested
        try:
            return choose_metadata(others.data["kafka"], requested, others.data["driver"])
        except UsageError as e:
            raise ValueError(str(e)) from None


class Topic(Strict):
    """A topic. It is created before any client starts, or by a fault `topic.create`."""

    name: TopicName
    partitions: int = Field(1, ge=1, le=1000)
    replication_factor: int = Field(3, ge=1)
    config: Config = Field({}, description="topic settings by their Kafka names")
    later: bool = Field(False, description="created by a fault topic.create, while clients run")
    cluster: EntryName = Field(
        PRIMARY,
        description="the cluster that has it; of another one, producers with ids write to it, for effects",
    )


class Clients(Strict):
    """The client library of entries that name none."""

    confluent_kafka: Release | None = Field(
        None,
        description="release of confluent-kafka, and so of librdkafka, of entries without a `client`; the installed "
        "one if left out",
    )


class Limits(Strict):
    """Time-outs. A run that exceeds one is inconclusive or shows an anomaly; it never hangs."""

    drive: Duration = Field(
        180.0,
        description="for producers to send everything and faults to be healed; if left out, at least 120 s more than "
        "the slowest producer needs at its rate",
    )
    drain: Duration = Field(60.0, description="for consumers to reach the end of every partition")
    proof: Duration = Field(
        30.0,
        description="for a fault to show its effect; if left out and brokers remove a silent member later, 15 s after "
        "its session time-out",
    )
    clients: Duration = Field(30.0, description="for clients to start, groups to form, and clients to stop")
    moment: Duration = Field(
        20.0,
        description="for a moment on the wire, when nothing else is awaited and applications have worked off what was "
        "sent; where the brokers do not show that, limits.drive",
    )
    works: Duration = Field(
        120.0, description="for an application to work again, once the fault that it works again after is in its phase"
    )


class Capture(Strict):
    """The capture of what clients and brokers say to each other, at a front of the wire proxy for each process."""

    payloads: Payloads = Field(
        "needed",
        description="what is kept of the records that are sent: headers of batches (none), also the batches of "
        "producers without an id, because their records have no other identity (needed), or all. With `none`, no "
        "result has text of a record, or of the output of an application or a client with a `command`; logs/ has that "
        "output, as it was written",
    )
    judged: Literal["clients", "wire"] = Field(
        "clients",
        description="what the audit judges: the ledgers of the clients, or what passed on the wire alone, as "
        "of clients that keep no ledger. One run is not judged by both: a record is its mark in a ledger and its batch "
        "on the wire, and a rule compares all writers and readers of a topic. With `clients`, applications are judged "
        "by their effects",
    )


class Setup(Strict):
    """The part of a scenario that holds before any fault: cluster, topics and clients."""

    title: str = Field(min_length=1, max_length=200)
    description: str = ""
    documented: str = Field("", description="the sentence of a documentation that the scenario shows, with its source")
    seed: int | None = Field(None, ge=0, description="fixes every random choice; drawn and recorded if left out")
    schedule: Schedule | None = Field(
        None, description="when its DAG runs: cron (UTC), or a preset such as @daily; only on demand if left out"
    )
    cluster: Cluster = Cluster()
    clusters: dict[EntryName, Cluster] = Field(
        {},
        description="clusters by name, such as {primary: {}, dr: {brokers: 3}}; `primary` is `cluster`, to which "
        "everything belongs that names no other one",
    )
    capture: Capture | None = Field(
        None, description="experimental: the wire ledger; if left out, only applications are captured, without records"
    )
    clients: Clients = Clients()
    topics: list[Topic] = Field(json_schema_extra={"minItems": 1})
    producers: list[Producer] = Field(json_schema_extra={"minItems": 1})
    consumers: list[ConsumerEntry] = []
    processors: list[Processor] = []
    apps: list[App] = Field([], description="applications of the user, which know nothing of Aftershock")
    effects: list[Effect] = Field([], description="what these applications have to do for each input")
    _in_transactions: frozenset[str] = PrivateAttr(default=frozenset())
    _elsewhere: bool = PrivateAttr(default=False)
    _of_all: list[Producer] | None = PrivateAttr(default=None)

    def at(self, cluster: str) -> Self:
        """Return the setup as one of its clusters has it. Another one than the first has topics and their producers."""
        changes: dict[str, Any] = {
            "topics": [topic for topic in self.topics if topic.cluster == cluster],
            "producers": [producer for producer in self.producers if self.cluster_of(producer) == cluster],
        }
        if cluster == PRIMARY and all(len(found) == len(getattr(self, part)) for part, found in changes.items()):
            return self
        if cluster != PRIMARY:
            changes |= {part: [] for part in ("consumers", "processors", "apps", "effects")}
            changes |= {"cluster": self.clusters[cluster], "clusters": {}}
        found = self.model_copy(update=changes)
        found._elsewhere, found._of_all = cluster != PRIMARY, self.every_producer
        return found

    @property
    def every_producer(self) -> list[Producer]:
        """The producers of all clusters, also if this is `at` one of them."""
        return self.producers if self._of_all is None else self._of_all

    def cluster_of(self, producer: Producer) -> str:
        """Return the cluster of the topics of a producer; the first cluster for a producer of rows."""
        return self.cluster_of_topics(producer.written)

    def cluster_of_topics(self, names: Collection[str]) -> str:
        """Return the cluster that has the first known one of topics; the first cluster if none is known."""
        return next((topic.cluster for topic in self.topics if topic.name in names), PRIMARY)

    @property
    def attached(self) -> bool:
        """Whether the scenario runs on an existing cluster."""
        return self.cluster.driver == "attached"

    @property
    def judged_on_wire(self) -> bool:
        """Whether the audit judges what passed on the wire, not the ledgers of the clients."""
        return self.capture is not None and self.capture.judged == "wire"

    @property
    def tapped(self) -> bool:
        """Whether it is what passed a tap (`chaos.tap`): judged on the wire, without clients or faults of ours."""
        return self.attached and self.judged_on_wire and not self.producers

    @property
    def unasked(self) -> bool:
        """Whether the settings of the brokers are not known: on a cluster that exists, before it was asked for them."""
        return self.attached and not self.cluster.asked

    @property
    def readers(self) -> list[Consumer]:
        """Every entry that reads whole partitions: the consumers outside of share groups, and the reading side of
        each processor as a subscribe consumer.
        """
        consumers = [entry for entry in self.consumers if not isinstance(entry, Share)]
        return [*consumers, *map(_reading_side, self.processors)]

    @property
    def shares(self) -> list[Share]:
        """The entries of share groups."""
        return [entry for entry in self.consumers if isinstance(entry, Share)]

    @property
    def share_groups(self) -> set[str]:
        """The ids of the share groups."""
        return {entry.group for entry in self.shares}

    @property
    def entries(self) -> list[Entry]:
        """The entries of all clients."""
        return [entry for _, entry in self.placed_entries]

    @property
    def placed_entries(self) -> Iterator[tuple[str, Entry]]:
        """Every client entry with its place, such as `producers[0]`."""
        for key in ("producers", "consumers", "processors"):
            for i, entry in enumerate(getattr(self, key)):
                yield f"{key}[{i}]", entry

    @property
    def groups(self) -> dict[str, list[str]]:
        """The names of the entries of each group, in their order."""
        found: dict[str, list[str]] = {}
        for entry in (*self.readers, *self.shares):
            if entry.group is not None:
                found.setdefault(entry.group, []).append(entry.name)
        return found

    @property
    def app_groups(self) -> list[str]:
        """The ids of the groups that applications are known to have, each once."""
        return list(dict.fromkeys(group for app in self.apps for group in app.groups))

    @property
    def app_topics(self) -> frozenset[str]:
        """The topics that no client writes to, in a scenario with applications or effects: those write there."""
        ours = {topic for p in self.producers for topic in p.written} | {p.to for p in self.processors}
        theirs = bool(self.apps or self.effects)
        return frozenset(topic.name for topic in self.topics if topic.name not in ours) if theirs else frozenset()

    @property
    def internal_topics(self) -> dict[str, int]:
        """The topics that workers of Kafka Connect make for themselves in the first cluster, with their partitions."""
        workers = [(app.connect, app.name) for app in self.apps if app.connect is not None and app.cluster == PRIMARY]
        return {topic: n for connect, app in workers for topic, n in connect.internal_topics(app).items()}

    @property
    def transactional(self) -> bool:
        """Whether any client writes in transactions."""
        return bool(self.written_in_transactions())

    def written_in_transactions(self, wanted: Callable[[Client], bool] = lambda client: True) -> set[str]:
        """Return the topics that clients of the wanted libraries write to in transactions."""
        of_producers = {topic for p in self.producers if p.transactions and wanted(p.client) for topic in p.written}
        of_processors = {p.to for p in self.processors if p.transactions and wanted(p.client)}
        return of_producers | of_processors | self._in_transactions

    def seen_in_transactions(self, topics: frozenset[str]) -> Self:
        """Return a copy that knows of topics that applications write to in transactions, as the wire shows."""
        copied = self.model_copy()
        copied._in_transactions = topics & self.app_topics
        return copied

    @property
    def transactional_ids(self) -> set[str]:
        """The transactional ids of all clients; empty if the library of one of them makes its own ids."""
        producers = [p for p in self.producers if p.transactions]
        processors = [p for p in self.processors if p.transactions]
        clients = [*(p.client for p in producers), *(p.client for p in processors)]
        if any(client.missing("fencing") for client in clients):
            return set()
        counts = {p.name: p.count for p in producers} | {p.name: p.members for p in processors}
        return {f"{name}-{n}" for name, count in counts.items() for n in range(1, count + 1)}

    def client_of(self, entry: Entry) -> Client:
        """Return the client library of an entry, with the release of `clients` if the entry names none."""
        common = self.clients.confluent_kafka
        if entry.client.release is None and entry.client.runtime == DEFAULT and common is not None:
            return entry.client.model_copy(update={"release": common})
        return entry.client

    @property
    def row_files(self) -> dict[str, str]:
        """The names of the files of producers that write rows to files, by producer."""
        return {p.name: p.rows.file for p in self.producers if p.rows and p.rows.file}

    @property
    def client_libraries(self) -> list[Client]:
        """The client libraries of all entries, each once; a producer of rows has none."""
        of_records = [entry for entry in self.entries if not (isinstance(entry, Producer) and entry.rows)]
        return list(dict.fromkeys(map(self.client_of, of_records)))

    def topic(self, name: str) -> Topic:
        """Return the topic of that name. Raises `StopIteration` if there is none."""
        return next(t for t in self.topics if t.name == name)

    def topic_problems(self, where: str, topics: Iterable[str]) -> Iterator[str]:
        """Check that the scenario has these topics."""
        names = {t.name for t in self.topics}
        for topic in topics:
            yield from unknown(where, topic, "topics", names)

    def partition_problems(self, where: str, text: str) -> Iterator[str]:
        """Check that the scenario has a partition such as `orders/0`."""
        partition = TopicPartition.parse(text)
        counts = {t.name: t.partitions for t in self.topics} | self.internal_topics
        if partition.topic not in counts:
            yield f"{where}: there is no topic {partition.topic!r}"
        elif partition.number >= (count := counts[partition.topic]):
            yield f"{where}: {partition.topic} has partitions 0 to {count - 1}, not {partition.number}"

    def group_problems(self, where: str, group: str, of_apps: bool = False) -> Iterator[str]:
        """Check that a consumer or processor has this group id. of_apps: an application may have it, too."""
        groups = sorted({*self.groups, *(self.app_groups if of_apps else ())})
        if group not in groups:
            yield f"{where}: no consumer has the group id {group!r} ({', '.join(groups) or 'none given'})"

    def brokers_in(self, rack: str) -> list[int]:
        """Return the ids of the brokers in a rack, ascending; none if the cluster has no such rack."""
        racks = self.cluster.racks
        return [b for b in range(1, self.cluster.brokers + 1) if racks and racks[(b - 1) % len(racks)] == rack]

    def rack_problems(self, where: str, rack: str) -> Iterator[str]:
        """Check that a broker is in this rack."""
        if not self.cluster.racks:
            yield f"{where}: the brokers have no racks; give cluster.racks, such as [a, b, c]"
        elif not self.brokers_in(rack):
            yield f"{where}: no broker is in rack {rack!r} ({', '.join(self.cluster.racks)})"

    def is_theirs(self, target: Target) -> bool:
        """Return whether a target is by a topic, group or transactional id of the user: one that the run lacks.

        That is possible on a cluster that exists. A name that the run has too means the name in the run. In another
        cluster of the run than the first one, all names are those of applications.
        """
        kind, value = target.selector
        if self._elsewhere:
            return kind in THEIRS | PARTITION_TARGETS | {"topic", "group"}
        if not self.attached or kind not in THEIRS:
            return False
        if kind in PARTITION_TARGETS:
            return TopicPartition.parse(value).topic not in {t.name for t in self.topics}
        if kind == "coordinator_of":
            return value not in {*self.groups, *self.app_groups}
        writers: list[Producer | Processor] = [*self.producers, *self.processors]
        return value.rpartition("-")[0] not in {p.name for p in writers if p.transactions}

    def broker_problems(self, where: str, brokers: Iterable[int]) -> Iterator[str]:
        """Check broker ids. Ids of an existing cluster are not known before the run."""
        for broker in brokers:
            if not self.attached and not 1 <= broker <= self.cluster.brokers:
                yield f"{where}: brokers are numbered 1 to {self.cluster.brokers}, not {broker}"

    def target_problems(self, where: str, target: Target, hits_controllers: bool = False) -> Iterator[str]:
        """Check the partition, topic, group or broker of a target. Faults of clients check clients.

        hits_controllers: whether the fault takes dedicated controllers, too.
        """
        kind, value = target.selector
        where = f"{where}.{kind}"
        if self.is_theirs(target):
            return  # the cluster says whether it exists, before anything starts
        if kind in PARTITION_TARGETS:
            yield from (problems := list(self.partition_problems(where, value)))
            own = [topic for topic in self.topics if topic.name == TopicPartition.parse(value).topic]
            single = not problems and bool(own) and own[0].replication_factor == 1
            if single and "follower" in kind:
                yield f"{where}: {value} has one replica, so it has no follower"
        elif kind == "topic":
            yield from self.topic_problems(where, [value])
        elif kind in ("coordinator_of", "group"):
            yield from self.group_problems(where, value, of_apps=kind in ("coordinator_of", "group"))
        elif kind == "coordinator_of_app":
            yield from unknown(where, value, "apps", {app.name for app in self.apps})
        elif kind == "share_coordinator_of":
            yield from unknown(where, value, "share groups", self.share_groups)
        elif kind == "transaction_coordinator_of" and not self.attached and (ids := self.transactional_ids):
            yield from unknown(where, value, "transactional ids", ids)
        elif kind == "broker":
            yield from self.broker_problems(where, [value])
        elif kind == "rack":
            yield from self.rack_problems(where, value)
        elif kind in ("controllers", "controller_follower") and not self.attached:
            count = self.cluster.voters or self.cluster.controllers or self.cluster.brokers
            if self.cluster.metadata == "zookeeper":
                yield f"{where}: with ZooKeeper only one broker is a controller; use controller: true"
            elif kind == "controller_follower" and count == 1:
                yield f"{where}: the only controller is the active one; use controller: true"
        elif kind == "controller" and self.cluster.controllers and not hits_controllers:
            yield (
                f"{where}: with cluster.controllers the active controller is no broker, and this fault is for brokers; "
                "choose a broker, or a fault controller.*"
            )


def unknown(where: str, name: str, role: str, names: Collection[str]) -> Iterator[str]:
    """Check that a role such as `producers` has this name. A set of names is listed in order."""
    if name not in names:
        listed = sorted(names) if isinstance(names, set) else names
        yield f"{where}: {name!r} is not one of the {role} ({', '.join(listed) or 'none given'})"


def _reading_side(p: Processor) -> Subscribe:
    isolation = {"isolation.level": "read_committed"} if p.transactions and p.client.traits.isolates else {}
    return Subscribe(
        mode="subscribe",
        name=p.name,
        group=p.group,
        members=p.members,
        topics=p.topics,
        client=p.client,
        config=p.consumer_config | isolation,
    )

"""The facts that rules read: what clients, a topic and its cluster really use.

`common_settings` brings the settings of a client under their common names, with the defaults of its release. Clients
change settings by themselves. What they refuse and what they switch off was tried with Java's ProducerConfig of 2.8.2,
3.0.0, 3.0.1, 3.9.2 and 4.3.1, and with librdkafka 2.16.0, and read in sarama's `Config.Validate`. A topic without a
value has the broker's value: log.retention.ms is the broker's retention.ms, and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from chaos.clients.choice import RUNTIMES, Client
from chaos.clients.java.traits import NEWEST
from chaos.clients.traits import number
from chaos.guarantees.names import LABELS, Role, common_name
from chaos.guarantees.values import Facts, Problems, Setting, Settings, check_value, defaults, setting
from chaos.kafka import settings
from chaos.kafka.settings import Scalar, as_text
from chaos.units import parse_duration

READ: dict[Role, frozenset[str]] = {
    "producer": frozenset(
        {
            *("acks", "enable.idempotence", "retries", "max.in.flight.requests.per.connection", "delivery.timeout.ms"),
            *("request.timeout.ms", "linger.ms", "transaction.timeout.ms", "transactional.id", "partitioner"),
            "socket.timeout.ms",
            *("partitioner.class", "partitioner.ignore.keys", "Producer.Partitioner", "retry.backoff.ms"),
            "retry.backoff.max.ms",
        }
    ),
    "consumer": frozenset(
        {
            *("enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "isolation.level"),
            *("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "group.protocol"),
        }
    ),
}
"""The settings that the rules read, by their common names. All others are never looked at, and so never shown."""
_RESERVED_DEFAULTS = ("partition.assignment.strategy", "failOnDataLoss", "auto.commit.interval.ms")
IN_FLIGHT = "max.in.flight.requests.per.connection"
MOST_IN_FLIGHT = 5
UNLIMITED = 2**31 - 1
"""The default of retries in Java and librdkafka."""
FOREVER = 2**63 - 1
_KEYED = ("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random")
AUTO_STORED, AUTO_POLLED = "auto_stored", "auto_polled"
"""Commits of the library that run ahead of processing (librdkafka), or behind it (Java)."""
NO_COMMITS, MARKS, GREEDY = "DisableAutoCommit", "AutoCommitMarks", "GreedyAutoCommit"
"""The options of franz-go about automatic commits. Without any, it commits what earlier polls have returned."""
BROKER_NAMES = {
    name: settings.BROKER_NAMES[name]
    for name in (
        *("min.insync.replicas", "unclean.leader.election.enable", "flush.messages"),
        *("cleanup.policy", "retention.ms", "retention.bytes"),
    )
}
"""Settings of a topic that the rules read, with the settings of the broker that are their defaults."""
RETENTION = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}
"""Other settings of the broker for retention.ms, with their unit in ms; log.retention.ms counts before them."""
_TRANSACTIONS = "cluster.transaction.state.log"
CLUSTER = (
    *("offsets.topic.replication.factor", "offsets.retention.minutes", "transaction.state.log.replication.factor"),
    *("transaction.state.log.min.isr", "transaction.max.timeout.ms", "group.min.session.timeout.ms"),
    *("group.max.session.timeout.ms", "min.insync.replicas", "unclean.leader.election.enable"),
)
"""Settings of a broker that the rules read for themselves."""
BROKER_SETTINGS = frozenset({*CLUSTER, *BROKER_NAMES.values(), *RETENTION, "default.replication.factor"})
"""All settings of a broker that the rules read."""


@dataclass
class ClientPart:
    """A producer or consumer: its client library, the settings as written, and when it commits.

    why: how the client was recognized, where the user did not name it. released: whether the user named a release.
    """

    role: Role
    client: Client
    settings: Settings = field(default_factory=dict)
    commit: Setting | None = None
    why: str = ""
    released: bool = False

    @property
    def release(self) -> str | None:
        """The release of the library; of confluent-kafka the installed one, None if there is none."""
        return self.client.release_used

    @property
    def library(self) -> str:
        """The library with its release, such as `kafka-clients 3.9.2`."""
        return f"{RUNTIMES[self.client.runtime].library} {self.release or ''}".strip()


def common_settings(part: ClientPart, problems: Problems) -> Settings:
    """Return the settings that the rules read, by their common names: given ones, else the defaults of the release."""
    runtime, traits = part.client.runtime, RUNTIMES[part.client.runtime]
    found = {
        name: setting(name, value, f"default of {part.library}", given=False)
        for name, value in {**defaults(runtime, part.release), **traits.defaults(part.release)}.items()
        if name in READ[part.role] and name not in _RESERVED_DEFAULTS
    }
    for own, given in part.settings.items():
        name, value = common_name(runtime, own, given.value)
        if name not in READ[part.role]:
            continue
        changed = given.meaning(_milliseconds(name, as_text(value)))
        if (checked := check_value(runtime, part.release, name, changed, problems)) is None:
            found.pop(name, None)
            continue
        earlier = found.get(name)
        if earlier is not None and earlier.given:
            problems.notes.append(
                f"{given.origin}: {given.name} is another name of {earlier.name} ({earlier.origin}); this one counts"
            )
        found[name] = checked
    return found


def _milliseconds(name: str, value: str) -> str:
    """Return the milliseconds of a duration such as `60s`, which sarama's settings are; other values as they are."""
    if name.endswith(".ms") and value[-1:].isalpha():
        try:
            return str(round(parse_duration(value) * 1000))
        except ValueError:
            return value
    return value


def is_on(settings: Settings, name: str) -> bool:
    """Return whether a setting is true."""
    return name in settings and settings[name].value == "true"


def is_given(settings: Settings, name: str, values: Collection[str] = ()) -> bool:
    """Return whether the user gave a setting, and if `values` are named, one of them."""
    found = settings.get(name)
    return found is not None and found.given and (not values or found.value in values)


def producer_facts(part: ClientPart, problems: Problems) -> Facts:
    """Return the facts of a producer. What its client refuses is added to `problems`."""
    found = common_settings(part, problems)
    runtime = part.client.runtime
    if {"acks", "enable.idempotence", "retries", IN_FLIGHT} <= found.keys():
        _idempotence(part, found, problems)
    if runtime == "java":
        _delivery_timeout(part, found, problems)
    found["client"] = Setting("client", runtime, part.why or "given")
    transactional = found.pop("transactional.id", None)
    found["transactional"] = (
        transactional.meaning("true")
        if transactional is not None and transactional.value
        else Setting("transactional.id", "false", "not set", given=False)
    )
    found["keyed"] = _keyed(runtime, found)
    if (window := _retry_window(runtime, found)) is not None:
        found["retry.window.ms"] = window
    return {f"producer.{name}": fact for name, fact in found.items()}


def _idempotence(part: ClientPart, found: Settings, problems: Problems) -> None:
    """Apply what the client makes of enable.idempotence together with acks, retries and requests in flight."""
    transactional = is_given(found, "transactional.id") and found["transactional.id"].value != ""
    most = 1 if part.client.runtime == "sarama" else MOST_IN_FLIGHT
    too_many = int(found[IN_FLIGHT].value) > most
    conflicts = {
        "acks": found["acks"].value != "all",
        "retries": int(found["retries"].value) < 1,
        IN_FLIGHT: too_many,
    }
    wanted = is_given(found, "enable.idempotence", ("true",)) or transactional
    if transactional and is_given(found, "enable.idempotence", ("false",)):
        _refuse(part, problems, found["transactional.id"], found["enable.idempotence"], "remove enable.idempotence")
        return
    if not wanted and not is_on(found, "enable.idempotence"):
        return
    given = [name for name, conflict in conflicts.items() if conflict and found[name].given]
    cause = found["transactional.id"] if transactional else found["enable.idempotence"]
    if part.client.runtime == "sarama":
        given = [name for name, conflict in conflicts.items() if conflict]  # it adjusts nothing
    if part.client.runtime == "java" and IN_FLIGHT in given and number(part.release or NEWEST) >= (4, 0, 0):
        given = [IN_FLIGHT]  # from 4.0 on, an error even where another setting switches idempotence off
        wanted = True
    for name in given:
        if wanted:
            _refuse(part, problems, cause, found[name], f"idempotence needs {_needed(name, most)}")
        else:
            origin = f"{part.library} switches it off, because {found[name].name} is {found[name].shown}"
            where = found[name].origin
            found["enable.idempotence"] = setting("enable.idempotence", False, f"{origin} ({where})", given=False)
            problems.notes.append(f"{where}: {origin}; no error is reported")
            return
    _adjust(part, found, cause)


def _delivery_timeout(part: ClientPart, found: Settings, problems: Problems) -> None:
    """Apply Java's check that delivery.timeout.ms leaves time for linger.ms and request.timeout.ms."""
    names = ("delivery.timeout.ms", "linger.ms", "request.timeout.ms")
    if not set(names) <= found.keys():
        return
    timeout, linger, request = (found[name] for name in names)
    least = int(linger.value) + int(request.value)
    if int(timeout.value) >= least:
        return
    if timeout.given:
        problems.refused.append(
            f"{timeout.origin}: {timeout.name}={timeout.shown} is below linger.ms={linger.shown} ({linger.origin}) "
            f"plus request.timeout.ms={request.shown} ({request.origin}): {part.library} does not start"
        )
    else:
        found[timeout.name] = setting(timeout.name, least, f"set by {part.library}, because of {request.origin}", False)


def _adjust(part: ClientPart, found: Settings, cause: Setting) -> None:
    """Set what an idempotent client uses where the user says nothing."""
    adjusted: dict[str, Scalar] = {"enable.idempotence": True, "acks": "all"}
    if int(found[IN_FLIGHT].value) > MOST_IN_FLIGHT:
        adjusted[IN_FLIGHT] = MOST_IN_FLIGHT
    for name, value in adjusted.items():
        if not found[name].given and found[name].value != setting(name, value, "").value:
            found[name] = setting(
                name, value, f"set by {part.library}, because of {cause.name} ({cause.origin})", False
            )


def _needed(name: str, most: int) -> str:
    return {"acks": "acks=all", "retries": "retries above 0"}.get(name, f"at most {most} requests in flight")


def _refuse(part: ClientPart, problems: Problems, one: Setting, other: Setting, advice: str) -> None:
    problems.refused.append(
        f"{other.origin}: {other.name}={other.shown} contradicts {one.name} ({one.origin}): {part.library} does not "
        f"start; {advice}"
    )


def _keyed(runtime: str, found: Settings) -> Setting:
    """Return whether records with one key go to one partition: true, false, or `own` for a class of the application."""
    if runtime == "java":
        ignores, own = found["partitioner.ignore.keys"], found["partitioner.class"]
        if own.value.endswith("RoundRobinPartitioner"):
            return own.meaning("false")
        if own.value:
            return own.meaning("own")
        return ignores.meaning("false" if ignores.value == "true" else "true")
    if runtime == "sarama":
        own = found["Producer.Partitioner"]
        hashes = "hash" in own.value.lower() or "consistent" in own.value.lower()
        return own.meaning("true" if hashes else "false")
    own = found["partitioner"]
    return own.meaning("true" if own.value in _KEYED else "false")


def _pauses_ms(retries: int, first: int, most: int | None) -> int:
    """Return how long the pauses between retries last at least, in ms.

    most: the longest one, of releases with KIP-580, where each pause is twice as long as the one before, less at most
    20% by chance; None of releases where all are as long as the first.
    """
    if most is None or most <= first:
        return retries * (first if most is None else most)
    growing = [first * 2**n for n in range(min(retries, 64)) if first * 2**n < most]
    return int((sum(growing) + (retries - len(growing)) * most) * 0.8)


def _retry_window(runtime: str, found: Settings) -> Setting | None:
    """Return how long the client at least tries to send a record before it reports a failure, in ms.

    A refusal comes back at once, so a limit of retries counts with their shortest pauses.
    """
    retries, backoff, timeout = (found.get(name) for name in ("retries", "retry.backoff.ms", "delivery.timeout.ms"))
    if retries is None or backoff is None:
        return None
    most = found.get("retry.backoff.max.ms")
    by_retries = _pauses_ms(int(retries.value), int(backoff.value), int(most.value) if most else None)
    if timeout is None:  # sarama has none
        return retries.meaning(str(by_retries))
    within = FOREVER if runtime == "confluent" and timeout.value == "0" else int(timeout.value)
    unlimited = int(retries.value) == UNLIMITED
    return timeout.meaning(str(within)) if unlimited or within <= by_retries else retries.meaning(str(by_retries))


def consumer_facts(part: ClientPart, problems: Problems) -> Facts:
    """Return the facts of a consumer. Contradictions are added to `problems`."""
    found = common_settings(part, problems)
    if part.client.runtime == "franz-go":
        found["enable.auto.commit"] = _franz_go_commits(part)
    _check_protocol(part, found, problems)
    found["client"] = Setting("client", part.client.runtime, part.why or "given")
    if (commit := _commit(part, found, problems)) is not None:
        found["commit"] = commit
    return {f"consumer.{name}": fact for name, fact in found.items()}


def _check_protocol(part: ClientPart, found: Settings, problems: Problems) -> None:
    """Refuse a session of the classic protocol with `group.protocol=consumer`, where the client does not start."""
    protocol, session = found.get("group.protocol"), found.get("session.timeout.ms")
    runtime = part.client.runtime
    checked = runtime == "confluent" or (runtime == "java" and number(part.release or NEWEST) >= (4, 0, 0))
    if checked and protocol is not None and protocol.value == "consumer" and session is not None and session.given:
        problems.refused.append(
            f"{session.origin}: {session.name}={session.value} contradicts group.protocol=consumer "
            f"({protocol.origin}): {part.library} does not start; the brokers' group.consumer.session.timeout.ms counts"
        )


def _commit(part: ClientPart, found: Settings, problems: Problems) -> Setting | None:
    """Return when offsets are committed; None if the settings do not say it."""
    runtime, given = part.client.runtime, part.commit
    if runtime in ("flink", "flink-legacy", "spark"):
        if given is not None and given.value not in ("on_checkpoint", "never"):
            problems.refused.append(
                f"{given.origin}: {LABELS[runtime]} has its positions in checkpoints, so it does not commit "
                f"{given.value}; write on_checkpoint, or leave commit out"
            )
        return Setting("commit", "on_checkpoint", f"what {LABELS[runtime]} does", given=False)
    automatic = found.get("enable.auto.commit")
    if automatic is None or automatic.value != "true":
        return given
    if given is not None and given.value in ("in_transaction", "never", "on_checkpoint"):
        problems.refused.append(
            f"{given.origin}: commit is {given.value}, and {automatic.name} is true ({automatic.origin}): the client "
            "commits offsets too; set it to false"
        )
        return None
    if runtime == "sarama" or _is_option(part, MARKS):
        return given  # it commits what the application has marked
    if _is_option(part, GREEDY):
        return part.settings[GREEDY].meaning(AUTO_STORED)
    return _automatic(runtime, found, automatic, given, problems)


def _franz_go_commits(part: ClientPart) -> Setting:
    """Return whether franz-go commits by itself: an option switches it off, and none switches it on."""
    if _is_option(part, NO_COMMITS):
        return part.settings[NO_COMMITS].meaning("false")
    chosen = next((part.settings[name] for name in (MARKS, GREEDY) if _is_option(part, name)), None)
    return (
        chosen.meaning("true") if chosen else setting("enable.auto.commit", True, f"default of {part.library}", False)
    )


def _is_option(part: ClientPart, name: str) -> bool:
    """Return whether an option of franz-go is given as true; other libraries do not read it."""
    given = part.settings.get(name)
    return part.client.runtime == "franz-go" and given is not None and given.value.lower() == "true"


def _automatic(
    runtime: str, found: Settings, automatic: Setting, given: Setting | None, problems: Problems
) -> Setting | None:
    """Return when the automatic commits of Java or librdkafka take place."""
    if runtime == "confluent" and not is_on(found, "enable.auto.offset.store"):
        return given  # it commits what the application has stored
    how = AUTO_STORED if runtime == "confluent" else AUTO_POLLED
    if given is not None and given.value == "before_processing" and how == AUTO_POLLED:
        return given
    if given is not None and given.value == "after_processing" and how == AUTO_STORED:
        store = found["enable.auto.offset.store"]
        problems.notes.append(
            f"{given.origin}: commit is {given.value}, but enable.auto.commit and {store.name} are true "
            f"({automatic.origin}, {store.origin}): librdkafka also commits records that are not processed"
        )
    return automatic.meaning(how)


@dataclass
class TopicPart:
    """A topic: its settings, and its numbers of replicas and of partitions if they are known."""

    settings: Settings = field(default_factory=dict)
    replicas: Setting | None = None
    partitions: Setting | None = None


@dataclass
class ClusterPart:
    """The settings of a cluster. brokers: the number of brokers, if known.

    given: whether anything is known about the settings; if not, defaults say little about a real cluster.
    controllers: the number of dedicated controllers. features: levels by name. No promise depends on these two.
    internal: settings of existing internal topics, such as `offsets.topic.replication.factor`; they precede `settings`.
    asked: how many brokers were asked for their settings; empty if none was.
    """

    settings: Settings = field(default_factory=dict)
    kafka: str | None = None
    brokers: Setting | None = None
    given: bool = False
    controllers: int | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    internal: Settings = field(default_factory=dict)
    asked: str = ""

    @property
    def software(self) -> str:
        """Kafka, with its release if it is known."""
        return f"Kafka {self.kafka}" if self.kafka else "Kafka"


def cluster_facts(topic: TopicPart | None, cluster: ClusterPart, problems: Problems) -> Facts:
    """Return the facts of the topic and of the cluster. A value that is none is added to `problems`."""
    brokers = _broker_settings(cluster, problems)
    facts: Facts = {}
    if cluster.brokers:
        facts["cluster.brokers"] = cluster.brokers
    if cluster.given:
        own = {name: brokers[name] for name in CLUSTER if name in brokers} | _checked(cluster.internal, problems)
        facts |= {f"cluster.{name}": found for name, found in own.items()}
        facts.setdefault("cluster.offsets.min.insync.replicas", facts["cluster.min.insync.replicas"])
    if topic is not None:
        given = _checked({name: s for name, s in topic.settings.items() if name in BROKER_NAMES}, problems)
        facts |= {
            f"topic.{name}": given.get(name) or brokers[own]
            for name, own in BROKER_NAMES.items()
            if name in given or own in brokers
        }
        if replicas := topic.replicas or _default_replicas(brokers, cluster):
            facts["topic.replication.factor"] = replicas
    return facts | _derived(facts)


def _broker_settings(cluster: ClusterPart, problems: Problems) -> Settings:
    """Return the broker settings that the rules read, with defaults."""
    plain = {
        name: setting(name, value, f"default of {cluster.software}", given=False)
        for name, value in defaults("kafka", None).items()
    }
    read = {*plain, *RETENTION}
    given = _checked({name: s for name, s in cluster.settings.items() if name in read}, problems)
    if "log.retention.ms" not in given:
        for name, unit in RETENTION.items():
            if name in given:
                found = given[name]
                time_ms = int(found.value) * unit if int(found.value) >= 0 else -1
                given["log.retention.ms"] = found.meaning(str(time_ms))
                break
    return {**plain, **given}


def _default_replicas(brokers: Settings, cluster: ClusterPart) -> Setting | None:
    """Return the number of replicas of a topic that a broker creates; None if nothing is known of the broker."""
    found = brokers.get("default.replication.factor")
    return replace(found, origin=f"{found.origin}, for a new topic") if found and cluster.given else None


def _checked(settings: Mapping[str, Setting], problems: Problems) -> Settings:
    checked = {name: check_value("kafka", None, name, found, problems) for name, found in settings.items()}
    return {name: found for name, found in checked.items() if found is not None}


def _derived(facts: Facts) -> Facts:
    """Return what follows from replicas and min.insync.replicas: how many may be lost, and how many may be down.

    A topic with more replicas than brokers cannot be created (INVALID_REPLICATION_FACTOR).
    """
    found: Facts = {}
    pairs = (
        ("topic", "topic.replication.factor", "topic.min.insync.replicas"),
        ("cluster.offsets", "cluster.offsets.topic.replication.factor", "cluster.offsets.min.insync.replicas"),
        (
            "cluster.transactions",
            f"{_TRANSACTIONS}.replication.factor",
            f"{_TRANSACTIONS}.min.isr",
        ),
    )
    for part, replicas, least in pairs:
        if replicas in facts and least in facts:
            n, m = int(facts[replicas].value), int(facts[least].value)
            both = f"{facts[replicas].origin}, {facts[least].origin}"
            numbers = {"losable": m - 1, "spare": n - m, "followers": n - 1}
            found |= {f"{part}.{name}": Setting(name, str(value), both, False) for name, value in numbers.items()}
            if "cluster.brokers" in facts and n > int(facts["cluster.brokers"].value):
                found[f"{part}.uncreated"] = Setting("uncreated", "true", both)
    return found

"""The application of a proof: its scenario without faults, its facts and promises, and what was assumed about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.campaign.prove import entries
from chaos.campaign.prove.entries import Notes, Raw
from chaos.cluster.settings import internal_replicas
from chaos.errors import ScenarioError, UsageError
from chaos.faults.controllers import MIN_SUCCESSION
from chaos.guarantees.application import AppFile, Options, Parts, Topic, Traffic
from chaos.guarantees.facts import ClientPart, ClusterPart, TopicPart
from chaos.guarantees.names import LABELS, common_name
from chaos.guarantees.promises import Promises, answers, facts_of, read_application
from chaos.guarantees.values import Facts, Problems, Setting, setting
from chaos.kafka.settings import Config, Scalar
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.setup.model import DEFAULT_KAFKA

BROKERS, REPLICAS, PARTITIONS, TOPIC = 3, 3, 3, "orders"
"""What is assumed if nothing is given."""
FEEDER = "feeder"
"""The producer of an application that has none, or that reads and writes."""
LIMITS = {"drive": 90.0, "drain": 40.0, "proof": 20.0, "clients": 40.0}
"""Time-outs of a run in seconds: shorter than in a scenario, as the loads are small."""
SESSION = "broker.session.timeout.ms"
SESSION_S = 10.0
"""The longest session of a broker for which the time-outs leave time to elect another leader."""
PATIENCE, LATER_MS = "patience.ms", 2000
"""The fact how long the producer waits for an answer, and how much later than that a late request arrives."""
PATIENT = {"confluent": "socket.timeout.ms", "java": "request.timeout.ms"}
"""The setting for that in each client library: librdkafka's request.timeout.ms is for the broker."""
ORIGIN = "the setting that mends it"


@dataclass(frozen=True)
class Application:
    """An application as a scenario.

    raw: the scenario without faults, as plain data. names: the partition, group and clients that faults target, and the
    delay of a late request.
    assumed: what `app.yaml` does not say. left_out: settings that the runs do not have, by name, never by value.
    changed: settings that the runs have for speed.
    """

    title: str
    raw: Raw
    facts: Facts
    promises: Promises
    names: Mapping[str, str]
    assumed: list[str]
    left_out: list[str]
    changed: list[str]

    files: list[Path]
    """The file of the application, and the files that it names."""
    file: AppFile

    @property
    def records(self) -> int:
        """Number of records that all producers send at least."""
        return sum(int(producer["records"]) * int(producer["count"]) for producer in self.raw["producers"])


def read(options: Options, changed: Mapping[str, Scalar] | None = None) -> Application:
    """Return the application of an app.yaml, with other values of some facts.

    Raises `UsageError`, also for values that do not fit, and `ClusterError` if a cluster does not answer.
    """
    problems, notes = Problems(), Notes()
    parts, file = read_application(options, problems)
    if not parts.clients:
        raise UsageError("there is no producer and no consumer to prove anything of; give at least one in app.yaml")
    _assume(parts, file, notes)
    for fact, value in (changed or {}).items():
        set_fact(parts, fact, value)
    facts = facts_of(parts, problems)
    promises = answers(parts, facts, problems)
    raw, names = _scenario(parts, file, facts, notes)
    where = str(options.app or "the application")
    try:
        scenario = parse(entries.dump(raw), where)
    except ScenarioError as e:
        reason = " ".join(str(e).partition(":\n")[2].split()) or str(e)
        raise UsageError(f"{where} cannot be run here: {reason}") from None
    facts |= _own_facts(scenario, names, parts, facts)
    if (patience := facts.get(f"app.{PATIENCE}")) is not None:
        names["late"] = f"{int(patience.value) + LATER_MS}ms"
    title = options.app.stem if options.app else "application"
    files = _files(options, file)
    return Application(title, raw, facts, promises, names, notes.assumed, notes.left_out, notes.changed, files, file)


def _files(options: Options, file: AppFile) -> list[Path]:
    """Return the file of an application and the properties files that it names."""
    app = file.app
    parts = (app.producer, app.consumer, app.topic, app.input, app.output, app.cluster)
    named = [part.properties for part in parts if part is not None]
    named += [app.app.samples] if app.app else []
    return [*filter(None, [options.app]), *(file.located(path) for path in named if path is not None)]


def _assume(parts: Parts, file: AppFile, notes: Notes) -> None:
    """Fill in what the parts lack, with what the lab uses then."""
    parts.cluster, parts.topic = parts.cluster or ClusterPart(), parts.topic or TopicPart()
    if parts.cluster.brokers is None:
        wanted = int(parts.topic.replicas.value) if parts.topic.replicas else 0
        parts.cluster.brokers = setting("brokers", max(BROKERS, wanted), "assumed", given=False)
        notes.assumed.append(f"{parts.cluster.brokers.value} brokers")
    brokers = int(parts.cluster.brokers.value)
    topics = {" of the input": parts.input, " of the output": parts.topic} if parts.input else {"": parts.topic}
    for which, topic in topics.items():
        if topic is not None and topic.replicas is None:
            topic.replicas = setting("replication factor", min(REPLICAS, brokers), "assumed", given=False)
            notes.assumed.append(f"replication factor {topic.replicas.value}{which}")
    for name, value in internal_replicas(brokers).items():
        parts.cluster.settings.setdefault(name, setting(name, value, "assumed", given=False))
    if not parts.cluster.given:
        parts.cluster.given = True
        notes.assumed.append("Kafka's defaults of all broker settings")
    if parts.cluster.kafka is None:
        parts.cluster.kafka = DEFAULT_KAFKA
        notes.assumed.append(f"Kafka {DEFAULT_KAFKA}")
    consumer = parts.consumer
    if consumer is not None and consumer.commit is None:
        consumer.commit = entries.assumed_commit(consumer, notes)
    if file.app.traffic is None:
        notes.assumed.append(f"traffic: {_describe(Traffic())}")


def _describe(traffic: Traffic) -> str:
    return f"{traffic.producers} producer, {traffic.members} members, {traffic.rate:g} records per second"


def _scenario(parts: Parts, file: AppFile, facts: Facts, notes: Notes) -> tuple[Raw, dict[str, str]]:
    """Return the scenario of an application without faults, and the names of what faults target."""
    assert parts.topic is not None and parts.cluster is not None
    traffic, app = file.app.traffic or Traffic(), file.app
    transforms = app.transforms or entries.is_transactional_processor(facts)
    topic = _topic(app.written[1], parts.topic, f"{TOPIC}-out" if app.transforms else TOPIC, notes)
    raw: Raw = {
        "title": f"{file.path.stem if file.path else 'application'} in a proof",
        "cluster": entries.cluster(parts.cluster, notes),
        "topics": [topic],
        "producers": [],
    }
    raw["limits"] = _limits(raw["cluster"]["config"])
    group = entries.group_of(parts.consumer)
    names = {"partition": f"{topic['name']}/0", "group": group, "writer": "producer", "reader": "consumer"}
    if transforms:
        if parts.producer is None or parts.consumer is None:
            raise UsageError("an application with input and output reads and writes; give both producer and consumer")
        names |= {"writer": "processor", "reader": "processor"}
        read = _topic(app.input, parts.input, TOPIC, notes) if parts.input else topic
        written = topic if parts.input else {**topic, "name": f"{topic['name']}-out"}
        how = entries.processing_of(parts.consumer, facts, traffic, notes)
        raw |= entries.processing(parts.producer, parts.consumer, (read, written), group, how, traffic, notes)
        parts.producer.settings.pop("transactional.id", None)
    else:
        if parts.producer is not None and parts.consumer is not None:
            notes.assumed.append(
                f"producer and consumer are two programs on the topic {topic['name']}; one program that reads a topic "
                "and writes another one has input and output in app.yaml"
            )
        if parts.producer is not None:
            raw["producers"] = [entries.producer(parts.producer, facts, topic["name"], traffic, notes)]
        if parts.consumer is not None:
            raw["consumers"] = [entries.consumer(parts.consumer, facts, topic["name"], group, traffic, notes)]
    if not raw["producers"]:
        notes.assumed.append("a producer of the lab writes to the topic, with acks=all and idempotence")
        raw["producers"] = [entries.feeder(FEEDER, raw["topics"][0]["name"], parts.consumer, traffic)]
    if entries.uses_kip_848(parts.consumer):
        entries.shorten_kip_848(raw["cluster"]["config"], notes)
    return raw, names


def _topic(given: Topic | None, part: TopicPart, name: str, notes: Notes) -> Raw:
    """Return a topic of the scenario. name: the assumed name."""
    given = given or Topic()
    return {
        "name": given.name or name,
        "partitions": given.partitions or (int(part.partitions.value) if part.partitions else PARTITIONS),
        "replication_factor": int(part.replicas.value) if part.replicas else REPLICAS,
        "config": entries.topic_config(part.settings, notes),
    }


def _limits(brokers: Config) -> Raw:
    """Return the time-outs of a run. A longer session of the brokers lets the proof of a fault come later."""
    session = brokers[SESSION]
    later = max(0.0, session / 1000 - SESSION_S) if isinstance(session, int) else 0.0
    return {name: f"{limit + (later if name in ('drive', 'proof') else 0):g}s" for name, limit in LIMITS.items()}


def _own_facts(scenario: Scenario, names: Mapping[str, str], parts: Parts, facts: Facts) -> Facts:
    """Return the facts that only supports and attacks depend on, in addition to the facts of `promise`."""
    processes, first = bool(scenario.processors), scenario.producers[0]
    groups = bool(scenario.groups)
    writes = processes or first.name == names["writer"]
    commit = facts.get("consumer.commit")
    values: dict[str, bool | int] = {
        "writes": writes,
        "groups": groups,
        "processes": processes,
        "transactional": any(p.transactions for p in scenario.processors)
        or (writes and not processes and first.transactions is not None),
        "commits": commit is None or commit.value != "never",
        "producers": first.count,
        "unreported": writes and not processes and _can_ignore_reports(parts.producer),
        "poll.interval": groups and not processes and _has_poll_interval(parts.consumer),
        "kraft": scenario.cluster.metadata == "kraft",
        "dedicated.controllers": scenario.cluster.controllers or 0,
        "lone.controllers": 0 < (scenario.cluster.controllers or 0) < MIN_SUCCESSION,
        "spare.brokers": scenario.cluster.brokers - scenario.topics[0].replication_factor,
    }
    runtime = parts.producer.client.runtime if writes and parts.producer else ""
    if (patience := facts.get(f"producer.{PATIENT.get(runtime, '')}")) is not None:
        values[PATIENCE] = int(patience.value)
    return {f"app.{name}": _fact(name, value) for name, value in values.items()}


def _fact(name: str, value: bool | int) -> Setting:
    return setting(name, value, "app.yaml", given=False)


def _can_ignore_reports(part: ClientPart | None) -> bool:
    return part is not None and not part.client.missing("ignore reports") and not part.client.missing("resending")


def _has_poll_interval(part: ClientPart | None) -> bool:
    return part is not None and not part.client.missing("poll interval")


def describe(changed: Mapping[str, Scalar]) -> str:
    """Return changed facts as text, such as `producer acks=all, topic min.insync.replicas=2`."""
    parts = []
    for fact, value in changed.items():
        part, _, name = fact.partition(".")
        parts.append(f"{part} {name}={setting(name, value, '').value}")
    return ", ".join(parts)


def set_fact(parts: Parts, fact: str, value: Scalar) -> None:
    """Give a fact of an application another value. Raises `UsageError` if its client has another name for it."""
    part, _, name = fact.partition(".")
    changed = setting(name, value, ORIGIN)
    if part == "topic" and parts.topic is not None:
        if name == "replication.factor":
            parts.topic.replicas = changed
        else:
            parts.topic.settings[name] = changed
    elif part == "cluster" and parts.cluster is not None:
        parts.cluster.settings[name] = changed
        parts.cluster.internal.pop(name, None)
    elif name == "commit" and parts.consumer is not None:
        _commit(parts.consumer, changed)
    else:
        client = parts.producer if part == "producer" else parts.consumer
        if client is None:
            raise UsageError(f"the application has no {part}")
        _client_setting(client, name, changed)


def _client_setting(client: ClientPart, name: str, changed: Setting) -> None:
    if client.client.runtime not in ("java", "confluent"):
        raise UsageError(f"{LABELS[client.client.runtime]} has another name for {name}")
    others = [own for own, s in client.settings.items() if common_name(client.client.runtime, own, s.value)[0] == name]
    for own in others:
        del client.settings[own]
    client.settings[name] = changed


def _commit(client: ClientPart, changed: Setting) -> None:
    """Make a consumer commit by itself at that time, and not its library."""
    client.commit = changed
    _client_setting(client, "enable.auto.commit", setting("enable.auto.commit", False, ORIGIN))

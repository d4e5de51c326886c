"""The inputs of `promise`: `app.yaml`, properties files and options, as parts with the origin of each value.

A properties file that is given as an option overrides `app.yaml`, setting by setting. In `app.yaml`, `config` overrides
`properties`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from chaos.errors import UsageError
from chaos.kafka.settings import Config
from chaos.promise.app import COMMIT_TIMES, AppFile, Consumer, Producer, read_app
from chaos.promise.client_settings import ClientPart
from chaos.promise.cluster_facts import ClusterPart, TopicPart
from chaos.promise.names import (
    LABELS,
    Role,
    check_broker_names,
    check_client_names,
    check_topic_names,
    recognize,
)
from chaos.promise.problems import Problems
from chaos.promise.properties import PropertiesFile, open_properties
from chaos.promise.settings import Setting, Settings, setting
from chaos.scenario.runtimes import DEFAULT
from chaos.scenario.runtimes.choice import Client, parse_client

_READERS = ("franz-go", "kafka-python")
"""Client libraries of which the rules know the consumer only."""


@dataclass(frozen=True)
class Options:
    """What the command line gives. Each part may be missing."""

    app: Path | None = None
    producer_properties: Path | None = None
    consumer_properties: Path | None = None
    topic_config: Path | None = None
    server_properties: Path | None = None
    client: str | None = None
    commit: str | None = None
    replication_factor: int | None = None
    bootstrap: str | None = None
    topic: str | None = None


@dataclass
class Parts:
    """The parts of an application."""

    producer: ClientPart | None = None
    consumer: ClientPart | None = None
    topic: TopicPart | None = None
    cluster: ClusterPart | None = None

    @property
    def clients(self) -> list[ClientPart]:
        """The producer and the consumer, as far as they are given."""
        return [client for client in (self.producer, self.consumer) if client is not None]


def read_parts(options: Options, problems: Problems) -> tuple[Parts, AppFile]:
    """Return the parts of an application, without those that only a cluster knows. Raises `UsageError`."""
    file = read_app(options.app) if options.app else AppFile()
    client = _client(options.client)
    given = (file.app.producer, file.app.consumer, options.producer_properties, options.consumer_properties)
    if client is not None and all(part is None for part in given):
        file = replace(file, app=file.app.model_copy(update=_default_clients(client)))
    if options.commit is not None and options.commit not in COMMIT_TIMES:
        raise UsageError(f"--commit {options.commit!r} is not known; choose one of {', '.join(COMMIT_TIMES)}")
    parts = Parts(
        producer=_client_part("producer", file, options.producer_properties, client, problems),
        consumer=_client_part("consumer", file, options.consumer_properties, client, problems),
        topic=_topic(file, options, problems),
        cluster=_cluster(file, options, problems),
    )
    if options.commit is not None:
        if parts.consumer is None:
            raise UsageError("--commit is about a consumer; give its settings too (--consumer-properties, or app.yaml)")
        parts.consumer.commit = Setting("commit", options.commit, "--commit")
    return parts, file


def _client(text: str | None) -> Client | None:
    if text is None:
        return None
    try:
        return parse_client(text)
    except ValueError as e:
        raise UsageError(f"--client: {e}") from None


def _default_clients(client: Client) -> dict[str, Producer]:
    """Return a producer and a consumer with all defaults, or only a consumer if the client cannot write."""
    readers: dict[str, Producer] = {"consumer": Consumer(client=client)}
    return readers if _no_producer(client) else {"producer": Producer(client=client), **readers}


def _client_part(
    role: Role, file: AppFile, path: Path | None, client: Client | None, problems: Problems
) -> ClientPart | None:
    """Return a producer or consumer; None if nothing gives it."""
    entry: Producer | Consumer | None = getattr(file.app, role)
    if entry is None and path is None:
        return None
    entry = entry or (Producer() if role == "producer" else Consumer())
    files = [
        *([open_properties(f"{role}.properties", file.beside(entry.properties))] if entry.properties else []),
        *([open_properties(f"--{role}-properties", path)] if path else []),
    ]
    named = client or entry.client
    names = {name for properties in files for name in properties.names()} | entry.config.keys()
    why = "--client" if client else file.origin(role, "client")
    if named is None:
        named, why = _recognized(names, role, with_file=bool(files))
    _check_ability(named, role, why)
    settings: Settings = {}
    notes = problems.notes
    if files and entry.properties:
        settings |= files.pop(0).read(named.runtime != "confluent", notes)
    settings |= _from_config(entry.config, file, role)
    for properties in files:
        settings |= properties.read(named.runtime != "confluent", notes)
    check_client_names(named.runtime, role, settings, problems)
    part = ClientPart(role, named, settings, why=why)
    if isinstance(entry, Consumer) and entry.commit is not None:
        part.commit = Setting("commit", entry.commit, file.origin("consumer", "commit"))
    return part


def _recognized(names: set[str], role: Role, with_file: bool) -> tuple[Client, str]:
    """Return the client that the names of settings belong to, and how it was recognized."""
    if runtime := recognize(names, role):
        return Client(runtime=runtime), f"recognized by its settings as {LABELS[runtime]}"
    runtime = "java" if with_file else DEFAULT
    return Client(runtime=runtime), f"assumed to be {LABELS[runtime]}: no setting is of one client only"


def _no_producer(client: Client) -> str:
    """Return why the rules know no producer of a client; empty if they do."""
    if client.runtime in _READERS:
        return "they know its consumers only"
    return client.missing("produce") or client.missing("send outcomes")


def _check_ability(client: Client, role: Role, why: str) -> None:
    """Raise `UsageError` for what the rules do not know: a runtime, its producer, a processor."""
    if client.runtime not in LABELS:
        raise UsageError(f"{why}: the rules do not know the client {client.runtime}; they know {', '.join(LABELS)}")
    if not client.missing("process") and client.missing("subscribe"):
        raise UsageError(
            f"{why}: the rules know no application of {LABELS[client.runtime]} ({client.missing('subscribe')}); "
            "give the settings of its producer and of its consumer with client java"
        )
    if role == "producer" and (reason := _no_producer(client)):
        advice = "its sink is a Java producer, so give the sink's settings with client java"
        if client.runtime in _READERS:
            advice = "leave the producer out, or give one of java, confluent or sarama"
        raise UsageError(f"{why}: the rules know no producer of {LABELS[client.runtime]} ({reason}); {advice}")


def _from_config(config: Config, file: AppFile, part: str) -> Settings:
    return {name: setting(name, value, file.origin(part, "config", name)) for name, value in config.items()}


def _merged(
    part: str, file: AppFile, own: Path | None, config: Config, option: PropertiesFile | None, problems: Problems
) -> Settings:
    """Return the settings of a topic or of brokers: of its file, its config, and the file of an option."""
    settings: Settings = {}
    if own is not None:
        settings |= open_properties(f"{part}.properties", file.beside(own)).read(True, problems.notes)
    settings |= _from_config(config, file, part)
    return settings | option.read(True, problems.notes) if option else settings


def _topic(file: AppFile, options: Options, problems: Problems) -> TopicPart | None:
    entry = file.app.topic
    wanted = (options.topic_config, options.server_properties, options.replication_factor)
    if entry is None and file.app.cluster is None and all(option is None for option in wanted):
        return None
    option = open_properties("--topic-config", options.topic_config) if options.topic_config else None
    own = entry.properties if entry else None
    settings = _merged("topic", file, own, entry.config if entry else {}, option, problems)
    replicas = None
    if options.replication_factor is not None:
        replicas = setting("replication factor", options.replication_factor, "--replication-factor")
    elif entry is not None and entry.replication_factor is not None:
        origin = file.origin("topic", "replication_factor")
        replicas = setting("replication factor", entry.replication_factor, origin)
    check_topic_names(settings, problems)
    return TopicPart(settings, replicas)


def _cluster(file: AppFile, options: Options, problems: Problems) -> ClusterPart:
    entry = file.app.cluster
    option = open_properties("--server-properties", options.server_properties) if options.server_properties else None
    own = entry.properties if entry else None
    settings = _merged("cluster", file, own, entry.config if entry else {}, option, problems)
    check_broker_names(settings, problems)
    part = ClusterPart(settings, kafka=entry.kafka if entry else None, given=entry is not None or option is not None)
    if entry is not None:
        part.controllers, part.features = entry.controllers, entry.features
    if entry is not None and entry.brokers is not None:
        part.brokers = setting("brokers", entry.brokers, file.origin("cluster", "brokers"))
    return part
